//! Measuring the gateway, the picker and batch work: the verbs, and the peer that one starts for
//! itself.

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use lab::bench::{self, Beside, FloorProxy, GatewayReport, Plan};

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

/// Measure the endpoint picker behind Envoy, beside Envoy alone.
///
/// Envoy, picker, load and origin share all cores; everybody takes turns in short rounds. Wants a
/// release build, and Envoy (tools/setup.sh). Takes some minutes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate bench epp --quick                a first impression in a minute
  tidegate bench epp --only post            CPU per request, requests per second
  tidegate bench epp --only decision        the time to a decision, without Envoy
  tidegate bench epp --beside tools/existing-picker.sh
                                            the existing picker in the same tables")]
pub(crate) struct Epp {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Take fewer and shorter rounds.
    #[arg(long)]
    quick: bool,
    /// Run only benchmarks whose name contains this, such as `post`, `prompt` or `decision`.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Another picker: a program that is given the port to listen on and the port of its one model
    /// server.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
}

/// Measure batch work: the queue, the largest batch, the gates, and what others notice of it.
///
/// Engines are stand-ins, the gateway and the dispatcher are processes; everybody shares all cores.
/// Wants a release build, and a folder for temporary files on a real disk (TMPDIR). Takes about a
/// quarter of an hour.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate bench batch --quick              a first impression in some minutes
  tidegate bench batch --only store         durable messages per second
  tidegate bench batch --only accept        a batch of 50000 requests from upload to end
  tidegate bench batch --only accuracy      how exactly gates keep a threshold
  tidegate bench batch --only protection    interactive users beside a batch")]
pub(crate) struct Batch {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Take fewer and shorter rounds.
    #[arg(long)]
    quick: bool,
    /// Run only benchmarks whose name contains this, such as `store`, `accept` or `accuracy`.
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

/// Prints what was measured, for programs or for people.
fn tell(report: &GatewayReport, json: bool, out: &mut dyn Write) -> Result<()> {
    if json {
        writeln!(out, "{}", report.json()?)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(())
}

// === impl Gateway ===

impl Gateway {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let plan = Plan { quick: self.quick, only: self.only };
        let report = bench::gateway(&plan, &mut std::io::stderr())?;
        tell(&report, self.json, out)
    }
}

// === impl Epp ===

impl Epp {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let plan = Plan { quick: self.quick, only: self.only };
        let beside = self.beside.map(|program| Beside { program });
        let report = bench::epp(&plan, beside, &mut std::io::stderr())?;
        tell(&report, self.json, out)
    }
}

// === impl Batch ===

impl Batch {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let plan = Plan { quick: self.quick, only: self.only };
        let report = bench::batch(&plan, &mut std::io::stderr())?;
        tell(&report, self.json, out)
    }
}

// === impl Floor ===

impl Floor {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { listen, backend, workers, limit } = self;
        FloorProxy { listen, backend, workers, limit }.run(out)
    }
}
