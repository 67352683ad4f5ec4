//! gRPC over hyper's HTTP/2: messages in, messages out, a status at the end.
//!
//! A call's work runs inside the body of its response: hyper polls the body for frames, and that
//! drives the work. So a call needs no task and no channel, messages since the last poll leave as
//! one frame, and a caller that resets its stream drops the work at once.

mod connection;
mod gathered;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper::body::Incoming as RawBody;
use prost::Message;

pub(crate) use connection::{Calls, TlsRule};

const GRPC: &str = "application/grpc";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Before each message stand one byte for compression and four for the length.
const PREFIX: usize = 5;
/// The largest message that is accepted unless a call says otherwise. Envoy's pieces of a body have
/// a megabyte at most.
const MESSAGE_MAX: usize = 4 << 20;
/// The room reserved for the rest of a message, as a multiple of the bytes that have come.
const TRUSTED: usize = 16;
/// The most bytes that may wait for the caller to read them.
const UNSENT_MAX: usize = 256 << 10;

/// How a call ended, in gRPC's own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Ok = 0,
    Cancelled = 1,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// How a call ended, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: Code,
    pub(crate) text: Cow<'static, str>,
}

/// A caller's messages.
#[derive(Debug)]
pub(crate) struct Incoming {
    body: RawBody,
    buffer: BytesMut,
    /// The largest message that is accepted.
    largest: usize,
}

/// The messages to a caller. They leave when the caller's connection has room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outgoing(Arc<Mutex<Vec<u8>>>);

/// The response body of a call.
pub(crate) struct Reply {
    work: Option<Work>,
    outgoing: Outgoing,
    ended: Option<Status>,
}

/// The work of a call, which ends with its status.
type Work = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

/// Responds to a call with `work` on its incoming and outgoing messages.
pub(crate) fn call<F>(
    request: Request<RawBody>,
    work: impl FnOnce(Incoming, Outgoing) -> F,
) -> Response<Reply>
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let outgoing = Outgoing::default();
    let incoming =
        Incoming { body: request.into_body(), buffer: BytesMut::new(), largest: MESSAGE_MAX };
    let work: Work = Box::pin(work(incoming, outgoing.clone()));
    answer(Reply { work: Some(work), outgoing, ended: None })
}

/// Responds to a call with a status alone.
pub(crate) fn refuse(status: Status) -> Response<Reply> {
    answer(Reply { work: None, outgoing: Outgoing::default(), ended: Some(status) })
}

/// Whether a request is a call at all.
pub(crate) fn is_call(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(GRPC.as_bytes()))
}

fn answer(reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    response
}

// === impl Status ===

impl Status {
    pub(crate) const LEFT: Self = Self::new(Code::Cancelled, "the caller has left");

    pub(crate) const SILENT: Self = Self::new(Code::DeadlineExceeded, "nothing was said in time");
    const GARBLED: Self = Self::new(Code::InvalidArgument, "a message cannot be decoded");

    pub(crate) const fn new(code: Code, text: &'static str) -> Self {
        Self { code, text: Cow::Borrowed(text) }
    }

    /// A status whose text names what was wrong.
    pub(crate) fn told(code: Code, text: String) -> Self {
        Self { code, text: Cow::Owned(text) }
    }

    fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::new();
        trailers.insert(STATUS, HeaderValue::from(self.code as u16));
        if !self.text.is_empty() {
            trailers.insert(MESSAGE, encoded(&self.text));
        }
        trailers
    }
}

/// A text as `grpc-message` carries it: percent-encoded, without what a header must not have.
fn encoded(text: &str) -> HeaderValue {
    let mut value = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' | 0..=0x1f | 0x7f.. => value.push_str(&format!("%{byte:02X}")),
            _ => value.push(char::from(byte)),
        }
    }
    // Every byte is visible ASCII or a space now.
    HeaderValue::from_str(&value).unwrap_or(HeaderValue::from_static("?"))
}

// === impl Incoming ===

impl Incoming {
    /// Accepts messages of up to this many bytes only.
    pub(crate) fn accept_up_to(&mut self, bytes: usize) {
        self.largest = bytes;
    }

    /// The next message; `None` at the end of the stream. Losing the caller is an error. The future
    /// may be dropped and made again.
    pub(crate) async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Status> {
        loop {
            if let Some(message) = split(&mut self.buffer, self.largest)? {
                return M::decode(message).map(Some).map_err(|_| Status::GARBLED);
            }
            let Some(frame) = self.body.frame().await else { return self.end() };
            if let Ok(data) = frame.map_err(|_| Status::LEFT)?.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    fn end<M>(&self) -> Result<Option<M>, Status> {
        if self.buffer.is_empty() {
            return Ok(None);
        }
        Err(Status::new(Code::InvalidArgument, "the last message is cut short"))
    }
}

/// Splits a whole message off, if one has come.
fn split(buffer: &mut BytesMut, largest: usize) -> Result<Option<Bytes>, Status> {
    let Some(prefix) = buffer.first_chunk::<PREFIX>() else { return Ok(None) };
    let [compressed, length @ ..] = *prefix;
    if compressed != 0 {
        return Err(Status::new(Code::Unimplemented, "compressed messages are not read"));
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > largest {
        let text = format!("a message is larger than {largest} bytes");
        return Err(Status::told(Code::ResourceExhausted, text));
    }
    if buffer.len() < PREFIX + length {
        // Room for the rest, rather than growing with every frame, but not on the word of a caller
        // that has sent little.
        let missing = PREFIX + length - buffer.len();
        buffer.reserve(missing.min(TRUSTED * buffer.len()));
        return Ok(None);
    }
    buffer.advance(PREFIX);
    Ok(Some(buffer.split_to(length).freeze()))
}

// === impl Outgoing ===

impl Outgoing {
    /// Sends a message.
    pub(crate) fn send(&self, message: &impl Message) {
        let mut buffer = self.buffer();
        let length = message.encoded_len();
        buffer.reserve(PREFIX + length);
        buffer.put_u8(0);
        // No message of the picker comes near the limit of four bytes.
        buffer.put_u32(length as u32);
        message.encode_raw(&mut *buffer);
    }

    /// Waits until most of the messages have left, so that a long body is not held twice.
    pub(crate) async fn room(&self) {
        // Polled again after every frame that was taken, so no waker is needed.
        std::future::poll_fn(|_| {
            if self.buffer().len() < UNSENT_MAX { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn take(&self) -> Bytes {
        std::mem::take(&mut *self.buffer()).into()
    }

    fn buffer(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Reply ===

impl Body for Reply {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if let Some(work) = &mut this.work
            && let Poll::Ready(done) = work.as_mut().poll(context)
        {
            this.work = None;
            this.ended = Some(done.err().unwrap_or(Status::new(Code::Ok, "")));
        }
        let said = this.outgoing.take();
        if !said.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(said))));
        }
        if this.work.is_some() {
            return Poll::Pending;
        }
        Poll::Ready(this.ended.take().map(|status| Ok(Frame::trailers(status.trailers()))))
    }
}

#[cfg(test)]
mod tests;
