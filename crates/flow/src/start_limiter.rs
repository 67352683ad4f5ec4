//! A start limiter for batch work: it begins one at a time, and only where nobody else is about to.
//!
//! What interactive users notice of batch work is less how much of it runs beside them than what is
//! begun at the moment in which they come: an engine reads a prompt in whole steps, and whoever
//! comes during one waits for its end, and for its share of the next. So a batch request begins
//! only while some backend is *calm*, which is when nothing there waits for its first token. Then
//! the start limiter rests for as long as that start is expected to take, and a multiple of it,
//! divided by the number of backends: at most `1 / (1 + rest)` of their time goes into starts of batch
//! work. A prompt that is longer than those that were seen counts for so much more, once it is too
//! long for a step of its own.
//!
//! All of that is for the sake of others. While none of them has been there for a minute the
//! start limiter is open. And it does not wait for ever: where no backend is calm for long, because
//! too many come or because a stream never starts, one goes all the same.

use std::collections::VecDeque;

use crate::range::{Checked, check};
use crate::time::{Span, Time};

/// The longest rest, whatever was measured.
const REST_MAX: Span = Span::from_secs(60);
/// Prompts up to so many tokens take one step, whatever their length.
const STEP: u64 = 512;
/// For so long those who were there may come again at any moment.
const QUIET: Span = Span::from_secs(60);
/// After so long without a calm backend one goes all the same.
const PATIENCE: Span = Span::from_secs(10);
/// For so long one that passed may be on its way, and not be seen at a backend yet.
const TRANSIT: Span = Span::from_millis(20);

/// How long a start limiter rests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartLimiterSettings {
    rest: f64,
}

/// What is about to begin at the backends at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StartLoad {
    /// Backends that are ready.
    pub ready: u32,
    /// Those of them at which nothing waits for its first token.
    pub calm: u32,
    /// How long a first token takes of late, and after how long a prompt, where that is known.
    pub start: Option<(Span, u64)>,
    /// Whether anybody is there for whose sake batch work holds back.
    pub others: bool,
}

/// Whether one more may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAllowance {
    /// So many, one after the other.
    Allowed(u32),
    /// Nobody is there for whose sake to hold back.
    Unrestricted,
    /// Somebody is about to begin at every backend.
    Busy,
    /// Enough has begun; one more may after this time.
    Resting(Span),
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct StartLimiter {
    settings: StartLimiterSettings,
    seen: StartLoad,
    others_at: Option<Time>,
    /// Since when no backend has been calm, but for one that went all the same.
    busy_since: Option<Time>,
    /// When those passed that may still be on their way; no more than backends were calm.
    passed: VecDeque<Time>,
    opens_at: Time,
}

// === impl StartLimiterSettings ===

impl StartLimiterSettings {
    /// A start limiter that rests so many times as long as a start takes.
    pub fn new(rest: f64) -> Checked<Self> {
        check((0.0..=1000.0).contains(&rest), "rest", rest, "0 to 1000")?;
        Ok(Self { rest })
    }
}

// === impl StartLimiter ===

impl StartLimiter {
    /// It is open until somebody is seen.
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

    /// The backends are like this now.
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

    /// Nobody knows any more how the backends are: it is open until somebody is seen.
    pub fn reset(&mut self) {
        *self = Self::new(self.settings);
    }

    /// Whether one more may begin.
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
            // After one of them it rests.
            _ if self.seen.start.is_some() => StartAllowance::Allowed(1),
            open => StartAllowance::Allowed(open),
        }
    }

    /// When its last rest is over.
    pub fn opens_at(&self) -> Time {
        self.opens_at
    }

    /// One goes through.
    pub fn record_start(&mut self, now: Time) {
        if self.allowance(now) == StartAllowance::Unrestricted {
            return;
        }
        self.passed.push_back(now);
        self.busy_since = self.busy_since.map(|_| now);
        self.opens_at = now.after(self.rest_after(0));
    }

    /// The prompt of one that went through just now has so many tokens.
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
