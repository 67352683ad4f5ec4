//! The connections of a gRPC listener: TLS or not, HTTP/2, and the bounds of both.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;

use super::Reply;
use super::gathered::Gathered;
use crate::lifecycle::StartError;
use crate::listener;
use crate::state::State;
use crate::tls_listener::TlsListener;

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
/// The most bytes of one read. The library for HTTP/2 alone reads 8 KB at most.
const READ_MAX: usize = 32 << 10;

/// Whether callers speak TLS: they may if there is a certificate, and must if it is required.
#[derive(Clone, Debug)]
pub(crate) struct TlsRule {
    pub(crate) certificate: Option<Arc<TlsListener>>,
    pub(crate) required: bool,
}

/// How the calls of a listener are answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    /// The name of the listener's thread.
    pub(crate) thread: &'static str,
    /// The most calls at once on a connection; further ones wait at the caller.
    pub(crate) streams_max: u32,
    pub(crate) answer: fn(&Arc<State>, Request<Incoming>) -> Response<Reply>,
}

// === impl Calls ===

impl Calls {
    /// Starts a thread that serves gRPC on a listener, and ends when the process has ended.
    pub(crate) fn start(
        self,
        state: &Arc<State>,
        listener: TcpListener,
        tls: TlsRule,
    ) -> Result<JoinHandle<()>, StartError> {
        let served = Arc::clone(state);
        listener::start(self.thread, Arc::clone(state), listener, move || {
            move |stream| self.take(Arc::clone(&served), stream, tls.clone())
        })
    }

    /// Serves the calls of one connection to its end.
    async fn take(self, state: Arc<State>, stream: TcpStream, tls: TlsRule) {
        let (most, patience) = {
            let server = &state.config.load().server;
            (state.open_files.clients(server.connections_max), server.header_timeout)
        };
        // Envoy copes with a connection that is closed at once.
        let Some(_place) = state.connections.join(most) else { return };
        let received = tokio::time::timeout(patience, preface_received(&stream)).await;
        let Ok(Some(first)) = received else { return };
        match (tls.certificate, first) {
            (Some(tls), TLS_HANDSHAKE) => {
                let mut stream = match Box::pin(tls.accept(stream)).await {
                    Ok(stream) => stream,
                    Err(error) => return tracing::debug!(%error, "no TLS handshake"),
                };
                // The preface of HTTP/2 must follow in time.
                let received = tokio::time::timeout(patience, stream.fill_buf()).await;
                if matches!(received, Ok(Ok([_, ..]))) {
                    self.serve(&state, stream).await;
                }
            }
            // A caller that must speak TLS and does not is closed at once.
            _ if tls.required => {}
            _ => {
                // Messages are small, and the next must not wait for the one before.
                let _ = stream.set_nodelay(true);
                self.serve(&state, stream).await;
            }
        }
    }

    /// Serves the calls of a stream of bytes that speaks HTTP/2.
    pub(crate) async fn serve(
        self,
        state: &Arc<State>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) {
        let service = service_fn(|request| {
            let response = (self.answer)(state, request);
            async move { Ok::<_, Infallible>(response) }
        });
        let gathered = Gathered::new(BufReader::with_capacity(READ_MAX, stream));
        let stream = TokioIo::new(gathered.clone());
        let connection = builder(self.streams_max).serve_connection(stream, service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            // An error means that the caller broke off, which ends its calls by itself.
            () = gathered.drive(connection.as_mut()) => return,
            () = state.closing() => {}
        }
        connection.as_mut().graceful_shutdown();
        gathered.drive(connection).await;
    }
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

fn builder(streams_max: u32) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams_max)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .keep_alive_interval(Some(KEEP_ALIVE))
        .keep_alive_timeout(KEEP_ALIVE);
    builder
}
