//! The connections to backends that one worker keeps.
//!
//! A connection of HTTP/1.1 carries one exchange at a time and returns to the pool when its
//! response has been read to the end. A connection that does not return is closed, which ends the
//! request at the backend. Requests over HTTP/2 share one connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flow::{BackendId, Band};
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::backend_files::{BackendFiles, OpenFile};
use super::connect::{ConnectError, Connection, ServerAddress, connect};
use super::http1::Http1;
use crate::task;

/// Idle connections kept for one backend by one worker.
const IDLE_MAX: usize = 256;
/// The number of tidyings after which an idle connection is closed: within the minute. A NAT or a
/// firewall may drop a silent connection without a word.
const RESTS_MAX: u32 = 5;

/// The body of a request: all of it is at hand, so that it can be sent again.
pub(crate) type WholeBody = Full<Bytes>;

/// One worker's connections.
#[derive(Debug)]
pub(crate) struct Pool {
    kept: Mutex<BTreeMap<BackendId, Kept>>,
    files: Arc<BackendFiles>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Each with the number of tidyings that found it idle. The last to return is the first to be
    /// used, so those at the front may be idle for hours.
    idle: Vec<(Box<Http1>, u32)>,
    shared: Option<http2::SendRequest<WholeBody>>,
}

/// The way back into the pool for a connection whose response has been read.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Arc<Pool>,
    backend: BackendId,
}

// === impl Pool ===

impl Pool {
    pub(crate) fn new(files: &Arc<BackendFiles>) -> Arc<Self> {
        let pool = Arc::new(Self { kept: Mutex::default(), files: Arc::clone(files) });
        files.add(&pool);
        pool
    }

    /// An idle connection that is still open, as far as can be seen.
    pub(crate) fn idle(&self, backend: BackendId) -> Option<Box<Http1>> {
        let mut kept = self.kept();
        let idle = &mut kept.get_mut(&backend)?.idle;
        std::iter::from_fn(|| idle.pop())
            .map(|(connection, _)| connection)
            .find_map(|mut connection| connection.is_idle().then_some(connection))
    }

    /// A new connection, for a request of this band.
    pub(crate) async fn fresh(
        &self,
        server: ServerAddress<'_>,
        timeout: Duration,
        band: Band,
    ) -> Result<Box<Http1>, ConnectError> {
        let (connection, file) = self.open(server, timeout, band).await?;
        Ok(Box::new(Http1::new(connection).counted(file)))
    }

    async fn open(
        &self,
        server: ServerAddress<'_>,
        timeout: Duration,
        band: Band,
    ) -> Result<(Connection, OpenFile), ConnectError> {
        let file = tokio::time::timeout(timeout, self.files.open(band)).await;
        let file = file.map_err(|_| ConnectError::NoFile)?;
        let connection = connect(server, timeout).await;
        if connection.as_ref().is_err_and(ConnectError::is_without_file) {
            self.files.close_idle();
        }
        Ok((connection?, file))
    }

    /// Closes one idle connection, if there is any.
    pub(super) fn close_idle(&self) -> bool {
        let mut kept = self.kept();
        let found = kept.values_mut().find(|kept| !kept.idle.is_empty());
        // Those at the front were idle for longest.
        let closed = found.map(|kept| kept.idle.remove(0));
        drop(kept);
        closed.is_some()
    }

    /// Closes connections that the backend closed, that were idle for long, or whose backend is
    /// gone.
    pub(crate) fn tidy(&self, still_there: impl Fn(BackendId) -> bool) {
        self.kept().retain(|&backend, kept| {
            kept.idle.retain_mut(|(connection, rested)| {
                *rested += 1;
                *rested <= RESTS_MAX && connection.is_idle()
            });
            still_there(backend)
        });
    }

    /// The shared connection of HTTP/2.
    pub(crate) async fn shared(
        &self,
        backend: BackendId,
        server: ServerAddress<'_>,
        (timeout, band): (Duration, Band),
    ) -> Result<http2::SendRequest<WholeBody>, ConnectError> {
        let known = self.kept().get(&backend).and_then(|kept| kept.shared.clone());
        if let Some(sender) = known.filter(|sender| !sender.is_closed()) {
            return Ok(sender);
        }
        let sender = open_http2(self.open(server, timeout, band).await?).await?;
        self.kept().entry(backend).or_default().shared = Some(sender.clone());
        Ok(sender)
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<BackendId, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn open_http2(
    (stream, file): (Connection, OpenFile),
) -> Result<http2::SendRequest<WholeBody>, ConnectError> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(20)))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(ConnectError::Handshake)?;
    task::spawn(async move {
        let _ = connection.await;
        drop(file);
    });
    Ok(sender)
}

// === impl Lease ===

impl Lease {
    pub(crate) fn new(pool: &Arc<Pool>, backend: BackendId) -> Self {
        Self { pool: Arc::clone(pool), backend }
    }

    /// Returns a connection whose response has been read to its end.
    pub(crate) fn give_back(&self, connection: Box<Http1>) {
        let mut kept = self.pool.kept();
        let idle = &mut kept.entry(self.backend).or_default().idle;
        if idle.len() < IDLE_MAX && !self.pool.files.are_scarce() {
            idle.push((connection, 0));
        }
    }
}

#[cfg(test)]
mod tests;
