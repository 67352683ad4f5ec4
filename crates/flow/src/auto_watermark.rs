//! `auto`: bounds on the asks in flight that tune themselves, instead of a fixed watermark (C10).
//!
//! No constant watermark fits: the best value lies between 3 and about 200, depending on the engine
//! and the traffic. So `auto` bounds three other quantities at each backend. The controller counts
//! all of them exactly, at the grant:
//!
//! * **unstarted**: asks that were granted and have no first token yet, and their prompt tokens.
//!   By Little's law this number is the arrival rate times the time to first token. So it needs no
//!   reference latency, it does not move when the engine slows down, and it lets the stock grow
//!   exactly as fast as the engine can prefill;
//! * **tokens**: prompt and output tokens of all asks in flight, against a full KV cache;
//! * **slots**: asks in flight, for engines with fewer slots than memory.
//!
//! The bounds on tokens and slots move slowly, and grow only while they bind ([`growth`]).
//! [`metrics`] moves them by the engine's own metrics, [`streams`] by the progress of the streams
//! if the engine reports none. [`pace`] is an optional fourth bound.
//!
//! A bound is compared with the asks in flight and not with the next ask: a backend is open to
//! every ask or to none. So a large ask never waits at the head of the queue for a gap that small
//! asks keep filling, and fairness is the same as with a fixed watermark. The price is that one ask
//! can exceed a bound.

mod blocked_time;
mod caps;
mod first_token_time;
mod growth;
mod metrics;
mod pace;
mod places;
mod room;
mod slow_streams;
mod streams;
mod unstarted_probe;
mod windowed_max;

use blocked_time::BlockedTime;
use caps::Caps;
use first_token_time::FirstTokenTimes;
use metrics::{MetricsTuner, Observation};
pub(crate) use pace::PaceLimits;
use pace::{PaceLoad, PaceTuner};
use streams::StreamTuner;

use crate::time::{Span, Time};

/// The bound on unstarted asks of one rank: one in its step, and two ready for the next step.
const UNSTARTED: f64 = 3.0;
/// An ask that does not stream counts as started after this time at an engine without a queue,
/// while no first token was ever seen there.
const STARTS_WHEN_CALM: Span = Span::from_millis(100);
/// The bound on tokens is cut to this share when the engine runs out of memory. The next cut waits
/// for the effect.
const TOKENS_CUT: f64 = 0.95;
const TOKENS_HOLD: Span = Span::from_secs(2);
/// How far critical asks may exceed the bound on tokens where their prompts are cached.
const HEADROOM: f64 = 33.0 / 32.0;

/// The metrics that an engine reports, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineReading {
    /// Requests in the engine's batch.
    pub running: u32,
    /// Requests in the engine's own queue.
    pub waiting: u32,
    /// The share of the KV cache in use, from 0 to 1.
    pub kv_used: f64,
    /// Requests preempted since the engine started.
    pub preemptions: u64,
    /// The size of the KV cache in tokens, if the engine reports it.
    pub kv_tokens: Option<u64>,
    /// The most requests that the engine runs at once, if it reports it.
    pub running_max: Option<u32>,
    /// How many data-parallel ranks the engine has; 0 counts as one.
    pub ranks: u32,
}

/// One of the bounds of `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoBound {
    /// Asks without a first token.
    Unstarted,
    /// Tokens in flight.
    Tokens,
    /// Asks in flight, by the slots of the engine.
    Slots,
    /// Asks in flight, by the mean time from token to token.
    Pace,
}

/// The bounds of one backend under `auto`, each with the quantity that it bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutoLimits {
    /// Asks in flight without a first token, and their bound.
    pub unstarted: (u32, f64),
    /// Tokens in flight, and their bound; infinite while it is unknown.
    pub tokens: (u64, f64),
    /// Asks in flight, and their bound by slots; infinite while it is unknown.
    pub slots: (u32, f64),
    /// The last measured time from token to token, and the bound on asks in flight that follows
    /// from it; infinite if no longest time is configured or it was never exceeded.
    pub pace: (Option<Span>, f64),
    /// The recent mean time to first token, and the mean prompt in tokens; `None` before the first
    /// token of all.
    pub start: Option<(Span, u64)>,
    /// The bound that closes the backend now.
    pub binding: Option<AutoBound>,
    /// The number of asks in flight at which the backend closes.
    pub watermark: u32,
    /// Whether the engine's metrics move the bounds, or only its streams.
    pub by_metrics: bool,
}

/// The counts of the asks in flight at one backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    in_flight: u32,
    unstarted: u32,
    unstarted_prompt: u64,
    /// Asks that count as started although no token of them was seen.
    presumed: u32,
    tokens: u64,
}

