//! `tidegate epp`.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use gateway::Picker;

use super::source::Flags;

/// Pick endpoints for Envoy: the same queue, fairness and priorities behind ext_proc.
///
/// Envoy sends each request here first (envoy.service.ext_proc.v3, the protocol of the Gateway API
/// Inference Extension), and carries it to the endpoint that is answered. Requests that do not fit
/// wait here; Envoy answers for us when they must be refused. deploy/envoy has bootstraps that work
/// as they are.
///
/// SIGHUP or a changed file reloads the configuration; SIGTERM lets Envoy look elsewhere first.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate epp --backend http://10.0.0.5:8000 --backend http://10.0.0.6:8000
  tidegate epp --endpoints endpoints.yaml             a file that something else keeps up to date
  tidegate epp tidegate.toml                          everything else (docs/CONFIGURATION.md, [epp])

Then, with Envoy beside it:
  envoy -c deploy/envoy/original-dst.yaml
  curl http://127.0.0.1:10000/v1/chat/completions -H 'X-Priority: high' \\
    -d '{\"model\": \"stand-in\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'
  curl http://127.0.0.1:9090/backends")]
pub(super) struct Epp {
    #[command(flatten)]
    flags: Flags,
    /// Where health is asked for over gRPC.
    #[arg(long, value_name = "ADDRESS:PORT")]
    health_listen: Option<String>,
    /// Where metrics and the other pages are.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics_listen: Option<String>,
}

// === impl Epp ===

impl Epp {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { flags, health_listen, metrics_listen } = self;
        let mut source = flags.source();
        (source.health_listen, source.metrics_listen) = (health_listen, metrics_listen);
        let picker = Picker::start(source)?;
        writeln!(out, "listening on grpc://{}", picker.address())?;
        writeln!(out, "health on grpc://{}", picker.health_address())?;
        writeln!(out, "metrics on http://{}", picker.metrics_address())?;
        out.flush()?;
        picker.run_until_signal()?;
        Ok(())
    }
}
