//! What there is now, as requests see it.

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

/// Where a server is whose URL has no port.
pub(super) const PORT: u16 = 80;

/// The model servers and their models at one moment.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) backends: BTreeMap<BackendId, Arc<Upstream>>,
    pub(super) catalogue: Arc<Catalogue>,
    /// One model of each backend, of those that are ready if any is: where a request goes that
    /// names none.
    pub(super) default_models: Vec<ModelId>,
    /// The backends that are ready, with the models that each serves.
    pub(super) ready: Vec<(BackendId, Vec<ModelId>)>,
    /// Models that only some of their backends may serve.
    pub(super) subsets: Arc<BTreeMap<Subset, ModelId>>,
    /// How many are configured or found; those that are leaving do not count.
    pub(super) present: usize,
    /// Adapters (LoRA) that some backend has loaded, by the number of their name.
    pub(super) adapters: BTreeSet<ModelId>,
}

/// What a relay needs to know of a model server.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) id: BackendId,
    /// Its configured name, as text and as a header's value.
    pub(crate) name: String,
    pub(crate) name_header: HeaderValue,
    pub(crate) kind: BackendKind,
    /// Host and port.
    pub(crate) authority: Authority,
    /// What stands before every path, without a slash at its end.
    pub(crate) base_path: String,
    pub(crate) http2: bool,
    /// `Host` header of every request to it.
    pub(crate) host_header: HeaderValue,
    /// Its address, where that needs nobody to look it up.
    pub(crate) socket: Option<SocketAddr>,
    /// What requests leave behind.
    pub(super) stats: Arc<PassiveStats>,
}

/// What a model's name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Some backend lists it, or takes any name.
    Known(ModelId),
    /// Not listed, but a backend's list is not learnt yet: wait, and look again.
    NotYet(ModelId),
    /// No backend lists it.
    Unknown,
}

// === impl Roster ===

impl Roster {
    /// What a model's name leads to.
    pub(crate) fn lookup(&self, model: &str) -> Lookup {
        match self.catalogue.ids.get(model) {
            Some(&id) => Lookup::Known(id),
            None if self.catalogue.any => Lookup::Known(ANY_OTHER),
            None => self.unknown(),
        }
    }

    /// A model for a request that names none: any backend will do, in turns by `draw`.
    pub(crate) fn anywhere(&self, draw: u64) -> Lookup {
        let count = self.default_models.len() as u64;
        match draw.checked_rem(count).and_then(|at| self.default_models.get(at as usize)) {
            Some(&model) => Lookup::Known(model),
            None => self.unknown(),
        }
    }

    /// Whether no backend is configured or found.
    pub(crate) fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Whether a backend of this model is ready.
    pub(crate) fn is_served(&self, model: ModelId) -> bool {
        self.serving(model).next().is_some()
    }

    /// The backends of this model that are ready.
    pub(crate) fn serving(&self, model: ModelId) -> impl Iterator<Item = BackendId> {
        let serves = move |(_, models): &&(_, Vec<_>)| models.binary_search(&model).is_ok();
        self.ready.iter().filter(serves).map(|&(id, _)| id)
    }

    pub(crate) fn upstream(&self, backend: BackendId) -> Option<&Arc<Upstream>> {
        self.backends.get(&backend)
    }

    /// The backend at this address; the newest, where one that is leaving was there before.
    pub(crate) fn at(&self, socket: SocketAddr) -> Option<&Arc<Upstream>> {
        self.backends.values().rfind(|upstream| upstream.socket == Some(socket))
    }

    /// Every name that leads to a model, with its number.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (&str, ModelId)> {
        self.catalogue.ids.iter().map(|(name, &id)| (&**name, id))
    }

    /// Numbers that stand for a model which only some of its backends may serve, with the model's.
    pub(crate) fn narrowed(&self) -> impl Iterator<Item = (ModelId, ModelId)> {
        self.subsets.iter().map(|(subset, &id)| (id, subset.model))
    }

    /// All models that are listed, each once, by name.
    pub(crate) fn models_merged(&self) -> &[ModelEntry] {
        &self.catalogue.entries
    }

    /// What a request for this model should name as its adapter (LoRA): the model, if some backend
    /// has it loaded as one.
    pub(crate) fn adapter(&self, model: ModelId) -> Option<u32> {
        self.adapters.contains(&model).then_some(model.0)
    }

    fn unknown(&self) -> Lookup {
        if self.catalogue.not_yet { Lookup::NotYet(NOT_YET) } else { Lookup::Unknown }
    }
}

// === impl Upstream ===

impl Upstream {
    /// What is wrong with it where others must be told its address.
    pub(crate) fn address_problem(&self) -> String {
        let Self { name, authority, .. } = self;
        format!("backend {name}: {authority} is a name where Envoy needs an address; write its IP")
    }

    /// Takes note of how long an answer's first byte took.
    pub(crate) fn note(&self, first_byte: Span) {
        self.stats.note(first_byte);
    }

    /// Host and port to connect to.
    pub(crate) fn place(&self) -> (&str, u16) {
        place(&self.authority)
    }

    /// Reads where a backend is. The error says what is wrong with its URL and what would be right.
    pub(crate) fn new(id: BackendId, spec: &BackendSpec) -> Result<Self, String> {
        let wrong = |what: &str| {
            let BackendSpec { id, url, .. } = spec;
            format!("backend {id}: url {url:?} {what}; write http://host:port")
        };
        let uri: Uri = spec.url.parse().map_err(|_| wrong("is no URL"))?;
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err(wrong("is not http"));
        }
        let given = uri.authority().ok_or_else(|| wrong("has no host"))?;
        // Names and passwords do not belong into a `Host` header.
        let host = given.as_str().rsplit('@').next().unwrap_or_default();
        let authority: Authority = host.parse().map_err(|_| wrong("has no host"))?;
        if authority.host().is_empty() {
            return Err(wrong("has no host"));
        }
        let host_header = HeaderValue::from_str(host).map_err(|_| wrong("has a strange host"))?;
        let name_header = HeaderValue::from_str(&spec.id)
            .map_err(|_| format!("backend {:?}: an id is made of visible letters", spec.id))?;
        // Clients' paths begin with `/v1` already; many write it into the URL as clients need it.
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

/// The address that an authority writes down.
fn socket(authority: &Authority) -> Option<SocketAddr> {
    let (host, port) = place(authority);
    let ip = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => host.parse().ok()?,
    };
    Some(SocketAddr::new(ip, port))
}
