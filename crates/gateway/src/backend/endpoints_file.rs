//! The endpoints file: a list of model servers that another program writes. The fleet follows its
//! changes.
//!
//! The format is that of the Gateway API's endpoint picker without Kubernetes, so that one file
//! serves both: `endpoints: [{name, address, port, …}]`, in YAML or JSON. A file with an error
//! changes nothing, because half a list would remove working servers.

mod error;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flow::{BackendId, BackendTraits};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use serde::Deserialize;
use tokio::sync::Notify;

use self::error::{EndpointProblem, EndpointsFileError};
use super::Fleet;
use super::endpoint::Endpoint;
use super::fleet_state::BackendSource;
use crate::config::settings::{BackendKind, BackendSpec};

pub(super) const BYTES_MAX: u64 = 1 << 20;
pub(super) const ENTRIES_MAX: usize = 4096;
/// The file is read when it has not changed for this long, because a writer may write it in several
/// steps.
const QUIET_FOR: Duration = Duration::from_millis(50);
/// The polling interval if the file cannot be watched.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The link that Kubernetes swaps when it updates the files of a mounted volume.
const SWAPPED: &str = "..data";
/// The picker's label for the engine of an endpoint.
const ENGINE_LABEL: &str = "llm-d.ai/engine-type";

#[derive(Debug, Deserialize)]
struct EndpointsFile {
    endpoints: Vec<ListedEndpoint>,
}

#[derive(Debug, Deserialize)]
struct ListedEndpoint {
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
    places: Option<NonZeroU32>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Port {
    Number(u16),
    Text(String),
}

/// Follows the file until the task is aborted.
pub(super) async fn follow(fleet: Arc<Fleet>, path: PathBuf) {
    let touched = Arc::new(Notify::new());
    let watching = watcher(&path, touched.clone()).inspect_err(|error| {
        tracing::warn!(path = %path.display(), %error, "endpoints file is polled, not watched");
    });
    let mut last = None;
    loop {
        let text = read_text(&path);
        // An error that stays is logged once.
        let found = text.as_ref().map(Clone::clone).map_err(ToString::to_string);
        if last.as_ref() != Some(&found) {
            apply(&fleet, &path, text);
            last = Some(found);
        }
        tokio::select! {
            () = touched.notified() => tokio::time::sleep(QUIET_FOR).await,
            () = tokio::time::sleep(LOOK_EVERY), if watching.is_err() => {}
        }
    }
}

/// Watches the folder, because a watch on the file ends when the file is replaced.
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

/// Whether an event in the folder may have changed the file with this name. Reading the file is an
/// event too and must not trigger another read.
pub(super) fn concerns(event: &notify::Event, name: Option<&OsStr>) -> bool {
    let mut names = event.paths.iter().map(|path| path.file_name());
    let ours = |found: Option<&OsStr>| found == name || found == Some(OsStr::new(SWAPPED));
    !event.kind.is_access() && (event.paths.is_empty() || names.any(ours))
}

/// Applies the content of the file if it is valid.
pub(super) fn apply(fleet: &Fleet, path: &Path, text: Result<Option<String>, EndpointsFileError>) {
    let specs = text.and_then(|text| match text {
        Some(text) => parse(path, &text),
        None => {
            tracing::warn!(path = %path.display(), "no endpoints file yet: no endpoints");
            Ok(Vec::new())
        }
    });
    match specs {
        Ok(specs) => {
            tracing::info!(path = %path.display(), endpoints = specs.len(), "endpoints read");
            fleet.change(|state, now| state.set_source(BackendSource::EndpointsFile, specs, now));
        }
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "the old endpoints are kept");
        }
    }
}

/// The content of the file; `None` if there is no file.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, EndpointsFileError> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(EndpointsFileError::Io(error)),
        // Reading a pipe could block for ever.
        Ok(found) if !found.is_file() => return Err(EndpointsFileError::NotRegular),
        Ok(_) => {}
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(EndpointsFileError::Io)?;
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    let length = read.map_err(EndpointsFileError::Io)?;
    if length as u64 > BYTES_MAX {
        return Err(EndpointsFileError::TooLong);
    }
    Ok(Some(text))
}

/// The endpoints that a file lists now; `None` if there is no file.
pub(crate) fn listed_endpoints(
    path: &Path,
) -> Result<Option<Vec<BackendSpec>>, EndpointsFileError> {
    read_text(path)?.map(|text| parse(path, &text)).transpose()
}

/// Parses the backends of a file.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<BackendSpec>, EndpointsFileError> {
    let EndpointsFile { endpoints } = deserialize(path, text)?;
    if endpoints.len() > ENTRIES_MAX {
        return Err(EndpointsFileError::TooMany(endpoints.len()));
    }
    let mut names = BTreeSet::new();
    let mut specs = Vec::with_capacity(endpoints.len());
    for (index, endpoint) in endpoints.into_iter().enumerate() {
        let invalid = |problem| EndpointsFileError::Endpoint { index, problem };
        let spec = endpoint.spec().map_err(invalid)?;
        if !names.insert(spec.id.clone()) {
            return Err(invalid(EndpointProblem::DuplicateName(spec.id)));
        }
        specs.push(spec);
    }
    Ok(specs)
}

/// Reads JSON if the name of the file says so, otherwise YAML.
fn deserialize(path: &Path, text: &str) -> Result<EndpointsFile, EndpointsFileError> {
    match path.extension() {
        Some(end) if end == "json" => serde_json::from_str(text).map_err(EndpointsFileError::Json),
        _ => {
            serde_saphyr::from_str(text).map_err(|error| EndpointsFileError::Yaml(Box::new(error)))
        }
    }
}

// === impl ListedEndpoint ===

impl ListedEndpoint {
    fn spec(self) -> Result<BackendSpec, EndpointProblem> {
        let port = match self.port {
            Port::Number(port) => port,
            Port::Text(text) => text.parse().map_err(|_| EndpointProblem::Port(text))?,
        };
        let kind = self.kind.as_ref().or_else(|| self.labels.get(ENGINE_LABEL));
        let kind = match kind {
            Some(kind) => {
                BackendKind::named(kind).ok_or_else(|| EndpointProblem::Kind(kind.clone()))?
            }
            None => BackendKind::default(),
        };
        let address = &self.address;
        let bare_v6 = address.contains(':') && !address.starts_with('[');
        let host = if bare_v6 { format!("[{address}]") } else { address.clone() };
        let BackendTraits { power_watts, latency_ms } = BackendTraits::default();
        let power_watts = self.power_watts.unwrap_or(power_watts);
        let latency_ms = self.latency_ms.unwrap_or(latency_ms);
        let spec = BackendSpec {
            kind,
            models: self.models,
            traits: BackendTraits::new(power_watts, latency_ms).map_err(EndpointProblem::Traits)?,
            places: self.places.map(NonZeroU32::get),
            ..BackendSpec::new(self.name, format!("http://{host}:{port}"))
        };
        Endpoint::new(BackendId(0), &spec).map_err(EndpointProblem::Address)?;
        Ok(spec)
    }
}
