//! The command line of `tidegate-bench`: one verb for each part that is measured.

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::auto::{self, Plan};
use crate::batch::batch;
use crate::controller::{self, Counted, Which};
use crate::epp::{Beside, epp};
use crate::gateway::{FloorProxy, GatewayReport, gateway};
use crate::recorded;
use crate::runner::Selection;

/// Measure what Tidegate costs on this machine.
#[derive(Debug, Parser)]
#[command(name = "tidegate-bench", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Core(Core),
    Cycles(Cycles),
    Auto(Auto),
    Engine(Engine),
    Gateway(Gateway),
    Epp(Epp),
    Batch(Batch),
    #[command(hide = true)]
    FloorProxy(Floor),
}

/// Measure the core beside the least that such a queue could cost.
///
/// Both are driven in turns with the same random numbers, so that the ratio holds on a busy
/// machine; `core` and `floor` are the least of many batches, with the median beside them. Only a
/// release build says anything. The whole run takes two minutes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate-bench core --quick             a first impression in a few seconds
  tidegate-bench core --only fifo/1e5     the steady state of 1e5 waiting asks
  tidegate-bench core --only relative     the grid that llm-d-router publishes
  cargo run --release -p bench --features memory -- core --only memory
                                          bytes for each waiting ask")]
struct Core {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Take fewer batches, and leave out queues of a million.
    #[arg(long)]
    quick: bool,
    /// Run only benchmarks whose name contains this, such as `cycle/fifo`, `expiry` or `1e5x10`.
    #[arg(long, value_name = "FILTER")]
    only: Option<String>,
}

