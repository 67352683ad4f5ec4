//! The command line of `tidegate-bench`: one verb for each part that is measured.

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::controller::{self, CountedCycles};
use crate::gateway::{self, FloorProxy, without_priorities};
use crate::instructions::Instructions;
use crate::runner::{Selection, Suite};
use crate::soak::Soak;
use crate::{batch, epp, recorded};

/// Measure what Tidegate costs on this machine.
///
/// Only a release build says anything. The tidegate program is measured that lies beside this one,
/// or the one that the environment variable TIDEGATE names.
#[derive(Debug, Parser)]
#[command(name = "tidegate-bench", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Measure the core against the least that such a queue could cost.
    ///
    /// Both run in turns with the same random numbers, so that the ratio holds on a busy machine;
    /// `core` and `floor` are the least of many batches, with the median beside them. The whole run
    /// takes two minutes.
    #[command(after_help = "Examples:
  tidegate-bench core --quick             a first impression in a few seconds
  tidegate-bench core --only fifo/1e5     the steady state of 1e5 waiting asks
  tidegate-bench core --only scale        a thousand engines and 1e5 flows
  tidegate-bench core --only relative     the grid that llm-d-router publishes
  cargo run --release -p bench --features memory -- core --only memory
                                          bytes for each waiting ask")]
    Core(Selection),
    Instructions(Instructions),
    /// Run an exact number of cycles and print nothing; `instructions` counts these.
    #[command(hide = true)]
    Cycles(CountedCycles),
    Engine(Engine),
    /// Measure the gateway against a bare hyper proxy and nginx.
    ///
    /// The proxies run on a core of their own and take turns in short rounds, so that ratios hold
    /// on a busy machine. Needs Debian's nginx-light and haproxy for all tables; reports which of
    /// them is missing. Takes some minutes.
    #[command(after_help = "Examples:
  tidegate-bench gateway --quick            a first impression in a minute
  tidegate-bench gateway --only post        CPU per request
  tidegate-bench gateway --only tls         CPU per request with TLS, beside nginx and HAProxy
  tidegate-bench gateway --only keys        CPU per request with an API key or a token
  tidegate-bench gateway --only traces      CPU per request with traces on
  tidegate-bench gateway --only bands       waits of the high and the normal band
  tidegate-bench gateway --only timeouts    how late a client hears that its time is over
  tidegate-bench gateway --only shutdown    SIGTERM to the last 503
  tidegate-bench gateway --only workloads   1000 workloads whose requests wait
  tidegate-bench gateway --only priorities  beside a gateway without priorities
  tidegate-bench gateway --only headline    a flooding tenant beside a quiet one
  tidegate-bench gateway --json             for programs")]
    Gateway(Selection),
    /// Build the gateway without the code of the priorities.
    ///
    /// `gateway` then compares the two. Edits a copy of the sources, builds it with cargo and puts
    /// it beside this program. Takes some minutes.
    WithoutPriorities,
    Epp(Epp),
    /// Measure batch work: the queue, the largest batch, the gates, and the effect on other
    /// requests.
    ///
    /// The model servers are stand-ins; the gateway and the dispatcher are processes. They share
    /// all cores. Needs a folder for temporary files on a real disk (TMPDIR). Takes half an hour.
    #[command(after_help = "Examples:
  tidegate-bench batch --quick              a first impression in some minutes
  tidegate-bench batch --only store         durable messages per second
  tidegate-bench batch --only accept        a batch of 50000 requests from upload to end
  tidegate-bench batch --only accuracy      how exactly gates keep a threshold
  tidegate-bench batch --only protection    interactive requests beside a batch")]
    Batch(Selection),
    Soak(Soak),
    #[command(hide = true)]
    FloorProxy(Floor),
}

/// Compare the simulated engine with a recorded run of a real one.
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

/// Measure the endpoint picker behind Envoy, against Envoy alone.
///
/// Envoy, picker, load and origin share all cores and take turns in short rounds. Needs Envoy
/// (tools/setup.sh). Takes some minutes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate-bench epp --quick                a first impression in a minute
  tidegate-bench epp --only post            CPU per request, requests per second
  tidegate-bench epp --only decision        the time to a decision, without Envoy
  tidegate-bench epp --beside tools/existing-picker.sh
                                            the existing picker in the same tables")]
struct Epp {
    #[command(flatten)]
    selection: Selection,
    /// Another picker: a program that is given the port to listen on and the port of its one model
    /// server.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
}

/// The bare proxy that the gateway is compared with; `gateway` starts it.
#[derive(Args, Debug)]
struct Floor {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The address of the backend.
    #[arg(long)]
    backend: SocketAddr,
    /// The number of threads, each with a runtime of its own.
    #[arg(long, default_value = "1")]
    workers: NonZeroUsize,
    /// The most requests at the backend at once; the others wait in one queue.
    #[arg(long)]
    limit: Option<NonZeroUsize>,
}

// === impl Cli ===

impl Cli {
    /// Runs the verb and writes its report.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<()> {
        match self.verb {
            Verb::Core(selection) => {
                controller::measure(&selection, &mut std::io::stderr())?.print(selection.json, out)
            }
            Verb::Instructions(instructions) => instructions.run(out),
            Verb::Cycles(cycles) => cycles.run(),
            Verb::Engine(engine) => recorded::compare(&engine.profile, &engine.recording, out),
            Verb::Gateway(selection) => measure(gateway::suite(), &selection, None, out),
            Verb::WithoutPriorities => {
                let program = without_priorities::build()?;
                Ok(writeln!(out, "built {}", program.display())?)
            }
            Verb::Epp(epp) => measure(epp::suite(), &epp.selection, epp.beside, out),
            Verb::Batch(selection) => measure(batch::suite(), &selection, None, out),
            Verb::Soak(soak) => soak.run()?.print(soak.json, out),
            Verb::FloorProxy(floor) => floor.run(out),
        }
    }
}

/// Runs a suite and prints its report.
fn measure(
    suite: Suite,
    selection: &Selection,
    other_picker: Option<PathBuf>,
    out: &mut dyn Write,
) -> Result<()> {
    let report = suite.run(selection, other_picker, &mut std::io::stderr())?;
    report.print(selection.json, out)
}

// === impl Floor ===

impl Floor {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { listen, backend, workers, limit } = self;
        FloorProxy { listen, backend, workers, limit }.run(out)
    }
}