/// The asks in flight at one backend, its bounds, and the tuners that move them.
#[derive(Clone, Debug, Default)]
pub(crate) struct AutoState {
    tally: Tally,
    caps: Caps,
    blocked_time: BlockedTime,
    pace: PaceTuner,
    metrics: MetricsTuner,
    streams: StreamTuner,
    first_token: FirstTokenTimes,
    reading: Option<EngineReading>,
    /// Whether the engine's metrics move the bounds.
    by_metrics: bool,
    /// The most requests that were seen to run here at once since the backend came up.
    most_running: u32,
    /// How many requests the engine runs at once, as the operator says.
    told: Option<u32>,
}

/// One ask in flight, as `auto` sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AskProgress {
    prompt: u64,
    tokens: u64,
    output: u64,
    granted: Time,
    /// When its first token came.
    first_token: Time,
    pub(crate) started: bool,
    /// Whether it counts as started although no token was seen.
    presumed: bool,
    /// The ask's own deadline, while the timing wheel is used to presume its start.
    pub(crate) deadline: Option<Time>,
    mark: streams::StreamMark,
}

// === impl AutoState ===

impl AutoState {
    pub(crate) const fn tally(&self) -> Tally {
        self.tally
    }

    /// The bound that closes the backend, if one does.
    pub(crate) fn closed_by(&self) -> Option<AutoBound> {
        if self.tally.in_flight == 0 {
            return None;
        }
        if f64::from(self.tally.in_flight) + 1.0 > self.slots().max(1.0) {
            return Some(AutoBound::Slots);
        }
        if f64::from(self.tally.in_flight) + 1.0 > self.caps.pace.max(1.0) {
            return Some(AutoBound::Pace);
        }
        if self.tally.tokens as f64 >= self.caps.tokens {
            return Some(AutoBound::Tokens);
        }
        let full = f64::from(self.tally.unstarted) >= self.caps.unstarted;
        let bounded = !self.is_allowed_more() && !self.knows_only_places();
        (full && bounded).then_some(AutoBound::Unstarted)
    }

    /// Whether it is open, or its tokens or unstarted asks alone close it, and by little. A
    /// critical ask whose prompt is cached here adds hardly any; elsewhere it would add many.
    pub(crate) fn has_headroom(&self) -> bool {
        let Tally { unstarted, tokens, .. } = self.tally;
        let few = f64::from(unstarted) < self.caps.unstarted + 1.0;
        match self.closed_by() {
            None => true,
            Some(AutoBound::Unstarted) => few,
            Some(AutoBound::Tokens) => few && (tokens as f64) < HEADROOM * self.caps.tokens,
            Some(AutoBound::Slots | AutoBound::Pace) => false,
        }
    }

    pub(crate) fn limits(&self, now: Time) -> AutoLimits {
        AutoLimits {
            unstarted: (self.tally.unstarted, self.caps.unstarted),
            tokens: (self.tally.tokens, self.caps.tokens),
            slots: (self.tally.in_flight, self.slots()),
            pace: (self.pace.last(), self.caps.pace),
            start: self.first_token.seen(),
            binding: self.closed_by(),
            watermark: self.watermark(),
            by_metrics: self.metrics.is_fresh(now),
        }
    }

    /// The last reading, while it is fresh.
    pub(crate) fn reading(&self, now: Time) -> Option<EngineReading> {
        self.reading.filter(|_| self.metrics.is_fresh(now))
    }

    /// Requests waiting inside the engine: the number that it reports, or the unstarted asks. Many
    /// short prompts start in one step, so unstarted asks count at most up to their bound.
    pub(crate) fn engine_waiting(&self, now: Time) -> u32 {
        let unstarted = self.tally.unstarted.min(self.caps.unstarted as u32);
        self.reading(now).map_or(unstarted, |reading| reading.waiting.max(unstarted))
    }

    /// When an ask granted now counts as started if its stream is not seen.
    pub(crate) fn presumed_start(&self, now: Time) -> Time {
        let calm = self.reading(now).is_some_and(|reading| reading.waiting == 0);
        let bounded = self.told.is_some() && self.reading(now).is_none();
        match self.first_token.is_known() {
            // Nothing streams, but the engine's queue is empty: it starts every ask at once.
            false if calm => now.after(STARTS_WHEN_CALM),
            // The operator's number bounds those that run, whenever they start.
            _ if bounded => now.after(STARTS_WHEN_CALM),
            _ => now.after(self.first_token.usual()),
        }
    }

    /// Counts an ask that is granted, with its prompt tokens and its tokens in all.
    pub(crate) fn granted(&mut self, prompt: u64, tokens: u64, now: Time) -> AskProgress {
        let mark = self.streams.mark(now);
        let progress = AskProgress { prompt, tokens, granted: now, mark, ..AskProgress::default() };
        self.tally.add(&progress);
        progress
    }

