//! One worker: a thread that serves connections over HTTP/1.1 and HTTP/2.

use std::future::poll_fn;
use std::net::TcpListener;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client_stream::ClientStream;
use super::connection::{Activity, ClientSocket};
use super::foreign_sites::Arrival;
use super::lazy_waker::LazyWaker;
use super::quiet_waker::QuietWaker;
use super::stream_executor::StreamExecutor;
use super::{raw, route};
use crate::durable_queues::DurableQueues;
use crate::lifecycle::StartError;
use crate::listener;
use crate::reply::Fault;
use crate::socket::Socket;
use crate::state::State;
use crate::task;
use crate::tls_listener::{ClientCertificate, HandshakeError, TlsListener};
use crate::upstream::Pool;

/// How often unused connections are closed.
const TIDY_EVERY: Duration = Duration::from_secs(10);
/// How long the rest of a refused request is read, and on how many connections at once: each has
/// one of the files that are left to the process itself.
const LINGER: Duration = Duration::from_secs(1);
const LINGERING_MAX: usize = 16;
/// Connections at once to the status pages, if they have an address of their own.
const PAGE_CONNECTIONS_MAX: usize = 1024;
/// Requests at once on one connection of HTTP/2.
const STREAMS_MAX: u32 = 1024;

/// The state of one worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) state: Arc<State>,
    pub(super) pool: Arc<Pool>,
    pub(super) doors: Doors,
    /// The batch runtime, where batch work is configured.
    pub(super) durable_queues: Option<Arc<DurableQueues>>,
    pub(super) tls: Option<Arc<TlsListener>>,
}

/// What a listener has besides its routes: the batch runtime, and TLS.
type ListenerParts = (Doors, Option<Arc<DurableQueues>>, Option<Arc<TlsListener>>);

/// Which routes a listener has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doors {
    /// Proxied requests and model lists.
    pub(super) api: bool,
    /// The Batch API.
    pub(super) batch: bool,
    pub(super) visibility: bool,
}

/// Starts a worker. It ends when the process has ended.
pub(super) fn start(
    state: &Arc<State>,
    listener: TcpListener,
    (doors, durable_queues, tls): ListenerParts,
) -> Result<JoinHandle<()>, StartError> {
    let (state, pool) = (Arc::clone(state), Pool::new(&state.backend_files));
    let worker = Arc::new(Worker { state: Arc::clone(&state), pool, doors, durable_queues, tls });
    listener::start("tidegate-serve", state, listener, move || {
        task::spawn(tidy(Arc::clone(&worker)));
        move |stream| serve(Arc::clone(&worker), stream)
    })
}

/// Closes unused connections again and again.
async fn tidy(worker: Arc<Worker>) {
    loop {
        tokio::time::sleep(TIDY_EVERY).await;
        let roster = worker.state.fleet.roster();
        worker.pool.tidy(|backend| roster.is_present(backend));
    }
}

/// Serves one connection to its end.
async fn serve(worker: Arc<Worker>, stream: TcpStream) {
    let state = Arc::clone(&worker.state);
    let config = state.config.load();
    let server = &config.server;
    // Clients that take all connections do not close the status pages of another address.
    let (connections, most) = match worker.doors.api {
        true => (&state.connections, state.open_files.clients(server.connections_max)),
        false => (&state.page_connections, state.open_files.pages(PAGE_CONNECTIONS_MAX)),
    };
    let Some(_place) = connections.join(most) else {
        return Box::pin(refuse_for_room(&worker, stream)).await;
    };
    let arrival = Arrival::of(&stream, worker.tls.is_some());
    let Some((stream, certificate)) = client_stream(&worker, stream).await else { return };
    let activity = Arc::new(Activity::default());
    let socket = ClientSocket::new(
        stream,
        Arc::clone(&activity),
        server.header_timeout,
        server.write_timeout,
    );
    let (header_limit, is_last) = (server.header_limit, state.is_closing());
    drop(config);
    let closing = async {
        match is_last {
            true => std::future::pending().await,
            false => state.closing().await,
        }
    };
    let mut closing = LazyWaker::new(closing);
    let first = tokio::select! {
        biased;
        first = socket.first_bytes() => first,
        () = &mut closing => return,
    };
    let Some((socket, is_http2)) = first else { return };
    let service = service_fn(|mut request: Request<Incoming>| {
        if let Some(certificate) = &certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        route::answer(Arc::clone(&worker), request, activity.serve(), arrival)
    });
    let socket = TokioIo::new(socket);
    let end = if is_http2 {
        // Larger than the connections of most clients, which speak HTTP/1.
        let mut connection = Box::pin(http2(header_limit).serve_connection(socket, service));
        converse(connection.as_mut(), closing).await
    } else {
        let connection = pin!(http1(header_limit, is_last).serve_connection(socket, service));
        converse(connection, closing).await
    };
    if end.is_err_and(|error| error.is_parse()) {
        count_refused(&worker, "unreadable_request");
    }
}

