//! The endpoint picker: Envoy asks over gRPC for the endpoint of each request.
//!
//! Requests are read, queued and counted as in `serve`, but Envoy proxies them. An
//! `ext_proc_stream` is one request: `request` reads Envoy's messages about it, `response` builds
//! the messages to Envoy, `observed_response` follows the response as Envoy shows it. `health` and
//! `reflection` are gRPC's standard services, on every gRPC port of the picker.

mod ext_proc_stream;
mod health;
mod observed_response;
mod reflection;
mod request;
mod response;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;

use crate::backend::{Endpoint, EndpointError};
use crate::config::settings::{Epp, EppTls};
use crate::config::{Config, Source};
use crate::grpc::{self, Calls, Code, Reply, Status, TlsRule};
use crate::lifecycle::{self, Running, StartError};
use crate::state::State;
use crate::tls_listener::TlsListener;
use crate::{scaler, serve};

const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// The calls of the picker.
const CALLS: Calls = Calls { thread: "tidegate-epp", streams_max: STREAMS_MAX, answer };
/// Every waiting request holds a stream, and Envoy opens them on a few connections.
const STREAMS_MAX: u32 = 100_000;

/// A running endpoint picker. Dropping it does not end it; [`Picker::shut_down`] does.
#[derive(Debug)]
pub struct Picker {
    running: Running,
    address: SocketAddr,
    health_address: SocketAddr,
    metrics_address: SocketAddr,
    scaler_address: Option<SocketAddr>,
}

// === impl Picker ===

impl Picker {
    /// Starts with the configuration of the source. It picks when this returns.
    pub fn start(source: Source) -> Result<Self, StartError> {
        let config = lifecycle::load(&source)?;
        Self::start_with(config, Some(source))
    }

    /// Starts with a configuration at hand, which is reloaded from its source if it has one.
    pub fn start_with(mut config: Config, source: Option<Source>) -> Result<Self, StartError> {
        lifecycle::prepare(&config);
        check(&config)?;
        config.fleet.addressed = true;
        let epp = config.epp.clone();
        let workers = config.server.workers.unwrap_or_else(lifecycle::cores);
        let listeners = lifecycle::listen((epp.listen, "--listen"), workers)?;
        let health = lifecycle::listen((epp.health_listen, "--health-listen"), 1)?;
        let metrics = lifecycle::listen((epp.metrics_listen, "--metrics-listen"), 1)?;
        let [address, health_address, metrics_address] =
            [&listeners, &health, &metrics].map(|listeners| lifecycle::address(listeners));
        let (address, health_address) = (address?, health_address?);
        let metrics_address = metrics_address?;
        let addresses = vec![address, health_address, metrics_address];
        let tls = open_tls(&epp)?;
        let scaler = scaler::listen(&config.scaler)?;
        let mut running = Running::begin(config, source, (addresses, tls.clone()))?;
        let required = epp.tls == EppTls::Required;
        for (listeners, required) in [(listeners, required), (health, false)] {
            for listener in listeners {
                let rule = TlsRule { certificate: tls.clone(), required };
                running.add(CALLS.start(&running.state, listener, rule)?);
            }
        }
        let scaler_address = scaler.as_ref().map(scaler::ScalerListener::address);
        if let Some(scaler) = scaler {
            running.add(scaler.start(&running.state)?);
        }
        for listener in metrics {
            running.add(serve::visibility(&running.state, listener)?);
        }
        Ok(Self { running, address, health_address, metrics_address, scaler_address })
    }

    /// The address for Envoy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for health checks.
    pub fn health_address(&self) -> SocketAddr {
        self.health_address
    }

    /// The address of the metrics and the other pages.
    pub fn metrics_address(&self) -> SocketAddr {
        self.metrics_address
    }

    /// The address for an autoscaler, if there is one.
    pub fn scaler_address(&self) -> Option<SocketAddr> {
        self.scaler_address
    }

    /// Begins the shutdown: waiting requests are refused, new ones are not accepted, responses may
    /// finish within the grace period.
    pub fn shut_down(&self) {
        self.running.state.close();
    }

    /// Waits until everything has ended.
    pub fn join(self) {
        self.running.join();
    }

    /// Waits for SIGTERM or SIGINT, drains, then ends in order; a second signal ends it at once.
    pub fn run_until_signal(self) -> io::Result<()> {
        self.running.run_until_signal(|config| config.epp.drain)
    }
}

/// Envoy receives IP addresses, so each backend must have one; nothing else can be passed on.
fn check(config: &Config) -> Result<(), StartError> {
    for spec in &config.fleet.backends {
        let unfit = |error: EndpointError| StartError::Unfit(error.into());
        let endpoint = Endpoint::new(flow::BackendId(0), spec).map_err(unfit)?;
        endpoint.socket_address().map_err(unfit)?;
        if endpoint.http2 || !endpoint.base_path.is_empty() {
            let what = "its path and http2 have no effect: Envoy is told its address alone";
            tracing::warn!(backend = spec.id, url = spec.url, "{what}");
        }
    }
    Ok(())
}

/// The certificate for Envoy, unless it is to speak no TLS.
fn open_tls(epp: &Epp) -> Result<Option<Arc<TlsListener>>, StartError> {
    if epp.tls == EppTls::Off {
        return Ok(None);
    }
    let opened = TlsListener::open_grpc(epp.cert_path.as_deref());
    opened.map(Some).map_err(|error| StartError::Unfit(format!("epp.cert_path: {error}").into()))
}

fn answer(state: &Arc<State>, request: Request<Incoming>) -> Response<Reply> {
    if !grpc::is_call(request.headers()) {
        return grpc::refuse(Status::new(Code::Unimplemented, "only gRPC is spoken here"));
    }
    let state = Arc::clone(state);
    match request.uri().path() {
        PROCESS => grpc::call(request, |incoming, outgoing| {
            ext_proc_stream::run(state, incoming, outgoing)
        }),
        health::CHECK => grpc::call(request, |incoming, out| health::check(state, incoming, out)),
        health::LIST => grpc::call(request, |_, outgoing| health::list(state, outgoing)),
        health::WATCH => grpc::call(request, |incoming, out| health::watch(state, incoming, out)),
        reflection::INFO | reflection::OLDER_INFO => grpc::call(request, reflection::inform),
        _ => grpc::refuse(Status::new(Code::Unimplemented, "there is no such method")),
    }
}