    /// An ask has produced its first token (`seen`), or is presumed to have done so.
    pub(crate) fn started(&mut self, progress: &mut AskProgress, seen: bool, now: Time) {
        if std::mem::replace(&mut progress.started, true) {
            return;
        }
        self.pace.note(self.started_now(), now);
        self.tally.unstarted -= 1;
        self.tally.unstarted_prompt -= progress.prompt;
        self.caps.unstarted = self.caps.unstarted.max(self.caps.unstarted_least());
        progress.mark = self.streams.mark(now);
        progress.first_token = now;
        if seen {
            self.first_token.learn(now.since(progress.granted), progress.prompt);
        }
        let ran = self.streams.started(self.started_now(), seen, now);
        if seen {
            self.saw_running(ran);
        } else {
            progress.presumed = true;
            self.tally.presumed += 1;
        }
        self.revise(now);
    }

    /// An ask has produced `output` tokens: it holds at least those and its prompt.
    pub(crate) fn streamed(
        &mut self,
        progress: &mut AskProgress,
        output: u64,
        limits: PaceLimits,
        now: Time,
    ) {
        let produced = output.saturating_sub(progress.output);
        progress.output = progress.output.max(output);
        self.keep_pace(produced, limits, now);
        let holds = progress.prompt + output;
        if holds > progress.tokens {
            self.tally.tokens += holds - progress.tokens;
            progress.tokens = holds;
        }
        let started = self.started_now();
        self.streams.advanced(&mut progress.mark, started, now);
        self.revise(now);
    }

    /// An ask has ended.
    pub(crate) fn ended(&mut self, progress: &AskProgress, now: Time) {
        self.pace.note(self.started_now(), now);
        if progress.started && !progress.presumed {
            self.pace.stream_ended(progress.output, now.since(progress.first_token));
            let ran = self.streams.ended(self.started_now(), now);
            self.saw_running(ran);
        }
        self.tally.in_flight -= 1;
        self.tally.tokens -= progress.tokens;
        if !progress.started {
            self.tally.unstarted -= 1;
            self.tally.unstarted_prompt -= progress.prompt;
        }
        self.tally.presumed -= u32::from(progress.presumed);
        self.revise(now);
    }

    /// Takes a reading of the engine's metrics under fixed bounds: only routing uses it.
    pub(crate) fn note(&mut self, reading: EngineReading, now: Time) {
        self.reading = Some(reading);
        self.metrics.came(now);
    }

    /// Takes a reading of the engine's metrics.
    pub(crate) fn read(&mut self, reading: EngineReading, now: Time) {
        if !self.metrics.is_fresh(now) {
            // The bound on slots was derived from the streams, which is only an estimate.
            self.caps.slots = f64::INFINITY;
            self.streams.forget_stalls();
        }
        self.caps.saw_ranks(reading.ranks);
        self.reading = Some(reading);
        self.by_metrics = true;
        let told = reading.running_max.unwrap_or(0);
        self.most_running = self.most_running.max(reading.running).max(told);
        let binding = self.blocked_time.since_last_sample(now);
        let Tally { in_flight, unstarted, presumed, tokens, .. } = self.tally;
        let observation = Observation {
            reading,
            in_flight,
            unseen: unstarted + presumed,
            tokens,
            most_running: self.most_running,
            binding,
            usual_start: self.first_token.usual(),
            now,
        };
        self.metrics.take(observation, &mut self.caps);
    }

    /// Records the bound that keeps asks waiting for the backend, if one does.
    pub(crate) fn note_blocking(&mut self, bound: Option<AutoBound>, now: Time) {
        self.blocked_time.note(bound, now);
        self.pace.blocked_time.note(bound, now);
    }

    /// The backend is ready again: its engine may be a new one, with cold caches.
    pub(crate) fn restarted(&mut self) {
        *self = Self { tally: self.tally, ..self.anew() };
    }

    /// The state of a backend of which only the configuration is known.
    pub(crate) fn anew(&self) -> Self {
        Self { told: self.told, ..Self::default() }
    }

    /// Moves the bound on asks in flight by the time from token to token, if one is configured.
    fn keep_pace(&mut self, produced: u64, limits: PaceLimits, now: Time) {
        self.pace.note(self.started_now(), now);
        self.pace.produced(produced);
        let load = PaceLoad { in_flight: self.tally.in_flight, most_running: self.most_running };
        self.pace.revise(&mut self.caps.pace, limits, load, now);
    }

    fn started_now(&self) -> u32 {
        self.tally.in_flight - self.tally.unstarted
    }

    /// Lets the streams move the bounds while there are no fresh metrics.
    fn revise(&mut self, now: Time) {
        if self.metrics.is_fresh(now) {
            return;
        }
        self.by_metrics = false;
        self.streams.revise(&mut self.blocked_time, &self.tally, &mut self.caps, now);
        if self.told.is_some() {
            // The operator's number alone counts: it need not be found.
            self.caps.slots = f64::INFINITY;
        }
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
        self.presumed += u32::from(progress.presumed);
    }
}
