//! `auto`: a stock that tunes itself (C10).
//!
//! No constant watermark fits: the best one lies between 3 and some 200, by engine and by traffic.
//! So three other quantities are bounded at each backend, all counted exactly at the grant:
//!
//! * **unstarted**: asks granted that have not produced their first token, and their prompt tokens.
//!   By Little's law it is arrival rate times time to first token, so it needs no reference value,
//!   does not move when the engine slows down, and lets the stock grow exactly as fast as the
//!   engine can prefill;
//! * **tokens**: prompt and output of all that is in flight, against a full KV cache;
//! * **slots**: asks in flight, for engines with fewer places than memory.
//!
//! The last two move slowly, and only while they bind. [`metrics`] moves them by what the engine
//! reports, [`streams`] by what the streams show when it reports nothing.
//!
//! Each bound looks at what is there, not at the ask that comes: a backend is open to all or to
//! none. So a large ask never waits at the head of the queue for a gap that small ones keep
//! filling, and fairness is what it is with a fixed watermark. The price is that a bound can be
//! passed by one ask.

mod blocked_time;
mod first_token_time;
mod metrics;
mod pace;
mod streams;
mod unstarted_probe;
mod windowed_max;

use blocked_time::BlockedTime;
use first_token_time::FirstTokenTimes;
use metrics::{MetricsTuner, Observation};
use pace::PaceTuner;
use streams::StreamTuner;
use windowed_max::WindowedMax;

use crate::time::{Span, Time};

/// Asks that may be unstarted: one in the engine's step, and two ready for the next.
const UNSTARTED: f64 = 3.0;
/// The same for a backend that has not shown a first token yet.
const UNSTARTED_COLD: f64 = 2.0;
/// Prompt tokens that may be unstarted whatever their number: short prompts fill a step by many.
const PROMPT_ALLOWANCE: u64 = 4096;
/// When an ask that nobody sees start counts as started at an engine without a queue, while no
/// other start was ever seen there.
const STARTS_WHEN_CALM: Span = Span::from_millis(100);
/// What is left of the bound on tokens when memory ran out, and how long the effect is awaited.
const TOKENS_CUT: f64 = 0.95;
const TOKENS_HOLD: Span = Span::from_secs(2);
/// How long it is remembered, at least, with how much in flight the backend closed.
const CLOSED_MEMORY: Span = Span::from_secs(30);

/// What an engine says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineReading {
    /// Requests in its batch.
    pub running: u32,
    /// Requests in its own queue.
    pub waiting: u32,
    /// How much of its KV cache is in use, from 0 to 1.
    pub kv_used: f64,
    /// How many requests it has preempted since it began.
    pub preemptions: u64,
    /// How many tokens its KV cache holds, where it says so.
    pub kv_tokens: Option<u64>,
}

/// One of the three quantities that `auto` bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoBound {
    /// Asks without a first token.
    Unstarted,
    /// Tokens in flight.
    Tokens,
    /// Asks in flight, by what the engine has room for.
    Slots,
    /// Asks in flight, by how smoothly their streams run.
    Pace,
}

/// The bounds of one backend under `auto`, and how near it is to them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutoLimits {
    /// Asks in flight without a first token, and how many there may be.
    pub unstarted: (u32, f64),
    /// Tokens in flight, and how many there may be; infinite while nothing is known.
    pub tokens: (u64, f64),
    /// Asks in flight, and how many there may be; infinite while nothing is known.
    pub slots: (u32, f64),
    /// The time from token to token when it was last measured, and the asks in flight that it
    /// allows; infinite where no longest time is given or it was never passed.
    pub pace: (Option<Span>, f64),
    /// How long a first token takes of late, and after how many tokens of prompt, once one was
    /// seen.
    pub start: Option<(Span, u64)>,
    /// The bound that keeps the backend closed now.
    pub binding: Option<AutoBound>,
    /// Whether the engine's own metrics move the bounds, or only what its streams show.
    pub by_metrics: bool,
}

/// The bounds that have been found.
#[derive(Clone, Copy, Debug)]
struct Caps {
    unstarted: f64,
    tokens: f64,
    slots: f64,
    pace: f64,
}

/// What is in flight at one backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    in_flight: u32,
    unstarted: u32,
    unstarted_prompt: u64,
    tokens: u64,
}

/// What is in flight at one backend, its bounds, and the laws that move them.
#[derive(Clone, Debug)]
pub(crate) struct AutoState {
    tally: Tally,
    caps: Caps,
    blocked_time: BlockedTime,
    pace: PaceTuner,
    metrics: MetricsTuner,
    streams: StreamTuner,
    first_token: FirstTokenTimes,
    reading: Option<EngineReading>,
    /// How many asks are known to have begun since it came up.
    proven: u32,
    /// The most that were in flight when it was closed, of late.
    closed_at: WindowedMax,
}

