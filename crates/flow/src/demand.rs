//! The demand for the backends of a domain, and the number of backends that it needs.
//!
//! Two rates are measured. The cost that arrives is corrected when the actual cost of an ask is
//! known, so that estimates which are too high ask for no backend. The cost that one backend
//! completes is measured only while asks wait: a backend that is not full completes what comes,
//! which says nothing about how much it could carry. It is remembered while no ask waits, so that
//! fewer backends can be asked for.
//!
//! The number follows the present demand and nothing else. How fast a fleet may shrink is for the
//! autoscaler to decide, which has a rule for it. So it must never be read as a command.

use crate::time::{Span, Time};

/// The time constant of both rates. An autoscaler asks about every 15 s, and a backend takes a
/// minute or more to start, so a shorter one would follow bursts that are over by then.
const MEMORY_SECS: f64 = 60.0;
/// Costs are collected for this long before they change a rate.
const SAMPLE: Span = Span::from_secs(1);
/// What one backend carries counts once it was measured for this long.
const MEASURED_SECS: f64 = 10.0;
/// The time that an ask is assumed to take while nothing has ended yet.
const SERVICE_SECS: f64 = 1.0;
/// The most backends that are ever wanted.
const WANTED_MAX: f64 = 100_000.0;

/// What an operator wants of the number of backends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleGoal {
    /// The share of what a backend can carry that arrivals should use: the rest is room for bursts
    /// until another backend has started.
    pub utilization: f64,
    /// The time in which the waiting asks should be gone.
    pub drain: Span,
}

/// The demand for the backends of a domain at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Cost that arrives per second, of late.
    pub arriving: f64,
    /// Cost of the waiting asks.
    pub backlog: f64,
    /// Asks waiting.
    pub waiting: u32,
    /// Asks in flight.
    pub in_flight: u32,
    /// Backends that are ready.
    pub ready: u32,
    /// Cost per second that one backend completes while asks wait, once it was measured.
    pub carried: Option<f64>,
    /// Asks that fill one backend, if known.
    pub places: Option<f64>,
    /// Cost per second that all of them complete now, while asks wait.
    pub draining: Option<f64>,
    /// For how long nothing has been completed while asks wait.
    pub stalled: Span,
    /// The time since an ask last arrived, if one ever did.
    pub since_arrival: Option<Span>,
}

/// Measures the demand of one domain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DemandMeter {
    arrived: Rate,
    last_arrival: Option<Time>,
    /// Cost completed since the last sample; no sample has begun before a first completion,
    /// because a backend that has just started has nothing to complete yet.
    completed: u64,
    since: Option<Time>,
    past_cost: f64,
    past_backend_secs: f64,
    /// The last known number of asks that fill one backend.
    pub(crate) places: Option<f64>,
}

/// A moving mean of cost per second.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    cost: i64,
    since: Time,
    past_cost: f64,
    past_secs: f64,
}

// === impl ScaleGoal ===

impl Default for ScaleGoal {
    fn default() -> Self {
        Self { utilization: 0.8, drain: Span::from_secs(60) }
    }
}

// === impl Demand ===

impl Demand {
    /// Whether an ask waits or is in flight, or one arrived within `quiet`.
    pub fn is_active(&self, quiet: Span) -> bool {
        let alive = self.waiting > 0 || self.in_flight > 0;
        alive || self.since_arrival.is_some_and(|since| since < quiet)
    }

    /// The time until the present backlog has been completed. Before a rate is known, as many asks
    /// at a time as are in flight take as long as nothing has ended.
    pub fn backlog_secs(&self) -> f64 {
        let known = self.carried.map(|each| each * f64::from(self.ready.max(1)));
        match self.draining.or(known) {
            _ if self.waiting == 0 => 0.0,
            Some(rate) if rate > 0.0 => self.backlog / rate,
            _ => {
                let rounds = f64::from(self.waiting) / f64::from(self.in_flight.max(1));
                rounds.ceil() * self.stalled.secs_f64().max(SERVICE_SECS)
            }
        }
    }

