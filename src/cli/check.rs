//! `tidegate check`: whether a configuration can be used, and what it would put in force.

use std::io::Write;

use anyhow::{Result, bail};
use clap::Args;
use gateway::config::{self, Source, Summary};

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
    #[command(flatten)]
    flags: Flags,
}

// === impl Check ===

impl Check {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let source = self.flags.source();
        match config::load(&source) {
            Ok(config) => {
                writeln!(out, "file      {}", told(&source))?;
                Ok(write!(out, "{}", Summary(&config))?)
            }
            Err(error) => {
                let count = error.problems.len();
                let noun = if count == 1 { "problem" } else { "problems" };
                bail!("{count} {noun} in the configuration\n{error}")
            }
        }
    }
}

/// Which file was read, and which one was not though it might seem so.
fn told(source: &Source) -> String {
    let Some(file) = &source.file else { return "none: defaults and flags".to_owned() };
    let mut told = file.display().to_string();
    for other in source.passed_over() {
        told += &format!("; {other} is there too and is not read");
    }
    told
}
