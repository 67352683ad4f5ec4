//! Sends traces to a receiver of OpenTelemetry, by HTTP with protobuf or by gRPC.
//!
//! One batch at a time is under way. A batch that the receiver does not take for the moment is sent
//! again, a few times; meanwhile ended requests collect in their bounded queue.

mod grpc;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;

use crate::config::settings::TraceProtocol;
use crate::observe::Tracer;
use crate::upstream::client::{BaseUrl, BaseUrlError, Client};
use crate::upstream::grpc_client::GrpcClient;

const PATH: &str = "/v1/traces";
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
/// The pauses before a batch is sent again.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(4)];
const TIMEOUT: Duration = Duration::from_secs(10);
const RESPONSE_MAX: usize = 64 << 10;

/// Why a batch was not taken.
struct ExportError {
    text: String,
    /// Whether it may be taken later.
    transient: bool,
}

/// The way to the receiver.
enum Exporter {
    Http(BaseUrl, Client),
    Grpc(GrpcClient),
}

/// Sends traces until the process ends.
pub(crate) async fn run(tracer: Arc<Tracer>) {
    let mut exporter = match Exporter::new(&tracer) {
        Ok(exporter) => exporter,
        Err(error) => return tracing::error!(%error, "traces are not sent"),
    };
    let receiver = &tracer.settings.endpoint;
    let mut failing = false;
    while let Some(batch) = tracer.next_batch().await {
        let count = batch.traces;
        let message = tracer.message(batch);
        let outcome = exporter.deliver(message.clone()).await;
        tracer.count(count, outcome.is_ok());
        tracer.recycle(message);
        match &outcome {
            Ok(()) if failing => tracing::info!("traces are sent again"),
            Err(error) if !failing => {
                tracing::warn!(receiver, error = error.text, "traces are dropped");
            }
            _ => {}
        }
        failing = outcome.is_err();
    }
}

// === impl Exporter ===

impl Exporter {
    fn new(tracer: &Tracer) -> Result<Self, BaseUrlError> {
        let base = BaseUrl::parse(&tracer.settings.endpoint)?;
        Ok(match tracer.settings.protocol {
            TraceProtocol::Http => Self::Http(base, Client::default()),
            TraceProtocol::Grpc => Self::Grpc(GrpcClient::new(base)),
        })
    }

    /// Sends a batch, again after pauses while it may yet be taken.
    async fn deliver(&mut self, message: Bytes) -> Result<(), ExportError> {
        for pause in PAUSES {
            match self.send(message.clone()).await {
                Err(error) if error.transient => tokio::time::sleep(pause).await,
                outcome => return outcome,
            }
        }
        self.send(message).await
    }

    async fn send(&mut self, message: Bytes) -> Result<(), ExportError> {
        let sending = async {
            match self {
                Self::Http(base, client) => post(client, base, message).await,
                Self::Grpc(client) => grpc::send(client, message).await,
            }
        };
        let timed_out = |_| ExportError::transient(format!("no response in {TIMEOUT:?}"));
        tokio::time::timeout(TIMEOUT, sending).await.map_err(timed_out)?
    }
}

async fn post(client: &Client, base: &BaseUrl, message: Bytes) -> Result<(), ExportError> {
    let request = Request::builder().method(Method::POST).uri(PATH).header(CONTENT_TYPE, PROTOBUF);
    let request = request.body(Full::new(message)).map_err(ExportError::lasting)?;
    let sent = client.send(base, request, RESPONSE_MAX).await;
    let response = sent.map_err(ExportError::transient)?;
    match response.status {
        status if status.is_success() => Ok(()),
        status => Err(ExportError::by_status(status)),
    }
}

// === impl ExportError ===

impl ExportError {
    /// The batch may be taken later.
    fn transient(why: impl ToString) -> Self {
        Self { text: why.to_string(), transient: true }
    }

    /// The receiver answered with a status of HTTP that is no success. After some of them the
    /// protocol asks clients to try again; gRPC takes the same ones for unavailable.
    fn by_status(status: StatusCode) -> Self {
        let transient = matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        Self { text: format!("it answered {status}"), transient }
    }

    /// The batch is never taken.
    fn lasting(why: impl ToString) -> Self {
        Self { text: why.to_string(), transient: false }
    }
}
