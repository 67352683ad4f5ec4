//! How true the simulated engine is: real runs of vLLM replayed, and the difference.
//!
//! A recorded run says when each request came, how long it was, and when its first and last token
//! came out. The replay gives the engine the same requests at the same moments.

use std::fmt;

use flow::{Span, Time};
use serde::Deserialize;

use super::{Engine, Job, JobId, Profile, Progress, Rejected};
use crate::percentile::nearest_rank;

/// One request of a recorded run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// Prompt tokens.
    pub prompt: u32,
    /// Tokens generated.
    pub output: u32,
    /// When it came, counted from the first request.
    pub arrival: Time,
    /// When its tokens came out.
    pub outcome: Outcome,
}

/// What became of a request, counted from its arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Until the first token.
    pub first: Span,
    /// Until the last token.
    pub last: Span,
}

/// Why a recording cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecording {
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub wrong: String,
}

/// One statistic, recorded and simulated, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistic {
    /// What it is about.
    pub name: &'static str,
    /// In the recorded run.
    pub recorded: f64,
    /// In the replay.
    pub simulated: f64,
}

/// Mean, p50 and p99 of the time to the first token, the time per later token and the time to the
/// last token.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// The nine of them.
    pub statistics: Vec<Statistic>,
}

/// A line of `requests.jsonl`; the moments are seconds on two clocks, see [`parse`].
#[derive(Deserialize)]
struct Line {
    input_toks: u32,
    output_toks: u32,
    arrival_time: f64,
    queued_ts: f64,
    first_token_ts: f64,
    last_token_ts: f64,
}

const NAMES: [[&str; 3]; 3] = [
    ["TTFT mean", "TTFT p50", "TTFT p99"],
    ["TPOT mean", "TPOT p50", "TPOT p99"],
    ["E2E mean", "E2E p50", "E2E p99"],
];

/// Reads a recorded run, one JSON object a line, sorted by arrival.
///
/// Arrivals are on the wall clock, tokens on the engine's own. Both run alike; the request that was
/// queued soonest after its arrival tells how far they are apart.
pub fn parse(text: &str) -> Result<Vec<RecordedRequest>, BadRecording> {
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |wrong: String| BadRecording { line: number + 1, wrong };
        let parsed: Line = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
        parsed.check(lines.last()).map_err(|wrong| bad(wrong.to_owned()))?;
        lines.push(parsed);
    }
    let apart = lines.iter().map(|line| line.queued_ts - line.arrival_time);
    let apart = apart.fold(f64::INFINITY, f64::min);
    let start = lines.first().map_or(0.0, |line| line.arrival_time);
    Ok(lines.iter().map(|line| line.row(start, apart)).collect())
}

/// Gives an engine the recorded requests at their recorded moments.
pub fn replay(profile: &Profile, rows: &[RecordedRequest]) -> Result<Vec<Outcome>, Rejected> {
    let mut engine = Engine::new(profile);
    let mut outcomes = vec![Outcome::default(); rows.len()];
    let mut out = Vec::new();
    let mut arrivals = rows.iter().enumerate().peekable();
    loop {
        let arrival = arrivals.peek().map(|(_, row)| row.arrival);
        let step = engine.next_event();
        // A request that comes at the end of a step is seen by the scheduling that follows.
        if let Some((index, row)) =
            arrivals.next_if(|(_, row)| step.is_none_or(|end| row.arrival <= end))
        {
            engine.submit(row.job(index), row.arrival)?;
        } else if let Some(end) = step {
            engine.advance(end, &mut out);
            for progress in out.drain(..) {
                note(&progress, end, rows, &mut outcomes);
            }
        } else if arrival.is_none() {
            return Ok(outcomes);
        }
    }
}

fn note(progress: &Progress, now: Time, rows: &[RecordedRequest], outcomes: &mut [Outcome]) {
    let index = progress.job.0 as usize;
    let since = now.since(rows[index].arrival);
    if progress.tokens == 1 {
        outcomes[index].first = since;
    }
    outcomes[index].last = since;
}