    /// The number of backends that the demand needs: enough for what arrives, with room to spare,
    /// and for the backlog within the wanted time. None if nothing has come for a minute and
    /// nothing is left.
    ///
    /// More backends than would take every ask at once are never wanted, so a rate that was
    /// measured badly asks for no thousand of them. Before a rate is known, that number is the
    /// answer: it is the present use of the backends, in backends.
    pub fn wanted(&self, goal: ScaleGoal) -> u32 {
        let alive = f64::from(self.waiting) + f64::from(self.in_flight);
        let recent = |since: Span| since.secs_f64() < MEMORY_SECS;
        if alive == 0.0 && !self.since_arrival.is_some_and(recent) {
            return 0;
        }
        let full = self.places.map(|places| alive / places.max(1.0) / share(goal.utilization));
        let by_rate = self.carried.filter(|&each| each > 0.0).map(|each| {
            let within = goal.drain.secs_f64().max(SAMPLE.secs_f64());
            (self.arriving / share(goal.utilization) + self.backlog / within) / each
        });
        let wanted = match (by_rate, full) {
            // Arrivals that are served at once are not seen in flight.
            (Some(by_rate), Some(full)) => by_rate.min(full.max(1.0)),
            (by_rate, full) => by_rate.or(full).unwrap_or(1.0),
        };
        wanted.ceil().clamp(1.0, WANTED_MAX) as u32
    }
}

fn share(utilization: f64) -> f64 {
    utilization.clamp(0.01, 1.0)
}

// === impl DemandMeter ===

impl DemandMeter {
    /// An ask was offered, whether or not it was taken.
    pub(crate) fn arrived(&mut self, cost: u32, now: Time) {
        if self.last_arrival.is_none() {
            self.arrived.since = now;
        }
        self.last_arrival = Some(now);
        self.arrived.add(i64::from(cost), now);
    }

    /// The cost of an ask differs from its estimate by this much.
    pub(crate) fn corrected(&mut self, difference: i64, now: Time) {
        self.arrived.add(difference, now);
    }

    /// Asks begin to wait, or the backends have changed.
    pub(crate) fn start(&mut self) {
        self.since = None;
    }

    /// An ask of this cost completed while others waited. `ready` counts the ready backends.
    pub(crate) fn completed(&mut self, cost: u32, now: Time, ready: impl FnOnce() -> u32) {
        let Some(since) = self.since else {
            (self.completed, self.since) = (0, Some(now));
            return;
        };
        self.completed += u64::from(cost);
        if now.since(since) < SAMPLE {
            return;
        }
        let secs = now.since(since).secs_f64();
        let kept = (-secs / MEMORY_SECS).exp();
        self.past_cost = self.past_cost * kept + self.completed as f64;
        self.past_backend_secs = self.past_backend_secs * kept + secs * f64::from(ready());
        (self.completed, self.since) = (0, Some(now));
    }

    /// Cost per second that arrives.
    pub(crate) fn arriving(&self, now: Time) -> f64 {
        self.last_arrival.map_or(0.0, |_| self.arrived.at(now))
    }

    /// The time since an ask last arrived, if one ever did.
    pub(crate) fn since_arrival(&self, now: Time) -> Option<Span> {
        self.last_arrival.map(|last| now.since(last))
    }

    /// Cost per second that one backend completes.
    pub(crate) fn carried(&self) -> Option<f64> {
        let measured = self.past_backend_secs >= MEASURED_SECS && self.past_cost > 0.0;
        measured.then(|| self.past_cost / self.past_backend_secs)
    }

    /// Adds the demand of another domain whose backends are now the same.
    pub(crate) fn join(&mut self, other: &Self, now: Time) {
        let more = other.arrived.folded(now);
        match (self.last_arrival, other.last_arrival) {
            (_, None) => {}
            // Nothing was measured here before.
            (None, Some(_)) => self.arrived = more,
            (Some(_), Some(_)) => {
                let arrived = self.arrived.folded(now);
                let past_secs = arrived.past_secs.max(more.past_secs);
                let past_cost = arrived.past_cost + more.past_cost;
                self.arrived = Rate { past_cost, past_secs, ..arrived };
            }
        }
        self.last_arrival = self.last_arrival.max(other.last_arrival);
        self.places = self.places.or(other.places);
        if other.past_backend_secs > self.past_backend_secs {
            (self.past_cost, self.past_backend_secs) = (other.past_cost, other.past_backend_secs);
        }
    }
}

// === impl Rate ===

impl Rate {
    fn add(&mut self, cost: i64, now: Time) {
        self.cost = self.cost.saturating_add(cost);
        if now.since(self.since) >= SAMPLE {
            *self = self.folded(now);
        }
    }

    fn folded(&self, now: Time) -> Self {
        let secs = now.since(self.since).secs_f64();
        let kept = (-secs / MEMORY_SECS).exp();
        Self {
            cost: 0,
            since: now,
            past_cost: (self.past_cost * kept + self.cost as f64).max(0.0),
            past_secs: self.past_secs * kept + secs,
        }
    }

    fn at(&self, now: Time) -> f64 {
        let Self { past_cost, past_secs, .. } = self.folded(now);
        past_cost / past_secs.max(SAMPLE.secs_f64())
    }
}

#[cfg(test)]
mod tests;
