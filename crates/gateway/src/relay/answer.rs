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

use super::meter::{Meter, Shape, Tokens};
use super::source::Source;
use crate::config::resolved::Cost;
use crate::keeper::Seat;
use crate::reply::Fault;
use crate::trip::Trip;

/// A request at a backend, from its grant to its end.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) seat: Seat,
    pub(crate) trip: Trip,
    /// What it is charged by, and what it was estimated at.
    pub(crate) cost: Cost,
    pub(crate) prompt_estimate: u64,
    /// Whether the core was promised its first token.
    pub(crate) streamed: bool,
}

/// A body that settles.
#[derive(Debug)]
pub(crate) struct Answer {
    body: Source,
    flight: Option<Flight>,
    meter: Meter,
    stall: Stall,
    /// Why there is no more, where that was not told yet.
    broken: Option<Broken>,
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
pub(crate) struct Broken(pub(crate) String);

// === impl Broken ===

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn new(
        response: Response<Source>,
        flight: Flight,
        stall_limit: Duration,
    ) -> Response<Self> {
        let shape = Shape::of(response.headers().get(http::header::CONTENT_TYPE));
        let stall = Stall { limit: stall_limit, timer: None, moved: false };
        response.map(|body| {
            let meter = Meter::new(shape);
            let mut answer = Self { body, flight: Some(flight), meter, stall, broken: None };
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
        if self.meter.read(data) {
            flight.progressed(self.meter.tokens());
        }
    }

    /// The last byte has come.
    fn complete(&mut self) {
        self.body.give_back();
        if let Some(flight) = self.flight.take() {
            flight.land(&self.meter, None);
        }
    }

    /// The backend has broken off. That is told when what came before has been sent: whoever sends
    /// it does so when there is nothing more for now, and drops it when there is a fault.
    fn broke(&mut self, fault: String, context: &Context<'_>) {
        self.body.close();
        if let Some(flight) = self.flight.take() {
            flight.land(&self.meter, Some(&Fault::BackendError(fault.clone())));
        }
        self.broken = Some(Broken(fault));
        context.waker().wake_by_ref();
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
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

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(flight) = self.flight.take() {
            flight.abandoned(&self.meter);
        }
    }
}

// === impl Flight ===

impl Flight {
    /// Tokens have come.
    pub(crate) fn progressed(&mut self, tokens: u64) {
        if self.streamed {
            self.seat.streamed(tokens);
        }
        if self.cost == Cost::Tokens {
            self.seat.charge(self.prompt_estimate.saturating_add(tokens));
        }
    }

    /// It has ended at the backend.
    pub(crate) fn land(mut self, meter: &Meter, fault: Option<&Fault>) {
        let usage = self.settle_up(meter);
        let now = self.trip.now();
        self.seat.settle(usage, now);
        match fault {
            None => self.trip.end(now),
            Some(fault) => self.trip.fail(fault),
        }
    }

    /// The client has left: what came until then was work.
    pub(crate) fn abandoned(mut self, meter: &Meter) {
        let usage = self.settle_up(meter);
        self.seat.settle(usage, self.trip.now());
        drop(self.trip);
    }

    fn settle_up(&mut self, meter: &Meter) -> Usage {
        let Tokens { prompt, output } = meter.used();
        let counted = (meter.tokens() > 0).then(|| meter.tokens());
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

// === impl Broken ===

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the backend broke off: {}", self.0)
    }
}

impl std::error::Error for Broken {}
