//! The dispatch budget: how much batch work a reading of a gate allows (D02 to D06).
//!
//! A gate reports the free share *D* of a system, from 0 to 1. Up to a baseline *B* the gate is
//! closed. Above it, the reading allows
//!
//! ```text
//! N = max_SYS × (D − B)
//! ```
//!
//! A reading describes one moment. Requests that were sent or have ended since then are not in it,
//! so the budget counts on from the reading: *D* is the share that is free now, by the last reading
//! and all that we know since. Every caller sees the same count. That is the difference between a
//! budget and a gate that many workers read at the same time.
//!
//! * A *measured* reading includes our own requests. With `shown` of them in the reading and `held`
//!   in flight now, `N + shown − held` may go: each request that is sent takes a place, and each
//!   that ends frees one at once. *N* may be negative: then as much must end first.
//! * A *stated* reading is a given number and does not include them: `N − held` may go.
//!
//! How many of our requests a measured reading shows is not known exactly. The reading is from some
//! moment between `at − lag` and `at`, requests need time to reach the system, and so does the news
//! of their end. The number lies between the requests that were certainly there and all that were
//! in flight. Within this range the budget takes the number that leaves the load of others,
//! `max_SYS × (1 − D) − shown`, nearest to its last value; before that is known, the least number.
//! So the same reading reported again allows nothing new, and a burst is counted correctly whether
//! the reading includes it or not. A reading must be reported no sooner than the time in transit
//! after `at`, when every end before `at` is known.
//!
//! *N* is rounded down, and the fraction of a measured reading is carried to the next one. Above
//! the baseline at least one request may always go. A request larger than the whole budget goes
//! alone. Several gates are several budgets, and [`take_all`] takes from all of them.

mod congestion;
mod in_flight_history;
mod share;

use congestion::Congestion;
pub use congestion::Refusal;
use in_flight_history::{InFlightHistory, ReadingWindow};
pub use share::Share;

use crate::range::{Checked, check};
use crate::time::{Span, Time};

/// The largest size of a system and of a request, in any unit.
const SYSTEM_MAX: f64 = 1e15;
const SIZE_MAX: u64 = SYSTEM_MAX as u64;
/// Numbers that differ by less than this are equal: readings are quotients.
const ROUNDING: f64 = 1e-9;

/// Whether a gate's readings include our own requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// They do: the gate measures how full a system is.
    Measured {
        /// The longest time that a request needs to reach the system, or the news of its end to
        /// come back.
        transit: Span,
        /// Whether the size of the system bounds all requests in flight. Then our own requests
        /// alone never exceed the threshold, however late a reading shows them.
        all: bool,
    },
    /// They do not: the reading is a constant, or a number that an operator sets.
    Stated,
}

/// The settings of a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetSettings {
    basis: Basis,
    baseline: f64,
    /// The largest age of a reading.
    stale_after: Span,
    /// The shortest pause after the gateway reported that it is full.
    hold: Span,
}

/// The reading of a gate at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateReading {
    /// The free share of the system: 1 if all of it is free, 0 or less if nothing is.
    pub free: f64,
    /// The size of the whole system, in the unit of the budget.
    pub system: f64,
    /// The latest moment that the reading can be from.
    pub at: Time,
    /// How much older than `at` the reading may be.
    pub lag: Span,
}

/// The budget of one gate.
#[derive(Clone, Debug)]
pub struct Budget {
    settings: BudgetSettings,
    share: Share,
    reading: Option<GateReading>,
    /// The whole budget by the last reading, for all dispatchers, and how much of our own load that
    /// reading shows.
    total: i64,
    shown: u64,
    /// The fraction that was cut off by rounding.
    carried: f64,
    /// The load of others by the last reading.
    others: Option<f64>,
    history: InFlightHistory,
    congestion: Congestion,
}

/// How much may go now, or why nothing may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowance {
    /// This much, in the unit of the budget.
    Left(u64),
    /// There is no reading, or the gate can no longer be read.
    NoReading,
    /// The last reading is this old.
    Stale(Span),
    /// The last reading is not a number.
    Invalid,
    /// The gateway reported that it is full. Nothing goes for at least this long, and not before a
    /// reading that was made later.
    Congested(Span),
    /// The free share is at or below the baseline, and our own load is not what keeps it there:
    /// nothing goes before a newer reading.
    Closed,
    /// The budget is too small for every dispatcher to have a part of it.
    NoShare,
    /// Our own requests fill the system up to the baseline, or up to the budget: the next one goes
    /// when enough of them have ended.
    Spent,
}

// === impl BudgetSettings ===

