//! The scheduler: the core's controller behind one short mutex, and the requests that wait for it.
//!
//! A request holds a [`Permit`] from its offer to its end. The permit ends the ask exactly once:
//! settled, or cancelled when it is dropped. Nothing polls: a call that frees a place grants the
//! next ask at once, and its request is woken when the lock is free again. The lock is never held
//! across an await, and nothing else is locked under it.

mod permit;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use flow::{
    Ask, BackendId, Controller, Event, ModelId, RouteChoice, Settings, Span, Ticket, Time,
    UrgencyTerms, Verdict, Workload,
};
use tokio::sync::{Notify, oneshot};

use crate::clock::Clock;
use crate::ingress::Intent;
use crate::reply::{Fault, Refused};

pub(crate) use permit::{Permit, QueueView};

/// The controller and the requests that wait.
#[derive(Debug)]
pub(crate) struct Scheduler {
    clock: Clock,
    inner: Mutex<Inner>,
    /// Wakes the timekeeper when the next deadline is earlier than the one it sleeps for.
    wake: Notify,
    /// Outcomes that a test holds back, to deliver them between other calls.
    #[cfg(test)]
    held: Mutex<Option<std::collections::VecDeque<Delivery>>>,
}

#[derive(Debug)]
struct Inner {
    controller: Controller,
    waiting: HashMap<Ticket, oneshot::Sender<Outcome>>,
    /// When the core has something to do next.
    due: Option<Time>,
    /// The deadline that the timekeeper sleeps for.
    wakes_at: Option<Time>,
}

/// A request's model as the core numbers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) model: ModelId,
    /// The adapter (LoRA) that it needs, where backends have it loaded as one.
    pub(crate) adapter: Option<u32>,
}

/// The backend of an ask, and how it was chosen. It is large: a request that waits has room for a
/// box.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) backend: BackendId,
    /// The reason for the choice, where there was one.
    pub(crate) choice: Option<RouteChoice>,
    /// Why it had its turn, in the order `workload`.
    pub(crate) urgency: Option<UrgencyTerms>,
    /// How long the ask waited this time, and when that ended.
    pub(crate) waited: Span,
    pub(crate) at: Time,
}

type Outcome = Result<Box<Grant>, Refused>;

/// A waiting request and its outcome.
type Delivery = (oneshot::Sender<Outcome>, Outcome);

// === impl Scheduler ===

impl Scheduler {
    pub(crate) fn new(settings: Settings, clock: Clock) -> Self {
        let controller = Controller::new(settings);
        let inner = Inner { controller, waiting: HashMap::new(), due: None, wakes_at: None };
        Self {
            clock,
            inner: Mutex::new(inner),
            wake: Notify::new(),
            #[cfg(test)]
            held: Mutex::default(),
        }
    }

