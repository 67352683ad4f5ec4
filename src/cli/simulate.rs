//! `tidegate simulate`.

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use testbed::progress::Progress;
use testbed::simulate::{self, SimulateOptions};

/// Simulate scenarios in virtual time: engines, traffic and faults, with several queueing policies.
///
/// A scenario is a TOML file (docs/SCENARIOS.md). Each combination of a policy, a load and a seed
/// is one run. The runs use all cores. A seed gives the same result on every machine. The command
/// prints a table, and whether the expectations of the scenario were met. If one was not met, the
/// exit code is 1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate simulate scenarios/first-look.toml        a first look, needs nothing
  tidegate simulate scenarios                        all of them
  tidegate simulate scenarios/flood.toml --only 'fifo 32' --seeds 1
                                                     one policy, one seed
  tidegate simulate scenarios/policies.toml --load 1.5 --json
                                                     one load, for programs
  tidegate simulate my.toml --traces ~/traces --out /tmp/pictures")]
pub(super) struct Simulate {
    /// Scenario files, or folders of them.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// The folder of the traces that scenarios name. The default is ../shared/traces.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// The folder for pictures, with one folder for each scenario. The default is target/simulate.
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
    /// Of files with several cases, run only the cases whose name contains this text.
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Also write the tables into this document, between its marks.
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// A missed goal makes the exit code 1, too.
    #[arg(long)]
    goals: bool,
}

// === impl Simulate ===

impl Simulate {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let options = SimulateOptions {
            paths: self.scenarios,
            traces: self.traces,
            pictures: self.out,
            seed: self.seed,
            seeds: self.seeds,
            load: self.load,
            only: self.only,
            case: self.case,
            json: self.json,
            document: self.document,
            goals: self.goals,
        };
        let live = std::io::stderr().is_terminal();
        simulate::run(&options, out, Progress { out: &mut std::io::stderr(), live })
    }
}
