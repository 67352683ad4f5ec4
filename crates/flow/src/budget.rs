//! The dispatch budget: how much batch work may go into what is left (D02 to D06).
//!
//! A gate says how much of the system is free, *D* from 0 to 1. Up to a baseline *B* it is closed;
//! above it so much more may go:
//!
//! ```text
//! N = max_SYS × (D − B)
//! ```
//!
//! What a reading says is of a moment, and what we sent or saw end since then is not in it. So it
//! is counted on from there, and whoever asks sees the same count: that is the difference between a
//! budget and a gate that many look through at once.
//!
//! * A *measured* reading has our own requests in it. With `shown` of them in it and `held` under
//!   way now, `N + shown − held` may go: each that goes takes a place, and each that ends gives one
//!   back at once. *N* may be below zero: then as much must end first.
//! * A *stated* one is a number that somebody gave, and has not: `N − held` may go.
//!
//! How much of ours a measured reading shows is not known exactly: it is of some moment between
//! `at − lag` and `at`, requests are on their way there, and the news of their end on its way back.
//! It lies between what was surely there and all that was under way. Of that the budget takes what
//! leaves the others' load, `max_SYS × (1 − D) − shown`, nearest to what it was; before anything is
//! known of the others, the least. So the same reading told again allows nothing new, and neither a
//! burst that it missed nor one that it saw is counted wrong. It must be told no sooner than the
//! time in transit after `at`, when all that had ended by then is known.
//!
//! *N* is rounded down, and what was cut off a measured one is carried to the next; above the
//! baseline at least one request may always go. One that is larger than all that is allowed goes
//! alone. Several gates are several budgets, and [`take_all`] asks them all.

mod in_flight_history;

use in_flight_history::{InFlightHistory, ReadingWindow};

use crate::range::{Checked, check};
use crate::time::{Span, Time};

/// The most a system can have at once, and the largest request, in whatever unit.
const SYSTEM_MAX: f64 = 1e15;
const SIZE_MAX: u64 = SYSTEM_MAX as u64;
/// Numbers that differ by less than this are the same: readings are quotients.
const ROUNDING: f64 = 1e-9;

/// What a gate's readings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// They contain our own requests, as how full something is does.
    Measured {
        /// How long a request may be on its way there, or the news of its end on its way back.
        transit: Span,
        /// Whether the system's size is that of all that can be under way. Then ours alone never
        /// pass the threshold, however late what they do shows up in a reading.
        all: bool,
    },
    /// They do not: a constant, a number that somebody keeps.
    Stated,
}

/// How readings become budgets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetSettings {
    basis: Basis,
    baseline: f64,
    /// How old a reading may be.
    stale_after: Span,
    /// How long nothing is sent at least after the gateway was full.
    hold: Span,
}

/// What a gate says of one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateReading {
    /// The free share of the system: 1 for all of it, 0 or less for nothing.
    pub free: f64,
    /// What the whole system can have at once, in the unit of the budget.
    pub system: f64,
    /// When that was so, at the latest.
    pub at: Time,
    /// By how much earlier it may have been.
    pub lag: Span,
}

/// Which part of every budget is ours, where several dispatchers look at the same system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    rank: u32,
    of: u32,
}

/// How much may go by one gate.
#[derive(Clone, Debug)]
pub struct Budget {
    settings: BudgetSettings,
    share: Share,
    reading: Option<GateReading>,
    /// What the reading allows, for all who share it, and of ours it shows so much.
    total: i64,
    shown: u64,
    /// What was cut off when it was rounded.
    carried: f64,
    /// The load of others by the last reading.
    others: Option<f64>,
    history: InFlightHistory,
    /// Nothing goes before this moment, nor by a reading from before the other.
    closed_until: Time,
    congested_at: Option<Time>,
}

/// How much may go, or why nothing may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowance {
    /// So much, in the unit of the budget.
    Left(u64),
    /// Nothing has been read, or nothing can be any more.
    NoReading,
    /// What was read is so old.
    Stale(Span),
    /// What was read is not a number.
    Invalid,
    /// The gateway was full. So long at least nothing goes, and not before a newer reading.
    Congested(Span),
    /// The free share is at or below the baseline.
    Closed,
    /// What may go is too little for every dispatcher to have a part of it.
    NoShare,
    /// All that may go is under way.
    Spent,
}

