//! The backends and their models as requests see them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use flow::{BackendId, ModelId, Span};
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Uri};

use super::catalogue::{Catalogue, ModelEntry};
use super::model_ids::{ANY_OTHER, NOT_YET};
use super::passive_stats::PassiveStats;
use super::subset::Subset;
use crate::config::resolved::{BackendKind, BackendSpec};

/// The port of a URL without a port.
pub(super) const PORT: u16 = 80;

/// The backends and their models at one moment.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) backends: BTreeMap<BackendId, Arc<Upstream>>,
    pub(super) catalogue: Arc<Catalogue>,
    /// One model of each ready backend, or of each backend if none is ready. A request that names
    /// no model uses them in turn.
    pub(super) default_models: Vec<ModelId>,
    /// The ready backends, with the models of each.
    pub(super) ready: Vec<(BackendId, Vec<ModelId>)>,
    /// Models that only a subset of their backends may serve.
    pub(super) subsets: Arc<BTreeMap<Subset, ModelId>>,
    /// The number of configured or discovered backends, without those that are leaving.
    pub(super) present: usize,
    /// The ids of adapters (LoRA) that a backend has loaded.
    pub(super) adapters: BTreeSet<ModelId>,
}

/// A backend as the data path sees it.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) id: BackendId,
    /// The configured name, as text and as a header value.
    pub(crate) name: String,
    pub(crate) name_header: HeaderValue,
    pub(crate) kind: BackendKind,
    /// Host and port.
    pub(crate) authority: Authority,
    /// The prefix of every path, without a trailing slash.
    pub(crate) base_path: String,
    pub(crate) http2: bool,
    /// The `Host` header of every request to it.
    pub(crate) host_header: HeaderValue,
    /// The socket address, if it is known without a DNS lookup.
    pub(crate) socket: Option<SocketAddr>,
    /// Statistics that requests update.
    pub(super) stats: Arc<PassiveStats>,
}

/// The result of looking up a model name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A backend lists it, or serves any name.
    Known(ModelId),
    /// Not listed, but the list of a backend is still unknown: wait, then look it up again.
    NotYet(ModelId),
    /// No backend lists it.
    Unknown,
}

// === impl Roster ===

impl Roster {
    /// Looks up a model name.
    pub(crate) fn lookup(&self, model: &str) -> Lookup {
        match self.catalogue.ids.get(model) {
            Some(&id) => Lookup::Known(id),
            None if self.catalogue.any => Lookup::Known(ANY_OTHER),
            None => self.unknown(),
        }
    }

    /// A model for a request that names none. `draw` selects a backend in turn.
    pub(crate) fn anywhere(&self, draw: u64) -> Lookup {
        let count = self.default_models.len() as u64;
        match draw.checked_rem(count).and_then(|at| self.default_models.get(at as usize)) {
            Some(&model) => Lookup::Known(model),
            None => self.unknown(),
        }
    }

    /// Whether no backend is configured or discovered.
    pub(crate) fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Whether a backend of this model is ready.
    pub(crate) fn is_served(&self, model: ModelId) -> bool {
        self.serving(model).next().is_some()
    }

    /// The ready backends of this model.
    pub(crate) fn serving(&self, model: ModelId) -> impl Iterator<Item = BackendId> {
        let serves = move |(_, models): &&(_, Vec<_>)| models.binary_search(&model).is_ok();
        self.ready.iter().filter(serves).map(|&(id, _)| id)
    }

    pub(crate) fn upstream(&self, backend: BackendId) -> Option<&Arc<Upstream>> {
        self.backends.get(&backend)
    }

    /// The backend at this address. If one that is leaving had the address before, the newer one.
    pub(crate) fn at(&self, socket: SocketAddr) -> Option<&Arc<Upstream>> {
        self.backends.values().rfind(|upstream| upstream.socket == Some(socket))
    }

    /// All model names with their ids.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (&str, ModelId)> {
        self.catalogue.ids.iter().map(|(name, &id)| (&**name, id))
    }

    /// The ids of subsets, each with the id of its model.
    pub(crate) fn narrowed(&self) -> impl Iterator<Item = (ModelId, ModelId)> {
        self.subsets.iter().map(|(subset, &id)| (id, subset.model))
    }

    /// All listed models, each once, by name.
    pub(crate) fn models_merged(&self) -> &[ModelEntry] {
        &self.catalogue.entries
    }

    /// The adapter (LoRA) of a request for this model: the model itself, if a backend has loaded it
    /// as an adapter.
    pub(crate) fn adapter(&self, model: ModelId) -> Option<u32> {
        self.adapters.contains(&model).then_some(model.0)
    }

    fn unknown(&self) -> Lookup {
        if self.catalogue.not_yet { Lookup::NotYet(NOT_YET) } else { Lookup::Unknown }
    }
}

// === impl Upstream ===

impl Upstream {
    /// The message for a backend without an IP address, where Envoy needs one.
    pub(crate) fn address_problem(&self) -> String {
        let Self { name, authority, .. } = self;
        format!("backend {name}: {authority} is a host name, but Envoy needs an IP address")
    }

    /// Records the time to the first byte of a response.
    pub(crate) fn note(&self, first_byte: Span) {
        self.stats.note(first_byte);
    }

    /// Host and port to connect to.
    pub(crate) fn place(&self) -> (&str, u16) {
        place(&self.authority)
    }

    /// Parses the URL of a backend. The error says what is wrong with the URL and which form is
    /// right.
    pub(crate) fn new(id: BackendId, spec: &BackendSpec) -> Result<Self, String> {
        let wrong = |what: &str| {
            let BackendSpec { id, url, .. } = spec;
            format!("backend {id}: url {url:?} {what}; write http://host:port")
        };
        let uri: Uri = spec.url.parse().map_err(|_| wrong("is not a URL"))?;
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err(wrong("is not http"));
        }
        let given = uri.authority().ok_or_else(|| wrong("has no host"))?;
        // Credentials do not belong into a `Host` header.
        let host = given.as_str().rsplit('@').next().unwrap_or_default();
        let authority: Authority = host.parse().map_err(|_| wrong("has no host"))?;
        if authority.host().is_empty() {
            return Err(wrong("has no host"));
        }
        let host_header = HeaderValue::from_str(host).map_err(|_| wrong("has an invalid host"))?;
        let name_header = HeaderValue::from_str(&spec.id).map_err(|_| {
            format!("backend {:?}: an id must consist of visible ASCII characters", spec.id)
        })?;
        // The paths of requests already begin with `/v1`, and many users write it into the URL as
        // clients need it.
        let path = uri.path().trim_end_matches('/');
        let base_path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        let BackendSpec { id: name, kind, http2, .. } = spec;
        let (name, kind, http2) = (name.clone(), *kind, *http2);
        let (socket, stats) = (socket(&authority), Arc::default());
        Ok(Self {
            id,
            name,
            name_header,
            kind,
            authority,
            base_path,
            http2,
            host_header,
            socket,
            stats,
        })
    }
}

fn place(authority: &Authority) -> (&str, u16) {
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    (host, authority.port_u16().unwrap_or(PORT))
}

/// The socket address that an authority contains.
fn socket(authority: &Authority) -> Option<SocketAddr> {
    let (host, port) = place(authority);
    let ip = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => host.parse().ok()?,
    };
    Some(SocketAddr::new(ip, port))
}
