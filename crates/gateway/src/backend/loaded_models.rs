//! The models that a server has loaded, if it loads them on demand.
//!
//! Ollama and llama-swap load a model for the first request that needs it, and throw another one
//! out if the memory is short. Both tell what they have loaded.

use std::time::Duration;

use flow::{BackendId, ModelId};
use serde::Deserialize;

use super::Fleet;
use super::bounded_get::{GetLimits, get};
use super::endpoint::Endpoint;
use super::fleet_state::FleetState;
use super::model_list::ollama_list;
use crate::config::settings::BackendKind;

const BODY_MAX: usize = 1 << 20;
/// Further models are ignored.
const NAMES_MAX: usize = 1024;

/// The list of llama-swap. A model that starts or runs is in it.
#[derive(Deserialize)]
struct Running {
    running: Vec<RunningModel>,
}

#[derive(Deserialize)]
struct RunningModel {
    model: String,
}

// === impl Fleet ===

impl Fleet {
    /// Asks a backend for its loaded models; returns whether it told them. If it does not, the last
    /// ones count on.
    pub(super) async fn read_loaded(
        &self,
        id: BackendId,
        endpoint: &Endpoint,
        time: Duration,
    ) -> bool {
        let names = {
            let Ok(_permit) = self.probes.acquire().await else { return false };
            fetch(endpoint, time).await
        };
        let Some(names) = names else { return false };
        let models = self.state().ids_of_loaded(id, &names);
        self.scheduler.with(|controller, now| controller.loaded(id, Some(models), now));
        true
    }
}

async fn fetch(endpoint: &Endpoint, time: Duration) -> Option<Vec<String>> {
    let is_ollama = endpoint.kind == BackendKind::Ollama;
    let path = match endpoint.kind {
        BackendKind::Ollama => "/api/ps",
        BackendKind::OpenAi | BackendKind::Generic => "/running",
        _ => return None,
    };
    let response = get(endpoint, path, GetLimits { time, body: BODY_MAX }).await.ok()?;
    let body = response.status.is_success().then_some(response.body)?;
    if is_ollama { ollama(&body) } else { llama_swap(&body) }
}

fn ollama(body: &[u8]) -> Option<Vec<String>> {
    Some(ollama_list(body)?.into_iter().map(|model| model.id).collect())
}

fn llama_swap(body: &[u8]) -> Option<Vec<String>> {
    let Running { running } = serde_json::from_slice(body).ok()?;
    Some(running.into_iter().map(|model| model.model).take(NAMES_MAX).collect())
}

// === impl FleetState ===

impl FleetState {
    /// The ids of loaded models. The model of a subset of backends is not looked up: it counts as
    /// loaded.
    fn ids_of_loaded(&self, id: BackendId, names: &[String]) -> Vec<ModelId> {
        let subsets = self.backends.get(&id).map(|backend| backend.subset_models.as_slice());
        let named = names.iter().filter_map(|name| self.catalogue.ids.get(name.as_str()));
        named.chain(subsets.unwrap_or_default()).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k04_loaded_models_are_read_from_both_servers() {
        let body = br#"{"models":[{"name":"a:latest","size_vram":7},{"name":"b:1b"}]}"#;
        assert_eq!(ollama(body).unwrap(), ["a:latest", "a", "b:1b"]);
        assert_eq!(ollama(br#"{"models":[]}"#).unwrap(), [""; 0]);
        assert_eq!(ollama(b"<html>"), None);
        let body = br#"{"running":[{"model":"qwen","state":"ready","ttl":0},{"model":"phi"}]}"#;
        assert_eq!(llama_swap(body).unwrap(), ["qwen", "phi"]);
        assert_eq!(llama_swap(br#"{"running":7}"#), None);
        assert_eq!(llama_swap(b""), None);
    }
}
