//! `tidegate serve`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gateway::Gateway;
use gateway::config::Source;

use super::source::Flags;

/// Stand in front of model servers: queue fairly, keep priorities, relay streams.
///
/// Point clients at the address it prints instead of at a model server. Requests that fit go
/// straight through; the rest wait in a fair queue until a server has room, and hear why if that
/// takes too long. Without a file or a backend it looks for servers on the well-known local ports
/// (11434, 8000, 8080, 1234, 30000).
///
/// SIGHUP or a changed file reloads the configuration; SIGTERM answers everyone who waits and lets
/// streams finish.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate serve                                      servers on this machine
  tidegate serve --backend http://10.0.0.5:8000       one server
  tidegate serve --backend a=http://10.0.0.5:8000 --backend b=http://10.0.0.6:8000
  tidegate serve --batch ./batch                      with a Batch API (docs/BATCH.md)
  tidegate serve tidegate.toml                        everything else (docs/CONFIGURATION.md)

Then:
  curl http://127.0.0.1:8080/v1/chat/completions -H 'X-Priority: high' \\
    -d '{\"model\": \"llama3\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'
  curl http://127.0.0.1:8080/health")]
pub(super) struct Serve {
    #[command(flatten)]
    flags: Flags,
    /// Offer the Batch API, with its files and its queue in this folder.
    #[arg(long, value_name = "FOLDER")]
    batch: Option<PathBuf>,
}

// === impl Serve ===

impl Serve {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let source = Source { batch: self.batch, ..self.flags.source() };
        let gateway = Gateway::start(source)?;
        writeln!(out, "listening on http://{}", gateway.address())?;
        if let Some(address) = gateway.admin_address() {
            writeln!(out, "visibility on http://{address}")?;
        }
        if let Some(folder) = gateway.batch_folder() {
            writeln!(out, "Batch API at /v1/batches, kept in {}", folder.display())?;
        }
        out.flush()?;
        gateway.run_until_signal()?;
        Ok(())
    }
}
