//! A request's hold on the core.

use std::sync::Arc;

use flow::{BackendId, Controller, Misuse, RequeuePosition, Ticket, Time, Usage, WaitForecast};
use tokio::sync::oneshot;

use super::{Grant, Outcome, Scheduler};
use crate::reply::Fault;

/// The hold of a request on the core, from its offer to its end. Dropping it cancels the ask at any
/// stage.
#[derive(Debug)]
pub(crate) struct Permit {
    scheduler: Arc<Scheduler>,
    ticket: Ticket,
    stage: Stage,
}

/// A view of a request's place in the queue, for another task.
#[derive(Debug)]
pub(crate) struct QueueView {
    scheduler: Arc<Scheduler>,
    ticket: Ticket,
}

#[derive(Debug)]
enum Stage {
    /// In the queue.
    Waiting(oneshot::Receiver<Outcome>),
    /// Granted at once, and not read yet.
    Granted(Box<Grant>),
    /// At a backend.
    InFlight,
    /// Ended.
    Over,
}

// === impl Permit ===

impl Permit {
    pub(super) fn granted(scheduler: Arc<Scheduler>, ticket: Ticket, grant: Box<Grant>) -> Self {
        Self { scheduler, ticket, stage: Stage::Granted(grant) }
    }

    pub(super) fn waiting(
        scheduler: Arc<Scheduler>,
        ticket: Ticket,
        outcome: oneshot::Receiver<Outcome>,
    ) -> Self {
        Self { scheduler, ticket, stage: Stage::Waiting(outcome) }
    }

    /// The ask in the core.
    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Whether the request waits in the queue.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    /// Waits for a grant or a refusal. The future may be dropped and made again.
    pub(crate) async fn grant(&mut self) -> Outcome {
        let outcome = match &mut self.stage {
            Stage::Waiting(outcome) => outcome.await.unwrap_or(Err(Fault::Internal.into())),
            stage => match std::mem::replace(stage, Stage::Over) {
                Stage::Granted(grant) => Ok(grant),
                _ => Err(Fault::Internal.into()),
            },
        };
        self.stage = if outcome.is_ok() { Stage::InFlight } else { Stage::Over };
        outcome
    }

    /// A view of the request's place that outlives the permit.
    pub(crate) fn view(&self) -> QueueView {
        QueueView { scheduler: Arc::clone(&self.scheduler), ticket: self.ticket }
    }

    /// Reports the tokens of the stream so far.
    pub(crate) fn streamed(&self, tokens: u64) {
        self.told(|controller, now| controller.streamed(self.ticket, tokens, now));
    }

    /// Reports the cost so far.
    pub(crate) fn charge(&self, cost: u64) {
        self.told(|controller, now| controller.charge(self.ticket, cost, now));
    }

    /// Reports that the backend had `cached` of the prompt's `prompt` tokens in its cache.
    pub(crate) fn cached(&self, cached: u64, prompt: u64) {
        self.told(|controller, now| controller.cached(self.ticket, cached, prompt, now));
    }

    /// Reports that another backend serves the request.
    pub(crate) fn moved(&self, to: BackendId) {
        self.told(|controller, now| controller.moved(self.ticket, to, now));
    }

    /// Ends the request with its cost.
    pub(crate) fn settle(mut self, usage: Usage, now: Time) {
        self.stage = Stage::Over;
        let ticket = self.ticket;
        self.scheduler.locked_at(now, |inner, now| {
            ended_already(inner.controller.settle(ticket, usage, now));
        });
    }

    /// Ends a request that no backend answered. It costs nothing; one that has ended stays so.
    pub(crate) fn give_up(self, now: Time) {
        if matches!(self.stage, Stage::InFlight) {
            self.settle(Usage::Cost(0), now);
        }
    }

    /// Lets the request wait again, after its backend failed before a response.
    pub(crate) fn requeue(&mut self, place: RequeuePosition) {
        self.take_back(|controller, ticket, now| controller.requeue(ticket, place, now));
    }

    /// The same, but without any backend until [`Permit::widen`].
    pub(crate) fn set_aside(&mut self, place: RequeuePosition) {
        self.take_back(|controller, ticket, now| controller.set_aside(ticket, place, now));
    }

    /// The same for a request that waits, at its place in the queue.
    pub(crate) fn step_aside(&self) {
        self.told(|controller, now| controller.step_aside(self.ticket, now));
    }

    /// Lets the waiting request use all backends of its model again.
    pub(crate) fn widen(&self) {
        self.told(|controller, now| controller.widen(self.ticket, now));
    }
}

impl Permit {
    fn take_back(
        &mut self,
        verb: impl FnOnce(&mut Controller, Ticket, Time) -> Result<(), Misuse>,
    ) {
        let ticket = self.ticket;
        self.stage = self.scheduler.locked(|inner, now| {
            let outcome = inner.expect(ticket);
            match verb(&mut inner.controller, ticket, now) {
                Ok(()) => Stage::Waiting(outcome),
                Err(_) => {
                    inner.waiting.remove(&ticket);
                    Stage::Over
                }
            }
        });
    }

    fn told(&self, verb: impl FnOnce(&mut Controller, Time) -> Result<(), Misuse>) {
        self.scheduler.with(|controller, now| ended_already(verb(controller, now)));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Over) {
            return;
        }
        let ticket = self.ticket;
        self.scheduler.locked(|inner, now| {
            inner.waiting.remove(&ticket);
            ended_already(inner.controller.cancel(ticket, now).map(drop));
        });
    }
}

// === impl QueueView ===

impl QueueView {
    /// The forecast for the request while it waits, and the number of waiting requests.
    pub(crate) fn look(&self) -> (Option<WaitForecast>, u32) {
        self.scheduler.with(|controller, now| {
            (controller.wait_forecast(self.ticket, now), controller.depth())
        })
    }
}

/// An ask that ended at the same moment was counted by the core already.
fn ended_already(answer: Result<(), Misuse>) {
    if let Err(misuse) = answer {
        tracing::debug!(%misuse, "the ask had ended already");
    }
}