    /// Runs `act` on the controller. Requests that it grants or evicts are woken.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Controller, Time) -> T) -> T {
        self.locked(|inner, now| act(&mut inner.controller, now))
    }

    /// Offers a request. Its waits count from `arrived`.
    pub(crate) fn offer(
        self: &Arc<Self>,
        intent: &Intent,
        target: Target,
        arrived: Time,
    ) -> Result<Permit, Refused> {
        self.locked(|inner, now| {
            let ask = inner.ask(intent, target, arrived, now);
            match inner.controller.offer_prompt(ask, intent.blocks.clone(), now) {
                Verdict::Granted { ticket, backend } => {
                    let grant = inner.grant((ticket, backend), Span::ZERO, now);
                    Ok(Permit::granted(Arc::clone(self), ticket, grant))
                }
                Verdict::Queued { ticket } => {
                    Ok(Permit::waiting(Arc::clone(self), ticket, inner.expect(ticket)))
                }
                Verdict::Refused { reason, retry_after } => {
                    let fault = Fault::from(reason);
                    Err(Refused { fault, retry_after: Some(retry_after) })
                }
            }
        })
    }

    /// Wakes the core at its deadlines. Never returns.
    pub(crate) async fn keep_time(&self) {
        loop {
            let wakes_at = self.inner().wakes_at;
            let timer = async {
                match wakes_at {
                    Some(time) => tokio::time::sleep_until(self.clock.instant(time)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = timer => self.with(Controller::wake),
                () = self.wake.notified() => {}
            }
        }
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        // A panic under the lock is a fault of one request; the core checks its own arguments.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked<T>(&self, act: impl FnOnce(&mut Inner, Time) -> T) -> T {
        self.locked_at(self.clock.now(), act)
    }

    /// The same at a time that the caller has read already.
    fn locked_at<T>(&self, now: Time, act: impl FnOnce(&mut Inner, Time) -> T) -> T {
        let mut inner = self.inner();
        inner.catch_up(now);
        let answer = act(&mut inner, now);
        let deliveries = inner.deliveries(now);
        let earlier = inner.reset_wake();
        drop(inner);
        if earlier {
            self.wake.notify_one();
        }
        #[cfg(test)]
        let deliveries = self.hold(deliveries);
        deliveries.into_iter().for_each(deliver);
        answer
    }
}

/// Wakes a waiting request. A request that was dropped meanwhile is cancelled by its permit.
fn deliver((waiter, outcome): Delivery) {
    let _ = waiter.send(outcome);
}

// === impl Inner ===

impl Inner {
    fn ask(&mut self, intent: &Intent, target: Target, arrived: Time, now: Time) -> Ask {
        let flow = self.controller.flow(&intent.flow, intent.class);
        let workload = intent.workload.given().unwrap_or_default();
        let id = self.controller.workload(workload, now);
        let prefers = &intent.preferences;
        Ask {
            band: intent.band,
            cost: intent.cost,
            prompt: intent.prompt,
            tokens: intent.tokens,
            streamed: intent.streamed,
            workload: Workload { id, criticality: intent.criticality },
            ttl: intent.ttl,
            deadline: prefers.deadline.map(|deadline| arrived.after(deadline)),
            objective: prefers.slo_ttft,
            latency_max: prefers.latency_max,
            latency_critical: prefers.latency_critical,
            power_max: prefers.power_max,
            power_efficient: prefers.power_efficient,
            session: intent.session,
            flow_session: intent.flow_session,
            adapter: target.adapter,
            ..Ask::new(flow, target.model)
        }
    }

    fn expect(&mut self, ticket: Ticket) -> oneshot::Receiver<Outcome> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(ticket, sender);
        receiver
    }

    /// The outcomes of requests that have waited.
    fn deliveries(&mut self, now: Time) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while let Some(event) = self.controller.poll_event() {
            let (ticket, outcome) = self.outcome(event, now);
            if let Some(waiter) = self.waiting.remove(&ticket) {
                deliveries.push((waiter, outcome));
            }
        }
        deliveries
    }

    fn grant(
        &mut self,
        (ticket, backend): (Ticket, BackendId),
        waited: Span,
        at: Time,
    ) -> Box<Grant> {
        let choice = self.controller.choice(ticket);
        let urgency = self.controller.urgency(ticket, at);
        Box::new(Grant { backend, choice, urgency, waited, at })
    }

    fn outcome(&mut self, event: Event, now: Time) -> (Ticket, Outcome) {
        match event {
            Event::Granted { ticket, backend, waited } => {
                (ticket, Ok(self.grant((ticket, backend), waited, now)))
            }
            Event::Evicted { ticket, reason, retry_after } => {
                let fault = Fault::from(reason);
                (ticket, Err(Refused { fault, retry_after: Some(retry_after) }))
            }
        }
    }

    /// Does what has been due. While nothing waits nobody would notice it earlier.
    fn catch_up(&mut self, now: Time) {
        if self.due.is_some_and(|due| due <= now) {
            self.controller.wake(now);
        }
    }

    /// Notes the next deadline. Returns whether the timekeeper must be told, because it is earlier
    /// than the one before. Without requests that wait it sleeps: to wake it for each request that
    /// passes by would take a switch between threads.
    fn reset_wake(&mut self) -> bool {
        self.due = self.controller.next_wake();
        let next = self.due.filter(|_| self.controller.depth() > 0);
        let was = std::mem::replace(&mut self.wakes_at, next);
        match (was, next) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(was), Some(next)) => next < was,
        }
    }
}
