//! Discovery of model servers on this machine, for a configuration without backends.
//!
//! A server is recognised by its responses (`recognition`). Another Tidegate gateway is not a model
//! server. If a gateway took itself for one, each request would loop.

use std::sync::Arc;
use std::time::Duration;

use flow::BackendId;

use super::Fleet;
use super::bounded_get::GetLimits;
use super::endpoint::Endpoint;
use super::fleet_state::BackendSource;
use super::recognition::{self, Recognition};
use crate::config::settings::{BackendKind, BackendSpec};

/// The default ports of Ollama, vLLM, llama.cpp, LM Studio and SGLang.
pub(crate) const PORTS: [u16; 5] = [11434, 8000, 8080, 1234, 30000];
const LOOK_AGAIN: Duration = Duration::from_secs(10);
const LIMITS: GetLimits = GetLimits { time: Duration::from_secs(1), body: 4 << 20 };

/// Searches until a server is found.
pub(super) async fn search(fleet: Arc<Fleet>, own_ports: Vec<u16>) {
    let mut warned = false;
    loop {
        let found = look(&PORTS, &own_ports).await;
        if !found.is_empty() {
            for spec in &found {
                tracing::info!(backend = %spec.id, url = %spec.url, kind = ?spec.kind, "found");
            }
            fleet.change(|state, now| state.set_source(BackendSource::Discovery, found, now));
            return;
        }
        if !warned {
            tracing::warn!(
                ports = ?PORTS,
                "no model server found on 127.0.0.1; start one, or name one with --backend URL"
            );
            warned = true;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The servers that respond on these local ports.
pub(crate) async fn look(ports: &[u16], own_ports: &[u16]) -> Vec<BackendSpec> {
    let mut found = Vec::new();
    for &port in ports.iter().filter(|port| !own_ports.contains(port)) {
        if let Some(kind) = recognise(port).await {
            found.push(spec(port, kind));
        }
    }
    found
}

fn spec(port: u16, kind: BackendKind) -> BackendSpec {
    let name = match kind {
        BackendKind::OpenAi | BackendKind::Generic | BackendKind::Auto => "local",
        engine => engine.name(),
    };
    let (id, url) = (format!("{name}-{port}"), format!("http://127.0.0.1:{port}"));
    BackendSpec { kind, ..BackendSpec::new(id, url) }
}

async fn recognise(port: u16) -> Option<BackendKind> {
    let endpoint = Endpoint::new(BackendId(0), &spec(port, BackendKind::Auto)).ok()?;
    match recognition::recognise(&endpoint, LIMITS).await {
        Recognition::Server(kind) => Some(kind),
        Recognition::Gateway => {
            tracing::debug!(port, "ignored: another gateway");
            None
        }
        // It is asked again with the next look.
        Recognition::Nothing | Recognition::Unsure => None,
    }
}
