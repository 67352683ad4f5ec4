//! Connections to backends, kept by each worker for itself.
//!
//! A connection of HTTP/1.1 carries one exchange at a time and comes back when its answer has been
//! read to the end; one that does not come back is closed, and with it the request at the backend.
//! HTTP/2 shares one connection.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flow::BackendId;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;

use crate::backend::Upstream;
use crate::task;
use crate::wire::Wire;

/// Idle connections kept for one backend by one worker.
const IDLE_MAX: usize = 256;
/// How long a connection that was given back may take to be ready.
const READY_WITHIN: Duration = Duration::from_millis(10);
/// The most of a backend's head that is read.
const HEAD_MAX: usize = 256 << 10;

/// What is sent to backends: the whole body is at hand, so that it can be sent again.
pub(crate) type Outgoing = Full<Bytes>;

/// One worker's connections.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    kept: Mutex<BTreeMap<BackendId, Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    idle: Vec<http1::SendRequest<Outgoing>>,
    shared: Option<http2::SendRequest<Outgoing>>,
}

/// A way to one backend.
#[derive(Debug)]
pub(crate) enum Connection {
    /// A connection of one's own; fresh, or used before.
    Own {
        /// The handle.
        sender: http1::SendRequest<Outgoing>,
        /// Whether it has served before: then the backend may close it at any moment.
        reused: bool,
    },
    /// A stream of a shared one.
    Shared(http2::SendRequest<Outgoing>),
}

/// The way back into the pool for a connection whose answer has been read.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Arc<Pool>,
    backend: BackendId,
    sender: http1::SendRequest<Outgoing>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// Nobody listens there.
    Refused(io::Error),
    /// Something else went wrong.
    Failed(String),
}

// === impl Pool ===

impl Pool {
    /// A connection to a backend: an idle one, or a new one.
    pub(crate) async fn connection(
        &self,
        upstream: &Upstream,
        timeout: Duration,
    ) -> Result<Connection, ConnectError> {
        if upstream.http2 {
            return Box::pin(self.shared(upstream, timeout)).await.map(Connection::Shared);
        }
        while let Some(mut sender) = self.take_idle(upstream.id) {
            if sender.is_ready() || becomes_ready(&mut sender).await {
                return Ok(Connection::Own { sender, reused: true });
            }
        }
        let sender = Box::pin(self.fresh(upstream, timeout)).await?;
        Ok(Connection::Own { sender, reused: false })
    }

    /// A new connection.
    pub(crate) async fn fresh(
        &self,
        upstream: &Upstream,
        timeout: Duration,
    ) -> Result<http1::SendRequest<Outgoing>, ConnectError> {
        let stream = connect(upstream, timeout).await?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_MAX);
        let (sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.map_err(ConnectError::hyper)?;
        task::spawn(async move {
            // The exchange that broke says so itself.
            let _ = connection.await;
        });
        Ok(sender)
    }

    /// Lets go of connections that were closed, and of those to backends that are gone.
    pub(crate) fn tidy(&self, still_there: impl Fn(BackendId) -> bool) {
        self.kept().retain(|&backend, kept| {
            kept.idle.retain(|sender| !sender.is_closed());
            still_there(backend)
        });
    }

    async fn shared(
        &self,
        upstream: &Upstream,
        timeout: Duration,
    ) -> Result<http2::SendRequest<Outgoing>, ConnectError> {
        let known = self.kept().get(&upstream.id).and_then(|kept| kept.shared.clone());
        if let Some(sender) = known.filter(|sender| !sender.is_closed()) {
            return Ok(sender);
        }
        let stream = connect(upstream, timeout).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(Duration::from_secs(20)))
            .handshake(TokioIo::new(stream))
            .await
            .map_err(ConnectError::hyper)?;
        task::spawn(async move {
            let _ = connection.await;
        });
        self.kept().entry(upstream.id).or_default().shared = Some(sender.clone());
        Ok(sender)
    }

    fn take_idle(&self, backend: BackendId) -> Option<http1::SendRequest<Outgoing>> {
        self.kept().get_mut(&backend)?.idle.pop()
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<BackendId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last answer has been read, so it is ready in a moment; or never, because its backend
/// answered without taking the whole request.
async fn becomes_ready(sender: &mut http1::SendRequest<Outgoing>) -> bool {
    let ready = tokio::time::timeout(READY_WITHIN, sender.ready()).await;
    matches!(ready, Ok(Ok(())))
}

async fn connect(upstream: &Upstream, timeout: Duration) -> Result<Wire, ConnectError> {
    let address = upstream.authority.as_str();
    let connecting = TcpStream::connect(address);
    let stream = match tokio::time::timeout(timeout, connecting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return Err(ConnectError::Refused(error));
        }
        Ok(Err(error)) => return Err(ConnectError::Failed(error.to_string())),
        Err(_) => {
            let text = format!("no connection within {} s", timeout.as_secs_f64());
            return Err(ConnectError::Failed(text));
        }
    };
    Ok(Wire::new(stream))
}

// === impl Lease ===

impl Lease {
    pub(crate) fn new(
        pool: &Arc<Pool>,
        backend: BackendId,
        sender: http1::SendRequest<Outgoing>,
    ) -> Self {
        Self { pool: Arc::clone(pool), backend, sender }
    }

    /// The answer has been read to its end: the connection may serve again.
    pub(crate) fn give_back(self) {
        let Self { pool, backend, sender } = self;
        if sender.is_closed() {
            return;
        }
        let mut kept = pool.kept();
        let idle = &mut kept.entry(backend).or_default().idle;
        if idle.len() < IDLE_MAX {
            idle.push(sender);
        }
    }
}

// === impl ConnectError ===

impl ConnectError {
    fn hyper(error: hyper::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
