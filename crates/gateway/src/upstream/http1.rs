//! One connection of HTTP/1.1 to a backend.
//!
//! It has no task of its own. The task that waits for a response drives it: it sends the rest of
//! the request, then reads. So an exchange costs no hand-over between tasks, a client that reads
//! slowly slows its backend, and a dropped connection is closed at any point of an exchange. The
//! whole request is at hand, which keeps this smaller than a client for all purposes; `httparse`
//! parses heads.

mod exchange_error;
mod framing;
mod head;

#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::Response;
use http_body::Frame;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::time::Instant;

use self::framing::Step;
use self::head::HeadProgress;
use super::backend_files::OpenFile;
use super::connect::Connection;
use crate::lazy_timer::LazyTimer;

pub(crate) use exchange_error::{ExchangeError, Silence};
pub(crate) use framing::Framing;
pub(crate) use head::Http1Request;

/// The largest head of a response.
const HEAD_MAX: usize = 256 << 10;
const HEAD_TOO_LARGE: ExchangeError = ExchangeError::Protocol("its head is larger than 256 KiB");
/// How a server that speaks TLS begins its response to a request without TLS.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];
const SPEAKS_TLS: ExchangeError =
    ExchangeError::Protocol("it speaks TLS: write its URL with https://");
/// The least and the most bytes of one read.
const READ_MIN: usize = 8 << 10;
const READ_MAX: usize = 256 << 10;
/// The least room for a read.
const ROOM_MIN: usize = 1 << 10;
/// A body up to this length is copied behind its head: one slice costs less to send than two.
const COPIED_MAX: usize = 4 << 10;
/// The most memory that an idle connection keeps.
const KEPT_MAX: usize = 16 << 10;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Http1 {
    connection: Connection,
    outbox: Outbox,
    /// Bytes that have come and were not taken yet.
    came: BytesMut,
    /// The size of the next read, and its maximum since the connection was idle.
    read_size: usize,
    read_most: usize,
    /// One timer for all exchanges.
    timer: LazyTimer,
    /// Whether any byte of the response has come, and how far its head was read.
    touched: bool,
    head: HeadProgress,
    /// Whether the backend keeps the connection open after this response.
    lasts: bool,
    /// Stands last: the file is free when the connection is closed.
    _file: Option<OpenFile>,
}

/// The bytes that are still to be sent.
#[derive(Debug, Default)]
struct Outbox {
    head: Vec<u8>,
    body: Bytes,
    /// The number of bytes sent, of both together.
    sent: usize,
    /// Whether TLS has passed them all on to the system.
    flushed: bool,
}

// === impl Http1 ===