/// Sets a replay against the recorded run.
pub fn compare(rows: &[RecordedRequest], outcomes: &[Outcome]) -> Errors {
    let recorded: Vec<Outcome> = rows.iter().map(|row| row.outcome).collect();
    let sides = [measures(rows, &recorded), measures(rows, outcomes)];
    let mut statistics = Vec::new();
    for (at, names) in NAMES.iter().enumerate() {
        let [recorded, simulated] = [summary(&sides[0][at]), summary(&sides[1][at])];
        for (which, name) in names.iter().enumerate() {
            let (recorded, simulated) = (recorded[which], simulated[which]);
            statistics.push(Statistic { name, recorded, simulated });
        }
    }
    Errors { statistics }
}

/// Times to the first token, per later token and to the last token, each sorted.
fn measures(rows: &[RecordedRequest], outcomes: &[Outcome]) -> [Vec<f64>; 3] {
    let millis = |span: Span| span.secs_f64() * 1000.0;
    let first = outcomes.iter().map(|outcome| millis(outcome.first));
    let last = outcomes.iter().map(|outcome| millis(outcome.last));
    let pace = rows.iter().zip(outcomes).filter(|(row, _)| row.output > 1).map(|(row, outcome)| {
        (millis(outcome.last) - millis(outcome.first)) / f64::from(row.output - 1)
    });
    let mut all = [first.collect::<Vec<f64>>(), pace.collect(), last.collect()];
    all.iter_mut().for_each(|values| values.sort_by(f64::total_cmp));
    all
}

/// Mean, p50 and p99 of sorted values; zeros where there are none.
fn summary(sorted: &[f64]) -> [f64; 3] {
    let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
    let rank = |per_mille| nearest_rank(sorted, per_mille).unwrap_or_default();
    [mean, rank(500), rank(990)]
}

// === impl RecordedRequest ===

impl RecordedRequest {
    fn job(&self, index: usize) -> Job {
        Job {
            id: JobId(index as u32),
            prompt: self.prompt,
            output: self.output,
            priority: 0,
            prefix: [].into(),
        }
    }
}

// === impl Line ===

impl Line {
    fn check(&self, before: Option<&Self>) -> Result<(), &'static str> {
        if before.is_some_and(|before| before.arrival_time > self.arrival_time) {
            return Err("arrival_time is before that of the line above: sort by arrival");
        }
        if self.first_token_ts < self.queued_ts {
            return Err("first_token_ts is before queued_ts");
        }
        if self.last_token_ts < self.first_token_ts {
            return Err("last_token_ts is before first_token_ts");
        }
        Ok(())
    }

    fn row(&self, start: f64, apart: f64) -> RecordedRequest {
        let since = |moment: f64| Span::from_secs_f64(moment - apart - self.arrival_time);
        RecordedRequest {
            prompt: self.input_toks,
            output: self.output_toks,
            arrival: Time::ZERO.after(Span::from_secs_f64(self.arrival_time - start)),
            outcome: Outcome { first: since(self.first_token_ts), last: since(self.last_token_ts) },
        }
    }
}

// === impl Statistic ===

impl Statistic {
    /// How far the replay is off, as a share of the recorded value.
    pub fn error(&self) -> f64 {
        self.simulated / self.recorded - 1.0
    }
}

// === impl Errors ===

impl Errors {
    /// The largest error, whichever its sign.
    pub fn worst(&self) -> f64 {
        self.statistics.iter().map(|statistic| statistic.error().abs()).fold(0.0, f64::max)
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<10} {:>12} {:>12} {:>8}", "ms", "recorded", "simulated", "error")?;
        for statistic in &self.statistics {
            let Statistic { name, recorded, simulated } = statistic;
            let error = statistic.error() * 100.0;
            writeln!(f, "{name:<10} {recorded:>12.1} {simulated:>12.1} {error:>+7.1}%")?;
        }
        Ok(())
    }
}

// === impl BadRecording ===

impl fmt::Display for BadRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.wrong)
    }
}

impl std::error::Error for BadRecording {}
