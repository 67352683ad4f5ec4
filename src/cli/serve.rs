//! `tidegate serve`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gateway::Gateway;

use super::source::{Flags, path, value};
use super::{print, service_manager};

/// Run the gateway: a proxy in front of model servers with a fair queue and priorities.
///
/// Clients use the address that the gateway prints instead of the address of a model server. While
/// a server has room, the gateway forwards a request at once. Otherwise the request waits in a fair
/// queue. If the wait becomes too long, the gateway refuses the request and gives a reason.
///
/// Without a file and without a backend, the gateway looks for model servers on the local ports
/// 11434, 8000, 8080, 1234 and 30000.
///
/// SIGHUP or a changed file reloads the configuration. On SIGTERM the gateway refuses waiting
/// requests and lets running streams finish.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate serve                                      model servers on this machine
  tidegate serve --backend http://10.0.0.5:8000       one model server
  tidegate serve --backend a=http://10.0.0.5:8000 --backend b=http://10.0.0.6:8000
  tidegate serve --batch ./batch                      with a Batch API (docs/BATCH.md)
  tidegate serve tidegate.toml                        with a file (docs/CONFIGURATION.md)
  tidegate serve --set queue.total_capacity=500       any key as a flag
  TIDEGATE_QUEUE__TOTAL_CAPACITY=500 tidegate serve   any key as a variable

Then:
  curl http://127.0.0.1:8430/v1/chat/completions -H 'X-Priority: high' \\
    -d '{\"model\": \"llama3\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'
  curl http://127.0.0.1:8430/health")]
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
        let batch = value("--batch", "batch.folder", path(self.batch));
        let gateway = Gateway::start(self.flags.source("server.listen", batch))?;
        print(out, &format!("listening on {}://{}", gateway.scheme(), gateway.address()))?;
        if let Some(address) = gateway.admin_address() {
            print(out, &format!("visibility on {}://{address}", gateway.admin_scheme()))?;
        }
        if let Some(address) = gateway.scaler_address() {
            print(out, &format!("scaler on grpc://{address}"))?;
        }
        if let Some(folder) = gateway.batch_folder() {
            print(out, &format!("Batch API at /v1/batches, kept in {}", folder.display()))?;
        }
        out.flush()?;
        service_manager::ready();
        gateway.run_until_signal()?;
        Ok(())
    }
}