// === impl BudgetSettings ===

impl BudgetSettings {
    /// A law that is closed up to `baseline`, believes readings for `stale_after`, and closes for
    /// `hold` at least when the gateway was full.
    pub fn new(basis: Basis, baseline: f64, stale_after: Span, hold: Span) -> Checked<Self> {
        check((0.0..1.0).contains(&baseline), "baseline", baseline, "0 to less than 1")?;
        Ok(Self { basis, baseline, stale_after, hold })
    }

    /// How much a reading allows, not rounded, and below zero where there is too much already;
    /// nothing where it makes no sense.
    pub fn allows(&self, reading: &GateReading) -> Option<f64> {
        let GateReading { free, system, .. } = *reading;
        let sense = free.is_finite() && system.is_finite();
        let exact = (free.min(1.0) - self.baseline) * system.clamp(0.0, SYSTEM_MAX);
        sense.then(|| exact.clamp(-SYSTEM_MAX, SYSTEM_MAX))
    }

    /// The load at which it closes, if the system can have so much.
    pub fn closes_at(&self, system: f64) -> f64 {
        system * (1.0 - self.baseline)
    }

    /// The most of ours that may be under way by a reading, whatever others do; at least one.
    fn most(&self, reading: &GateReading) -> i64 {
        let most = self.closes_at(reading.system.clamp(0.0, SYSTEM_MAX)) + ROUNDING;
        (most as i64).max(1)
    }
}

// === impl Share ===

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self { rank: 0, of: 1 };

    /// The part of the dispatcher with this rank, from 0 on, of so many. A rank beyond the last has
    /// none.
    pub const fn new(rank: u32, of: u32) -> Self {
        Self { rank, of: if of == 0 { 1 } else { of } }
    }

    const fn is_none(self) -> bool {
        self.rank >= self.of
    }

    /// Its part of a whole. The parts of all ranks add up to it.
    pub fn part(self, total: i64) -> i64 {
        if self.is_none() {
            return 0;
        }
        let of = i64::from(self.of);
        total.div_euclid(of) + i64::from(i64::from(self.rank) < total.rem_euclid(of))
    }
}

// === impl Budget ===

impl Budget {
    /// Nothing may go before the first reading.
    pub fn new(settings: BudgetSettings) -> Self {
        Self {
            settings,
            share: Share::WHOLE,
            reading: None,
            total: 0,
            shown: 0,
            carried: 0.0,
            others: None,
            // A reading that is believed is no older than this, and may lag as much again.
            history: InFlightHistory::remembering(Span::from_nanos(
                settings.stale_after.nanos().saturating_mul(2),
            )),
            closed_until: Time::ZERO,
            congested_at: None,
        }
    }

    /// From now on so much of it is ours.
    pub fn share(&mut self, share: Share) {
        self.share = share;
    }

    /// Takes a reading. One that is no newer than the last changes nothing.
    pub fn read(&mut self, reading: GateReading) {
        if self.reading.is_some_and(|last| reading.at <= last.at) {
            return;
        }
        self.reading = Some(reading);
        let exact = self.settings.allows(&reading);
        self.shown = match (self.settings.basis, exact) {
            (Basis::Measured { transit, .. }, Some(_)) => self.seen_in(&reading, transit),
            _ => 0,
        };
        let total = exact.map_or(0, |exact| self.whole(exact));
        self.total = match self.settings.basis {
            Basis::Measured { all: true, .. } => total.min(self.settings.most(&reading)),
            _ => total,
        };
    }

    /// How much of ours a reading shows.
    fn seen_in(&mut self, reading: &GateReading, transit: Span) -> u64 {
        let used = (1.0 - reading.free.min(1.0)) * reading.system.clamp(0.0, SYSTEM_MAX);
        let lag = reading.lag.min(self.settings.stale_after);
        let from = Time::from_nanos(reading.at.nanos().saturating_sub(lag.nanos()));
        let (least, most) = self.history.seen(ReadingWindow { from, to: reading.at, transit });
        // `as` takes what is below zero for zero.
        let likely = |others: f64| (used - others).round() as u64;
        let shown = self.others.map_or(least, |others| likely(others).clamp(least, most));
        self.others = Some(used - shown as f64);
        shown
    }