impl BudgetSettings {
    /// Settings for a gate that is closed up to `baseline`, whose readings are valid for
    /// `stale_after`, and that closes for at least `hold` when the gateway is full.
    pub fn new(basis: Basis, baseline: f64, stale_after: Span, hold: Span) -> Checked<Self> {
        check((0.0..=1.0).contains(&baseline), "baseline", baseline, "0 to 1")?;
        Ok(Self { basis, baseline, stale_after, hold })
    }

    /// How much a reading allows, not rounded, and negative if there is too much load already;
    /// `None` if the reading is not a number.
    pub fn allows(&self, reading: &GateReading) -> Option<f64> {
        let GateReading { free, system, .. } = *reading;
        let sense = free.is_finite() && system.is_finite();
        let exact = (free.min(1.0) - self.baseline) * system.clamp(0.0, SYSTEM_MAX);
        sense.then(|| exact.clamp(-SYSTEM_MAX, SYSTEM_MAX))
    }

    /// The load at which the gate closes, for a system of this size.
    pub fn closes_at(&self, system: f64) -> f64 {
        system * (1.0 - self.baseline)
    }

    /// The most of our own load that may be in flight, whatever the load of others; at least one.
    fn most(&self, reading: &GateReading) -> i64 {
        let most = self.closes_at(reading.system.clamp(0.0, SYSTEM_MAX)) + ROUNDING;
        (most as i64).max(1)
    }
}

// === impl GateReading ===

impl GateReading {
    /// The earliest moment that the reading can be from.
    fn made_after(&self) -> Time {
        Time::from_nanos(self.at.nanos().saturating_sub(self.lag.nanos()))
    }
}

// === impl Budget ===

impl Budget {
    /// A budget that allows nothing before the first reading.
    pub fn new(settings: BudgetSettings) -> Self {
        Self {
            settings,
            share: Share::WHOLE,
            reading: None,
            total: 0,
            shown: 0,
            carried: 0.0,
            others: None,
            history: InFlightHistory::remembering(memory(settings.stale_after)),
            congestion: Congestion::default(),
        }
    }

    /// Sets how long a reading is valid from now on, also the last one. Some sources learn it.
    pub fn valid_for(&mut self, stale_after: Span) {
        self.settings.stale_after = stale_after;
        self.history.remember(memory(stale_after));
    }

    /// The largest age of a reading.
    pub fn stale_after(&self) -> Span {
        self.settings.stale_after
    }

    /// Sets the share of this dispatcher.
    pub fn share(&mut self, share: Share) {
        self.share = share;
    }

    /// Takes a reading. A reading that is not newer than the last changes nothing.
    pub fn read(&mut self, reading: GateReading) {
        if self.reading.is_some_and(|last| reading.at <= last.at) {
            return;
        }
        self.reading = Some(reading);
        let exact = self.settings.allows(&reading);
        // Where nothing serves, the end of one of our requests makes no room for another.
        let serves = reading.system > 0.0;
        self.shown = match (self.settings.basis, exact) {
            (Basis::Measured { transit, .. }, Some(_)) if serves => self.seen_in(&reading, transit),
            _ => 0,
        };
        let total = exact.map_or(0, |exact| self.whole(exact));
        self.total = match self.settings.basis {
            Basis::Measured { all: true, .. } => total.min(self.settings.most(&reading)),
            _ => total,
        };
    }

    /// How much of our own load a reading shows.
    fn seen_in(&mut self, reading: &GateReading, transit: Span) -> u64 {
        let used = (1.0 - reading.free.min(1.0)) * reading.system.clamp(0.0, SYSTEM_MAX);
        let lag = reading.lag.min(self.settings.stale_after);
        let from = GateReading { lag, ..*reading }.made_after();
        let (least, most) = self.history.seen(ReadingWindow { from, to: reading.at, transit });
        // `as` turns a negative number into zero.
        let likely = |others: f64| (used - others).round() as u64;
        let shown = self.others.map_or(least, |others| likely(others).clamp(least, most));
        self.others = Some(used - shown as f64);
        shown
    }

    /// Rounds the allowance of a reading down.
    fn whole(&mut self, exact: f64) -> i64 {
        if exact <= ROUNDING {
            self.carried = 0.0;
            let debt = (exact + ROUNDING).floor().min(0.0) as i64;
            // A stated budget cannot be negative.
            return if self.settings.basis == Basis::Stated { 0 } else { debt };
        }
        let whole = (exact + self.carried + ROUNDING).floor();
        if self.settings.basis != Basis::Stated {
            self.carried = (exact + self.carried - whole).clamp(0.0, 1.0);
        }
        // Above the baseline one request always goes, or a small system would stand still.
        (whole as i64).max(1)
    }

