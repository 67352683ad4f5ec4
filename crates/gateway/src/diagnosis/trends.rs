//! Values over time: rates, and the time until the queue is empty. The module keeps the samples of
//! the last minute, one for each second.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use flow::{Span, Time};

use super::batch_attempts::BatchAttempts;
use super::batch_rules;
use super::causes;
use super::first_byte_waits::FirstByteWaits;
use super::history::History;
use super::memory::FindingMemory;
use super::queue_rules::FLOOD;
use super::quick_responses::QuickResponses;
use super::sentence::sentence;
use super::situation::{BackendCondition, FlowState, QueueState, RefusalCount, Situation};
use super::slow_rules::SLOW;
use super::token_paces::TokenPaces;
use super::watermark_rules::{self, TOO_HIGH};
use super::{Level, StatusPage, findings};
use crate::error_codes::{Blame, ErrorCode};

/// The time between two samples, and how many are kept.
const SAMPLE_EVERY: Span = Span::from_millis(900);
const SAMPLES_MAX: usize = 64;
/// The windows of the rates of requests, of the drain rate, of the counts of a minute and of batch
/// work.
const RATE_WINDOW: Span = Span::from_secs(10);
const DRAIN_WINDOW: Span = Span::from_secs(30);
const MINUTE: Span = Span::from_secs(60);
const LATELY: Span = Span::from_secs(30);
/// A rate over a shorter time says nothing.
const RATE_LEAST_SECS: f64 = 0.5;
const DRAIN_LEAST_SECS: f64 = 1.0;
/// The shortest time over which the highest rate is taken.
const PEAK_LEAST_SECS: f64 = 5.0;

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) at: Time,
    /// Offers, grants with and without a wait, grants that came back, and ends of service.
    pub(crate) offered: u64,
    pub(crate) granted: u64,
    pub(crate) bypassed: u64,
    pub(crate) requeued: u64,
    pub(crate) settled: u64,
    pub(crate) depth: u32,
    /// Ended requests by band, `None` without one, and outcome.
    pub(crate) endings: BTreeMap<(Option<usize>, &'static str), u64>,
    /// Requests that named a priority that does not exist.
    pub(crate) unknown_priorities: u64,
    /// Requests whose clients left without an answer.
    pub(crate) left_unanswered: u64,
    /// Answered and failed attempts by backend.
    pub(crate) attempts: BTreeMap<Arc<str>, [u64; 2]>,
    /// Refused requests by flow, of the flows that the page shows.
    pub(crate) flow_refused: BTreeMap<String, u32>,
    /// Ended requests by batch queue.
    pub(crate) batch_ended: BTreeMap<String, u64>,
    pub(crate) batch_attempts: BTreeMap<String, BatchAttempts>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Trends {
    samples: VecDeque<Sample>,
    memory: FindingMemory,
    /// The lowest fair share of each flow in the last minute, and when it was seen.
    fair_shares: BTreeMap<String, (f64, Time)>,
    /// Since when each backend has had requests.
    busy_since: BTreeMap<String, Time>,
    token_paces: TokenPaces,
    first_byte_waits: FirstByteWaits,
    quick_responses: QuickResponses,
    history: History,
}

// === impl Sample ===

impl Sample {
    /// The waits that have ended since then in a grant that did not come back.
    fn left_since(&self, then: &Self) -> u64 {
        let [granted, requeued] = [(self.granted, then.granted), (self.requeued, then.requeued)]
            .map(|(now, then)| now.saturating_sub(then));
        granted.saturating_sub(requeued)
    }
}

// === impl Trends ===

impl Trends {
    /// Completes the situation with rates, and judges it.
    pub(crate) fn judge(&mut self, mut situation: Situation, mut sample: Sample) -> StatusPage {
        let now = sample.at;
        let ended = situation.batch_queues.iter().map(|queue| (queue.name.clone(), queue.ended));
        sample.batch_ended = ended.collect();
        let attempts = situation.batch_queues.iter();
        sample.batch_attempts =
            attempts.map(|queue| (queue.name.clone(), queue.attempts.clone())).collect();
        let refused = situation.flows.iter().map(|flow| (flow.name.clone(), flow.refused));
        sample.flow_refused = refused.collect();
        self.rate(&mut situation, &sample);
        self.count_refusals(&mut situation, &sample);
        self.forecast(&mut situation.queue, &sample);
        self.remember_shares(&mut situation.flows, now);
        for flow in &mut situation.flows {
            let base = self.base(now, MINUTE).map(|base| base.flow_refused.get(&flow.name));
            let before = base.map_or(flow.refused, |known| known.copied().unwrap_or(0));
            // A flow that was forgotten counts from 0 again.
            let new = flow.refused.checked_sub(before).unwrap_or(flow.refused);
            flow.refused_last_minute = new.into();
            flow.flooded_lately = self.memory.had(FLOOD, &flow.name, now.before(MINUTE));
        }
        let waits = situation.queue.depth > situation.queue.unserved;
        self.first_byte_waits.look(waits, &situation.backends, now);
        for backend in &mut situation.backends {
            self.watch(backend, &sample);
            self.first_byte_waits.watch(backend, now);
            self.token_paces.watch(backend, now);
            self.quick_responses.watch(backend, now);
        }
        self.token_paces.retain(&situation.backends);
        self.quick_responses.retain(&situation.backends);
        for queue in &mut situation.batch_queues {
            let ended = |sample: &Sample| sample.batch_ended.get(&queue.name).copied();
            let before = self.base(now, LATELY).and_then(ended).unwrap_or(queue.ended);
            queue.ended_lately = queue.ended.saturating_sub(before);
        }
        self.count_attempts(&mut situation, &sample);
        let known = |id: &String, _: &mut Time| {
            situation.backends.iter().any(|backend| backend.id == *id && backend.in_flight > 0)
        };
        self.busy_since.retain(known);
        self.memory.retell(|finding| batch_rules::past(finding, &situation));
        let mut findings = self.memory.date(findings(&situation), now);
        let recent = self.memory.recent(now);
        causes::explain(&mut findings, &recent, situation.queue.ttl_seconds);
        watermark_rules::join(&mut findings);
        self.keep(sample);
        self.history.add(&situation, now);
        let worst = findings.first().map_or(Level::Ok, |worst| worst.level);
        let level = if worst == Level::Note { Level::Ok } else { worst };
        let sentence = sentence(&situation, &findings);
        StatusPage { sentence, level, findings, recent, situation }
    }

    /// The last hour.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    fn keep(&mut self, sample: Sample) {
        let due = self.samples.back().is_none_or(|last| sample.at.since(last.at) >= SAMPLE_EVERY);
        if due {
            self.samples.push_back(sample);
            if self.samples.len() > SAMPLES_MAX {
                self.samples.pop_front();
            }
        }
    }

    /// The oldest sample of a window.
    fn base(&self, now: Time, window: Span) -> Option<&Sample> {
        self.samples.iter().find(|sample| now.since(sample.at) <= window)
    }

    /// The oldest sample of the last minute. All that a young process has counted is of that time.
    fn base_of_minute<'a>(&'a self, now: Time, start: &'a Sample) -> Option<&'a Sample> {
        if now.since(Time::ZERO) <= MINUTE { Some(start) } else { self.base(now, MINUTE) }
    }

    fn rate(&self, situation: &mut Situation, sample: &Sample) {
        let Some(base) = self.base(sample.at, RATE_WINDOW) else { return };
        let secs = sample.at.since(base.at).secs_f64();
        if secs < RATE_LEAST_SECS {
            return;
        }
        let rate = |now: u64, then: u64| round(now.saturating_sub(then) as f64 / secs);
        situation.queue.arriving_per_second = rate(sample.offered, base.offered);
        let started =
            |sample: &Sample| (sample.granted + sample.bypassed).saturating_sub(sample.requeued);
        situation.queue.starting_per_second = rate(started(sample), started(base));
        situation.queue.ending_per_second = rate(sample.settled, base.settled);
        let bands = situation.bands.len();
        for (at, band) in situation.bands.iter_mut().enumerate() {
            // The core counts bands from the lowest.
            let number = Some(bands - 1 - at);
            let ended = |sample: &Sample, served: bool| -> u64 {
                let of_band = sample.endings.iter().filter(|((band, _), _)| *band == number);
                let counts = of_band.filter(|((_, outcome), _)| match served {
                    true => *outcome == "ok",
                    false => ErrorCode::of(outcome).blame != Blame::Nobody,
                });
                counts.map(|(_, count)| count).sum()
            };
            band.served_per_second = rate(ended(sample, true), ended(base, true));
            band.refused_per_second = rate(ended(sample, false), ended(base, false));
        }
    }

    fn count_refusals(&self, situation: &mut Situation, sample: &Sample) {
        let start = Sample::default();
        let base = self.base_of_minute(sample.at, &start);
        let mut counts: BTreeMap<&'static str, RefusalCount> = BTreeMap::new();
        for (key @ (band, reason), &total) in &sample.endings {
            let before = base.map_or(total, |base| base.endings.get(key).copied().unwrap_or(0));
            let lately = total.saturating_sub(before);
            // Reads and calls that do not queue have no band.
            let of_work = if band.is_some() { lately } else { 0 };
            if *reason == "ok" {
                situation.queue.served_last_minute += of_work;
                situation.reads_last_minute += lately - of_work;
            }
            if ErrorCode::of(reason).blame == Blame::Nobody {
                continue;
            }
            let entry = counts.entry(reason).or_default();
            entry.reason = reason;
            entry.total += total;
            entry.last_minute += lately;
            entry.of_work += of_work;
        }
        let before = base.map_or(sample.unknown_priorities, |base| base.unknown_priorities);
        situation.unknown_priorities_last_minute = sample.unknown_priorities.saturating_sub(before);
        let before = base.map_or(sample.left_unanswered, |base| base.left_unanswered);
        situation.left_last_minute = sample.left_unanswered.saturating_sub(before);
        let is_recent = |reason| counts.get(reason).is_some_and(|count| count.last_minute > 0);
        situation.client_mistakes.retain(|mistake| is_recent(mistake.reason));
        situation.refusals = counts.into_values().collect();
        let order =
            |refusal: &RefusalCount| std::cmp::Reverse((refusal.last_minute, refusal.total));
        situation.refusals.sort_by_key(order);
    }

    fn count_attempts(&self, situation: &mut Situation, sample: &Sample) {
        let start = Sample::default();
        let Some(base) = self.base_of_minute(sample.at, &start) else { return };
        let none = BatchAttempts::default();
        for queue in &mut situation.batch_queues {
            let before = base.batch_attempts.get(&queue.name).unwrap_or(&none);
            queue.attempts_last_minute = queue.attempts.since(before);
        }
    }

    fn forecast(&self, queue: &mut QueueState, sample: &Sample) {
        queue.mean_drain_seconds = self.drains_in(sample);
        queue.drain_is_least = queue.late > 0 && queue.arriving_per_second > 0.0;
        queue.drains_in_seconds = match queue.drain_is_least {
            true => self.least_drain(sample),
            false => queue.mean_drain_seconds,
        };
        // By then they have left the queue in another way.
        let in_time = |secs: &f64| *secs <= queue.ttl_seconds || queue.ttl_seconds <= 0.0;
        queue.drains_in_seconds = queue.drains_in_seconds.filter(in_time);
        let Some(base) = self.base(sample.at, RATE_WINDOW) else { return };
        let secs = sample.at.since(base.at).secs_f64();
        if secs >= RATE_LEAST_SECS {
            let grown = f64::from(sample.depth) - f64::from(base.depth);
            queue.growing_per_second = round(grown / secs);
        }
    }

    /// The samples of a window in which requests waited without a break, the last first.
    fn waiting_since(&self, now: Time, window: Span) -> impl Iterator<Item = &Sample> {
        let recent = move |kept: &&Sample| kept.depth > 0 && now.since(kept.at) <= window;
        self.samples.iter().rev().take_while(recent)
    }

    /// The least time until the waiting requests are served: at the highest rate of the last minute
    /// at which requests left the queue for a backend. Requests that leave in another way are not
    /// served, and a burst of timeouts says nothing about the next minute. With a mean rate, the
    /// next least time may be shorter.
    fn least_drain(&self, sample: &Sample) -> Option<f64> {
        let mut samples: Vec<&Sample> = self.waiting_since(sample.at, MINUTE).collect();
        samples.insert(0, sample);
        let rate = |(at, later): (usize, &&Sample)| {
            let far = |early: &&&Sample| later.at.since(early.at).secs_f64() >= PEAK_LEAST_SECS;
            let early = samples[at..].iter().find(far)?;
            let secs = later.at.since(early.at).secs_f64();
            Some(later.left_since(early) as f64 / secs)
        };
        let rates = samples.iter().enumerate().filter_map(rate);
        let highest = rates.fold(0.0, f64::max);
        (highest > 0.0).then(|| round(f64::from(sample.depth) / highest))
    }

    /// The time until the queue is empty, by the rate at which requests left it for a backend while
    /// requests waited without a break.
    fn drains_in(&self, sample: &Sample) -> Option<f64> {
        if sample.depth == 0 {
            return Some(0.0);
        }
        let first = self.waiting_since(sample.at, DRAIN_WINDOW).last()?;
        let secs = sample.at.since(first.at).secs_f64();
        let left = sample.left_since(first);
        let known = left > 0 && secs >= DRAIN_LEAST_SECS;
        known.then(|| round(f64::from(sample.depth) * secs / left as f64))
    }

    /// Adds the lowest fair shares of the last minute, and which flow was found to flood. A flow
    /// that rests leaves the others its share for a moment, which changes nothing about a flood.
    fn remember_shares(&mut self, flows: &mut [FlowState], now: Time) {
        self.fair_shares.retain(|_, (_, seen)| now.since(*seen) <= MINUTE);
        for flow in flows.iter_mut().filter(|flow| flow.fair_share > 0.0) {
            flow.flooded = self.memory.shows(FLOOD, &flow.name);
            let new = (flow.fair_share, now);
            let kept = self.fair_shares.entry(flow.name.clone()).or_insert(new);
            if flow.fair_share <= kept.0 {
                *kept = new;
            }
            flow.least_fair_share = Some(kept.0);
        }
        // The page has a bounded number of flows; only those of it are remembered.
        let is_shown = |name: &String| flows.iter().any(|flow| flow.name == *name);
        self.fair_shares.retain(|name, _| is_shown(name));
    }

    /// Adds what the last minute shows of a backend.
    fn watch(&mut self, backend: &mut BackendCondition, sample: &Sample) {
        let ended =
            |sample: &Sample| sample.attempts.get(backend.id.as_str()).copied().unwrap_or_default();
        let before = self.base(sample.at, MINUTE).map_or_else(|| ended(sample), ended);
        let [answered, failed] = ended(sample);
        backend.answered_per_minute = answered.saturating_sub(before[0]) as f64;
        backend.failed_per_minute = failed.saturating_sub(before[1]) as f64;
        let before = self.base(sample.at, RATE_WINDOW).map_or_else(|| ended(sample), ended);
        backend.idle = backend.in_flight == 0 && before[0] == answered;
        backend.was_slow = self.memory.shows(SLOW, &backend.id);
        backend.slow_by = self.memory.shown_by(SLOW, &backend.id).filter(|_| backend.was_slow);
        let since = sample.at.before(LATELY);
        backend.queued_lately = self.memory.had(TOO_HIGH, &backend.id, since);
        if backend.in_flight == 0 {
            backend.silent_seconds = None;
            return;
        }
        let busy = *self.busy_since.entry(backend.id.clone()).or_insert(sample.at);
        let busy = sample.at.since(busy).secs_f64();
        backend.silent_seconds = backend.silent_seconds.map(|silent| round(silent.min(busy)));
    }
}

/// A number with three decimals.
pub(super) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