    /// Rounds down what a reading allows.
    fn whole(&mut self, exact: f64) -> i64 {
        if exact <= ROUNDING {
            self.carried = 0.0;
            let debt = (exact + ROUNDING).floor().min(0.0) as i64;
            // A level that is stated cannot be owed.
            return if self.settings.basis == Basis::Stated { 0 } else { debt };
        }
        let whole = (exact + self.carried + ROUNDING).floor();
        if self.settings.basis != Basis::Stated {
            self.carried = (exact + self.carried - whole).clamp(0.0, 1.0);
        }
        // Above the baseline something always goes, or a small system would stand still.
        (whole as i64).max(1)
    }

    /// Nothing can be read any more: what was read before no longer counts.
    pub fn unreadable(&mut self) {
        self.reading = None;
        self.others = None;
        self.carried = 0.0;
    }

    /// The gateway said that it is full, perhaps until when. Nothing goes before that, before the
    /// hold is over, and before a reading from after this moment.
    pub fn congested(&mut self, retry_after: Option<Span>, now: Time) {
        let pause = retry_after.unwrap_or(Span::ZERO).max(self.settings.hold);
        self.closed_until = self.closed_until.max(now.after(pause));
        self.congested_at = Some(self.congested_at.map_or(now, |before| before.max(now)));
    }

    /// What may go now.
    pub fn allowance(&self, now: Time) -> Allowance {
        let Some(reading) = self.reading else { return Allowance::NoReading };
        let age = now.since(reading.at);
        if age > self.settings.stale_after {
            return Allowance::Stale(age);
        }
        if self.settings.allows(&reading).is_none() {
            return Allowance::Invalid;
        }
        let outdated = self.congested_at.is_some_and(|at| reading.at <= at);
        if outdated || now < self.closed_until {
            return Allowance::Congested(self.closed_until.since(now));
        }
        match u64::try_from(self.left()) {
            _ if self.share.is_none() => Allowance::NoShare,
            Ok(left) if left > 0 => Allowance::Left(left),
            _ if self.total <= 0 => Allowance::Closed,
            _ if self.part() == 0 => Allowance::NoShare,
            _ => Allowance::Spent,
        }
    }

    /// What would go by the last reading, were it believed; below zero where too much is under way.
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

    /// Whether a request of this size may go now. One that is larger than all that is allowed may
    /// when nothing else of ours is under way.
    pub fn check(&self, size: u64, now: Time) -> Result<(), Allowance> {
        let allowance = self.allowance(now);
        let Allowance::Left(left) = allowance else { return Err(allowance) };
        let alone = self.history.count() == 0;
        if size <= left || alone { Ok(()) } else { Err(allowance) }
    }

    /// Takes this much, if it may go now.
    pub fn take(&mut self, size: u64, now: Time) -> Result<(), Allowance> {
        self.check(size, now)?;
        self.history.take(size.min(SIZE_MAX), now);
        Ok(())
    }

    /// Something of this size that was taken has ended.
    pub fn ended(&mut self, size: u64, now: Time) {
        self.history.ended(size.min(SIZE_MAX), now);
    }

    /// How many requests that were taken have not ended.
    pub fn in_flight(&self) -> u64 {
        self.history.count()
    }

    /// How large they are together.
    pub fn held(&self) -> u64 {
        self.history.size()
    }

    /// Our part of what the last reading allowed; below zero where so much must end first.
    pub fn part(&self) -> i64 {
        self.share.part(self.total)
    }

    /// How much of that is taken: what is under way and not in the reading.
    pub fn taken(&self) -> i64 {
        self.history.size() as i64 - self.shown as i64
    }

    /// The last reading.
    pub fn reading(&self) -> Option<&GateReading> {
        self.reading.as_ref()
    }

    /// When the gateway's last word that it is full is over, as far as time alone ends it.
    pub fn closed_until(&self) -> Time {
        self.closed_until
    }
}

/// Takes from several budgets, each in its own unit: from all of them, or from none. Says which one
/// does not allow it, by its place, and why.
pub fn take_all(budgets: &mut [(&mut Budget, u64)], now: Time) -> Result<(), (usize, Allowance)> {
    for (at, (budget, size)) in budgets.iter().enumerate() {
        budget.check(*size, now).map_err(|why| (at, why))?;
    }
    for (budget, size) in budgets {
        budget.history.take((*size).min(SIZE_MAX), now);
    }
    Ok(())
}