    /// The gate can no longer be read: the last reading is dropped.
    pub fn unreadable(&mut self) {
        self.reading = None;
        self.others = None;
        self.carried = 0.0;
    }

    /// The gateway refused a request because it is full. Nothing goes before the pause is over and
    /// before a reading that was made after this moment. A stated reading is not made anew by the
    /// system. There the requests that were accepted are replaced when they end, because each
    /// leaves a place.
    pub fn congested(&mut self, refusal: Refusal, now: Time) {
        let context = (self.settings.hold, self.history.size());
        self.congestion.refused(refusal, context, now);
    }

    /// The gateway accepted a request: the next pause is short again.
    pub fn accepted(&mut self) {
        self.congestion.accepted();
    }

    /// How much may go now.
    pub fn allowance(&self, now: Time) -> Allowance {
        let Some(reading) = self.reading else { return Allowance::NoReading };
        let age = now.since(reading.at);
        if age > self.settings.stale_after {
            return Allowance::Stale(age);
        }
        if self.settings.allows(&reading).is_none() {
            return Allowance::Invalid;
        }
        let congested = Allowance::Congested(self.closed_until().since(now));
        let paused = now < self.closed_until();
        let is_stated = self.settings.basis == Basis::Stated;
        if self.congestion.outdates(reading.made_after()) || (paused && !is_stated) {
            return congested;
        }
        let left = match paused {
            true => self.left().min(self.congestion.replaceable(self.history.size())),
            false => self.left(),
        };
        match u64::try_from(left) {
            _ if self.share.is_none() => Allowance::NoShare,
            Ok(left) if left > 0 => Allowance::Left(left),
            _ if paused => congested,
            _ if self.total > 0 && self.part() == 0 => Allowance::NoShare,
            // However many of our requests end, none may take their place.
            _ if self.part().saturating_add(self.shown as i64) <= 0 => Allowance::Closed,
            _ => Allowance::Spent,
        }
    }

    /// How much the last reading leaves, valid or not; negative if too much is in flight.
    fn left(&self) -> i64 {
        let (shown, held) = (self.shown as i64, self.history.size() as i64);
        let by_reading = self.part().saturating_add(shown).saturating_sub(held);
        match (self.settings.basis, &self.reading) {
            (Basis::Measured { all: true, .. }, Some(reading)) => {
                by_reading.min(self.share.part(self.settings.most(reading)).saturating_sub(held))
            }
            _ => by_reading,
        }
    }

    /// Whether a request of this size may go now. A request larger than the whole budget may go
    /// when no other request of ours is in flight.
    pub fn check(&self, size: u64, now: Time) -> Result<(), Allowance> {
        let allowance = self.allowance(now);
        let Allowance::Left(left) = allowance else { return Err(allowance) };
        let alone = self.history.count() == 0;
        if size <= left || alone { Ok(()) } else { Err(allowance) }
    }

    /// Takes this much from the budget, if it may go now.
    pub fn take(&mut self, size: u64, now: Time) -> Result<(), Allowance> {
        self.check(size, now)?;
        self.history.take(size.min(SIZE_MAX), now);
        Ok(())
    }

    /// A request of this size has ended.
    pub fn ended(&mut self, size: u64, now: Time) {
        self.history.ended(size.min(SIZE_MAX), now);
    }

    /// The number of our requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.history.count()
    }

    /// The total size of our requests in flight.
    pub fn held(&self) -> u64 {
        self.history.size()
    }

    /// Our part of the budget by the last reading; negative if as much must end first.
    pub fn part(&self) -> i64 {
        self.share.part(self.total)
    }

    /// How much of that part is taken: the load in flight that the reading does not show.
    pub fn taken(&self) -> i64 {
        self.history.size() as i64 - self.shown as i64
    }

    /// The last reading.
    pub fn reading(&self) -> Option<&GateReading> {
        self.reading.as_ref()
    }

    /// When the pause after the last congestion is over. A newer reading is needed as well.
    pub fn closed_until(&self) -> Time {
        self.congestion.closed_until()
    }
}

/// How long the load is remembered: a valid reading is at most `stale_after` old, and may lag as
/// much again.
fn memory(stale_after: Span) -> Span {
    Span::from_nanos(stale_after.nanos().saturating_mul(2))
}

/// Takes from several budgets, each in its own unit: from all of them, or from none. The error has
/// the index of the budget that refused, and the reason.
pub fn take_all(budgets: &mut [(&mut Budget, u64)], now: Time) -> Result<(), (usize, Allowance)> {
    for (at, (budget, size)) in budgets.iter().enumerate() {
        budget.check(*size, now).map_err(|why| (at, why))?;
    }
    for (budget, size) in budgets {
        budget.history.take((*size).min(SIZE_MAX), now);
    }
    Ok(())
}
