//! `tidegate dispatch explain`: prints the queues and the gates of a running dispatcher.

use std::io::Write;

use anyhow::Result;
use clap::Args;

use super::endpoint::Endpoint;
use crate::cli::plain;

/// Show why messages are sent, or why they are not.
///
/// Prints each queue with its message counts, and each gate with its last reading, the age of the
/// reading, the budget that it allows and the rest of that budget.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate dispatch explain
  tidegate dispatch explain --url http://127.0.0.1:8430     a gateway with a Batch API
  tidegate dispatch explain --json | jq '.gates[] | {name, left}'")]
pub(super) struct Explain {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

// === impl Explain ===

impl Explain {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let page = if self.json { "/dispatch" } else { "/dispatch.txt" };
        let text = self.endpoint.call("GET", page, Vec::new())?;
        let text = if self.json { text } else { plain::lines(&text) };
        writeln!(out, "{}", text.trim_end())?;
        Ok(())
    }
}
