//! `tidegate demo`.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use testbed::demo::{self, DemoOptions};
use testbed::progress::Progress;

/// Start three engines, send a flood, and compare how other teams are served with and without it.
///
/// Starts three stand-in engines of different speed and power and sends them mixed traffic: a
/// flooding team, a quiet one, four bands. First straight to the engines in turns, then through
/// Tidegate. Needs nothing; all of it runs on this machine.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate demo                two minutes
  tidegate demo --seconds 40   the shortest that is fair to both
  tidegate demo --keep         goes on serving at the end, and says how to try it")]
pub(super) struct Demo {
    /// How long it takes; at least 40.
    #[arg(long, value_name = "N", default_value_t = 120)]
    seconds: u64,
    /// Leave the engines and the gateway serving at the end.
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
