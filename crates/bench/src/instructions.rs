//! Instructions outside the kernel, counted under callgrind: the same on a busy machine as on an
//! idle one, so fit for comparing two versions of the code, and for budgets that a test can hold.

mod budgets;
mod callgrind;
mod core_cycles;
mod requests;

use std::io::Write;
use std::path::PathBuf;
use std::pin::Pin;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::gateway::process::{Cores, installed};
use crate::gateway::proxies::Fixture;
use crate::gateway::without_priorities;
use crate::report::Table;
use crate::runner::{Bench, Runner, Selection};
use budgets::Budgets;
use callgrind::Counts;

/// Count the instructions of a cycle of the core, and of a request.
///
/// A request is counted on the thread that serves it, and in the whole process. Needs Debian's
/// valgrind. Takes some minutes; with --budgets about one.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate-bench instructions                    everything
  tidegate-bench instructions --only core        the core alone
  tidegate-bench instructions --budgets crates/bench/budgets.toml
                                                 what has a budget; an error if one is exceeded
  tidegate-bench instructions --budgets crates/bench/budgets.toml --write
                                                 the same, and what was counted is the new budget")]
pub(crate) struct Instructions {
    #[command(flatten)]
    selection: Selection,
    /// Count only what has a budget in this file; a count that is more than 2 % above is an error.
    #[arg(long, value_name = "FILE")]
    budgets: Option<PathBuf>,
    /// Make what was counted the new budgets.
    #[arg(long, requires = "budgets")]
    write: bool,
}

type Count = for<'a> fn(&'a mut Bench) -> Pin<Box<dyn Future<Output = Result<Counts>> + 'a>>;

const FLOOR_CYCLE: &str = "core: bare structure, 1000 wait";
const FIXED_CYCLE: &str = "core: fixed bounds, 1000 wait";
const FLOOR: &str = "request: bare proxy";
const PASSING: &str = "request: passes the queue by";
const WORKLOADS: &str = "request: of a workload";
const LARGER: &str = "request: 2 KB";
const LARGER_UNCACHED: &str = "request: 2 KB, cache_tokens 0";
const WITHOUT_PRIORITIES: &str = "request: build without priorities";

/// What is counted, by its name.
const COUNTS: &[(&str, Count)] = &[
    (FLOOR_CYCLE, |bench| Box::pin(core_cycles::floor(bench))),
    (FIXED_CYCLE, |bench| Box::pin(core_cycles::fixed(bench))),
    ("core: nobody waits", |bench| Box::pin(core_cycles::served(bench, (0, "different")))),
    ("core: 60 wait, prompts unknown", |bench| Box::pin(core_cycles::served(bench, (60, "none")))),
    ("core: 60 wait, prompts begin alike", |bench| {
        Box::pin(core_cycles::served(bench, (60, "shared")))
    }),
    ("core: 60 wait, prompts differ", |bench| {
        Box::pin(core_cycles::served(bench, (60, "different")))
    }),
    ("core: 1000 wait, prompts begin alike", |bench| {
        Box::pin(core_cycles::served(bench, (1000, "shared")))
    }),
    ("core: 1000 wait, prompts differ", |bench| {
        Box::pin(core_cycles::served(bench, (1000, "different")))
    }),
    ("core: 100000 wait, prompts begin alike", |bench| {
        Box::pin(core_cycles::served(bench, (100_000, "shared")))
    }),
    ("core: 100000 wait, prompts differ", |bench| {
        Box::pin(core_cycles::served(bench, (100_000, "different")))
    }),
    (FLOOR, |bench| Box::pin(requests::floor(bench))),
    (PASSING, |bench| Box::pin(requests::passing(bench))),
    (WORKLOADS, |bench| Box::pin(requests::of_a_workload(bench))),
    ("request: key and workload", |bench| Box::pin(requests::with_a_key(bench))),
    ("request: waits among 64", |bench| Box::pin(requests::waiting(bench, 64))),
    ("request: waits among 1000", |bench| Box::pin(requests::waiting(bench, 1000))),
    ("request: refused by a full queue", |bench| Box::pin(requests::refused(bench))),
    ("request: each event of a stream", |bench| Box::pin(requests::event(bench))),
    ("request: behind Envoy", |bench| Box::pin(requests::behind_envoy(bench))),
    (LARGER, |bench| Box::pin(requests::larger(bench, true))),
    (LARGER_UNCACHED, |bench| Box::pin(requests::larger(bench, false))),
    (WITHOUT_PRIORITIES, |bench| Box::pin(requests::without_priorities(bench))),
];

/// What may cost how many times as much as what.
const LIMITS: [(&str, f64, &str, &str); 3] = [
    ("workloads", 1.10, WORKLOADS, PASSING),
    ("prefix caches, 2 KB,", 1.10, LARGER, LARGER_UNCACHED),
    ("priorities", 1.01, PASSING, WITHOUT_PRIORITIES),
];

// === impl Instructions ===

impl Instructions {
    /// Counts, prints what was counted, and judges it.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        ensure!(installed("valgrind").is_some(), "valgrind is missing: apt-get install valgrind");
        let budgets = self.budgets.as_deref().map(Budgets::read).transpose()?;
        let stderr = &mut std::io::stderr();
        let mut run = Runner::new(&self.selection, stderr);
        let mut bench =
            Bench { divisor: 1, fixture: Fixture::new(Cores::share)?, other_picker: None };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut counted = Vec::new();
        for (name, count) in COUNTS {
            if budgets.as_ref().is_some_and(|budgets| budgets.of(name).is_none()) {
                continue;
            }
            if *name == WITHOUT_PRIORITIES && without_priorities::program().is_none() {
                continue;
            }
            if run.wants(name)? {
                let found = LocalSet::new().block_on(&runtime, count(&mut bench));
                counted.push((*name, found.context(*name)?));
            }
        }
        run.report(Vec::new(), vec![table(&counted)])?.print(self.selection.json, out)?;
        match (budgets, &self.budgets) {
            (Some(budgets), Some(file)) if self.write => budgets.written(&counted, file),
            (Some(budgets), _) => budgets.judge(&counted),
            (None, _) => Ok(()),
        }
    }
}

fn table(counted: &[(&str, Counts)]) -> Table {
    let columns = [("by its thread", 0), ("by the process", 0)];
    let mut table = Table::new("Instructions outside the kernel", &columns);
    for (name, Counts { busiest, all }) in counted {
        table.push_all(*name, [*busiest, *all]);
    }
    for (what, limit, with, without) in LIMITS {
        let ratio = table_ratio(&table, with, without);
        ratio.into_iter().for_each(|ratio| {
            table.target(format!("instructions with {what} over without"), limit, ratio);
        });
    }
    table
}

fn table_ratio(table: &Table, with: &str, without: &str) -> Option<f64> {
    let ratio = table.figure(with, 1) / table.figure(without, 1);
    ratio.is_finite().then_some(ratio)
}
