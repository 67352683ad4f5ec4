//! The cells of a scenario on all cores.

use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};
use sim::report::Digest;
use sim::scenario::{Cell, ScenarioError};

use super::{Scenario, Traces};
use crate::progress::Progress;
use crate::stopwatch::Stopwatch;

/// A scenario to run.
pub(super) struct Job<'a> {
    pub(super) name: &'a str,
    pub(super) scenario: &'a Scenario,
    pub(super) traces: &'a Traces,
    /// The policy that alone is run.
    pub(super) only: Option<usize>,
}

/// How long a scenario took on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// How many runs there were.
    pub runs: usize,
    /// Seconds of virtual time in which requests arrived, all runs together.
    pub virtual_secs: f64,
    /// Seconds from the start of the first to the end of the last.
    pub wall_secs: f64,
    /// Seconds of the longest run.
    pub longest_secs: f64,
}

/// One cell that has been run.
struct Done {
    at: usize,
    result: Result<Digest, ScenarioError>,
    secs: f64,
}

/// Runs every cell and keeps what the report needs, in the order of the cells.
pub(super) fn run(job: &Job<'_>, progress: &mut Progress<'_>) -> Result<(Vec<Digest>, Timing)> {
    let mut cells = job.scenario.cells();
    cells.retain(|cell| job.only.is_none_or(|only| only == cell.policy));
    let watch = Stopwatch::start();
    let next = AtomicUsize::new(0);
    let mut digests: Vec<Option<Digest>> = vec![None; cells.len()];
    let mut longest_secs: f64 = 0.0;
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| -> Result<()> {
        for _ in 0..workers().min(cells.len()) {
            let (sender, cells, next) = (sender.clone(), &cells, &next);
            scope.spawn(move || work(job, cells, next, &sender));
        }
        drop(sender);
        for (count, done) in (1..).zip(receiver) {
            // After a failure no further cell begins.
            let digest = done.result.inspect_err(|_| next.store(cells.len(), Ordering::Relaxed))?;
            longest_secs = longest_secs.max(done.secs);
            progress.cell(job, &cells[done.at], (count, cells.len()), done.secs)?;
            digests[done.at] = Some(digest);
        }
        Ok(())
    })?;
    let timing = Timing {
        runs: cells.len(),
        virtual_secs: job.scenario.duration.secs_f64() * cells.len() as f64,
        wall_secs: watch.nanos() * 1e-9,
        longest_secs,
    };
    let digests: Option<Vec<Digest>> = digests.into_iter().collect();
    Ok((digests.context("a run ended without a result")?, timing))
}

fn work(job: &Job<'_>, cells: &[Cell], next: &AtomicUsize, sender: &mpsc::Sender<Done>) {
    while let Some((at, &cell)) = take(next).and_then(|at| Some((at, cells.get(at)?))) {
        let watch = Stopwatch::start();
        let history = job.scenario.run(job.traces, cell);
        let result = history.map(|history| Digest::new(job.scenario, cell, &history));
        let done = Done { at, result, secs: watch.nanos() * 1e-9 };
        if sender.send(done).is_err() {
            return;
        }
    }
}

fn take(next: &AtomicUsize) -> Option<usize> {
    let next_one = |at: usize| at.checked_add(1);
    next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next_one).ok()
}

fn workers() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

// === impl Progress ===

impl Progress<'_> {
    /// Reports that a cell has been run, on a terminal.
    fn cell(
        &mut self,
        job: &Job<'_>,
        cell: &Cell,
        (count, all): (usize, usize),
        secs: f64,
    ) -> Result<()> {
        if !self.live {
            return Ok(());
        }
        let &Cell { policy, load, seed } = cell;
        let (name, policy) = (job.name, &job.scenario.policies[policy].name);
        let text = format!("{name}: {count}/{all} {policy}, load {load}, seed {seed}: {secs:.1} s");
        // Back to the start of the line, and the rest of it away.
        write!(self.out, "\r{text}\u{1b}[K")?;
        if count == all {
            write!(self.out, "\r\u{1b}[K")?;
        }
        self.out.flush()?;
        Ok(())
    }
}

// === impl Timing ===

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { runs, virtual_secs, wall_secs, longest_secs } = self;
        let minutes = virtual_secs / 60.0;
        write!(f, "{runs} runs, {minutes:.0} minutes of traffic in {wall_secs:.1} s; ")?;
        write!(f, "the longest run took {longest_secs:.1} s")
    }
}
