//! The state of one gate: its budget, its last reading and its error.

use flow::aimd::Aimd;
use flow::budget::{Allowance, Basis, Budget, BudgetSettings, GateReading, Refusal};
use flow::start_limiter::{StartAllowance, StartLimiter};
use flow::{Span, Time};

use super::RequestSize;
use super::error::{ReadError, SetupError};
use super::kinds::{GateKind, OpenGate};
use super::reading::Reading;
use super::settings::{GateSettings, Unit};
use super::status::GateStatus;
use crate::clock::span;

/// See the module's description.
#[derive(Debug)]
pub(super) struct GateState {
    kind: &'static str,
    /// The source of its readings, for people.
    source: String,
    basis: Basis,
    law: BudgetSettings,
    pub(super) budget: Budget,
    /// The window of a gate that learns from responses.
    pub(super) window: Option<Aimd>,
    /// The start limiter of a gate that knows which requests are about to start.
    pub(super) start_limiter: Option<StartLimiter>,
    /// The metric or the numbers behind the last reading, if they vary.
    by: String,
    /// Whether the time of the last reading is known.
    is_dated: bool,
    /// Why it cannot be read.
    error: Option<ReadError>,
    /// Whether it has refused a request since it last notified of room.
    pub(super) has_refused: bool,
}

/// A change of whether the gate can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadabilityChange {
    Readable,
    Unreadable(String),
}

/// The size of a request in the unit of a gate.
pub(super) fn amount(unit: Unit, size: RequestSize) -> u64 {
    match unit {
        Unit::Requests => 1,
        Unit::Tokens => size.tokens.max(1),
        Unit::Bytes => size.bytes.max(1),
    }
}

// === impl ReadabilityChange ===

impl ReadabilityChange {
    pub(super) fn log(&self, gate: &str) {
        match self {
            Self::Readable => tracing::info!(gate, "the gate can be read again"),
            Self::Unreadable(why) => {
                tracing::warn!(gate, "the gate cannot be read, nothing is sent: {why}");
            }
        }
    }
}

/// Nine digits: a subtraction leaves an error behind them.
fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

// === impl GateState ===

impl GateState {
    pub(super) fn new(settings: &GateSettings, open: OpenGate) -> Result<Self, SetupError> {
        let OpenGate { description, basis, window, start_limiter, .. } = open;
        // A window reserves nothing: it is already what other work leaves.
        let baseline = if window.is_some() { 0.0 } else { settings.baseline };
        let (stale_after, hold) = (span(settings.valid_for()), span(settings.hold));
        let law = BudgetSettings::new(basis, baseline, stale_after, hold)?;
        Ok(Self {
            kind: settings.kind.name(),
            source: description,
            basis,
            law,
            budget: Budget::new(law),
            window,
            start_limiter,
            by: String::new(),
            is_dated: true,
            error: None,
            has_refused: false,
        })
    }

    /// The amount that may be sent now; `None` while the gate is closed, unless requests in flight
    /// fill it.
    pub(super) fn open_room(&self, now: Time) -> Option<u64> {
        match (self.budget.allowance(now), self.start_allowance(now)) {
            (Allowance::Left(left), StartAllowance::Unrestricted) => Some(left),
            (Allowance::Left(left), StartAllowance::Allowed(open)) => Some(left.min(open.into())),
            (Allowance::Left(_) | Allowance::Spent, _) => Some(0),
            _ => None,
        }
    }

    fn start_allowance(&self, now: Time) -> StartAllowance {
        self.start_limiter
            .as_ref()
            .map_or(StartAllowance::Unrestricted, |start_limiter| start_limiter.allowance(now))
    }

    /// Why the start limiter holds a request back, if it does.
    pub(super) fn held_back(&self, now: Time) -> Option<String> {
        match self.start_allowance(now) {
            StartAllowance::Unrestricted | StartAllowance::Allowed(_) => None,
            StartAllowance::Busy => Some("holding back: other requests are about to start".into()),
            StartAllowance::Resting(span) => {
                Some(format!("holding back: next start in {:.2} s", span.secs_f64()))
            }
        }
    }

    /// The system that it reads, if its readings measure one: dispatchers that read the same system
    /// share what is free there.
    pub(super) fn measured_system(&self) -> Option<String> {
        let is_measured = matches!(self.basis, Basis::Measured { .. });
        is_measured.then(|| self.source.clone())
    }

    /// The time at which it opens without a further reading.
    pub(super) fn opens_at(&self) -> Time {
        let rests = self.start_limiter.as_ref().map_or(Time::ZERO, StartLimiter::opens_at);
        self.budget.closed_until().max(rests)
    }

    /// Records that a request is sent.
    pub(super) fn begins(&mut self, now: Time) {
        if let Some(start_limiter) = &mut self.start_limiter {
            start_limiter.record_start(now);
        }
    }

