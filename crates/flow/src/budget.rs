//! The dispatch budget: how much batch work may go into what is left (D02 to D06).
//!
//! A gate says how much of the system is free, *D* from 0 to 1. Below a baseline *B* it is closed;
//! above it so much may go:
//!
//! ```text
//! N = max_SYS × (D − B)
//! ```
//!
//! *D* is a reading of a moment, and what was sent since then is not in it. So *N* is counted out:
//! each reading allows *N*, what is sent is taken off, and a reading that repeats itself allows
//! nothing more. That is the difference between a budget and a gate that many look through at once:
//! it cannot be overrun, however many ask.
//!
//! *N* is rounded down, and what was cut off is carried to the next reading; above the baseline at
//! least one request may always go. One that is larger than any budget goes alone.

use crate::range::{Checked, check};
use crate::time::{Span, Time};

/// The most a system can have at once, in whatever unit.
const SYSTEM_MAX: f64 = 1e15;
/// Fractions that come short of a whole by less than this are whole: readings are quotients.
const ROUNDING: f64 = 1e-9;

/// How readings become budgets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetLaw {
    baseline: f64,
    /// How old a reading may be.
    stale_after: Span,
    /// How long nothing is sent at least after the gateway was full.
    hold: Span,
}

/// What a gate says of one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateReading {
    /// The free share of the system, from 0 to 1.
    pub free: f64,
    /// What the whole system can have at once, in the unit of the budget.
    pub system: f64,
    /// When that was so.
    pub at: Time,
}

/// How much may go. One for each reading, whoever sends.
#[derive(Clone, Debug)]
pub struct Budget {
    law: BudgetLaw,
    reading: Option<GateReading>,
    /// Allowed by the last reading, and what was cut off when it was rounded.
    allowed: u64,
    carried: f64,
    /// Sent since the last reading, and whatever has not ended yet: sizes, and how many.
    sent: u64,
    in_flight: u64,
    /// Nothing goes before this moment, nor by a reading from before the other.
    closed_until: Time,
    congested_at: Option<Time>,
}

/// Why nothing may go, or how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowance {
    /// So much of the last reading is left, in the unit of the budget.
    Left(u64),
    /// Nothing has been read yet.
    Unread,
    /// What was read is so old.
    Stale(Span),
    /// The free share is at or below the baseline.
    Closed,
    /// The gateway was full, and no newer reading says otherwise yet.
    Congested,
    /// All that the last reading allowed has been sent.
    Spent,
}

// === impl BudgetLaw ===

impl BudgetLaw {
    /// A law that is closed up to `baseline` and believes readings for `stale_after`.
    pub fn new(baseline: f64, stale_after: Span, hold: Span) -> Checked<Self> {
        check((0.0..1.0).contains(&baseline), "baseline", baseline, "0 to less than 1")?;
        Ok(Self { baseline, stale_after, hold })
    }

    /// How much a reading allows, not rounded; nothing where it is closed or makes no sense.
    pub fn allows(&self, reading: &GateReading) -> f64 {
        let GateReading { free, system, .. } = *reading;
        if !free.is_finite() || !system.is_finite() {
            return 0.0;
        }
        let spare = free.clamp(0.0, 1.0) - self.baseline;
        spare.max(0.0) * system.clamp(0.0, SYSTEM_MAX)
    }
}

// === impl Budget ===

impl Budget {
    /// Nothing may go before the first reading.
    pub fn new(law: BudgetLaw) -> Self {
        Self {
            law,
            reading: None,
            allowed: 0,
            carried: 0.0,
            sent: 0,
            in_flight: 0,
            closed_until: Time::ZERO,
            congested_at: None,
        }
    }

    /// Takes a reading. One that is no newer than the last changes nothing: what it allowed was
    /// counted out already.
    pub fn read(&mut self, reading: GateReading) {
        if self.reading.is_some_and(|last| reading.at <= last.at) {
            return;
        }
        let exact = self.law.allows(&reading);
        let whole = (exact + self.carried + ROUNDING).floor();
        self.carried =
            if exact > 0.0 { (exact + self.carried - whole).clamp(0.0, 1.0) } else { 0.0 };
        // Above the baseline something always goes, or a small system would stand still.
        self.allowed = if exact > 0.0 { (whole as u64).max(1) } else { 0 };
        self.sent = 0;
        self.reading = Some(reading);
    }

    /// Nothing can be read any more: what was read before no longer counts.
    pub fn unreadable(&mut self) {
        self.reading = None;
        self.allowed = 0;
    }

    /// The gateway said that it is full, perhaps until when. Nothing goes before that, before the
    /// hold is over, and before a reading from after this moment.
    pub fn congested(&mut self, retry_after: Option<Span>, now: Time) {
        let pause = retry_after.unwrap_or(Span::ZERO).max(self.law.hold);
        self.closed_until = self.closed_until.max(now.after(pause));
        self.congested_at = Some(self.congested_at.map_or(now, |before| before.max(now)));
    }

    /// What may go now.
    pub fn allowance(&self, now: Time) -> Allowance {
        let Some(reading) = self.reading else { return Allowance::Unread };
        let age = now.since(reading.at);
        if age > self.law.stale_after {
            return Allowance::Stale(age);
        }
        let outdated = self.congested_at.is_some_and(|at| reading.at <= at);
        if outdated || now < self.closed_until {
            return Allowance::Congested;
        }
        if self.allowed == 0 {
            return Allowance::Closed;
        }
        match self.allowed.saturating_sub(self.sent) {
            0 => Allowance::Spent,
            left => Allowance::Left(left),
        }
    }

    /// Takes this much off, if it may go now. A request that is larger than all that is allowed
    /// goes when nothing else of ours is under way.
    pub fn take(&mut self, size: u64, now: Time) -> Result<(), Allowance> {
        let allowance = self.allowance(now);
        let Allowance::Left(left) = allowance else { return Err(allowance) };
        let alone = size > self.allowed && self.in_flight == 0 && self.sent == 0;
        if size > left && !alone {
            return Err(allowance);
        }
        self.sent = self.sent.saturating_add(size);
        self.in_flight += 1;
        Ok(())
    }

    /// Something that was taken has ended.
    pub fn ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// How many that were taken have not ended.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The last reading.
    pub fn reading(&self) -> Option<&GateReading> {
        self.reading.as_ref()
    }
}

/// Several gates as one: the least free of them decides, and the oldest says how old it is. Nothing
/// where one of them cannot be read.
pub fn least(readings: &[Option<GateReading>]) -> Option<GateReading> {
    let mut all = readings.iter().copied();
    let first = all.next()??;
    all.try_fold(first, |least, reading| {
        let reading = reading?;
        // What is not a number must not win by comparing as nothing does.
        let free = if reading.free < least.free || !reading.free.is_finite() {
            reading.free
        } else {
            least.free
        };
        let system = least.system.min(reading.system);
        Some(GateReading { free, system, at: least.at.min(reading.at) })
    })
}
