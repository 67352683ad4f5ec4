//! KEDA's external scaler: an autoscaler asks over gRPC how many backends are needed.
//!
//! Each call carries the metadata of its trigger, so nothing is kept between calls. A stream says
//! at once when a request waits without a backend, because the next poll of an autoscaler may be
//! half a minute away. Streams last for days, so their number is bounded.

mod trigger;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use envoy::scaler::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec,
    MetricValue, ScaledObjectRef,
};
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap, HeaderValue, Request, Response};
use hyper::body::Incoming as RawBody;
use prost::Message;

use crate::admin_access::{self, Visitor};
use crate::config::settings::{EppTls, Scaler};
use crate::grpc::{self, Calls, Code, Incoming, Outgoing, Reply, Status, TlsRule};
use crate::lifecycle::{self, StartError};
use crate::state::State;
use crate::tls_listener::TlsListener;
use trigger::Trigger;

const CALLS: Calls = Calls { thread: "tidegate-scaler", streams_max: STREAMS_MAX, answer };

/// How often a stream looks whether the quiet time is over. A wait without a backend is announced.
const LOOK: Duration = Duration::from_secs(1);
/// The shortest time between two looks of a stream, however many requests announce themselves.
const LOOKS_APART: Duration = Duration::from_millis(50);
/// How long a caller may take to send the message of its call.
const SAID_WITHIN: Duration = Duration::from_secs(10);
/// The largest message of a call, and how many calls may send theirs at once.
const MESSAGE_MAX: usize = 64 << 10;
const CALLS_MAX: usize = 256;
/// The most streams of HTTP/2 on a connection. It is more than `scaler.streams_max` may be, so that
/// a caller is refused and does not wait. A caller without a window holds its streams for ever.
const STREAMS_MAX: u32 = 10_000 + 2 * CALLS_MAX as u32;
/// The keys of the metadata that hold the key of an operator. KEDA fills the second one from the
/// environment of the scaled pods.
const KEYS: [&str; 2] = ["token", "tokenFromEnv"];

/// A listener for an autoscaler that does not serve yet.
#[derive(Debug)]
pub(crate) struct ScalerListener {
    listener: TcpListener,
    address: SocketAddr,
    tls: TlsRule,
}

/// Opens the listener, if one is configured.
pub(crate) fn listen(settings: &Scaler) -> Result<Option<ScalerListener>, StartError> {
    let Some(listen) = settings.listen else { return Ok(None) };
    let certificate = match settings.tls {
        EppTls::Off => None,
        _ => Some(
            TlsListener::open_grpc(settings.cert_path.as_deref())
                .map_err(|error| StartError::Unfit(format!("scaler.cert_path: {error}").into()))?,
        ),
    };
    let tls = TlsRule { certificate, required: settings.tls == EppTls::Required };
    let listeners = lifecycle::listen((listen, "scaler.listen"), 1)?;
    let address = lifecycle::address(&listeners)?;
    let listener = listeners.into_iter().next();
    Ok(listener.map(|listener| ScalerListener { listener, address, tls }))
}

// === impl ScalerListener ===

impl ScalerListener {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts the thread that serves it.
    pub(crate) fn start(self, state: &Arc<State>) -> Result<JoinHandle<()>, StartError> {
        CALLS.start(state, self.listener, self.tls)
    }
}

fn answer(state: &Arc<State>, request: Request<RawBody>) -> Response<Reply> {
    if !grpc::is_call(request.headers()) {
        return grpc::refuse(Status::new(Code::Unimplemented, "only gRPC is spoken here"));
    }
    let (headers, extensions) = (request.headers().clone(), request.extensions().clone());
    let call = Call { state: Arc::clone(state), headers, extensions };
    match request.uri().path() {
        "/externalscaler.ExternalScaler/IsActive" => {
            grpc::call(request, |incoming, outgoing| call.activity(incoming, outgoing))
        }
        "/externalscaler.ExternalScaler/StreamIsActive" => {
            grpc::call(request, |incoming, outgoing| call.stream(incoming, outgoing))
        }
        "/externalscaler.ExternalScaler/GetMetricSpec" => {
            grpc::call(request, |incoming, outgoing| call.specs(incoming, outgoing))
        }
        "/externalscaler.ExternalScaler/GetMetrics" => {
            grpc::call(request, |incoming, outgoing| call.metrics(incoming, outgoing))
        }
        _ => grpc::refuse(Status::new(Code::Unimplemented, "there is no such method")),
    }
}

/// One call.
struct Call {
    state: Arc<State>,
    headers: HeaderMap,
    /// The certificate of the connection, if it has one.
    extensions: Extensions,
}

