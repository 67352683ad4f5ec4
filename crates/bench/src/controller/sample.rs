//! Repeated measurement: batches of subjects in turns, and the figures of each.
//!
//! The machine is shared, so a single figure means little. Subjects take turns, batch by batch, so
//! that a disturbance meets both; the least batch is the cost without disturbances, and the median
//! tells how far from it one usually is.

use anyhow::Result;
use sim::random::Random;
use testbed::stopwatch::Stopwatch;

use super::draw::{Draw, draws};
use super::subject::Subject;

/// Nanoseconds per step over many batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The least.
    pub(crate) min: f64,
    /// The median.
    pub(crate) median: f64,
}

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) batches: usize,
    pub(crate) steps: usize,
}

/// What a batch draws from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) random: Random,
    pub(crate) flows: u32,
    pub(crate) picks: u32,
}

/// One verb of a subject.
pub(crate) type Verb = fn(&mut dyn Subject) -> Result<()>;

// === impl Source ===

impl Source {
    /// The next draws.
    pub(crate) fn draws(&mut self, count: usize) -> Vec<Draw> {
        draws(&mut self.random, count, self.flows, self.picks)
    }
}

// === impl Sample ===

impl Sample {
    /// The least and the median of these measurements.
    pub(crate) fn of(mut nanos: Vec<f64>) -> Self {
        nanos.sort_by(f64::total_cmp);
        let at = |at: usize| nanos.get(at).copied().unwrap_or(f64::NAN);
        Self { min: at(0), median: at(nanos.len() / 2) }
    }
}

/// Measures a verb of several subjects in turns.
pub(crate) fn in_turns(
    subjects: &mut [&mut dyn Subject],
    verb: Verb,
    source: &mut Source,
    effort: Effort,
) -> Result<Vec<Sample>> {
    let mut nanos = vec![Vec::with_capacity(effort.batches); subjects.len()];
    for _ in 0..effort.batches {
        // The first few steps of a batch bring the subject's memory back into the caches.
        let warm = effort.steps / 8;
        let draws = source.draws(warm + effort.steps);
        let (first, rest) = draws.split_at(warm);
        for (subject, nanos) in subjects.iter_mut().zip(&mut nanos) {
            subject.load(first);
            verb(*subject)?;
            subject.load(rest);
            let watch = Stopwatch::start();
            verb(*subject)?;
            nanos.push(watch.nanos() / effort.steps as f64);
            subject.check()?;
        }
    }
    Ok(nanos.into_iter().map(Sample::of).collect())
}
