//! One request's hold on the core.

use std::sync::Arc;

use flow::{BackendId, Controller, Misuse, RequeuePosition, Ticket, Time, Usage, WaitForecast};
use tokio::sync::oneshot;

use super::{Grant, Outcome, Scheduler};
use crate::reply::{Fault, Refused};

/// A request's place, from its offer to its end. Dropping it ends the ask wherever it stands.
#[derive(Debug)]
pub(crate) struct Permit {
    scheduler: Arc<Scheduler>,
    ticket: Ticket,
    stage: Stage,
}

/// A look at a request's place from outside.
#[derive(Debug)]
pub(crate) struct QueueView {
    scheduler: Arc<Scheduler>,
    ticket: Ticket,
}

#[derive(Debug)]
enum Stage {
    /// In the queue.
    Waiting(oneshot::Receiver<Outcome>),
    /// Granted without a wait, not yet taken.
    Granted(Grant),
    /// At a backend.
    InFlight,
    /// Ended.
    Over,
}

// === impl Permit ===

impl Permit {
    pub(super) fn granted(scheduler: Arc<Scheduler>, ticket: Ticket, grant: Grant) -> Self {
        Self { scheduler, ticket, stage: Stage::Granted(grant) }
    }

    pub(super) fn waiting(
        scheduler: Arc<Scheduler>,
        ticket: Ticket,
        outcome: oneshot::Receiver<Outcome>,
    ) -> Self {
        Self { scheduler, ticket, stage: Stage::Waiting(outcome) }
    }

    /// Its name in the core.
    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Whether it has to wait.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    /// Waits until it may go, or hears why it may not. May be dropped and called again.
    pub(crate) async fn grant(&mut self) -> Result<Grant, Refused> {
        let outcome = match &mut self.stage {
            Stage::Waiting(outcome) => outcome.await.unwrap_or(Err(Fault::Internal.into())),
            Stage::Granted(grant) => Ok(*grant),
            Stage::InFlight | Stage::Over => Err(Fault::Internal.into()),
        };
        self.stage = if outcome.is_ok() { Stage::InFlight } else { Stage::Over };
        outcome
    }

    /// A view of the request's place that outlives the permit.
    pub(crate) fn view(&self) -> QueueView {
        QueueView { scheduler: Arc::clone(&self.scheduler), ticket: self.ticket }
    }

    /// The stream has come this far, in tokens.
    pub(crate) fn streamed(&self, tokens: u64) {
        self.told(|controller, now| controller.streamed(self.ticket, tokens, now));
    }

    /// It has cost this much so far.
    pub(crate) fn charge(&self, cost: u64) {
        self.told(|controller, now| controller.charge(self.ticket, cost, now));
    }

    /// Whoever carries it has gone to another backend with it.
    pub(crate) fn moved(&self, to: BackendId) {
        self.told(|controller, now| controller.moved(self.ticket, to, now));
    }

    /// It has ended now, and this is what it cost.
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

    /// The backend failed it before it did anything: it waits again.
    pub(crate) fn requeue(&mut self, place: RequeuePosition) {
        let ticket = self.ticket;
        self.stage = self.scheduler.locked(|inner, now| {
            let outcome = inner.expect(ticket);
            match inner.controller.requeue(ticket, place, now) {
                Ok(()) => Stage::Waiting(outcome),
                Err(_) => {
                    inner.waiting.remove(&ticket);
                    Stage::Over
                }
            }
        });
    }
}

impl Permit {
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
    /// What the request can be told while it waits, and how many wait in all.
    pub(crate) fn look(&self) -> (Option<WaitForecast>, u32) {
        self.scheduler.with(|controller, now| {
            (controller.wait_forecast(self.ticket, now), controller.depth())
        })
    }
}

/// An ask that ended at the same moment needs nothing more: the core has counted it.
fn ended_already(answer: Result<(), Misuse>) {
    if let Err(misuse) = answer {
        tracing::debug!(%misuse, "an ask had ended already");
    }
}