/// Serves the requests of a connection. An error other than an unreadable request means that the
/// client broke off, which ends its requests by itself.
async fn converse<C>(
    mut connection: Pin<&mut C>,
    closing: LazyWaker<impl Future<Output = ()>>,
) -> hyper::Result<()>
where
    C: GracefulConnection<Error = hyper::Error>,
{
    let mut waker = QuietWaker::default();
    tokio::select! {
        biased;
        end = poll_fn(|context| waker.poll(connection.as_mut(), context)) => return end,
        () = closing => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// Counts a connection without a request, as far as clients may use the API there.
fn count_refused(worker: &Worker, code: &'static str) {
    if worker.doors.api {
        worker.state.observer.refused_connection(code);
    }
}

/// The stream of a connection after its handshake, and the certificate of its client.
async fn client_stream(
    worker: &Worker,
    stream: TcpStream,
) -> Option<(ClientStream, Option<ClientCertificate>)> {
    let Some(tls) = &worker.tls else {
        return Some((ClientStream::Plain(Socket::new(stream)), None));
    };
    match Box::pin(tls.accept(stream)).await {
        Ok(stream) => {
            let certificate = tls.client_certificate(&stream);
            Some((ClientStream::Tls(stream), certificate))
        }
        Err(HandshakeError::PlainHttp(stream)) => {
            count_refused(worker, Fault::TlsRequired.code());
            Box::pin(refuse(stream, Fault::TlsRequired)).await;
            None
        }
        Err(error) => {
            tracing::debug!(%error, "no TLS handshake");
            if matches!(error, HandshakeError::Failed(_)) {
                count_refused(worker, "tls_failed");
            }
            None
        }
    }
}

/// Refuses a connection beyond those that there may be. Where many are refused at once, some of
/// their clients lose the response.
async fn refuse_for_room(worker: &Worker, stream: TcpStream) {
    count_refused(worker, Fault::Overloaded.code());
    match worker.state.refused_connections.join(LINGERING_MAX) {
        Some(_place) => refuse(stream, Fault::Overloaded).await,
        None => _ = stream.try_write(&raw(&Fault::Overloaded.into())),
    }
}

/// Refuses a client for all of its connection. Its request is read, because a connection that
/// closes with unread bytes may lose the response.
async fn refuse(mut stream: TcpStream, fault: Fault) {
    let _ = stream.try_write(&raw(&fault.into()));
    let _ = stream.shutdown().await;
    let mut bytes = [0; 4096];
    let rest = async { while matches!(stream.read(&mut bytes).await, Ok(1..)) {} };
    let _ = tokio::time::timeout(LINGER, rest).await;
}

fn http1(header_limit: usize, is_last: bool) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // The socket notices by itself that a client has left.
    builder.keep_alive(!is_last).max_buf_size(header_limit.max(8 << 10)).half_close(true);
    builder
}

fn http2(header_limit: usize) -> http2::Builder<StreamExecutor> {
    let mut builder = http2::Builder::new(StreamExecutor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(header_limit).unwrap_or(u32::MAX))
        .keep_alive_interval(Some(Duration::from_secs(20)))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

// === impl Doors ===

impl Doors {
    pub(super) fn api(visibility: bool) -> Self {
        Self { api: true, batch: true, visibility }
    }

    pub(super) fn batch() -> Self {
        Self { api: false, batch: true, visibility: true }
    }

    /// Whether the listener belongs to a dispatcher without a gateway.
    pub(super) fn is_dispatcher(self) -> bool {
        self.batch && !self.api
    }

    pub(super) fn admin() -> Self {
        Self { api: false, batch: false, visibility: true }
    }
}
