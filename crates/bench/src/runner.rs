//! One runner for all benchmarks: which of them run, how thoroughly, and in which turns.

use std::io::Write;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::gateway::process::Cores;
use crate::gateway::proxies::Fixture;
use crate::report::{Report, Table};

const ROUNDS: usize = 9;
/// A quick run measures this part of everything.
const QUICK: usize = 3;

/// Which benchmarks to run, and how thoroughly.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Selection {
    /// Print JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Take fewer and shorter rounds, and leave out queues of a million.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run only benchmarks whose name contains this.
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Option<String>,
}

/// A selection that is being measured, and where progress is reported.
pub(crate) struct Runner<'a> {
    pub(crate) selection: &'a Selection,
    pub(crate) progress: &'a mut dyn Write,
    names: Vec<String>,
    any_wanted: bool,
}

/// One benchmark of processes.
type Measure = for<'a> fn(&'a mut Bench) -> Pin<Box<dyn Future<Output = Result<Table>> + 'a>>;

/// Benchmarks that share their processes' cores.
pub(crate) struct Suite {
    pub(crate) cores: fn() -> Result<Cores>,
    pub(crate) notes: Vec<String>,
    pub(crate) benchmarks: &'static [(&'static str, Measure)],
}

/// What a benchmark of processes works with.
pub(crate) struct Bench {
    /// The full counts, rounds and times are divided by this.
    pub(crate) divisor: usize,
    pub(crate) fixture: Fixture,
    /// Another endpoint picker to measure: a program that is given the port to listen on and the
    /// port of its one model server.
    pub(crate) other_picker: Option<PathBuf>,
}

// === impl Runner ===

impl<'a> Runner<'a> {
    pub(crate) fn new(selection: &'a Selection, progress: &'a mut dyn Write) -> Self {
        Self { selection, progress, names: Vec::new(), any_wanted: false }
    }

    /// Whether to run the benchmark with this name; if so, reports that it runs.
    pub(crate) fn wants(&mut self, name: &str) -> Result<bool> {
        self.names.push(name.to_owned());
        let wanted = self.selection.only.as_deref().is_none_or(|only| name.contains(only));
        self.any_wanted |= wanted;
        if wanted {
            writeln!(self.progress, "{name}")?;
        }
        Ok(wanted)
    }

    /// The report on these tables; an error that lists the names where none was selected.
    pub(crate) fn report(&self, notes: Vec<String>, tables: Vec<Table>) -> Result<Report> {
        let tables: Vec<Table> =
            tables.into_iter().filter(|table| !table.rows.is_empty()).collect();
        if !self.any_wanted {
            let only = self.selection.only.as_deref().unwrap_or_default();
            let names = self.names.join(", ");
            bail!("no benchmark's name contains '{only}'; the names are: {names}");
        }
        Ok(Report { quick: self.selection.quick, notes, tables })
    }
}

// === impl Suite ===

impl Suite {
    /// Runs the selected benchmarks on this thread.
    pub(crate) fn run(
        self,
        selection: &Selection,
        other_picker: Option<PathBuf>,
        progress: &mut dyn Write,
    ) -> Result<Report> {
        let mut run = Runner::new(selection, progress);
        let load = load();
        let fixture = Fixture::new(self.cores)?;
        let divisor = if selection.quick { QUICK } else { 1 };
        let mut bench = Bench { divisor, fixture, other_picker };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut tables = Vec::new();
        for (name, measure) in self.benchmarks {
            if run.wants(name)? {
                let measured = LocalSet::new().block_on(&runtime, measure(&mut bench));
                tables.push(measured.context(*name)?);
            }
        }
        let mut notes = self.notes;
        notes.extend(load);
        if cfg!(debug_assertions) {
            notes.push("A debug build: only a release build says anything.".to_owned());
        }
        run.report(notes, tables)
    }
}

// === impl Bench ===

impl Bench {
    pub(crate) fn rounds(&self) -> usize {
        self.count(ROUNDS)
    }

    /// Whether this is less than a full run.
    pub(crate) fn is_quick(&self) -> bool {
        self.divisor > 1
    }

    /// So long, or a third of it in a quick run.
    pub(crate) fn seconds(&self, full: f64) -> Duration {
        Duration::from_secs_f64(full / self.divisor as f64)
    }

    /// So many, or a third of them in a quick run.
    pub(crate) fn count(&self, full: usize) -> usize {
        (full / self.divisor).max(1)
    }
}

/// How busy the machine is. Niceness holds only among the processes of one session, so it does not
/// keep others off the cores; real-time scheduling does.
fn load() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let minute = text.split_whitespace().next()?;
    Some(format!(
        "The load of the machine was {minute} before the run. Where others use it, run this under \
         `chrt --rr 10`."
    ))
}

/// The order in which `count` subjects take their turns in a round: each is first in turn.
pub(crate) fn turns(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| (turn + round) % count)
}
