//! Sends traces to a receiver of OpenTelemetry, by HTTP with protobuf.
//!
//! One batch at a time is under way. A batch that the receiver does not take for the moment is sent
//! again, a few times; meanwhile ended requests collect in their bounded queue.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;

use crate::observe::Tracer;
use crate::task;
use crate::upstream::client::{BaseUrl, Client};

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

/// Sends traces until the process ends.
pub(crate) async fn run(tracer: Arc<Tracer>) {
    let base = match BaseUrl::parse(&tracer.settings.endpoint) {
        Ok(base) => base,
        Err(error) => return tracing::error!(%error, "traces are not sent"),
    };
    let client = Client::default();
    let mut failing = false;
    while let Some(batch) = tracer.next_batch().await {
        let count = batch.len();
        let encoder = Arc::clone(&tracer);
        // Encoding takes a while, and deadlines are watched on this thread.
        let Ok(message) = task::blocking(move || encoder.encode(&batch)).await else { continue };
        let outcome = deliver(&client, &base, message.into()).await;
        tracer.count(count, outcome.is_ok());
        match &outcome {
            Ok(()) if failing => tracing::info!("traces are sent again"),
            Err(error) if !failing => {
                tracing::warn!(receiver = base.origin(), error = error.text, "traces are dropped");
            }
            _ => {}
        }
        failing = outcome.is_err();
    }
}

/// Sends a batch, again after pauses while it may yet be taken.
async fn deliver(client: &Client, base: &BaseUrl, message: Bytes) -> Result<(), ExportError> {
    for pause in PAUSES {
        match send(client, base, message.clone()).await {
            Err(error) if error.transient => tokio::time::sleep(pause).await,
            outcome => return outcome,
        }
    }
    send(client, base, message).await
}

async fn send(client: &Client, base: &BaseUrl, message: Bytes) -> Result<(), ExportError> {
    let request = Request::builder().method(Method::POST).uri(PATH).header(CONTENT_TYPE, PROTOBUF);
    let lasting = |error: http::Error| ExportError { text: error.to_string(), transient: false };
    let request = request.body(Full::new(message)).map_err(lasting)?;
    let sent = tokio::time::timeout(TIMEOUT, client.send(base, request, RESPONSE_MAX)).await;
    let transient = |text: String| ExportError { text, transient: true };
    let response = sent
        .map_err(|_| transient(format!("no response in {TIMEOUT:?}")))?
        .map_err(|error| transient(error.to_string()))?;
    match response.status {
        status if status.is_success() => Ok(()),
        // The statuses after which the protocol asks clients to try again.
        status @ (StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT) => Err(transient(format!("it answered {status}"))),
        status => Err(ExportError { text: format!("it answered {status}"), transient: false }),
    }
}
