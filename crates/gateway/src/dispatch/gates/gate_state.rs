//! What is kept of one gate: its budget, what was seen last, and what is wrong with it.

use flow::aimd::Aimd;
use flow::budget::{Allowance, Budget, BudgetSettings, GateReading};
use flow::start_limiter::{StartAllowance, StartLimiter};
use flow::{Span, Time};

use super::reading::Reading;
use super::source::steady;
use super::status::GateStatus;
use crate::clock::span;
use crate::config::resolved::dispatch::{Gate as GateSettings, Unit};
use crate::ingress::BYTES_PER_TOKEN;

/// See the module's description.
#[derive(Debug)]
pub(super) struct GateState {
    kind: &'static str,
    /// Where it looks, in words.
    source: String,
    law: BudgetSettings,
    pub(super) budget: Budget,
    /// The window of one that looks at its answers.
    pub(super) window: Option<Aimd>,
    /// The start_limiter of one that sees who is about to begin.
    pub(super) start_limiter: Option<StartLimiter>,
    /// What said it last, where that is not always the same.
    by: String,
    /// Why it cannot be read.
    trouble: Option<String>,
    /// Somebody was turned away by it, and has not heard since that it may be open.
    pub(super) wanted: bool,
}

/// What a look has changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadabilityChange {
    /// It can be read again.
    Readable,
    /// It cannot be read any more.
    Unreadable(String),
}

/// What a request is in the unit of a gate.
pub(super) fn size(unit: Unit, bytes: u64) -> u64 {
    match unit {
        Unit::Requests => 1,
        Unit::Tokens => bytes.div_ceil(BYTES_PER_TOKEN).max(1),
        Unit::Bytes => bytes.max(1),
    }
}

// === impl GateState ===

impl GateState {
    pub(super) fn new(kind: &'static str, source: String, law: BudgetSettings) -> Self {
        Self {
            kind,
            source,
            law,
            budget: Budget::new(law),
            window: None,
            start_limiter: None,
            by: String::new(),
            trouble: None,
            wanted: false,
        }
    }

    /// How much may go now.
    pub(super) fn room(&self, now: Time) -> u64 {
        match (self.budget.allowance(now), self.passage(now)) {
            (Allowance::Left(left), StartAllowance::Unrestricted) => left,
            (Allowance::Left(left), StartAllowance::Allowed(open)) => left.min(open.into()),
            _ => 0,
        }
    }

    fn passage(&self, now: Time) -> StartAllowance {
        self.start_limiter
            .as_ref()
            .map_or(StartAllowance::Unrestricted, |start_limiter| start_limiter.allowance(now))
    }

    /// Why nothing may begin now, though it may go by the budget.
    pub(super) fn held_back(&self, now: Time) -> Option<String> {
        match self.passage(now) {
            StartAllowance::Unrestricted | StartAllowance::Allowed(_) => None,
            StartAllowance::Busy => Some("holding back: others are about to begin".into()),
            StartAllowance::Resting(span) => {
                Some(format!("holding back: one more in {:.2} s", span.secs_f64()))
            }
        }
    }

    /// When it opens as far as time alone opens it.
    pub(super) fn opens_at(&self) -> Time {
        let rests = self.start_limiter.as_ref().map_or(Time::ZERO, StartLimiter::opens_at);
        self.budget.closed_until().max(rests)
    }

    /// One goes.
    pub(super) fn begins(&mut self, now: Time) {
        if let Some(start_limiter) = &mut self.start_limiter {
            start_limiter.record_start(now);
        }
    }

    /// The prompt of one that goes has so many tokens.
    pub(super) fn prompt_size(&mut self, prompt: u64, now: Time) {
        if let Some(start_limiter) = &mut self.start_limiter {
            start_limiter.record_prompt(prompt, now);
        }
    }