/// Run exactly so many cycles and print nothing, for tools that count instructions.
///
/// Runs with the same `--prepared` differ in nothing but their cycles; see tools/callgrind.sh.
#[derive(Args, Debug)]
struct Cycles {
    /// What to run.
    #[arg(long, value_enum)]
    subject: Subject,
    /// How many asks wait.
    #[arg(long, default_value_t = 1000)]
    queued: u32,
    /// In how many flows.
    #[arg(long, default_value_t = 10)]
    flows: u32,
    /// How many cycles to run.
    #[arg(long)]
    cycles: usize,
    /// How many cycles to prepare; as many as are run unless given.
    #[arg(long)]
    prepared: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Subject {
    /// The core.
    Core,
    /// The bare structure that the core is compared with.
    Floor,
}

/// Compare the watermark that tunes itself with the best fixed one, in simulation.
///
/// Engines and workloads at twice the load, then under other conditions. The figures depend on the
/// seeds alone, not on the machine; it takes all cores for some minutes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate-bench auto --quick                    a first impression
  tidegate-bench auto --only case/h100-8b        one engine
  tidegate-bench auto --only robust/load         one kind of condition
  tidegate-bench auto --seeds 21,22,23 --json    on other seeds, for other programs")]
struct Auto {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Play shorter runs, fewer engines and at most two seeds.
    #[arg(long)]
    quick: bool,
    /// Do only what has this in its name, such as `case/`, `conv`, `robust`, `mixed` or `ramp`.
    #[arg(long, value_name = "FILTER")]
    only: Option<String>,
    /// The seeds over which figures are means.
    #[arg(long, value_delimiter = ',', default_value = "11,12,13,14,15")]
    seeds: Vec<u64>,
    /// The folder with the traces.
    #[arg(long, value_name = "DIR", default_value = "../shared/traces")]
    traces: PathBuf,
}

/// Set the simulated engine against a recorded run of a real one.
///
/// The recording has one JSON object a line, as LLMServingSim writes its requests.jsonl:
/// input_toks, output_toks, arrival_time, queued_ts, first_token_ts, last_token_ts, sorted by
/// arrival.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  tidegate-bench engine --profile rtx4090-8b RTX4090_Llama-3.1-8B/requests.jsonl")]
struct Engine {
    /// The engine's profile, as in a scenario.
    #[arg(long)]
    profile: String,
    /// The recorded run.
    recording: PathBuf,
}

/// Measure the gateway beside a bare hyper proxy and nginx.
///
/// All run on a core of their own and take turns in short rounds, so that ratios hold on a busy
/// machine. Wants a release build, and Debian's nginx-light and valgrind for everything to be
/// there; says what is missing. Takes some minutes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate-bench gateway --quick            a first impression in a minute
  tidegate-bench gateway --only post        CPU per request
  tidegate-bench gateway --only headline    a flooding tenant beside a quiet one
  tidegate-bench gateway --json             for programs")]
struct Gateway {
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
  tidegate-bench epp --quick                a first impression in a minute
  tidegate-bench epp --only post            CPU per request, requests per second
  tidegate-bench epp --only decision        the time to a decision, without Envoy
  tidegate-bench epp --beside tools/existing-picker.sh
                                            the existing picker in the same tables")]
struct Epp {
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
  tidegate-bench batch --quick              a first impression in some minutes
  tidegate-bench batch --only store         durable messages per second
  tidegate-bench batch --only accept        a batch of 50000 requests from upload to end
  tidegate-bench batch --only accuracy      how exactly gates keep a threshold
  tidegate-bench batch --only protection    interactive users beside a batch")]
struct Batch {
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
struct Floor {
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

// === impl Cli ===

impl Cli {
    /// Runs the verb and writes its report.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        match self.verb {
            Verb::Core(core) => core.run(out),
            Verb::Cycles(cycles) => cycles.run(),
            Verb::Auto(auto) => auto.run(out),
            Verb::Engine(engine) => recorded::compare(&engine.profile, &engine.recording, out),
            Verb::Gateway(gateway) => gateway.run(out),
            Verb::Epp(epp) => epp.run(out),
            Verb::Batch(batch) => batch.run(out),
            Verb::FloorProxy(floor) => floor.run(out),
        }
    }
}

// === impl Core ===

impl Core {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let selection = Selection { quick: self.quick, only: self.only };
        let report = controller::core(&selection, &mut std::io::stderr())?;
        if self.json {
            writeln!(out, "{}", report.json()?)?;
        } else {
            write!(out, "{report}")?;
        }
        Ok(())
    }
}

// === impl Cycles ===

impl Cycles {
    fn run(self) -> Result<()> {
        let Self { subject, queued, flows, cycles, prepared } = self;
        let which = match subject {
            Subject::Core => Which::Core,
            Subject::Floor => Which::Floor,
        };
        Counted { which, queued, flows, prepared: prepared.unwrap_or(cycles), cycles }.run()
    }
}

// === impl Auto ===

impl Auto {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { json, quick, only, seeds, traces } = self;
        let plan = Plan { quick, only, seeds, traces };
        let report = auto::auto(&plan, &mut std::io::stderr())?;
        if json {
            writeln!(out, "{}", report.json()?)?;
        } else {
            write!(out, "{report}")?;
        }
        Ok(())
    }
}

// === impl Gateway ===

impl Gateway {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let selection = Selection { quick: self.quick, only: self.only };
        let report = gateway(&selection, &mut std::io::stderr())?;
        tell(&report, self.json, out)
    }
}

// === impl Epp ===

impl Epp {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let selection = Selection { quick: self.quick, only: self.only };
        let beside = self.beside.map(|program| Beside { program });
        let report = epp(&selection, beside, &mut std::io::stderr())?;
        tell(&report, self.json, out)
    }
}

// === impl Batch ===

impl Batch {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let selection = Selection { quick: self.quick, only: self.only };
        let report = batch(&selection, &mut std::io::stderr())?;
        tell(&report, self.json, out)
    }
}

// === impl Floor ===

impl Floor {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { listen, backend, workers, limit } = self;
        FloorProxy { listen, backend, workers, limit }.run(out)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
