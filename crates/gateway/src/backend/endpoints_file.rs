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
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flow::{BackendId, BackendTraits};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_saphyr::Spanned;
use tokio::sync::Notify;

use self::error::{EndpointProblem, EndpointsFileError};
use super::Fleet;
use super::endpoint::Endpoint;
use super::fleet_state::BackendSource;
use crate::config::settings::{BackendKind, BackendSpec};

pub(super) const BYTES_MAX: u64 = 1 << 20;
pub(super) const ENTRIES_MAX: usize = 4096;
/// The most letters of a bad address that are shown.
const ADDRESS_SHOWN: usize = 60;
/// The file is read when it has not changed for this long, because a writer may write it in several
/// steps.
const QUIET_FOR: Duration = Duration::from_millis(50);
/// The polling interval if the file cannot be watched.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The link that Kubernetes swaps when it updates the files of a mounted volume.
const SWAPPED: &str = "..data";
/// The picker's label for the engine of an endpoint.
const ENGINE_LABEL: &str = "llm-d.ai/engine-type";

/// The most places of an endpoint, as in the configuration.
pub(super) const PLACES_MAX: u64 = 100_000;

/// The file; `E` is an entry with or without its place in the file.
#[derive(Debug, Deserialize)]
struct EndpointsFile<E> {
    endpoints: Vec<E>,
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
    places: Option<u64>,
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
    let endpoints = deserialize(path, text)?;
    if endpoints.len() > ENTRIES_MAX {
        return Err(EndpointsFileError::TooMany(endpoints.len()));
    }
    let mut names = BTreeSet::new();
    let mut specs = Vec::with_capacity(endpoints.len());
    for (index, (line, endpoint)) in endpoints.into_iter().enumerate() {
        let invalid = |problem| EndpointsFileError::Endpoint { index, line, problem };
        let spec = endpoint.spec().map_err(invalid)?;
        if !names.insert(spec.id.clone()) {
            return Err(invalid(EndpointProblem::DuplicateName(spec.id)));
        }
        specs.push(spec);
    }
    Ok(specs)
}

/// Reads JSON if the name of the file says so, otherwise YAML: each entry with its line.
fn deserialize(path: &Path, text: &str) -> Result<Vec<(u64, ListedEndpoint)>, EndpointsFileError> {
    if path.extension().is_some_and(|end| end == "json") {
        return deserialize_json(text).map_err(EndpointsFileError::Json);
    }
    let file: EndpointsFile<Spanned<ListedEndpoint>> =
        serde_saphyr::from_str(text).map_err(|error| EndpointsFileError::Yaml(Box::new(error)))?;
    let placed = |entry: Spanned<ListedEndpoint>| (entry.referenced.line(), entry.value);
    Ok(file.endpoints.into_iter().map(placed).collect())
}

fn deserialize_json(text: &str) -> Result<Vec<(u64, ListedEndpoint)>, serde_json::Error> {
    let file: EndpointsFile<ListedEndpoint> = serde_json::from_str(text)?;
    // An error in an entry was told by its place in the whole file; here only the places count.
    let raw: EndpointsFile<&RawValue> = serde_json::from_str(text)?;
    let line = |entry: &&RawValue| {
        // An entry is a slice of the text.
        let before = (entry.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        let before = text.as_bytes().get(..before).unwrap_or_default();
        1 + memchr::memchr_iter(b'\n', before).count() as u64
    };
    Ok(raw.endpoints.iter().map(line).zip(file.endpoints).collect())
}

/// An address as it stands in a URL: a host name, or an address of IPv4 or IPv6. Anything else,
/// such as a path or the name of a user, would change which server gets the requests.
fn host(address: &str) -> Option<String> {
    let v6 = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
    if v6.parse::<Ipv6Addr>().is_ok() {
        return Some(format!("[{v6}]"));
    }
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
    (!address.is_empty() && address.bytes().all(is_plain)).then(|| address.to_owned())
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
        if port == 0 {
            return Err(EndpointProblem::Port(port.to_string()));
        }
        let host = host(&self.address).ok_or_else(|| {
            EndpointProblem::NoHost(self.address.chars().take(ADDRESS_SHOWN).collect())
        })?;
        let places = match self.places {
            Some(places) if !(1..=PLACES_MAX).contains(&places) => {
                return Err(EndpointProblem::Places(places));
            }
            places => places.and_then(|places| u32::try_from(places).ok()),
        };
        let BackendTraits { power_watts, latency_ms } = BackendTraits::default();
        let power_watts = self.power_watts.unwrap_or(power_watts);
        let latency_ms = self.latency_ms.unwrap_or(latency_ms);
        let spec = BackendSpec {
            kind,
            models: self.models,
            traits: BackendTraits::new(power_watts, latency_ms).map_err(EndpointProblem::Traits)?,
            places,
            ..BackendSpec::new(self.name, format!("http://{host}:{port}"))
        };
        Endpoint::new(BackendId(0), &spec).map_err(EndpointProblem::Address)?;
        Ok(spec)
    }
}
