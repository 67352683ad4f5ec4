//! What batch work costs, how well its gates keep to what they allow, and what interactive users
//! notice of it.
//!
//! Everybody shares all cores: what is measured here is slower than any processor, or a share.

mod accept;
mod accuracy;
mod api;
mod durable;
mod protection;
mod rehearsal;
mod settings;

#[cfg(test)]
mod tests;

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::gateway::proxies::Fixture;
use crate::gateway::{Figures, GatewayReport, Promise};
use crate::runner::{Runner, Selection};

/// Where it happens, and how thoroughly.
struct Bench<'a> {
    quick: bool,
    fixture: Fixture,
    progress: &'a mut dyn Write,
}

#[derive(Clone, Copy, Debug)]
enum Benchmark {
    Store,
    Accept,
    Accuracy,
    Protection,
    Rehearsal,
}

/// Measures batch work; says on `progress` what it is at.
pub(crate) fn batch(selection: &Selection, progress: &mut dyn Write) -> Result<GatewayReport> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, measure(selection, progress))
}

async fn measure(selection: &Selection, progress: &mut dyn Write) -> Result<GatewayReport> {
    let mut run = Runner::new(selection, progress);
    let mut fixture = Fixture::shared()?;
    let mut report = GatewayReport {
        quick: selection.quick,
        notes: notes(),
        tables: Vec::new(),
        targets: Vec::new(),
    };
    for which in Benchmark::ALL {
        if run.wants(which.name())? {
            let mut bench = Bench { quick: selection.quick, fixture, progress: run.progress };
            let measured = which.measure(&mut bench).await;
            fixture = bench.fixture;
            let (table, targets) = measured.context(which.name())?;
            report.tables.push(table);
            report.targets.extend(targets);
        }
    }
    run.check_any(!report.tables.is_empty())?;
    Ok(report)
}

/// What the figures do not show.
fn notes() -> Vec<String> {
    let debug = "A debug build: only a release build says anything.";
    if cfg!(debug_assertions) { vec![debug.to_owned()] } else { Vec::new() }
}

// === impl Benchmark ===

impl Benchmark {
    const ALL: [Self; 5] =
        [Self::Store, Self::Accept, Self::Accuracy, Self::Protection, Self::Rehearsal];

    fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Accept => "accept",
            Self::Accuracy => "accuracy",
            Self::Protection => "protection",
            Self::Rehearsal => "rehearsal",
        }
    }

    async fn measure(self, bench: &mut Bench<'_>) -> Result<(Figures, Vec<Promise>)> {
        match self {
            Self::Store => durable::measure(bench).await,
            Self::Accept => accept::measure(bench).await,
            Self::Accuracy => accuracy::measure(bench).await,
            Self::Protection => protection::measure(bench).await,
            Self::Rehearsal => rehearsal::measure(bench),
        }
    }
}

// === impl Bench ===

impl Bench<'_> {
    /// So many, or a third of them in a quick run.
    fn count(&self, full: usize) -> usize {
        if self.quick { full / 3 } else { full }
    }

    /// So long, or a third of it in a quick run.
    fn seconds(&self, full: f64) -> Duration {
        Duration::from_secs_f64(if self.quick { full / 3.0 } else { full })
    }
}
