//! Values over time: rates, the time until the queue is empty, and since when a finding holds. The
//! module keeps the samples of the last minute, one for each second.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use flow::{Span, Time};

use super::finding::StatusFinding;
use super::history::History;
use super::queue_rules::FLOOD;
use super::sentence::sentence;
use super::situation::{BackendCondition, FlowState, RefusalCount, Situation};
use super::{Level, StatusPage, findings};

/// The time between two samples, and how many are kept.
const SAMPLE_EVERY: Span = Span::from_millis(900);
const SAMPLES_MAX: usize = 64;
/// The windows of the rates of requests, of the drain rate and of the counts of a minute.
const RATE_WINDOW: Span = Span::from_secs(10);
const DRAIN_WINDOW: Span = Span::from_secs(30);
const MINUTE: Span = Span::from_secs(60);
/// A rate over a shorter time says nothing.
const RATE_LEAST_SECS: f64 = 0.5;
const DRAIN_LEAST_SECS: f64 = 1.0;
/// The most findings that are shown.
const FINDINGS_MAX: usize = 100;

/// Outcomes that are no refusals: the request was served, or the client ended it.
const NO_REFUSALS: [&str; 3] = ["ok", "client_closed", "response_unseen"];

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) at: Time,
    /// Offers, grants with and without a wait, and ends of service.
    pub(crate) offered: u64,
    pub(crate) granted: u64,
    pub(crate) bypassed: u64,
    pub(crate) settled: u64,
    pub(crate) depth: u32,
    /// Ended requests by band, `None` without one, and outcome.
    pub(crate) endings: BTreeMap<(Option<usize>, &'static str), u64>,
    /// Answered and failed attempts by backend.
    pub(crate) attempts: BTreeMap<Arc<str>, [u64; 2]>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Trends {
    samples: VecDeque<Sample>,
    /// When each finding was first found, by its rule and its subject.
    since: BTreeMap<(&'static str, Option<String>), Time>,
    /// The lowest fair share of each flow in the last minute, and when it was seen.
    fair_shares: BTreeMap<String, (f64, Time)>,
    /// Since when each backend has had requests.
    busy_since: BTreeMap<String, Time>,
    history: History,
}

// === impl Trends ===

impl Trends {
    /// Completes the situation with rates, and judges it.
    pub(crate) fn judge(&mut self, mut situation: Situation, sample: Sample) -> StatusPage {
        let now = sample.at;
        self.rate(&mut situation, &sample);
        self.count_refusals(&mut situation, &sample);
        let queue = &mut situation.queue;
        queue.drains_in_seconds = self.drains_in(&sample);
        queue.drain_is_least = queue.late > 0 && queue.arriving_per_second > 0.0;
        self.remember_shares(&mut situation.flows, now);
        for backend in &mut situation.backends {
            self.watch(backend, &sample);
        }
        let known = |id: &String, _: &mut Time| {
            situation.backends.iter().any(|backend| backend.id == *id && backend.in_flight > 0)
        };
        self.busy_since.retain(known);
        let findings = self.dated(findings(&situation), now);
        self.keep(sample);
        self.history.add(&situation, now);
        let worst = findings.first().map_or(Level::Ok, |worst| worst.level);
        let level = if worst == Level::Note { Level::Ok } else { worst };
        let sentence = sentence(&situation, &findings);
        StatusPage { sentence, level, findings, situation }
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

    fn rate(&self, situation: &mut Situation, sample: &Sample) {
        let Some(base) = self.base(sample.at, RATE_WINDOW) else { return };
        let secs = sample.at.since(base.at).secs_f64();
        if secs < RATE_LEAST_SECS {
            return;
        }
        let rate = |now: u64, then: u64| round(now.saturating_sub(then) as f64 / secs);
        situation.queue.arriving_per_second = rate(sample.offered, base.offered);
        let started = |sample: &Sample| sample.granted + sample.bypassed;
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
                    false => !NO_REFUSALS.contains(outcome),
                });
                counts.map(|(_, count)| count).sum()
            };
            band.served_per_second = rate(ended(sample, true), ended(base, true));
            band.refused_per_second = rate(ended(sample, false), ended(base, false));
        }
    }

    fn count_refusals(&self, situation: &mut Situation, sample: &Sample) {
        let base = self.base(sample.at, MINUTE);
        let mut counts: BTreeMap<&'static str, RefusalCount> = BTreeMap::new();
        for (key @ (_, reason), &total) in &sample.endings {
            if NO_REFUSALS.contains(reason) {
                continue;
            }
            let before = base.map_or(total, |base| base.endings.get(key).copied().unwrap_or(0));
            let entry = counts.entry(reason).or_default();
            entry.reason = reason;
            entry.total += total;
            entry.last_minute += total.saturating_sub(before);
        }
        situation.refusals = counts.into_values().collect();
        let order =
            |refusal: &RefusalCount| std::cmp::Reverse((refusal.last_minute, refusal.total));
        situation.refusals.sort_by_key(order);
    }

    /// The time until the queue is empty, by the rate at which requests left it for a backend while
    /// requests waited without a break.
    fn drains_in(&self, sample: &Sample) -> Option<f64> {
        if sample.depth == 0 {
            return Some(0.0);
        }
        let recent = |kept: &&Sample| kept.depth > 0 && sample.at.since(kept.at) <= DRAIN_WINDOW;
        let first = self.samples.iter().rev().take_while(recent).last()?;
        let secs = sample.at.since(first.at).secs_f64();
        let left = sample.granted.saturating_sub(first.granted);
        let known = left > 0 && secs >= DRAIN_LEAST_SECS;
        known.then(|| round(f64::from(sample.depth) * secs / left as f64))
    }

    /// Adds the lowest fair shares of the last minute, and which flow was found to flood. A flow
    /// that rests leaves the others its share for a moment, which changes nothing about a flood.
    fn remember_shares(&mut self, flows: &mut [FlowState], now: Time) {
        self.fair_shares.retain(|_, (_, seen)| now.since(*seen) <= MINUTE);
        for flow in flows.iter_mut().filter(|flow| flow.fair_share > 0.0) {
            flow.flooded = self.since.contains_key(&(FLOOD, Some(flow.name.clone())));
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
        if backend.in_flight == 0 {
            backend.silent_seconds = None;
            return;
        }
        let busy = *self.busy_since.entry(backend.id.clone()).or_insert(sample.at);
        let busy = sample.at.since(busy).secs_f64();
        backend.silent_seconds = backend.silent_seconds.map(|silent| round(silent.min(busy)));
    }

    /// Adds since when each finding holds, leaves out those of a moment, and sorts the rest.
    fn dated(&mut self, found: Vec<StatusFinding>, now: Time) -> Vec<StatusFinding> {
        let mut since = BTreeMap::new();
        let mut shown = Vec::new();
        for mut finding in found {
            let key = (finding.id, finding.subject.clone());
            let first = self.since.get(&key).copied().unwrap_or(now);
            since.insert(key, first);
            finding.since_seconds = round(now.since(first).secs_f64());
            if finding.since_seconds >= finding.lasting_secs {
                shown.push(finding);
            }
        }
        self.since = since;
        // The sort is stable: rules about backends come before those about their consequences.
        shown.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        shown.truncate(FINDINGS_MAX);
        shown
    }
}

/// A number with three decimals.
pub(super) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
