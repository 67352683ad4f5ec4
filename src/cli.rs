//! The command line: what can be typed, and which part of the program answers.
//!
//! Each verb is one variant with its arguments; nothing else sees them.

mod batch;
mod check;
mod demo;
mod dispatch;
mod engine;
mod epp;
mod measure;
mod plain;
mod remote;
mod serve;
mod source;

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use lab::bench::{self, Counted, Plan, Which};
use lab::simulate::{self, Progress};
use lab::study;

/// Flow control for LLM inference: fair queueing, priorities and backpressure in front of model
/// servers.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Serve(serve::Serve),
    Epp(epp::Epp),
    Dispatch(dispatch::Dispatch),
    Batch(batch::Batch),
    Demo(demo::Demo),
    Engine(engine::Arguments),
    Simulate(Simulate),
    Check(check::Check),
    /// Measure what Tidegate costs on this machine.
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Debug, Subcommand)]
enum Bench {
    Core(Core),
    Cycles(Cycles),
    Auto(Auto),
    Engine(Engine),
    Gateway(measure::Gateway),
    Epp(measure::Epp),
    Batch(measure::Batch),
    #[command(hide = true)]
    FloorProxy(measure::Floor),
}

/// Set the simulated engine against a recorded run of a real one.
///
/// The recording has one JSON object a line, as LLMServingSim writes its requests.jsonl:
/// input_toks, output_toks, arrival_time, queued_ts, first_token_ts, last_token_ts, sorted by
/// arrival.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  tidegate bench engine --profile rtx4090-8b RTX4090_Llama-3.1-8B/requests.jsonl")]
struct Engine {
    /// The engine's profile, as in a scenario.
    #[arg(long)]
    profile: String,
    /// The recorded run.
    recording: PathBuf,
}

/// Play scenarios in virtual time: engines, traffic and faults, behind several policies.
///
/// A scenario is a TOML file (docs/SCENARIOS.md). Every policy, load and seed in it is one run; the
/// runs take all cores, and one seed gives one result on every machine. Prints a table and what
/// became of the scenario's expectations; a broken one makes the exit code 1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate simulate scenarios/first-look.toml        a first look, needs nothing
  tidegate simulate scenarios                        all of them
  tidegate simulate scenarios/flood.toml --only 'fifo 32' --seeds 1
                                                     one policy, one seed
  tidegate simulate scenarios/policies.toml --load 1.5 --json
                                                     one load, for programs
  tidegate simulate my.toml --traces ~/traces --out /tmp/pictures")]
struct Simulate {
    /// Scenario files, or folders of them.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// The folder of the traces that scenarios name; ../shared/traces unless given.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Where pictures go, each scenario's into a folder of its name; target/simulate unless given.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The first seed.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many seeds.
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Run only this load.
    #[arg(long, value_name = "FACTOR")]
    load: Option<f64>,
    /// Run only this policy.
    #[arg(long, value_name = "POLICY")]
    only: Option<String>,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Also put the tables into this document, between its marks.
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
}

/// Measure the core beside the least that such a queue could cost.
///
/// Both are driven in turns with the same random numbers, so that the ratio holds on a busy
/// machine; `core` and `floor` are the least of many batches, with the median beside them. Only a
/// release build says anything. The whole run takes two minutes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate bench core --quick             a first impression in a few seconds
  tidegate bench core --only fifo/1e5     the steady state of 1e5 waiting asks
  tidegate bench core --only relative     the grid that llm-d-router publishes
  cargo run --release --features memory -- bench core --only memory
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
  tidegate bench auto --quick                    a first impression
  tidegate bench auto --only case/h100-8b        one engine
  tidegate bench auto --only robust/load         one kind of condition
  tidegate bench auto --seeds 21,22,23 --json    on other seeds, for other programs")]
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

// === impl Cli ===

impl Cli {
    /// Does what was asked for, and writes what there is to say about it.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result<ExitCode> {
        match self.verb {
            // What it waits for may end in more than two ways.
            Verb::Batch(batch) => return batch.run(out),
            Verb::Serve(serve) => serve.run(out),
            Verb::Epp(epp) => epp.run(out),
            Verb::Dispatch(dispatch) => dispatch.run(out),
            Verb::Demo(demo) => demo.run(out),
            Verb::Engine(engine) => engine.run(out),
            Verb::Simulate(simulate) => simulate.run(out),
            Verb::Check(check) => check.run(out),
            Verb::Bench(Bench::Core(core)) => core.run(out),
            Verb::Bench(Bench::Cycles(cycles)) => cycles.run(),
            Verb::Bench(Bench::Engine(engine)) => {
                simulate::truth(&engine.profile, &engine.recording, out)
            }
            Verb::Bench(Bench::Auto(auto)) => auto.run(out),
            Verb::Bench(Bench::Gateway(gateway)) => gateway.run(out),
            Verb::Bench(Bench::Epp(epp)) => epp.run(out),
            Verb::Bench(Bench::Batch(batch)) => batch.run(out),
            Verb::Bench(Bench::FloorProxy(floor)) => floor.run(out),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

// === impl Simulate ===

impl Simulate {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let plan = simulate::Plan {
            paths: self.scenarios,
            traces: self.traces,
            pictures: self.out,
            seed: self.seed,
            seeds: self.seeds,
            load: self.load,
            only: self.only,
            json: self.json,
            document: self.document,
        };
        let live = std::io::stderr().is_terminal();
        simulate::run(&plan, out, Progress { out: &mut std::io::stderr(), live })
    }
}

// === impl Core ===

impl Core {
    fn run(self, out: &mut dyn Write) -> Result<()> {
        let plan = Plan { quick: self.quick, only: self.only };
        let report = bench::core(&plan, &mut std::io::stderr())?;
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
        let plan = study::Plan { quick, only, seeds, traces };
        let report = study::auto(&plan, &mut std::io::stderr())?;
        if json {
            writeln!(out, "{}", report.json()?)?;
        } else {
            write!(out, "{report}")?;
        }
        Ok(())
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
