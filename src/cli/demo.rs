//! `tidegate demo`.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use testbed::demo::{self, DemoOptions};
use testbed::progress::Progress;

/// Show how a flood of one team affects the other teams, with and without Tidegate.
///
/// Starts three simulated model servers, which differ in speed and power. Sends the same mixed
/// traffic twice: first directly to the servers in turns, then through Tidegate. One team sends a
/// flood, another team few requests, and there are four bands. Everything runs on this machine, and
/// no GPU is needed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate demo                two minutes
  tidegate demo --seconds 40   the shortest that is fair to both
  tidegate demo --keep         goes on serving at the end, and says how to try it")]
pub(super) struct Demo {
    /// The length of the whole demonstration in seconds, at least 40.
    #[arg(long, value_name = "N", default_value_t = 120)]
    seconds: u64,
    /// Keep the servers and the gateway running at the end.
    #[arg(long)]
    keep: bool,
    /// The seed of the random traffic.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

// === impl Demo ===

impl Demo {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { seconds, keep, seed } = self;
        let options = DemoOptions { length: Duration::from_secs(seconds), keep, seed };
        let live = std::io::stderr().is_terminal();
        demo::run(&options, out, Progress { out: &mut std::io::stderr(), live })
    }
}
