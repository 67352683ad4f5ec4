//! What the endpoint picker costs behind Envoy, beside Envoy alone and another picker.
//!
//! Envoy, picker, load and origin share all cores, as on a small node: what a picker spends is
//! missing for the others. All who are measured take turns in short rounds. Envoy's own share is
//! shown beside the picker's, since with a fast picker Envoy is the limit.

mod decision;
mod envoy;
mod envoy_setup;
mod grpc;
mod latency;
mod throughput;

#[cfg(test)]
mod tests;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::gateway::proxies::Fixture;
use crate::gateway::{Figures, GatewayReport, Promise};
use crate::runner::{Runner, Selection};

const ROUNDS: usize = 8;
const ROUNDS_QUICK: usize = 3;

/// Another picker to measure: a program that is given two ports, listens on the first one, knows
/// one model server on the second, and needs nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    /// The program.
    pub(crate) program: PathBuf,
}

/// Where it happens, and how thoroughly.
struct Bench {
    quick: bool,
    fixture: Fixture,
    beside: Option<Beside>,
}

#[derive(Clone, Copy, Debug)]
enum Benchmark {
    Post,
    Prompt,
    Stream,
    Added,
    Decision,
}

/// Measures the picker; says on `progress` what it is at.
pub(crate) fn epp(
    selection: &Selection,
    beside: Option<Beside>,
    progress: &mut dyn Write,
) -> Result<GatewayReport> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, measure(selection, beside, progress))
}

async fn measure(
    selection: &Selection,
    beside: Option<Beside>,
    progress: &mut dyn Write,
) -> Result<GatewayReport> {
    let mut run = Runner::new(selection, progress);
    let mut bench = Bench { quick: selection.quick, fixture: Fixture::shared()?, beside };
    let mut report = GatewayReport {
        quick: selection.quick,
        notes: notes(),
        tables: Vec::new(),
        targets: Vec::new(),
    };
    for which in Benchmark::ALL {
        if run.wants(which.name())? {
            let (table, targets) = which.measure(&mut bench).await.context(which.name())?;
            report.tables.push(table);
            report.targets.extend(targets);
        }
    }
    run.check_any(!report.tables.is_empty())?;
    Ok(report)
}

/// What the figures do not show.
fn notes() -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut notes = vec![format!("Envoy, picker, load and origin share {cores} cores.")];
    if cfg!(debug_assertions) {
        notes.push("A debug build: only a release build says anything.".to_owned());
    }
    notes
}

// === impl Benchmark ===

impl Benchmark {
    const ALL: [Self; 5] = [Self::Post, Self::Prompt, Self::Stream, Self::Added, Self::Decision];

    fn name(self) -> &'static str {
        match self {
            Self::Post => "post",
            Self::Prompt => "prompt",
            Self::Stream => "stream",
            Self::Added => "added",
            Self::Decision => "decision",
        }
    }

    async fn measure(self, bench: &mut Bench) -> Result<(Figures, Vec<Promise>)> {
        match self {
            Self::Post => throughput::post(bench).await,
            Self::Prompt => throughput::prompt(bench).await,
            Self::Stream => throughput::stream(bench).await,
            Self::Added => latency::measure(bench).await,
            Self::Decision => decision::measure(bench).await,
        }
    }
}

// === impl Bench ===

impl Bench {
    fn rounds(&self) -> usize {
        if self.quick { ROUNDS_QUICK } else { ROUNDS }
    }

    /// So long, or a third of it in a quick run.
    fn seconds(&self, full: f64) -> Duration {
        Duration::from_secs_f64(if self.quick { full / 3.0 } else { full })
    }
}