    /// Takes what was seen, or why nothing was. Says what is new about that.
    pub(super) fn record(&mut self, reading: Result<Reading, String>) -> Option<ReadabilityChange> {
        match reading {
            Ok(reading) => {
                self.accept(reading);
                self.trouble.take().map(|_| ReadabilityChange::Readable)
            }
            Err(why) => {
                self.budget.unreadable();
                let known = self.trouble.replace(why.clone());
                known.is_none().then_some(ReadabilityChange::Unreadable(why))
            }
        }
    }

    /// Takes what was seen.
    pub(super) fn accept(&mut self, reading: Reading) {
        let Reading { free, system, at, lag, by } = reading;
        self.budget.read(GateReading { free, system, at, lag });
        self.by = by;
    }

    /// Takes the window for what may be under way.
    pub(super) fn read_window(&mut self, now: Time) {
        if let Some(window) = &self.window {
            self.accept(steady(1.0, f64::from(window.window()), now));
        }
    }

    pub(super) fn congested(&mut self, sent: Time, retry_after: Option<Span>, now: Time) {
        self.budget.congested(retry_after, now);
        if let Some(window) = &mut self.window {
            window.congested(sent, now);
        }
    }

    pub(super) fn succeeded(&mut self) {
        if let Some(window) = &mut self.window {
            window.good(self.budget.in_flight());
        }
    }

    /// How it is, in words.
    pub(super) fn describe(&self, settings: &GateSettings, allowance: Allowance) -> String {
        let secs = |span: Span| format!("{:.1} s", span.secs_f64());
        match allowance {
            Allowance::Left(_) => "open".into(),
            Allowance::NoReading => match &self.trouble {
                Some(why) => format!("unreadable: {why}"),
                None => "not read yet".into(),
            },
            Allowance::Stale(age) => {
                let most = secs(span(settings.stale_after));
                format!("stale: what was read is {} old, {most} is the most", secs(age))
            }
            Allowance::Invalid => "unreadable: what was read is not a number".into(),
            Allowance::Congested(Span::ZERO) => "congested until there is a newer reading".into(),
            Allowance::Congested(left) => format!("congested for {} more", secs(left)),
            Allowance::Closed => self.closed(),
            Allowance::NoShare => "closed: what may go is with other dispatchers".into(),
            Allowance::Spent => "spent: all that may go is under way".into(),
        }
    }

    fn closed(&self) -> String {
        match self.budget.reading() {
            Some(reading) if reading.system > 0.0 => {
                let (full, opens) = (1.0 - reading.free, self.law.closes_at(1.0));
                format!("closed: {full:.2} full, opens below {opens:.2}")
            }
            _ => "closed: no server is ready".into(),
        }
    }

    pub(super) fn status(&self, settings: &GateSettings, now: Time) -> GateStatus {
        let allowance = self.budget.allowance(now);
        let open = matches!(allowance, Allowance::Left(_));
        let held_back = self.held_back(now).filter(|_| open);
        let reading = self.budget.reading();
        let left = match allowance {
            Allowance::Left(left) => left,
            _ => 0,
        };
        GateStatus {
            name: settings.name.clone(),
            kind: self.kind,
            source: self.source.clone(),
            by: Some(self.by.clone()).filter(|by| !by.is_empty()),
            open: open && held_back.is_none(),
            state: held_back.unwrap_or_else(|| self.describe(settings, allowance)),
            value: reading.map(|reading| reading.free),
            // Without what the subtraction leaves behind the ninth digit.
            threshold: ((1.0 - self.law.closes_at(1.0)) * 1e9).round() / 1e9,
            saturation: reading.map(|reading| 1.0 - reading.free),
            closes_at_saturation: self.law.closes_at(1.0),
            system: reading.map(|reading| reading.system),
            closes_at: reading.map(|reading| self.law.closes_at(reading.system)),
            unit: match settings.unit {
                Unit::Requests => "requests",
                Unit::Tokens => "tokens",
                Unit::Bytes => "bytes",
            },
            n: reading.map(|_| self.budget.part()),
            taken: reading.map(|_| self.budget.taken()),
            in_flight: self.budget.in_flight(),
            held: self.budget.held(),
            left,
            age_seconds: reading.map(|reading| now.since(reading.at).secs_f64()),
        }
    }
}
