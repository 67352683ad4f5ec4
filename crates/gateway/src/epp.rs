//! The endpoint picker: Envoy asks over gRPC for the endpoint of each request.
//!
//! Requests are read, queued and counted as in `serve`, but Envoy proxies them. An
//! `ext_proc_stream` is one request: `request` reads Envoy's messages about it, `response` builds
//! the messages to Envoy, `observed_response` follows the response as Envoy shows it, `grpc` frames
//! both. `health` and `reflection` are gRPC's standard services, on every gRPC port of the picker.

mod ext_proc_stream;
mod grpc;
mod health;
mod observed_response;
mod reflection;
mod request;
mod response;

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::backend::{Endpoint, EndpointError};
use crate::config::settings::{Epp, EppTls};
use crate::config::{Config, Source};
use crate::lifecycle::{self, Running, StartError};
use crate::state::State;
use crate::tls_listener::TlsListener;
use crate::{listener, serve};
use grpc::{Code, Reply, Status};

const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// Every waiting request holds a stream, and Envoy opens them on a few connections.
const STREAMS_MAX: u32 = 100_000;
/// Bodies are read to their end at once, so windows may be large.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
const FRAME_MAX: u32 = 256 << 10;
/// When many clients leave at once, Envoy resets many streams. That is no attack.
const RESETS_MAX: usize = 100_000;
/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;
/// The length of the preface of HTTP/2.
const PREFACE: usize = 24;
const PREFACE_PAUSE: Duration = Duration::from_millis(20);
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// A running endpoint picker. Dropping it does not end it; [`Picker::shut_down`] does.
#[derive(Debug)]
pub struct Picker {
    running: Running,
    drain: Duration,
    address: SocketAddr,
    health_address: SocketAddr,
    metrics_address: SocketAddr,
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
        let mut running = Running::begin(config, source, (addresses, tls.clone()))?;
        let required = epp.tls == EppTls::Required;
        for listener in listeners {
            running.add(start(&running.state, listener, (tls.clone(), required))?);
        }
        for listener in health {
            running.add(start(&running.state, listener, (tls.clone(), false))?);
        }
        for listener in metrics {
            running.add(serve::visibility(&running.state, listener)?);
        }
        Ok(Self { running, drain: epp.drain, address, health_address, metrics_address })
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
        self.running.run_until_signal(self.drain)
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

/// Starts a thread that serves gRPC on a listener, and ends when the process has ended. A caller
/// may speak TLS if there is a certificate, and must if it is required.
fn start(
    state: &Arc<State>,
    listener: TcpListener,
    (tls, required): (Option<Arc<TlsListener>>, bool),
) -> Result<JoinHandle<()>, StartError> {
    let served = Arc::clone(state);
    listener::start("tidegate-epp", Arc::clone(state), listener, move || {
        move |stream| take_calls(Arc::clone(&served), stream, (tls.clone(), required))
    })
}

/// Serves the calls of one connection to its end.
async fn take_calls(
    state: Arc<State>,
    stream: TcpStream,
    (tls, required): (Option<Arc<TlsListener>>, bool),
) {
    let (most, patience) = {
        let server = &state.config.load().server;
        (server.connections_max, server.header_timeout)
    };
    // Envoy copes with a connection that is closed at once.
    let Some(_place) = state.connections.join(most) else { return };
    let received = tokio::time::timeout(patience, preface_received(&stream)).await;
    let Ok(Some(first)) = received else { return };
    match (tls, first) {
        (Some(tls), TLS_HANDSHAKE) => {
            let mut stream = match Box::pin(tls.accept(stream)).await {
                Ok(stream) => stream,
                Err(error) => return tracing::debug!(%error, "no TLS handshake"),
            };
            // The preface of HTTP/2 must follow in time.
            let received = tokio::time::timeout(patience, stream.fill_buf()).await;
            if matches!(received, Ok(Ok([_, ..]))) {
                take_calls_on(&state, stream).await;
            }
        }
        // A caller that must speak TLS and does not is closed at once.
        _ if required => {}
        _ => {
            // Messages are small, and the next must not wait for the one before.
            let _ = stream.set_nodelay(true);
            take_calls_on(&state, stream).await;
        }
    }
}

/// Serves the calls of one connection to its end.
async fn take_calls_on(
    state: &Arc<State>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    let service = service_fn(|request| {
        let response = answer(state, request);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = builder().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        // An error means that the caller broke off, which ends its calls by itself.
        _ = connection.as_mut() => return,
        () = state.closing() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Waits until a caller has sent as many bytes as the preface of HTTP/2 has, which is less than any
/// handshake of TLS has. Returns the first byte. hyper checks the preface; from then on its pings
/// notice a silent caller.
async fn preface_received(stream: &TcpStream) -> Option<u8> {
    let mut preface = [0; PREFACE];
    loop {
        match stream.peek(&mut preface).await {
            Ok(0) | Err(_) => return None,
            Ok(PREFACE) => return preface.first().copied(),
            // Half a preface is rare, and stays readable, so only a timer can wait for the rest.
            Ok(_) => tokio::time::sleep(PREFACE_PAUSE).await,
        }
    }
}

fn builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .keep_alive_interval(Some(KEEP_ALIVE))
        .keep_alive_timeout(KEEP_ALIVE);
    builder
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