/// One ask in flight, as `auto` sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AskProgress {
    prompt: u64,
    tokens: u64,
    output: u64,
    granted: Time,
    pub(crate) started: bool,
    /// The ask's own deadline, while the wheel is used to presume that it has begun.
    pub(crate) deadline: Option<Time>,
    mark: streams::StreamMark,
}

// === impl Gauge ===

impl Default for AutoState {
    fn default() -> Self {
        Self {
            tally: Tally::default(),
            caps: Caps {
                unstarted: UNSTARTED_COLD,
                tokens: f64::INFINITY,
                slots: f64::INFINITY,
                pace: f64::INFINITY,
            },
            blocked_time: BlockedTime::default(),
            pace: PaceTuner::default(),
            metrics: MetricsTuner::default(),
            streams: StreamTuner::default(),
            first_token: FirstTokenTimes::default(),
            reading: None,
            proven: 0,
            closed_at: WindowedMax::over(CLOSED_MEMORY),
        }
    }
}

impl AutoState {
    pub(crate) const fn tally(&self) -> Tally {
        self.tally
    }

    /// Why nothing more may go there, if that is so.
    pub(crate) fn closed_by(&self) -> Option<AutoBound> {
        if self.tally.in_flight == 0 {
            return None;
        }
        if f64::from(self.tally.in_flight) + 1.0 > self.caps.slots.max(1.0) {
            return Some(AutoBound::Slots);
        }
        if f64::from(self.tally.in_flight) + 1.0 > self.caps.pace.max(1.0) {
            return Some(AutoBound::Pace);
        }
        if self.tally.tokens as f64 >= self.caps.tokens {
            return Some(AutoBound::Tokens);
        }
        let full = f64::from(self.tally.unstarted) >= self.caps.unstarted;
        (full && !self.is_allowed_more()).then_some(AutoBound::Unstarted)
    }

    /// Short prompts fill a step by many, so that more of them may be unstarted: up to as many as
    /// have begun before. Until then a burst would go whole to an engine of which nobody knows how
    /// much it can hold.
    fn is_allowed_more(&self) -> bool {
        let Tally { unstarted, unstarted_prompt, .. } = self.tally;
        unstarted_prompt < PROMPT_ALLOWANCE && unstarted < self.proven
    }

    pub(crate) fn limits(&self, now: Time) -> AutoLimits {
        AutoLimits {
            unstarted: (self.tally.unstarted, self.caps.unstarted),
            tokens: (self.tally.tokens, self.caps.tokens),
            slots: (self.tally.in_flight, self.caps.slots),
            pace: (self.pace.last(), self.caps.pace),
            start: self.first_token.seen(),
            binding: self.closed_by(),
            by_metrics: self.metrics.is_fresh(now),
        }
    }

    /// The stock at which it closes of late; nothing if it does not.
    pub(crate) fn watermark(&self) -> Option<u32> {
        Some(self.closed_at.last()).filter(|&held| held > 0)
    }

    /// With how many asks of the present size it would be full; nothing where no bound is known.
    pub(crate) fn full_at(&self) -> Option<f64> {
        let size = self.tally.tokens as f64 / f64::from(self.tally.in_flight);
        let full = self.caps.slots.min(self.caps.pace).min(self.caps.tokens / size);
        Some(full.max(1.0)).filter(|full| full.is_finite())
    }

    /// How long asks take to start on the whole; nothing where that is not known any more.
    pub(crate) fn measured_start(&self, now: Time) -> Option<Span> {
        self.first_token.steady(now)
    }

    /// What the engine said last, while that holds.
    pub(crate) fn reading(&self, now: Time) -> Option<EngineReading> {
        self.reading.filter(|_| self.metrics.is_fresh(now))
    }

    /// What waits inside the engine: by its own account, or by what has not started. Many short
    /// prompts start in one step, so of those no more count than may be unstarted at once.
    pub(crate) fn engine_waiting(&self, now: Time) -> u32 {
        let unstarted = self.tally.unstarted.min(self.caps.unstarted as u32);
        self.reading(now).map_or(unstarted, |reading| reading.waiting.max(unstarted))
    }

    /// When an ask granted now counts as started if its stream is not seen.
    pub(crate) fn presumed_start(&self, now: Time) -> Time {
        let calm = self.reading(now).is_some_and(|reading| reading.waiting == 0);
        match self.first_token.is_known() {
            // Nothing streams, but the engine says that nobody waits: it starts what it gets.
            false if calm => now.after(STARTS_WHEN_CALM),
            _ => now.after(self.first_token.usual()),
        }
    }

