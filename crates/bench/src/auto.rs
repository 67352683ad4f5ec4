//! The stock that tunes itself beside the best watermark that an oracle could have set (C10).
//!
//! Everything runs in the simulator, so the figures are the same on every machine, and a fixed
//! watermark can be tried at each value before it is called the best. The constants of `auto` were
//! chosen on seeds 1 to 3; the study uses others.

mod case;
mod conditions;
mod cores;
mod main_table;
mod mixed;
mod ramp;
mod report;
mod robust;
mod run;
mod workloads;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};

pub(crate) use report::Report;
pub(crate) use run::Figures;

use case::{Case, Known};
use run::Run;
use workloads::Workloads;

/// The engines of the study.
const ENGINES: [&str; 5] = ["rtx4090-8b", "pro6000-8b", "pro6000x2-32b", "h100-8b", "ollama-4"];
/// The first minute of eleven does not count: queues and bounds find their places.
const WINDOW: (u64, u64) = (60, 660);
const WINDOW_QUICK: (u64, u64) = (30, 150);
/// Conditions that hurt are looked at with fewer seeds: there are many of them.
const SEEDS_ROBUST: usize = 3;

/// What to study, and how thoroughly.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Shorter runs, fewer engines and at most two seeds.
    pub(crate) quick: bool,
    /// Only what has this in its name.
    pub(crate) only: Option<String>,
    /// The seeds over which figures are means.
    pub(crate) seeds: Vec<u64>,
    /// The folder with the traces.
    pub(crate) traces: PathBuf,
}

/// How long and how often each run is played.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    window: (u64, u64),
    seeds: Vec<u64>,
}

/// A study in progress.
struct Study<'a> {
    plan: &'a Plan,
    effort: Effort,
    workloads: Workloads,
    known: BTreeMap<String, Known>,
    progress: &'a mut dyn Write,
    names: Vec<String>,
}

/// Carries the plan out; says on `progress` what it is at.
pub(crate) fn auto(plan: &Plan, progress: &mut dyn Write) -> Result<Report> {
    if plan.seeds.is_empty() {
        bail!("no seed is given: name at least one");
    }
    let workloads = Workloads::read(&plan.traces)?;
    let effort = Effort::of(plan);
    let (known, names) = (BTreeMap::new(), Vec::new());
    let mut study = Study { plan, effort, workloads, known, progress, names };
    let rows = main_table::measure(&mut study)?;
    let report = Report {
        quick: plan.quick,
        seeds: study.effort.seeds.clone(),
        summary: report::summary(&rows),
        rows,
        robust: robust::measure(&mut study)?,
        mixed: mixed::measure(&mut study)?,
        ramps: ramp::measure(&mut study)?,
    };
    if report.is_empty() {
        let only = plan.only.as_deref().unwrap_or_default();
        bail!("no part's name contains '{only}'; the names are: {}", study.names.join(", "));
    }
    Ok(report)
}

// === impl Effort ===

impl Effort {
    fn of(plan: &Plan) -> Self {
        let seeds = plan.seeds.iter().copied();
        match plan.quick {
            true => Self { window: WINDOW_QUICK, seeds: seeds.take(2).collect() },
            false => Self { window: WINDOW, seeds: seeds.collect() },
        }
    }

    /// The same with fewer seeds.
    fn fewer(&self) -> Self {
        Self { window: self.window, seeds: self.seeds.iter().copied().take(SEEDS_ROBUST).collect() }
    }

    /// Plays each run with every seed; gives the means.
    fn means(&self, runs: &[Run]) -> Result<Vec<Figures>> {
        let with_seeds = |run: &Run| {
            self.seeds.iter().map(|&seed| run.with(run.stock, seed)).collect::<Vec<_>>()
        };
        let all: Vec<Run> = runs.iter().flat_map(with_seeds).collect();
        let figures = cores::each(&all, Run::figures)?;
        Ok(figures.chunks(self.seeds.len()).map(Figures::mean).collect())
    }
}

// === impl Study ===

impl Study<'_> {
    /// Whether to do the part with this name; if so, says that it is done.
    fn wants(&mut self, name: &str) -> Result<bool> {
        self.names.push(name.to_owned());
        let wanted = self.plan.only.as_deref().is_none_or(|only| name.contains(only));
        if wanted {
            writeln!(self.progress, "{name}")?;
        }
        Ok(wanted)
    }

    /// The engines worth the time that the plan allows.
    fn engines(&self) -> &'static [&'static str] {
        if self.plan.quick { &["rtx4090-8b", "pro6000-8b"] } else { &ENGINES }
    }

    /// A case with its best fixed watermark, which is looked for only once.
    fn know(&mut self, engine: &str, workload: &str) -> Result<Known> {
        let case = self.workloads.case(engine, workload)?;
        let name = case.name();
        if let Some(known) = self.known.get(&name) {
            return Ok(known.clone());
        }
        let known = case.know(&self.effort)?;
        self.known.insert(name, known.clone());
        Ok(known)
    }
}
