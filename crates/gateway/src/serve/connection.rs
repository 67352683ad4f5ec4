//! A client's connection and its timeouts.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::client_stream::{ClientStream, Peeked};
use crate::lazy_timer::LazyTimer;
use crate::reply::Fault;

/// The longest pause between two requests.
const IDLE: Duration = Duration::from_secs(75);
/// The beginning of a connection of HTTP/2 (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The most bytes that are read ahead. hyper's first read has room for twice as many: one that
/// filled its room would make hyper's buffer grow past the limit of a head.
const AHEAD_MAX: usize = 4 << 10;

/// The activity of a connection, shared between its requests and its socket.
#[derive(Debug, Default)]
pub(super) struct Activity {
    serving: AtomicUsize,
    served: AtomicUsize,
    /// Whether the client took no byte for too long.
    stalled: AtomicBool,
}

/// One request that is being served.
#[derive(Debug)]
pub(super) struct Serving(Arc<Activity>);

/// A client's socket with timeouts.
///
/// Reads are timed only between requests: from the first byte of a head to its last the head limit
/// holds, before it the idle limit. Writes are timed while the client takes no byte.
///
/// hyper does not read while a client waits for a response: to notice that the client left, it
/// would keep a second buffer of 8 KB for all that time. The socket checks that by itself. What
/// else the client sends meanwhile, such as its next request, is read ahead, because the end of the
/// connection is seen only behind it.
#[derive(Debug)]
pub(super) struct ClientSocket {
    stream: ClientStream,
    activity: Arc<Activity>,
    /// The count of served requests at the last check, and whether one was in progress.
    seen: usize,
    busy: bool,
    /// Whether part of a head has come, and whether the client speaks HTTP/2.
    begun: bool,
    is_http2: bool,
    /// Whether a pending read will notice the next byte.
    watched: bool,
    /// What was read ahead, and not taken yet.
    ahead: Bytes,
    head: Patience,
    write: Patience,
}

/// A limit that runs only while something is awaited.
#[derive(Debug)]
struct Patience {
    limit: Duration,
    /// When it is over, while it runs.
    due: Option<Instant>,
    timer: LazyTimer,
}

// === impl Activity ===

impl Activity {
    pub(super) fn serve(self: &Arc<Self>) -> Serving {
        self.serving.fetch_add(1, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::Relaxed);
        Serving(Arc::clone(self))
    }

    /// Whether the connection ends because its client took no byte for too long.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }
}

impl Serving {
    pub(super) fn connection(&self) -> &Arc<Activity> {
        &self.0
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.serving.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl ClientSocket ===

impl ClientSocket {
    pub(super) fn new(
        stream: ClientStream,
        activity: Arc<Activity>,
        head_limit: Duration,
        write_limit: Duration,
    ) -> Self {
        let (head, write) = (Patience::new(head_limit), Patience::new(write_limit));
        Self {
            stream,
            activity,
            seen: 0,
            busy: false,
            begun: false,
            is_http2: false,
            watched: false,
            ahead: Bytes::new(),
            head,
            write,
        }
    }

    /// Reads what tells whether the client speaks HTTP/2; nothing of that is taken from hyper.
    /// `None` if the client sends nothing in time.
    pub(super) async fn first_bytes(mut self) -> Option<(Self, bool)> {
        while self.ahead.len() < PREFACE.len() && PREFACE.starts_with(&self.ahead) {
            let before = self.ahead.len();
            poll_fn(|context| self.poll_more_ahead(context)).await.ok()?;
            if self.ahead.len() == before {
                break;
            }
        }
        self.is_http2 = self.ahead.starts_with(PREFACE);
        let is_http2 = self.is_http2;
        Some((self, is_http2))
    }

    /// Ready when the client has taken too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let served = self.activity.served.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.seen, served) != served {
            self.begun = false;
            self.head.rest();
        }
        if self.activity.serving.load(Ordering::Relaxed) > 0 {
            self.look_again(context);
            return Poll::Pending;
        }
        if std::mem::take(&mut self.busy) {
            self.head.rest();
        }
        let limit = if self.waits_for_head(served) { self.head.limit } else { IDLE };
        self.head.poll(context, limit)
    }

    /// Whether the client has closed the connection during a request, with nothing left to read.
    fn has_left(&mut self, context: &mut Context<'_>) -> bool {
        if self.activity.serving.load(Ordering::Relaxed) == 0 {
            return false;
        }
        match self.stream.poll_peek(context) {
            Poll::Ready(Peeked::More) if self.ahead.is_empty() => {
                // The end and errors come again when they are looked for.
                let _ = self.poll_more_ahead(context);
                matches!(self.stream.poll_peek(context), Poll::Ready(Peeked::End))
            }
            peeked => matches!(peeked, Poll::Ready(Peeked::End)),
        }
    }

    /// Reads once, behind what was read ahead before.
    fn poll_more_ahead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [MaybeUninit::uninit(); AHEAD_MAX];
        let mut buffer = ReadBuf::uninit(&mut bytes);
        buffer.put_slice(&self.ahead);
        let read = ready!(self.poll_stream(context, &mut buffer));
        self.ahead = Bytes::copy_from_slice(buffer.filled());
        Poll::Ready(read)
    }

    /// Reads what was not read ahead.
    fn poll_stream(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.watched = poll.is_pending();
        if let Poll::Ready(read) = poll {
            self.came();
            return Poll::Ready(read);
        }
        ready!(self.poll_late(context));
        self.say_late();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Sets a timer while a request is in progress. The request's body has its own limit; after the
    /// request hyper does not poll the read again, so the timer does.
    fn look_again(&mut self, context: &mut Context<'_>) {
        if !std::mem::replace(&mut self.busy, true) {
            self.head.rest();
        }
        if self.head.poll(context, IDLE).is_ready() {
            self.head.rest();
            let _ = self.head.poll(context, IDLE);
        }
    }

    /// Whether a head is expected. Over HTTP/2 other frames may come between two requests.
    fn waits_for_head(&self, served: usize) -> bool {
        served == 0 || (self.begun && !self.is_http2)
    }

    fn came(&mut self) {
        if self.activity.serving.load(Ordering::Relaxed) > 0 {
            // Part of a body.
            return;
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.head.rest();
        }
    }

    /// Sends a 408 where a client waits for a response.
    fn say_late(&mut self) {
        if self.begun && !self.is_http2 {
            // Nothing else is being written now; a full buffer means that the client does not read.
            self.stream.try_write(&super::raw(&Fault::RequestTimeout.into()));
        }
    }

    fn wrote<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.write.rest();
            return poll;
        }
        let limit = self.write.limit;
        ready!(self.write.poll(context, limit));
        self.activity.stalled.store(true, Ordering::Relaxed);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.ahead.is_empty() {
            return this.poll_stream(context, buffer);
        }
        let length = this.ahead.len().min(buffer.remaining());
        buffer.put_slice(&this.ahead.split_to(length));
        this.watched = false;
        this.came();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.wrote(context, poll)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.wrote(context, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.watched && this.has_left(context) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

// === impl Patience ===

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { limit, due: None, timer: LazyTimer::default() }
    }

    /// Nothing is awaited any more.
    fn rest(&mut self) {
        self.due = None;
    }

    /// Ready when it has been awaited for as long as the limit.
    fn poll(&mut self, context: &mut Context<'_>, limit: Duration) -> Poll<()> {
        let due = *self.due.get_or_insert_with(|| Instant::now() + limit);
        self.timer.poll(context, due)
    }
}

#[cfg(test)]
mod tests;
