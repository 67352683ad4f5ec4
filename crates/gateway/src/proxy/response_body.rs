//! The body of a response on its way to the client.
//!
//! Frames pass as they come. The body holds its [`Request`]: when the last frame has passed, when
//! the backend breaks off or when the client leaves, the request ends and the core is told, exactly
//! once. A stream that breaks off between two events or lines ends with an error that clients know
//! (`stream_error`). The connection is cut in any case, so that no client takes the response for
//! whole.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::model_name::ModelNameRestorer;
use super::stream_error::StreamEnd;
use super::token_counter::{StreamFormat, TokenCounter, is_encoded};
use crate::reply::{ErrorFormat, Fault};
use crate::request::{DeliveryRecord, Request};
use crate::upstream::{ExchangeError, UpstreamBody};

/// A body that settles its request.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    body: UpstreamBody,
    /// Taken when the request has ended.
    request: Option<Box<Request>>,
    counter: TokenCounter,
    /// Puts the client's model name back, where another was sent.
    restorer: Option<Box<ModelNameRestorer>>,
    stall: StallTimer,
    /// Where the client stands in the stream.
    end: StreamEnd,
    /// How the body ends early. Boxed: it is rare.
    ending: Option<Box<EarlyEnd>>,
    delivery: Delivery,
}

/// When the log hears of a response that is whole.
#[derive(Debug)]
enum Delivery {
    /// At once: what follows takes each frame when it can send it.
    AtOnce,
    /// When the client has read it.
    Awaited(Option<DeliveryRecord>),
}

/// The end of a body that the backend broke off.
#[derive(Debug)]
struct EarlyEnd {
    /// The error as a part of the stream, until it has been sent.
    told: Option<Bytes>,
    flushed: bool,
    /// Taken when the client's connection is cut.
    error: Option<BodyError>,
}

/// Notices a stream that stands still. A frame leaves a mark, and a timer reads it now and then, so
/// that no frame costs a look at the clock.
#[derive(Debug)]
struct StallTimer {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether a frame has come since the timer was set.
    moved: bool,
    /// For how long none had come then.
    still: Duration,
}

/// How often the timer looks, unless the limit is so short that it looks this many times within it.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const LOOKS_LEAST: u32 = 16;

/// Why a body ended before its end.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The backend broke off.
    Upstream(ExchangeError),
    /// The backend sent nothing for this long.
    Stalled(Duration),
    /// A stored file cannot be read.
    File(std::io::Error),
    /// The client reads nothing.
    Client,
}

// === impl ResponseBody ===

impl ResponseBody {
    pub(super) fn new(
        mut response: Response<UpstreamBody>,
        request: Box<Request>,
    ) -> Response<Box<Self>> {
        let format = StreamFormat::of(response.headers().get(CONTENT_TYPE));
        let encoding = response.headers().get(CONTENT_ENCODING);
        let read_as = format.encoded(encoding.is_some_and(|value| is_encoded(value.as_bytes())));
        let limit = request.config.fleet.stall_timeout;
        let stall = StallTimer { limit, timer: None, moved: false, still: Duration::ZERO };
        let has_body = !response.body().is_end_stream();
        let restorer = has_body
            .then(|| ModelNameRestorer::for_head(&request, response.headers_mut()))
            .flatten();
        let errors = ErrorFormat::of_openai(request.config.conventions.nexus_errors);
        let end = StreamEnd::of(format, errors, response.headers());
        response.map(|body| {
            let counter = TokenCounter::new(read_as);
            let request = Some(request);
            let delivery = Delivery::AtOnce;
            let response =
                Self { body, request, counter, restorer, stall, end, ending: None, delivery };
            let mut response = Box::new(response);
            // hyper does not poll a body that says it is at its end.
            if !has_body {
                response.complete();
            }
            response
        })
    }

    /// Reads a frame; returns the frame that goes to the client.
    fn passed(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        let mut data = match frame.into_data() {
            Ok(data) => data,
            Err(trailers) => return trailers,
        };
        let is_first = self.request.as_ref().is_some_and(|request| request.record.bytes_out == 0);
        let has_tokens = match is_first && self.body.is_end_stream() {
            true => self.counter.read_whole(&data),
            false => self.counter.read(&data),
        };
        if let Some(restorer) = &mut self.restorer {
            data = restorer.restore(data, self.body.is_end_stream());
        }
        if let Some(request) = &mut self.request {
            request.record.bytes_out += data.len() as u64;
            request.record.progressed();
            if has_tokens {
                request.progressed(self.counter.tokens());
            }
        }
        self.end.passed(&data);
        Frame::data(data)
    }