    /// An ask with so many prompt tokens and tokens in all goes there.
    pub(crate) fn granted(&mut self, prompt: u64, tokens: u64, now: Time) -> AskProgress {
        let mark = self.streams.mark(now);
        let progress = AskProgress { prompt, tokens, granted: now, mark, ..AskProgress::default() };
        self.tally.add(&progress);
        progress
    }

    /// An ask has produced its first token, or is presumed to.
    pub(crate) fn started(&mut self, progress: &mut AskProgress, seen: bool, now: Time) {
        if std::mem::replace(&mut progress.started, true) {
            return;
        }
        self.pace.note(self.started_now(), now);
        self.tally.unstarted -= 1;
        self.tally.unstarted_prompt -= progress.prompt;
        self.caps.unstarted = self.caps.unstarted.max(UNSTARTED);
        progress.mark = self.streams.mark(now);
        if seen {
            self.proven = self.proven.saturating_add(1);
            self.first_token.learn(now.since(progress.granted), progress.prompt, now);
        }
        self.streams.started(self.started_now(), now);
        self.revise(now);
    }

    /// An ask has produced so many tokens: it holds at least those and its prompt.
    pub(crate) fn streamed(
        &mut self,
        progress: &mut AskProgress,
        output: u64,
        pace_max: Option<Span>,
        now: Time,
    ) {
        let produced = output.saturating_sub(progress.output);
        progress.output = progress.output.max(output);
        self.keep_pace(produced, pace_max, now);
        let holds = progress.prompt + output;
        if holds > progress.tokens {
            self.tally.tokens += holds - progress.tokens;
            progress.tokens = holds;
        }
        let started = self.started_now();
        self.streams.advanced(&mut progress.mark, started, now);
        self.revise(now);
    }

    /// An ask has ended there.
    pub(crate) fn ended(&mut self, progress: &AskProgress, now: Time) {
        self.pace.note(self.started_now(), now);
        self.tally.in_flight -= 1;
        self.tally.tokens -= progress.tokens;
        if !progress.started {
            self.proven = self.proven.saturating_add(1);
            self.tally.unstarted -= 1;
            self.tally.unstarted_prompt -= progress.prompt;
        }
        self.revise(now);
    }

    /// The engine says how it is.
    pub(crate) fn read(&mut self, reading: EngineReading, now: Time) {
        if !self.metrics.is_fresh(now) {
            // What streams alone could tell of slots was a guess.
            self.caps.slots = f64::INFINITY;
            self.streams.forget_stalls();
        }
        self.reading = Some(reading);
        let binding = self.blocked_time.since_last_sample(now);
        let Tally { in_flight, unstarted, tokens, .. } = self.tally;
        let usual_start = self.first_token.usual();
        let observation =
            Observation { reading, in_flight, unstarted, tokens, binding, usual_start, now };
        self.metrics.take(observation, &mut self.caps);
    }

    /// Takes note of whether it is closed while something waits for it.
    pub(crate) fn watch(&mut self, wanted: bool, now: Time) {
        let closed = self.closed_by();
        if closed.is_some() {
            self.closed_at.push(self.tally.in_flight, now);
        }
        self.blocked_time.note(closed.filter(|_| wanted), now);
        self.pace.blocked_time.note(closed.filter(|_| wanted), now);
    }

    /// The backend came back: its engine may be a new one, and cold.
    pub(crate) fn restarted(&mut self) {
        *self = Self { tally: self.tally, ..Self::default() };
    }

    /// Bounds asks in flight by how smoothly streams run, where that is asked for.
    fn keep_pace(&mut self, produced: u64, pace_max: Option<Span>, now: Time) {
        self.pace.note(self.started_now(), now);
        self.pace.produced(produced);
        let Some(pace) = self.pace.measure(now) else { return };
        match pace_max {
            None => self.caps.pace = f64::INFINITY,
            Some(most) => {
                let ratio = pace.secs_f64() / most.secs_f64();
                self.pace.revise(&mut self.caps.pace, self.tally.in_flight, ratio, now);
            }
        }
    }

    fn started_now(&self) -> u32 {
        self.tally.in_flight - self.tally.unstarted
    }

    /// Lets the streams move the bounds where metrics do not.
    fn revise(&mut self, now: Time) {
        if self.metrics.is_fresh(now) {
            return;
        }
        self.streams.revise(&mut self.blocked_time, &self.tally, &mut self.caps, now);
    }
}

// === impl Tally ===

impl Tally {
    pub(crate) fn add(&mut self, progress: &AskProgress) {
        self.in_flight += 1;
        self.tokens += progress.tokens;
        if !progress.started {
            self.unstarted += 1;
            self.unstarted_prompt += progress.prompt;
        }
    }
}
