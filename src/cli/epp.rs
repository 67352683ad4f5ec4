//! `tidegate epp`.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use gateway::Picker;

use super::existing_picker::{ExistingFlags, Translation};
use super::source::{Flags, value};
use super::{print, service_manager};

/// Run the endpoint picker for Envoy: the same queue, fairness and priorities over ext_proc.
///
/// Envoy sends each request to the picker first (envoy.service.ext_proc.v3, the protocol of the
/// Gateway API Inference Extension). Then it forwards the request to the endpoint that the picker
/// names. While no backend has room, the request waits in the picker. If the picker refuses the
/// request, Envoy sends the picker's response to the client. deploy/envoy has Envoy configurations
/// that work unchanged.
///
/// Without a file and without a backend, the picker looks for model servers on the local ports, as
/// `serve` does. SIGHUP or a changed file reloads the configuration. After SIGTERM the health check
/// fails first, so that Envoy can use another picker.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate epp --backend http://10.0.0.5:8000 --backend http://10.0.0.6:8000
  tidegate epp --endpoints endpoints.yaml             backends from a file that is watched
  tidegate epp tidegate.toml                          with a file (docs/CONFIGURATION.md, [epp])
  tidegate epp --set queue.total_capacity=500         any key as a flag
  tidegate epp --pool-name llama-pool                 the flags of the existing picker

Then, with Envoy beside it:
  envoy -c deploy/envoy/original-dst.yaml
  curl http://127.0.0.1:10000/v1/chat/completions -H 'X-Priority: high' \\
    -d '{\"model\": \"stand-in\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'
  curl http://127.0.0.1:9004/backends")]
pub(super) struct Epp {
    #[command(flatten)]
    flags: Flags,
    /// Serve health checks on this address (gRPC).
    #[arg(long, value_name = "ADDRESS:PORT")]
    health_listen: Option<String>,
    /// Serve metrics and the status pages on this address (HTTP).
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics_listen: Option<String>,
    #[command(flatten)]
    existing: ExistingFlags,
}

// === impl Epp ===

impl Epp {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let Self { flags, health_listen, metrics_listen, existing } = self;
        let Translation { flags: existing, log_level, tracing, notes } = existing.translate()?;
        let health = value("--health-listen", "epp.health_listen", health_listen);
        let metrics = value("--metrics-listen", "epp.metrics_listen", metrics_listen);
        // A flag of our own goes before one of the existing picker.
        let more = existing.into_iter().chain(health).chain(metrics);
        let mut source = flags.source("epp.listen", more);
        source.log_level = source.log_level.or(log_level.map(str::to_owned));
        source.tracing = tracing;
        let picker = Picker::start(source)?;
        print(out, &format!("listening on grpc://{}", picker.address()))?;
        print(out, &format!("health on grpc://{}", picker.health_address()))?;
        print(out, &format!("metrics on http://{}", picker.metrics_address()))?;
        if let Some(address) = picker.scaler_address() {
            print(out, &format!("scaler on grpc://{address}"))?;
        }
        for note in notes {
            print(out, &note)?;
        }
        out.flush()?;
        service_manager::ready();
        picker.run_until_signal()?;
        Ok(())
    }
}
