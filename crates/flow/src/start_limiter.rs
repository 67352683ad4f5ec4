//! Limits how fast batch work starts, for the sake of interactive requests.
//!
//! Interactive users notice less how much batch work runs beside them than how much of it starts at
//! the moment when they arrive. An engine prefills a prompt in whole steps. A request that arrives
//! during a step waits for its end, and shares the next one. So a batch request starts only while
//! some backend is *calm*: no request there waits for its first token. After each start the limiter
//! rests. A rest lasts as long as the start is expected to take, times `1 + rest`, divided by the
//! number of backends. So batch work takes at most `1 / (1 + rest)` of the backends' time for its
//! starts. A prompt that is longer than the usual one rests in proportion, once it is too long for
//! a single step.
//!
//! The limiter acts only for interactive traffic: while none was seen for a minute, it allows every
//! start. It does not wait for ever either: if no backend is calm for a while, because too many
//! requests come or because a stream never starts, one batch request starts all the same.

use std::collections::VecDeque;

use crate::range::{Checked, check};
use crate::time::{Span, Time};

/// The longest rest.
const REST_MAX: Span = Span::from_secs(60);
/// Prompts up to this many tokens take one step of the engine.
const STEP: u64 = 512;
/// Interactive traffic counts as present for this long after it was last seen.
const QUIET: Span = Span::from_secs(60);
/// After this long without a calm backend, one request starts all the same.
const PATIENCE: Span = Span::from_secs(10);
/// For this long, a request that was started may not be seen at a backend yet.
const TRANSIT: Span = Span::from_millis(20);

/// The settings of a start limiter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartLimiterSettings {
    rest: f64,
}

/// The requests that are starting at the backends, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StartLoad {
    /// Backends that are ready.
    pub ready: u32,
    /// Ready backends at which no request waits for its first token.
    pub calm: u32,
    /// The recent time to first token and the mean prompt in tokens, if they are known.
    pub start: Option<(Span, u64)>,
    /// Whether there is interactive traffic.
    pub others: bool,
}

/// How many requests may start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAllowance {
    /// This many, one after the other.
    Allowed(u32),
    /// Any number: there is no interactive traffic.
    Unrestricted,
    /// None: at every backend a request waits for its first token.
    Busy,
    /// None for this long, after the last start.
    Resting(Span),
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct StartLimiter {
    settings: StartLimiterSettings,
    seen: StartLoad,
    others_at: Option<Time>,
    /// Since when no backend has been calm, or since the last start in that time.
    busy_since: Option<Time>,
    /// The times of recent starts that may not be seen at a backend yet; at most as many as there
    /// were calm backends.
    passed: VecDeque<Time>,
    opens_at: Time,
}

// === impl StartLimiterSettings ===

impl StartLimiterSettings {
    /// A limiter that rests this many times as long as a start takes.
    pub fn new(rest: f64) -> Checked<Self> {
        check((0.0..=1000.0).contains(&rest), "rest", rest, "0 to 1000")?;
        Ok(Self { rest })
    }
}

// === impl StartLimiter ===

impl StartLimiter {
    /// A limiter that allows every start until interactive traffic is seen.
    pub fn new(settings: StartLimiterSettings) -> Self {
        Self {
            settings,
            seen: StartLoad::default(),
            others_at: None,
            busy_since: None,
            passed: VecDeque::new(),
            opens_at: Time::ZERO,
        }
    }

    /// Takes the present state of the backends.
    pub fn observe(&mut self, start_load: StartLoad, now: Time) {
        self.seen = start_load;
        if start_load.others {
            self.others_at = Some(now);
        }
        self.busy_since = match start_load.calm {
            0 => self.busy_since.or(Some(now)),
            _ => None,
        };
        while self.passed.front().is_some_and(|&at| now.since(at) >= TRANSIT) {
            self.passed.pop_front();
        }
    }

    /// Forgets the state of the backends: every start is allowed until interactive traffic is seen.
    pub fn reset(&mut self) {
        *self = Self::new(self.settings);
    }

    /// How many requests may start now.
    pub fn allowance(&self, now: Time) -> StartAllowance {
        if self.others_at.is_none_or(|at| now.since(at) > QUIET) {
            return StartAllowance::Unrestricted;
        }
        if now < self.opens_at {
            return StartAllowance::Resting(self.opens_at.since(now));
        }
        let waited = self.busy_since.is_some_and(|since| now.since(since) >= PATIENCE);
        match self.seen.calm.saturating_sub(self.passed.len() as u32) {
            0 if waited => StartAllowance::Allowed(1),
            0 => StartAllowance::Busy,
            // The limiter rests after one start.
            _ if self.seen.start.is_some() => StartAllowance::Allowed(1),
            open => StartAllowance::Allowed(open),
        }
    }

    /// When the last rest is over.
    pub fn opens_at(&self) -> Time {
        self.opens_at
    }

    /// A request has started.
    pub fn record_start(&mut self, now: Time) {
        if self.allowance(now) == StartAllowance::Unrestricted {
            return;
        }
        self.passed.push_back(now);
        self.busy_since = self.busy_since.map(|_| now);
        self.opens_at = now.after(self.rest_after(0));
    }

    /// The request that has just started has a prompt of this many tokens.
    pub fn record_prompt(&mut self, prompt: u64, now: Time) {
        if self.allowance(now) != StartAllowance::Unrestricted {
            self.opens_at = self.opens_at.max(now.after(self.rest_after(prompt)));
        }
    }

    fn rest_after(&self, prompt: u64) -> Span {
        let Some((start, usual)) = self.seen.start else { return Span::ZERO };
        let longer = (prompt as f64 / usual.max(STEP) as f64).max(1.0);
        let each = start.secs_f64() * longer * (1.0 + self.settings.rest);
        Span::from_secs_f64(each / f64::from(self.seen.ready.max(1))).min(REST_MAX)
    }
}