    /// The last byte has come.
    fn complete(&mut self) {
        self.body.give_back();
        if let Some(request) = self.request.take() {
            let tokens = self.counter.usage();
            request.response_ended(tokens.told);
            match &mut self.delivery {
                Delivery::AtOnce => request.finish(tokens, None),
                Delivery::Awaited(record) => *record = Some(request.leave_backend(tokens)),
            }
        }
    }

    /// Lets the log of a whole response wait until [`Self::take_record`].
    pub(crate) fn await_delivery(&mut self) {
        self.delivery = Delivery::Awaited(None);
    }

    /// The record of a response that is whole.
    pub(crate) fn take_record(&mut self) -> Option<DeliveryRecord> {
        match &mut self.delivery {
            Delivery::AtOnce => None,
            Delivery::Awaited(record) => record.take(),
        }
    }

    /// The client left too much unread: the rest is not sent.
    pub(crate) fn stalled(&mut self) {
        if let Some(request) = &mut self.request {
            request.record.stalled();
        }
        if let Some(record) = self.take_record() {
            record.stall();
        }
    }

    /// The backend has broken off.
    fn fail(
        &mut self,
        error: BodyError,
        context: &Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.body.close();
        let fault = error.fault();
        let told = self.end.error(&fault);
        if let Some(mut request) = self.request.take() {
            request.record.bytes_out += told.as_ref().map_or(0, Bytes::len) as u64;
            if let Fault::BrokenResponse(cause) = &fault {
                request.broke_off(format!("a response broke off: {cause}"));
            }
            request.finish(self.counter.usage(), Some(&fault));
        }
        let ending = EarlyEnd { told, flushed: false, error: Some(error) };
        self.ending.insert(Box::new(ending)).poll(context)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(ending) = &mut this.ending {
            return ending.poll(context);
        }
        let Poll::Ready(next) = Pin::new(&mut this.body).poll_frame(context) else {
            ready!(this.stall.poll(context));
            return this.fail(BodyError::Stalled(this.stall.limit), context);
        };
        this.stall.moved = true;
        match next {
            Some(Ok(frame)) => {
                let frame = this.passed(frame);
                // Settled before the last frame leaves: the next request need not wait for it.
                if this.body.is_end_stream() {
                    this.complete();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => this.fail(BodyError::Upstream(error), context),
            None => {
                this.complete();
                let rest = this.restorer.take().map(|mut restorer| restorer.finish());
                let rest = rest.filter(|rest| !rest.is_empty());
                Poll::Ready(rest.map(|rest| Ok(Frame::data(rest))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.restorer {
            Some(_) => SizeHint::default(),
            None => self.body.size_hint(),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if let Some(mut request) = self.request.take() {
            request.record.stood_still = self.stall.stands_still();
            request.abandon(self.counter.usage());
        }
    }
}

// === impl EarlyEnd ===

impl EarlyEnd {
    /// hyper flushes the frames before an error when a poll is pending, and drops them when the
    /// next poll fails.
    fn poll(&mut self, context: &Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(told) = self.told.take() {
            return Poll::Ready(Some(Ok(Frame::data(told))));
        }
        if !std::mem::replace(&mut self.flushed, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.error.take().map(Err))
    }
}

// === impl StallTimer ===

impl StallTimer {
    /// Ready when nothing has moved for the limit, or up to a look longer.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let every = LOOK_EVERY.min(self.limit / LOOKS_LEAST);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(every)));
        while self.still < self.limit {
            ready!(timer.as_mut().poll(context));
            self.still = if std::mem::take(&mut self.moved) {
                Duration::ZERO
            } else {
                self.still.saturating_add(every)
            };
            timer.as_mut().reset(tokio::time::Instant::now() + every);
        }
        Poll::Ready(())
    }

    /// Whether it has stood still since a look before the last one.
    fn stands_still(&self) -> bool {
        !self.moved && self.still > Duration::ZERO
    }
}

// === impl BodyError ===

impl BodyError {
    fn fault(&self) -> Fault {
        match self {
            Self::Upstream(error) => Fault::BrokenResponse(error.to_string()),
            Self::Stalled(_) => Fault::BrokenResponse(self.to_string()),
            Self::File(_) | Self::Client => Fault::Internal,
        }
    }
}

impl From<std::io::Error> for BodyError {
    fn from(error: std::io::Error) -> Self {
        Self::File(error)
    }
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Upstream(_) => f.write_str("the backend broke off"),
            Self::Stalled(limit) => write!(f, "nothing came for {} s", limit.as_secs()),
            Self::File(_) => f.write_str("the file cannot be read"),
            Self::Client => f.write_str("the client took nothing"),
        }
    }
}

impl std::error::Error for BodyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Upstream(error) => Some(error),
            Self::File(error) => Some(error),
            Self::Stalled(_) | Self::Client => None,
        }
    }
}
