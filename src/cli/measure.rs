//! Measuring the gateway: the verb, and the peer that it starts for itself.

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroUsize;

use anyhow::Result;
use clap::Args;
use lab::bench::{self, FloorProxy, Plan};

/// Measure the gateway beside a bare hyper proxy and nginx.
///
/// All run on a core of their own and take turns in short rounds, so that ratios hold on a busy
/// machine. Wants a release build, and Debian's nginx-light and valgrind for everything to be
/// there; says what is missing. Takes some minutes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate bench gateway --quick            a first impression in a minute
  tidegate bench gateway --only post        CPU per request
  tidegate bench gateway --only headline    a flooding tenant beside a quiet one
  tidegate bench gateway --json             for programs")]
pub(crate) struct Gateway {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Take fewer and shorter rounds.
    #[arg(long)]
    quick: bool,
    /// Run only benchmarks whose name contains this, such as `post`, `stream` or `crowd`.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// The bare proxy that the gateway is compared with, for `bench gateway` to start.
#[derive(Args, Debug)]
pub(crate) struct Floor {
    /// Where clients come in.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Who answers.
    #[arg(long)]
    backend: SocketAddr,
    /// How many threads, each with a runtime of its own.
    #[arg(long, default_value = "1")]
    workers: NonZeroUsize,
    /// The most requests at the backend at once; the others wait in one line.
    #[arg(long)]
    limit: Option<NonZeroUsize>,
}

// === impl Gateway ===

impl Gateway {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let plan = Plan { quick: self.quick, only: self.only };
        let report = bench::gateway(&plan, &mut std::io::stderr())?;
        if self.json {
            writeln!(out, "{}", report.json()?)?;
        } else {
            write!(out, "{report}")?;
        }
        Ok(())
    }
}

// === impl Floor ===

impl Floor {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { listen, backend, workers, limit } = self;
        FloorProxy { listen, backend, workers, limit }.run(out)
    }
}
