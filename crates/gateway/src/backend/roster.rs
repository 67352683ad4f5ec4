//! What there is now, as requests see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::{BackendId, ModelId};
use http::HeaderValue;
use http::uri::Authority;

use crate::config::settled::Kind;

/// The model servers and their models at one moment.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) backends: BTreeMap<BackendId, Arc<Upstream>>,
    pub(crate) models: BTreeMap<String, ModelId>,
}

/// What a relay needs to know of a model server.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) id: BackendId,
    /// Its configured name, as text and as a header's value.
    pub(crate) name: String,
    pub(crate) name_header: HeaderValue,
    pub(crate) kind: Kind,
    /// Host and port.
    pub(crate) authority: Authority,
    /// What stands before every path, without a slash at its end.
    pub(crate) base_path: String,
    pub(crate) http2: bool,
    /// `Host` header of every request to it.
    pub(crate) host_header: HeaderValue,
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
        self.models.get(model).map_or(Lookup::Unknown, |&id| Lookup::Known(id))
    }

    /// A model for a request that names none: any backend will do, in turns by `draw`.
    pub(crate) fn anywhere(&self, draw: u64) -> Lookup {
        let _ = draw;
        Lookup::Unknown
    }

    pub(crate) fn upstream(&self, backend: BackendId) -> Option<&Arc<Upstream>> {
        self.backends.get(&backend)
    }
}