// === impl Call ===

impl Call {
    async fn activity(self, mut incoming: Incoming, outgoing: Outgoing) -> Result<(), Status> {
        let trigger = self.trigger(self.said(&mut incoming).await?)?;
        outgoing.send(&IsActiveResponse { result: trigger.is_active(&self.state)? });
        Ok(())
    }

    async fn specs(self, mut incoming: Incoming, outgoing: Outgoing) -> Result<(), Status> {
        let Trigger { name, target, .. } = self.trigger(self.said(&mut incoming).await?)?;
        // Releases of KEDA that do not know the exact target read the whole number.
        let target_size = (target.ceil() as i64).max(1);
        let spec = MetricSpec { metric_name: name.into(), target_size, target_size_float: target };
        outgoing.send(&GetMetricSpecResponse { metric_specs: vec![spec] });
        Ok(())
    }

    async fn metrics(self, mut incoming: Incoming, outgoing: Outgoing) -> Result<(), Status> {
        let GetMetricsRequest { scaled_object_ref, metric_name } = self.said(&mut incoming).await?;
        let trigger = self.trigger(scaled_object_ref.unwrap_or_default())?;
        if !metric_name.is_empty() && !metric_name.ends_with(trigger.name) {
            let name = trigger.name;
            let text = format!("the trigger has the metric {name}, not {metric_name:?}");
            return Err(Status::told(Code::InvalidArgument, text));
        }
        let value = trigger.value(&self.state)?;
        let metric_value = value.ceil() as i64;
        let value = MetricValue { metric_name, metric_value, metric_value_float: value };
        outgoing.send(&GetMetricsResponse { metric_values: vec![value] });
        Ok(())
    }

    /// Says whether there is any demand, now and whenever that changes, until the shutdown.
    async fn stream(self, mut incoming: Incoming, outgoing: Outgoing) -> Result<(), Status> {
        let trigger = self.trigger(self.said(&mut incoming).await?)?;
        let most = self.state.config.load().scaler.streams_max;
        let Some(_place) = self.state.scaler_places.take(most) else {
            let text = format!("{most} streams are open already (scaler.streams_max)");
            return Err(Status::told(Code::ResourceExhausted, text));
        };
        let mut unserved = self.state.unserved.subscribe();
        let mut told = None;
        while !self.state.is_closing() {
            unserved.borrow_and_update();
            let active = trigger.is_active(&self.state)?;
            if told.replace(active) != Some(active) {
                outgoing.send(&IsActiveResponse { result: active });
            }
            tokio::time::sleep(LOOKS_APART).await;
            tokio::select! {
                // The sender lives as long as the state. An active model needs no announcement.
                _ = unserved.changed(), if !active => {}
                () = tokio::time::sleep(LOOK) => {}
                () = self.state.closing() => {}
            }
        }
        Ok(())
    }

    /// The trigger of a caller that may read the status.
    fn trigger(&self, object: ScaledObjectRef) -> Result<Trigger, Status> {
        let metadata = object.scaler_metadata;
        let mut headers = self.headers.clone();
        let key = KEYS.iter().find_map(|key| metadata.get(*key));
        if let Some(key) = key.filter(|_| !headers.contains_key(AUTHORIZATION)) {
            let value = HeaderValue::from_str(&format!("Bearer {key}"));
            headers.extend(value.ok().map(|value| (AUTHORIZATION, value)));
        }
        let config = self.state.config.load();
        match admin_access::may_read(&config, Visitor::of(&headers, &self.extensions)) {
            Ok(()) => Trigger::read(&metadata),
            Err(fault) if admin_access::is_missing_key(&fault) => Err(Status::new(
                Code::Unauthenticated,
                "a key of an operator is needed, as authorization or in the metadata as token",
            )),
            Err(_) => Err(Status::new(Code::PermissionDenied, "the key is not an operator's")),
        }
    }

    /// The message of the call.
    async fn said<M: Message + Default>(&self, incoming: &mut Incoming) -> Result<M, Status> {
        let Some(_place) = self.state.scaler_calls.take(CALLS_MAX) else {
            let text = format!("{CALLS_MAX} calls have not sent their message yet");
            return Err(Status::told(Code::ResourceExhausted, text));
        };
        incoming.accept_up_to(MESSAGE_MAX);
        let message = tokio::time::timeout(SAID_WITHIN, incoming.next()).await;
        let message = message.map_err(|_| Status::SILENT)??;
        message.ok_or(Status::new(Code::InvalidArgument, "the call has no message"))
    }
}

#[cfg(test)]
mod tests;
