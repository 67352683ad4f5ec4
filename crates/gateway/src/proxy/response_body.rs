//! An answer on its way to the client.
//!
//! Frames pass as they come. The body holds the request's [`Flight`]: when the last frame has
//! passed, when the backend breaks off or when the client leaves, the flight ends and the core is
//! told, exactly once.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use flow::Usage;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::token_counter::{StreamFormat, TokenCounter, TokenUsage};
use crate::config::resolved::Cost;
use crate::reply::Fault;
use crate::scheduler::Permit;
use crate::trip::Trip;
use crate::upstream::UpstreamBody;

/// A request at a backend, from its grant to its end.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) permit: Permit,
    pub(crate) trip: Trip,
    /// What it is charged by, and what it was estimated at.
    pub(crate) cost: Cost,
    pub(crate) prompt_estimate: u64,
    /// Whether the core was promised its first token.
    pub(crate) streamed: bool,
}

/// A body that settles.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    body: UpstreamBody,
    flight: Option<Flight>,
    counter: TokenCounter,
    stall: Stall,
    /// Why there is no more, where that was not told yet.
    broken: Option<BodyError>,
}

/// Notices a stream that stands still.
#[derive(Debug)]
struct Stall {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether a frame has come since the timer was set.
    moved: bool,
}

/// A broken answer.
#[derive(Debug)]
pub(crate) struct BodyError(pub(crate) String);

// === impl BodyError ===

impl From<std::io::Error> for BodyError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

// === impl ResponseBody ===

impl ResponseBody {
    pub(crate) fn new(
        response: Response<UpstreamBody>,
        flight: Flight,
        stall_limit: Duration,
    ) -> Response<Self> {
        let format = StreamFormat::of(response.headers().get(http::header::CONTENT_TYPE));
        let stall = Stall { limit: stall_limit, timer: None, moved: false };
        response.map(|body| {
            let counter = TokenCounter::new(format);
            let mut answer = Self { body, flight: Some(flight), counter, stall, broken: None };
            // Whoever asks first whether there is a body, finds none to read.
            if answer.body.is_end_stream() {
                answer.complete();
            }
            answer
        })
    }

    fn passed(&mut self, frame: &Frame<Bytes>) {
        let (Some(data), Some(flight)) = (frame.data_ref(), &mut self.flight) else { return };
        flight.trip.record.bytes_out += data.len() as u64;
        if self.counter.read(data) {
            flight.progressed(self.counter.tokens());
        }
    }

    /// The last byte has come.
    fn complete(&mut self) {
        self.body.give_back();
        if let Some(flight) = self.flight.take() {
            flight.land(&self.counter, None);
        }
    }

    /// The backend has broken off. That is told when what came before has been sent: whoever sends
    /// it does so when there is nothing more for now, and drops it when there is a fault.
    fn broke(&mut self, fault: String, context: &Context<'_>) {
        self.body.close();
        if let Some(flight) = self.flight.take() {
            flight.land(&self.counter, Some(&Fault::BackendError(fault.clone())));
        }
        self.broken = Some(BodyError(fault));
        context.waker().wake_by_ref();
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
        if let Some(broken) = this.broken.take() {
            return Poll::Ready(Some(Err(broken)));
        }
        let Poll::Ready(next) = Pin::new(&mut this.body).poll_frame(context) else {
            ready!(this.stall.poll(context));
            this.broke(format!("nothing came for {} s", this.stall.limit.as_secs()), context);
            return Poll::Pending;
        };
        this.stall.moved = true;
        match next {
            Some(Ok(frame)) => {
                this.passed(&frame);
                // Told before the last frame leaves: the next request need not wait for it.
                if this.body.is_end_stream() {
                    this.complete();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(lost)) => {
                this.broke(lost.to_string(), context);
                Poll::Pending
            }
            None => {
                this.complete();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if let Some(flight) = self.flight.take() {
            flight.abandoned(&self.counter);
        }
    }
}

// === impl Flight ===

impl Flight {
    /// TokenUsage have come.
    pub(crate) fn progressed(&mut self, tokens: u64) {
        if self.streamed {
            self.permit.streamed(tokens);
        }
        if self.cost == Cost::Tokens {
            self.permit.charge(self.prompt_estimate.saturating_add(tokens));
        }
    }

    /// It has ended at the backend.
    pub(crate) fn land(mut self, counter: &TokenCounter, fault: Option<&Fault>) {
        let usage = self.settle_up(counter);
        let now = self.trip.now();
        self.permit.settle(usage, now);
        match fault {
            None => self.trip.end(now),
            Some(fault) => self.trip.fail(fault),
        }
    }

    /// The client has left: what came until then was work.
    pub(crate) fn abandoned(mut self, counter: &TokenCounter) {
        let usage = self.settle_up(counter);
        self.permit.settle(usage, self.trip.now());
        drop(self.trip);
    }

    fn settle_up(&mut self, counter: &TokenCounter) -> Usage {
        let TokenUsage { prompt, output } = counter.used();
        let counted = (counter.tokens() > 0).then(|| counter.tokens());
        let record = &mut self.trip.record;
        record.prompt_tokens = prompt;
        record.output_tokens = output.or(counted);
        match (self.cost, record.output_tokens) {
            (Cost::Tokens, Some(output)) => {
                let prompt = prompt.unwrap_or(self.prompt_estimate);
                Usage::Cost(prompt.saturating_add(output).max(1))
            }
            _ => Usage::Unknown,
        }
    }
}

// === impl Stall ===

impl Stall {
    /// Ready when nothing has moved for the limit, or up to twice as long.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(timer.as_mut().poll(context));
        if std::mem::take(&mut self.moved) {
            timer.as_mut().reset(tokio::time::Instant::now() + limit);
            return timer.as_mut().poll(context);
        }
        Poll::Ready(())
    }
}

// === impl BodyError ===

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the backend broke off: {}", self.0)
    }
}

impl std::error::Error for BodyError {}