    /// Records the prompt tokens of the request that was sent.
    pub(super) fn prompt_size(&mut self, prompt: u64, now: Time) {
        if let Some(start_limiter) = &mut self.start_limiter {
            start_limiter.record_prompt(prompt, now);
        }
    }

    /// Records a reading or its error. Returns whether the gate became readable or unreadable.
    pub(super) fn record(
        &mut self,
        reading: Result<Reading, ReadError>,
    ) -> Option<ReadabilityChange> {
        match reading {
            Ok(reading) => {
                self.accept(reading);
                self.error.take().map(|_| ReadabilityChange::Readable)
            }
            Err(error) => {
                self.budget.unreadable();
                let text = error.to_string();
                let known = self.error.replace(error);
                known.is_none().then_some(ReadabilityChange::Unreadable(text))
            }
        }
    }

    /// Applies a reading.
    pub(super) fn accept(&mut self, reading: Reading) {
        let Reading { free, capacity, at, lag, valid_for, is_dated, by } = reading;
        if let Some(valid_for) = valid_for {
            self.budget.valid_for(valid_for);
        }
        self.budget.read(GateReading { free, system: capacity, at, lag });
        (self.by, self.is_dated) = (by, is_dated);
    }

    /// Applies the window as the capacity.
    pub(super) fn read_window(&mut self, now: Time) {
        if let Some(window) = &self.window {
            self.accept(Reading::instant(1.0, f64::from(window.window()), now));
        }
    }

    pub(super) fn congested(&mut self, refusal: Refusal, now: Time) {
        self.budget.congested(refusal, now);
        if let Some(window) = &mut self.window {
            window.congested(refusal.sent, now);
        }
    }

    pub(super) fn succeeded(&mut self) {
        self.budget.accepted();
        if let Some(window) = &mut self.window {
            window.good(self.budget.in_flight());
        }
    }

    /// The state for people.
    pub(super) fn describe(&self, settings: &GateSettings, allowance: Allowance) -> String {
        let secs = |span: Span| format!("{:.1} s", span.secs_f64());
        match allowance {
            Allowance::Left(_) => "open".into(),
            Allowance::NoReading => match &self.error {
                Some(error) => format!("unreadable: {error}"),
                None => "not read yet".into(),
            },
            Allowance::Stale(age) => {
                let most = secs(self.budget.stale_after());
                format!("stale: the reading is {} old, at most {most} is allowed", secs(age))
            }
            Allowance::Invalid => "unreadable: the reading is not a number".into(),
            Allowance::Congested(Span::ZERO) => "congested until there is a newer reading".into(),
            Allowance::Congested(left) => format!("congested for {} more", secs(left)),
            Allowance::Closed => self.closed(settings),
            Allowance::NoShare => "closed: other dispatchers have the whole budget".into(),
            Allowance::Spent => "spent: the whole budget is in flight".into(),
        }
    }

    fn closed(&self, settings: &GateSettings) -> String {
        let baseline = rounded(1.0 - self.law.closes_at(1.0));
        let is_constant = matches!(settings.kind, GateKind::Constant(_));
        match self.budget.reading() {
            Some(reading) if is_constant && reading.free <= baseline => {
                let value = reading.free;
                format!(
                    "closed: value {value} is not above the baseline {baseline}: it never opens"
                )
            }
            Some(reading) if reading.system > 0.0 => {
                let (full, opens) = (1.0 - reading.free, self.law.closes_at(1.0));
                let (full, opens) = (full * 100.0, opens * 100.0);
                format!("closed: {full:.0} % full, opens below {opens:.0} %")
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
            implied: settings.implied,
            source: self.source.clone(),
            by: Some(self.by.clone()).filter(|by| !by.is_empty()),
            open: open && held_back.is_none(),
            spent: held_back.is_some() || matches!(allowance, Allowance::Spent),
            stale: matches!(allowance, Allowance::Stale(_)),
            state: held_back.unwrap_or_else(|| self.describe(settings, allowance)),
            value: reading.map(|reading| reading.free),
            threshold: rounded(1.0 - self.law.closes_at(1.0)),
            saturation: reading.map(|reading| 1.0 - reading.free),
            closes_at_saturation: self.law.closes_at(1.0),
            system: reading.map(|reading| reading.system),
            closes_at: reading.map(|reading| self.law.closes_at(reading.system)),
            unit: settings.unit.name(),
            n: reading.map(|_| self.budget.part()),
            taken: reading.map(|_| self.budget.taken()),
            in_flight: self.budget.in_flight(),
            held: self.budget.held(),
            left,
            age_seconds: reading
                .filter(|_| self.is_dated)
                .map(|reading| now.since(reading.at).secs_f64()),
        }
    }
}
