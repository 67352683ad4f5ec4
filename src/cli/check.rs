//! `tidegate check`: whether a configuration can be used, and what it would put in force.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gateway::config::{self, Summary};

use super::source::Flags;

/// Check a configuration and show what it puts in force.
///
/// Reads the file as `serve` would and prints a few lines on what it means. All problems are told
/// at once, each with its line, its key and what is allowed; the exit code is then 1. The keys are
/// described in docs/CONFIGURATION.md.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate check                                     ./tidegate.toml, .yaml or .yml
  tidegate check examples/tidegate.toml
  tidegate check --backend http://127.0.0.1:8000     flags alone, or beside a file")]
pub(super) struct Check {
    /// The file; as good as --config.
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

// === impl Check ===

impl Check {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { file, mut flags } = self;
        flags.config = flags.config.or(file);
        match config::load(&flags.source()) {
            Ok(settled) => Ok(write!(out, "{}", Summary(&settled))?),
            Err(error) => {
                let count = error.problems.len();
                let noun = if count == 1 { "problem" } else { "problems" };
                bail!("{count} {noun} in the configuration\n{error}")
            }
        }
    }
}
