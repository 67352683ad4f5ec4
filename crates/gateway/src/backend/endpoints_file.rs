//! The endpoints file: a list of servers that another program keeps, followed as it changes.
//!
//! The shape is that of the Gateway API's endpoint picker when it runs without Kubernetes, so one
//! file serves both: `endpoints: [{name, address, port, …}]`, in YAML or JSON. A file that cannot
//! be used changes nothing: half a list would take servers away that work.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flow::{BackendId, BackendTraits};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use serde::Deserialize;
use tokio::sync::Notify;

use super::Fleet;
use super::fleet_state::BackendSource;
use super::roster::Upstream;
use crate::config::resolved::{BackendKind, BackendSpec};

const BYTES_MAX: u64 = 1 << 20;
const ENTRIES_MAX: usize = 4096;
/// Writers write in pieces; the file is read when it has been left alone for so long.
const QUIET_FOR: Duration = Duration::from_millis(50);
/// Where the file cannot be watched, it is looked at this often.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// What Kubernetes swaps when it renews the files of a mounted folder.
const SWAPPED: &str = "..data";
/// The picker's label for what an endpoint runs.
const ENGINE_LABEL: &str = "llm-d.ai/engine-type";

#[derive(Debug, Deserialize)]
struct EndpointsFile {
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
struct Endpoint {
    name: String,
    address: String,
    port: Port,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    kind: Option<String>,
    #[serde(default)]
    models: Vec<String>,
    power_watts: Option<f32>,
    latency_ms: Option<f32>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Port {
    Number(u16),
    Text(String),
}

/// Follows the file for ever.
pub(super) async fn follow(fleet: Arc<Fleet>, path: PathBuf) {
    let touched = Arc::new(Notify::new());
    let watching = watcher(&path, touched.clone())
        .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "looked at in turns"));
    let mut last = None;
    loop {
        let found = read_text(&path);
        if last.as_ref() != Some(&found) {
            apply(&fleet, &path, &found);
            last = Some(found);
        }
        tokio::select! {
            () = touched.notified() => tokio::time::sleep(QUIET_FOR).await,
            () = tokio::time::sleep(LOOK_EVERY), if watching.is_err() => {}
        }
    }
}

/// Watches the folder, since a file that is replaced is another file.
fn watcher(path: &Path, touched: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let name = path.file_name().map(OsStr::to_owned);
    let on_event = move |event: notify::Result<notify::Event>| {
        if event.map_or(true, |event| concerns(&event, name.as_deref())) {
            touched.notify_one();
        }
    };
    let mut watcher = notify::recommended_watcher(on_event)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    watcher.watch(folder.unwrap_or(Path::new(".")), RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// Whether an event in the folder may have changed the file of this name. Reading the file is an
/// event too, and must not make us read it again.
pub(super) fn concerns(event: &notify::Event, name: Option<&OsStr>) -> bool {
    let mut names = event.paths.iter().map(|path| path.file_name());
    let ours = |found: Option<&OsStr>| found == name || found == Some(OsStr::new(SWAPPED));
    !event.kind.is_access() && (event.paths.is_empty() || names.any(ours))
}

/// Uses what was found, if it can be used.
pub(super) fn apply(fleet: &Fleet, path: &Path, text: &Result<Option<String>, String>) {
    let specs = match text {
        Ok(Some(text)) => parse(path, text),
        Ok(None) => {
            tracing::warn!(path = %path.display(), "no endpoints file there yet: no endpoints");
            Ok(Vec::new())
        }
        Err(problem) => Err(problem.clone()),
    };
    match specs {
        Ok(specs) => {
            tracing::info!(path = %path.display(), endpoints = specs.len(), "endpoints read");
            fleet.change(|state, now| state.set_source(BackendSource::EndpointsFile, specs, now));
        }
        Err(problem) => {
            tracing::error!(path = %path.display(), problem, "the old endpoints are kept");
        }
    }
}

/// The file's text; nothing where there is no file.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, String> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
        // Reading a pipe would wait for ever.
        Ok(found) if !found.is_file() => return Err("is no ordinary file".into()),
        Ok(_) => {}
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    let length = read.map_err(|error| error.to_string())?;
    if length as u64 > BYTES_MAX {
        return Err(format!("is longer than {BYTES_MAX} bytes"));
    }
    Ok(Some(text))
}

/// The servers that a file names.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<BackendSpec>, String> {
    let json = path.extension().is_some_and(|end| end == "json");
    let EndpointsFile { endpoints } = if json {
        serde_json::from_str(text).map_err(|error| error.to_string())?
    } else {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())?
    };
    if endpoints.len() > ENTRIES_MAX {
        return Err(format!("{} endpoints, at most {ENTRIES_MAX} are taken", endpoints.len()));
    }
    let mut names = BTreeSet::new();
    let mut specs = Vec::with_capacity(endpoints.len());
    for (at, endpoint) in endpoints.into_iter().enumerate() {
        let spec = endpoint.spec().map_err(|problem| format!("endpoints[{at}]: {problem}"))?;
        if !names.insert(spec.id.clone()) {
            return Err(format!("endpoints[{at}]: the name {:?} is there twice", spec.id));
        }
        specs.push(spec);
    }
    Ok(specs)
}

// === impl Endpoint ===

impl Endpoint {
    fn spec(self) -> Result<BackendSpec, String> {
        let port = match &self.port {
            Port::Number(port) => *port,
            Port::Text(text) => {
                text.parse().map_err(|_| format!("port {text:?} is no number from 1 to 65535"))?
            }
        };
        let kind = self.kind.as_ref().or_else(|| self.labels.get(ENGINE_LABEL));
        let kind = kind.map_or(Ok(BackendKind::default()), |kind| kind_named(kind))?;
        let address = &self.address;
        let bare_v6 = address.contains(':') && !address.starts_with('[');
        let host = if bare_v6 { format!("[{address}]") } else { address.clone() };
        let BackendTraits { power_watts, latency_ms } = BackendTraits::default();
        let power_watts = self.power_watts.unwrap_or(power_watts);
        let latency_ms = self.latency_ms.unwrap_or(latency_ms);
        let spec = BackendSpec {
            id: self.name,
            url: format!("http://{host}:{port}"),
            kind,
            models: self.models,
            traits: BackendTraits::new(power_watts, latency_ms)
                .map_err(|error| error.to_string())?,
            http2: false,
        };
        Upstream::new(BackendId(0), &spec)?;
        Ok(spec)
    }
}

fn kind_named(name: &str) -> Result<BackendKind, String> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "vllm" => BackendKind::Vllm,
        "sglang" => BackendKind::Sglang,
        "ollama" => BackendKind::Ollama,
        "llamacpp" | "llama.cpp" => BackendKind::LlamaCpp,
        "openai" => BackendKind::OpenAi,
        "generic" => BackendKind::Generic,
        _ => {
            let kinds = "vllm, sglang, ollama, llamacpp, openai or generic";
            return Err(format!("kind {name:?} is not known; write {kinds}"));
        }
    })
}
