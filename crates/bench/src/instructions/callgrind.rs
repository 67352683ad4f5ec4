//! A process under callgrind.
//!
//! What it does by itself as time passes, such as checks of backends, runs on other threads than
//! requests do. So the thread that did the most is counted apart from the whole process.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::gateway::process::{Process, Ready, run};
use crate::runner::Bench;

/// Instructions that a process ran.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Those of the thread that ran the most.
    pub(crate) busiest: f64,
    pub(crate) all: f64,
}

/// A process whose instructions are counted.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) process: Process,
    counts: PathBuf,
    dumps: Cell<usize>,
}

// === impl Counts ===

impl Counts {
    /// The instructions of one of so many.
    pub(crate) fn of_each(self, count: usize) -> Self {
        Self { busiest: self.busiest / count as f64, all: self.all / count as f64 }
    }

    /// What one of `count` further pieces took that were done here and not in `fewer`.
    pub(crate) fn beyond(self, fewer: Self, count: usize) -> Self {
        let more = Self { busiest: self.busiest - fewer.busiest, all: self.all - fewer.all };
        more.of_each(count)
    }
}

// === impl Counted ===

impl Counted {
    /// Starts a program that says where it listens.
    pub(crate) async fn start(
        bench: &mut Bench,
        program: &str,
        arguments: &[String],
    ) -> Result<Self> {
        let (log, counts) = (bench.fixture.file("log"), bench.fixture.file("callgrind"));
        let mut command = bench.fixture.cores.command("valgrind");
        command.args(["--tool=callgrind", "--separate-threads=yes"]);
        command.arg(format!("--callgrind-out-file={}", counts.display()));
        command.arg(program).args(arguments);
        let process = Process::start("the program", &mut command, &log, Ready::Says).await?;
        Ok(Self { process, counts, dumps: Cell::new(0) })
    }

    /// The instructions that it runs while this work is done.
    pub(crate) async fn count(&self, work: impl Future<Output = Result<()>>) -> Result<Counts> {
        self.control("--zero").await?;
        work.await?;
        self.control("--dump").await?;
        self.dumps.update(|dumps| dumps + 1);
        let folder = self.counts.parent().context("a file without a folder")?;
        let name = self.counts.file_name().and_then(|name| name.to_str()).context("an odd name")?;
        let begin = format!("{name}.{}-", self.dumps.get());
        let mut counts = Counts::default();
        for entry in fs::read_dir(folder)? {
            let file = entry?;
            if file.file_name().to_str().is_some_and(|name| name.starts_with(&begin)) {
                let count = total(&fs::read_to_string(file.path())?)?;
                counts = Counts { busiest: counts.busiest.max(count), all: counts.all + count };
            }
        }
        ensure!(counts.all > 0.0, "callgrind counted nothing");
        Ok(counts)
    }

    /// Callgrind answers once it has done what it is told. The process may need us meanwhile.
    async fn control(&self, what: &'static str) -> Result<()> {
        let id = self.process.id().to_string();
        tokio::task::spawn_blocking(move || run("callgrind_control", &[what, &id])).await?
    }
}

/// The instructions of a file that callgrind has written.
pub(crate) fn total(text: &str) -> Result<f64> {
    let total = text.lines().find_map(|line| line.strip_prefix("totals:"));
    Ok(total.context("callgrind wrote no total")?.trim().parse()?)
}