impl Http1 {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            outbox: Outbox::default(),
            came: BytesMut::new(),
            read_size: READ_MIN,
            read_most: READ_MIN,
            timer: LazyTimer::default(),
            touched: false,
            head: HeadProgress::default(),
            lasts: false,
            _file: None,
        }
    }

    /// Counts the connection among the open files until it is closed.
    pub(super) fn counted(self, file: OpenFile) -> Self {
        Self { _file: Some(file), ..self }
    }

    /// Sends a request and waits for the head of its response.
    pub(crate) async fn exchange(
        &mut self,
        wanted: &Http1Request<'_>,
        due: Instant,
    ) -> Result<(Response<()>, Framing), ExchangeError> {
        self.outbox.fill(wanted);
        (self.touched, self.head) = (false, HeadProgress::default());
        self.await_head(wanted, due).await
    }

    /// Goes on waiting for the head of a response that did not come in time.
    pub(crate) async fn await_head(
        &mut self,
        wanted: &Http1Request<'_>,
        due: Instant,
    ) -> Result<(Response<()>, Framing), ExchangeError> {
        std::future::poll_fn(|context| self.poll_head(context, wanted, due)).await
    }

    /// Waits until a byte of the body has come, or the body is at its end.
    pub(crate) async fn await_body(
        &mut self,
        framing: &mut Framing,
        due: Instant,
    ) -> Result<(), ExchangeError> {
        std::future::poll_fn(|context| self.poll_body_begun(context, framing, due)).await
    }

    /// What has come behind the head, before any of it is read as a body.
    pub(crate) fn begun(&self) -> &[u8] {
        &self.came
    }

    /// Waits for any further byte.
    pub(crate) async fn await_byte(&mut self) -> bool {
        std::future::poll_fn(|context| self.poll_move(context)).await.is_ok_and(|read| read > 0)
    }

    /// Whether no byte of a response has come.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.touched
    }

    /// Whether another request may be sent, after a response has been read to its end.
    pub(crate) fn may_serve_again(&self) -> bool {
        self.lasts && self.outbox.is_sent() && self.came.is_empty()
    }

    /// Frees the memory of a large response: idle connections are many.
    pub(crate) fn shrink(&mut self) {
        if self.read_most > KEPT_MAX {
            (self.came, self.read_size, self.read_most) = (BytesMut::new(), READ_MIN, READ_MIN);
        }
    }

    /// Whether the connection is open between two exchanges, with nothing to read on it.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.connection.is_idle()
    }

    /// The next part of the response's body; `None` at its end.
    pub(crate) fn poll_body(
        &mut self,
        context: &mut Context<'_>,
        framing: &mut Framing,
    ) -> Poll<Result<Option<Frame<Bytes>>, ExchangeError>> {
        loop {
            match framing.take(&mut self.came)? {
                Step::Frame(frame) => return Poll::Ready(Ok(Some(frame))),
                Step::Over => return Poll::Ready(Ok(None)),
                Step::More => {}
            }
            if ready!(self.poll_move(context))? == 0 {
                self.lasts = false;
                framing.close()?;
            }
        }
    }

    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        wanted: &Http1Request<'_>,
        due: Instant,
    ) -> Poll<Result<(Response<()>, Framing), ExchangeError>> {
        loop {
            let Poll::Ready(read) = self.poll_move(context) else {
                ready!(self.timer.poll(context, due));
                return Poll::Ready(Err(ExchangeError::TimedOut));
            };
            if read? == 0 {
                return Poll::Ready(Err(ExchangeError::Protocol("it closed the connection")));
            }
            self.touched = true;
            let found = head::read(&mut self.came, &mut self.head, wanted);
            if found.is_err() && self.came.starts_with(&TLS_ALERT) {
                return Poll::Ready(Err(SPEAKS_TLS));
            }
            if let Some(found) = found? {
                self.lasts = found.lasts;
                return Poll::Ready(Ok((found.response, found.framing)));
            }
            if self.came.len() >= HEAD_MAX {
                return Poll::Ready(Err(HEAD_TOO_LARGE));
            }
        }
    }

    fn poll_body_begun(
        &mut self,
        context: &mut Context<'_>,
        framing: &mut Framing,
        due: Instant,
    ) -> Poll<Result<(), ExchangeError>> {
        if !self.came.is_empty() || framing.is_over() {
            return Poll::Ready(Ok(()));
        }
        let Poll::Ready(read) = self.poll_move(context) else {
            ready!(self.timer.poll(context, due));
            return Poll::Ready(Err(ExchangeError::TimedOut));
        };
        if read? == 0 {
            self.lasts = false;
            framing.close()?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the rest of the request and reads; 0 at the end of the connection.
    ///
    /// A backend may respond before it has read the request, and refuse the rest: its response is
    /// worth more than the write error.
    fn poll_move(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, ExchangeError>> {
        let sent = self.outbox.poll_send(&mut self.connection, context);
        match (self.poll_read(context), sent) {
            (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(error.into())),
            (read, _) => read.map_err(ExchangeError::from),
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.came.capacity() - self.came.len() < ROOM_MIN {
            self.came.reserve(self.read_size);
        }
        let room = self.came.capacity() - self.came.len();
        let read = ready!(pin!(self.connection.read_buf(&mut self.came)).poll(context))?;
        self.read_size = if read < room { READ_MIN } else { (room * 2).min(READ_MAX) };
        self.read_most = self.read_most.max(self.read_size);
        Poll::Ready(Ok(read))
    }
}

// === impl Outbox ===

impl Outbox {
    fn fill(&mut self, wanted: &Http1Request<'_>) {
        if self.head.capacity() > KEPT_MAX {
            self.head = Vec::new();
        }
        self.head.clear();
        (self.sent, self.flushed) = (0, false);
        wanted.write(&mut self.head);
        self.body = Bytes::new();
        if wanted.body.len() <= COPIED_MAX {
            self.head.extend_from_slice(wanted.body);
        } else {
            self.body = wanted.body.clone();
        }
    }

    fn is_sent(&self) -> bool {
        self.flushed
    }

    fn poll_send(
        &mut self,
        connection: &mut Connection,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.flushed {
            return Poll::Ready(Ok(()));
        }
        while self.sent < self.head.len() + self.body.len() {
            let mut connection = Pin::new(&mut *connection);
            let written = match self.head.get(self.sent..) {
                Some(head) if self.body.is_empty() => connection.as_mut().poll_write(context, head),
                Some(head) if !head.is_empty() => {
                    let pieces = [IoSlice::new(head), IoSlice::new(&self.body)];
                    connection.as_mut().poll_write_vectored(context, &pieces)
                }
                _ => connection
                    .as_mut()
                    .poll_write(context, &self.body[self.sent - self.head.len()..]),
            };
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        // The response may go on for long: free the body now.
        self.drop_body();
        ready!(Pin::new(connection).poll_flush(context))?;
        self.flushed = true;
        Poll::Ready(Ok(()))
    }

    fn drop_body(&mut self) {
        self.sent -= self.body.len();
        self.body = Bytes::new();
    }
}
