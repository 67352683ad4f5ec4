//! The keeper of the core: one controller behind one short mutex, and those who wait for it.
//!
//! A request holds a [`Seat`] from its offer to its end. Whatever becomes of the request, its seat
//! ends the ask exactly once: settled, or cancelled when it is dropped. Nothing polls: a verb that
//! frees a place grants the next ask in the same call, and its waiter is woken when the lock is
//! free again. The lock is never held across an await, and nothing else is locked under it.

mod seat;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use flow::{
    Ask, BackendId, Controller, Event, ModelId, RouteChoice, Settings, Span, Ticket, Time, Verdict,
    Workload,
};
use tokio::sync::{Notify, oneshot};

use crate::clock::Clock;
use crate::ingress::Intent;
use crate::reply::{Fault, Refused};

pub(crate) use seat::Seat;

/// The controller and those who wait.
#[derive(Debug)]
pub(crate) struct Keeper {
    clock: Clock,
    state: Mutex<State>,
    /// Rung when the sleeper must rise earlier than it meant to.
    alarm: Notify,
}

#[derive(Debug)]
struct State {
    controller: Controller,
    waiting: HashMap<Ticket, oneshot::Sender<Outcome>>,
    /// When the sleeper means to rise.
    rises: Option<Time>,
}

/// What a request's model is in numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) model: ModelId,
    /// The adapter (LoRA) that it needs, where backends have it loaded as one.
    pub(crate) adapter: Option<u32>,
}

/// Where an ask may go, and how it got there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) backend: BackendId,
    /// Why there, where that can be told.
    pub(crate) choice: Option<RouteChoice>,
    /// How long it waited this time, and until when.
    pub(crate) waited: Span,
    pub(crate) at: Time,
}

type Outcome = Result<Grant, Refused>;

/// A waiter and what it is to hear.
type Delivery = (oneshot::Sender<Outcome>, Outcome);

// === impl Keeper ===

impl Keeper {
    pub(crate) fn new(settings: Settings, clock: Clock) -> Self {
        let controller = Controller::new(settings);
        let state = State { controller, waiting: HashMap::new(), rises: None };
        Self { clock, state: Mutex::new(state), alarm: Notify::new() }
    }

    /// Looks at the truth, or tells it something: those whom it concerns hear of it.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Controller, Time) -> T) -> T {
        self.locked(|state, now| act(&mut state.controller, now))
    }

    /// Asks for a place. The time is when the request arrived: its waits count from there.
    pub(crate) fn offer(
        self: &Arc<Self>,
        intent: &Intent,
        target: Target,
        arrived: Time,
    ) -> Result<Seat, Refused> {
        self.locked(|state, now| {
            let ask = state.ask(intent, target, arrived, now);
            match state.controller.offer(ask, now) {
                Verdict::Granted { ticket, backend } => {
                    let choice = state.controller.choice(ticket);
                    let grant = Grant { backend, choice, waited: Span::ZERO, at: now };
                    Ok(Seat::granted(Arc::clone(self), ticket, grant))
                }
                Verdict::Queued { ticket } => {
                    Ok(Seat::waiting(Arc::clone(self), ticket, state.expect(ticket)))
                }
                Verdict::Refused { reason, retry_after } => {
                    let fault = Fault::from(reason);
                    Err(Refused { fault, retry_after: Some(retry_after) })
                }
            }
        })
    }

    /// Lets time pass in the core, for ever.
    pub(crate) async fn keep_time(&self) {
        loop {
            let rises = self.state().rises;
            let timer = async {
                match rises {
                    Some(time) => tokio::time::sleep_until(self.clock.instant(time)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = timer => self.with(Controller::wake),
                () = self.alarm.notified() => {}
            }
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic under the lock is a fault of one request; the core checks its own arguments.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked<T>(&self, act: impl FnOnce(&mut State, Time) -> T) -> T {
        self.locked_at(self.clock.now(), act)
    }

    /// The same for those who have looked at the clock.
    fn locked_at<T>(&self, now: Time, act: impl FnOnce(&mut State, Time) -> T) -> T {
        let mut state = self.state();
        let answer = act(&mut state, now);
        let deliveries = state.deliveries(now);
        let earlier = state.reset_alarm();
        drop(state);
        if earlier {
            self.alarm.notify_one();
        }
        for (waiter, outcome) in deliveries {
            // Whoever left meanwhile cancels by dropping its seat.
            let _ = waiter.send(outcome);
        }
        answer
    }
}

// === impl State ===

impl State {
    fn ask(&mut self, intent: &Intent, target: Target, arrived: Time, now: Time) -> Ask {
        let flow = self.controller.flow(&intent.flow, intent.class);
        let workload = intent.workload.as_deref().unwrap_or_default();
        let id = self.controller.workload(workload, now);
        Ask {
            band: intent.band,
            cost: intent.cost,
            prompt: intent.prompt,
            tokens: intent.tokens,
            streamed: intent.streamed,
            workload: Workload { id, criticality: intent.criticality },
            ttl: intent.ttl,
            deadline: intent.deadline.map(|deadline| arrived.after(deadline)),
            latency_max: intent.latency_max,
            latency_critical: intent.latency_critical,
            session: intent.session,
            adapter: target.adapter,
            ..Ask::new(flow, target.model)
        }
    }

    fn expect(&mut self, ticket: Ticket) -> oneshot::Receiver<Outcome> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(ticket, sender);
        receiver
    }

    /// What those who wait are to hear.
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

    fn outcome(&self, event: Event, now: Time) -> (Ticket, Outcome) {
        match event {
            Event::Granted { ticket, backend, waited } => {
                let choice = self.controller.choice(ticket);
                (ticket, Ok(Grant { backend, choice, waited, at: now }))
            }
            Event::Evicted { ticket, reason, retry_after } => {
                let fault = Fault::from(reason);
                (ticket, Err(Refused { fault, retry_after: Some(retry_after) }))
            }
        }
    }

    /// Notes when the sleeper must rise; says whether it is earlier than it knows.
    fn reset_alarm(&mut self) -> bool {
        let next = self.controller.next_wake();
        let was = std::mem::replace(&mut self.rises, next);
        match (was, next) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(was), Some(next)) => next < was,
        }
    }
}
