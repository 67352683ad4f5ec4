//! What the gateway costs, beside a bare hyper proxy and nginx in the same run.
//!
//! The measured proxies are processes on a core of their own; load and origin are raw TCP in this
//! process, on another core. Everyone takes turns in short rounds, because on a shared machine only
//! what is measured in the same second can be compared.

mod cost;
mod floor;
mod grant;
mod headline;
mod http1;
mod instructions;
mod latency;
pub(crate) mod load;
mod memory_at_10k;
pub(crate) mod origin;
pub(crate) mod process;
pub(crate) mod proxies;
mod refusal;
pub(crate) mod report;
pub(crate) mod settings;

#[cfg(test)]
mod tests;

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

pub(crate) use floor::FloorProxy;
pub(crate) use report::{Column, Figures, GatewayReport, Promise, Row};

use crate::runner::{Runner, Selection};
use process::Cores;
use proxies::Fixture;

const ROUNDS: usize = 8;
const ROUNDS_QUICK: usize = 3;

/// Where it happens, and how thoroughly.
struct Bench {
    quick: bool,
    fixture: Fixture,
}

#[derive(Clone, Copy, Debug)]
enum Benchmark {
    Post,
    Prompt,
    Stream,
    Paced,
    Latency,
    Grant,
    Refusal,
    ClosedLoop,
    Headline,
    Instructions,
}

/// Measures the gateway; says on `progress` what it is at.
pub(crate) fn gateway(selection: &Selection, progress: &mut dyn Write) -> Result<GatewayReport> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, measure(selection, progress))
}

async fn measure(selection: &Selection, progress: &mut dyn Write) -> Result<GatewayReport> {
    let mut run = Runner::new(selection, progress);
    let mut bench = Bench { quick: selection.quick, fixture: Fixture::set()? };
    let mut report = GatewayReport {
        quick: selection.quick,
        notes: notes(bench.fixture.cores),
        tables: Vec::new(),
        targets: Vec::new(),
    };
    for which in Benchmark::ALL {
        if which.possible() && run.wants(which.name())? {
            let (table, targets) = which.measure(&mut bench).await.context(which.name())?;
            report.tables.push(table);
            report.targets.extend(targets);
        }
    }
    run.check_any(!report.tables.is_empty())?;
    Ok(report)
}

/// What the figures do not show.
fn notes(cores: Cores) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |when: bool, text: &str| {
        if when {
            notes.push(text.to_owned());
        }
    };
    note(cores == Cores::Shared, "Only one core: load and proxy share it.");
    note(cfg!(debug_assertions), "A debug build: only a release build says anything.");
    note(!proxies::has_nginx(), "nginx is missing beside us: apt-get install nginx-light");
    note(!instructions::available(), "No instructions counted: apt-get install valgrind");
    notes
}

// === impl Benchmark ===

impl Benchmark {
    const ALL: [Self; 10] = [
        Self::Post,
        Self::Prompt,
        Self::Stream,
        Self::Paced,
        Self::Latency,
        Self::Grant,
        Self::Refusal,
        Self::ClosedLoop,
        Self::Headline,
        Self::Instructions,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Post => "post",
            Self::Prompt => "prompt",
            Self::Stream => "stream",
            Self::Paced => "paced",
            Self::Latency => "latency",
            Self::Grant => "grant",
            Self::Refusal => "refusal",
            Self::ClosedLoop => "crowd",
            Self::Headline => "headline",
            Self::Instructions => "instructions",
        }
    }

    fn possible(self) -> bool {
        !matches!(self, Self::Instructions) || instructions::available()
    }

    async fn measure(self, bench: &mut Bench) -> Result<(Figures, Vec<Promise>)> {
        match self {
            Self::Post => cost::post(bench).await,
            Self::Prompt => cost::prompt(bench).await,
            Self::Stream => cost::stream(bench).await,
            Self::Paced => cost::paced(bench).await,
            Self::Latency => latency::measure(bench).await,
            Self::Grant => grant::measure(bench).await,
            Self::Refusal => refusal::measure(bench).await,
            Self::ClosedLoop => memory_at_10k::measure(bench).await,
            Self::Headline => headline::measure(bench).await,
            Self::Instructions => instructions::measure(bench).await,
        }
    }
}

// === impl Bench ===

impl Bench {
    fn many(&self) -> usize {
        3 * self.rounds()
    }

    fn rounds(&self) -> usize {
        if self.quick { ROUNDS_QUICK } else { ROUNDS }
    }

    /// So long, or a third of it in a quick run.
    fn seconds(&self, full: f64) -> Duration {
        Duration::from_secs_f64(if self.quick { full / 3.0 } else { full })
    }

    /// So many, or a third of them in a quick run.
    fn count(&self, full: usize) -> usize {
        if self.quick { full / 3 } else { full }
    }
}
