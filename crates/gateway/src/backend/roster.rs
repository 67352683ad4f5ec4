//! The backends and their models as requests see them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use flow::{BackendId, ModelId};

use super::catalogue::{Catalogue, ModelEntry};
use super::endpoint::Endpoint;
use super::model_ids::{ANY_OTHER, NOT_YET};
use super::subset::Subset;

/// The name of all models that a pool without models may have.
const ANY_NAME: &str = "*";

/// The backends and their models at one moment.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) backends: BTreeMap<BackendId, Arc<Endpoint>>,
    pub(super) catalogue: Arc<Catalogue>,
    /// One model of each ready backend, or of each backend if none is ready. A request that names
    /// no model uses them in turn.
    pub(super) default_models: Vec<ModelId>,
    /// The ready backends, with the models of each.
    pub(super) ready: Vec<(BackendId, Vec<ModelId>)>,
    /// The ready backends that are full for a while.
    pub(super) paused: BTreeSet<BackendId>,
    /// Models that only a subset of their backends may serve.
    pub(super) subsets: Arc<BTreeMap<Subset, ModelId>>,
    /// The backends that are gone, but may still be at work for a request.
    pub(super) leaving: BTreeSet<BackendId>,
    /// The number of configured or discovered backends, without those that are leaving.
    pub(super) present: usize,
    /// Whether the backends of a cluster are to be used, and are not known.
    pub(super) lacks_cluster: bool,
    /// The ids of adapters (LoRA) that a backend has loaded.
    pub(super) adapters: BTreeSet<ModelId>,
}

/// The result of looking up a model name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A backend lists it, or serves any name.
    Known(ModelId),
    /// No backend lists it, but the configuration names it, or the pool had it before it lost its
    /// backends and may get it back: wait until a backend serves it.
    Configured(ModelId),
    /// Not listed, but the list of a backend is still unknown, or the pool has no backend: wait,
    /// then look it up again.
    NotYet(ModelId),
    /// No backend lists it.
    Unknown,
}

// === impl Roster ===

impl Roster {
    /// Looks up a model name.
    pub(crate) fn lookup(&self, model: &str) -> Lookup {
        let Catalogue { configured, served_before, .. } = &*self.catalogue;
        let configured = || configured.get(model).or_else(|| served_before.get(model));
        match self.catalogue.ids.get(model) {
            Some(&id) => Lookup::Known(id),
            None if self.catalogue.any => Lookup::Known(ANY_OTHER),
            None => configured().map_or_else(|| self.unknown(), |&id| Lookup::Configured(id)),
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

    /// The models of the configuration. Requests may wait for them without a backend.
    pub(crate) fn configured(&self) -> impl Iterator<Item = ModelId> {
        self.catalogue.configured.values().copied()
    }

    /// All models that requests may wait for without a backend.
    pub(super) fn held(&self) -> impl Iterator<Item = ModelId> {
        let unnamed = self.holds().then_some(NOT_YET);
        self.configured().chain(self.catalogue.served_before.values().copied()).chain(unnamed)
    }

    /// The same with their subsets.
    pub(super) fn awaited(&self) -> impl Iterator<Item = ModelId> {
        let subsets = self.subsets.iter().filter(|(subset, _)| subset.is_awaited());
        self.held().chain(subsets.map(|(_, &id)| id))
    }

    /// Whether a pool has no models, so that requests for any model wait.
    pub(crate) fn holds(&self) -> bool {
        self.catalogue.holds
    }

    /// Whether that is because the pool has no pods that are ready, or had none before.
    pub(crate) fn is_at_zero(&self) -> bool {
        self.catalogue.at_zero
    }

    /// Whether no backend is configured or discovered.
    pub(crate) fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Whether no backend is known, because a cluster that may have some is not known.
    pub(crate) fn lacks_cluster(&self) -> bool {
        self.lacks_cluster && self.is_empty()
    }

    /// Whether a backend of this model is ready.
    pub(crate) fn is_served(&self, model: ModelId) -> bool {
        self.serving(model).next().is_some()
    }

    /// Whether a backend of this model, besides these, takes requests now.
    pub(crate) fn is_taken_elsewhere(&self, model: ModelId, others: &[BackendId]) -> bool {
        let mut serving = self.serving(model);
        serving.any(|id| !others.contains(&id) && !self.paused.contains(&id))
    }

    /// The ready backends of this model.
    pub(crate) fn serving(&self, model: ModelId) -> impl Iterator<Item = BackendId> {
        let serves = move |(_, models): &&(_, Vec<_>)| models.binary_search(&model).is_ok();
        self.ready.iter().filter(serves).map(|&(id, _)| id)
    }

    /// The models, and subsets of their backends, that a ready backend of these serves.
    pub(crate) fn served_by(&self, backends: &BTreeSet<BackendId>) -> BTreeSet<ModelId> {
        let serving = self.ready.iter().filter(|(id, _)| backends.contains(id));
        serving.flat_map(|(_, models)| models).copied().collect()
    }

    pub(crate) fn endpoint(&self, backend: BackendId) -> Option<&Arc<Endpoint>> {
        self.backends.get(&backend)
    }

    /// Whether a backend may get further requests.
    pub(crate) fn is_present(&self, backend: BackendId) -> bool {
        self.backends.contains_key(&backend) && !self.leaving.contains(&backend)
    }

    /// The backend at this address. If one that is leaving had the address before, the newer one.
    pub(crate) fn at(&self, socket: SocketAddr) -> Option<&Arc<Endpoint>> {
        self.backends.values().rfind(|endpoint| endpoint.socket == Some(socket))
    }

    /// All model names with their ids, listed or held. A name may occur twice.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (&str, ModelId)> {
        let Catalogue { ids, configured, served_before, .. } = &*self.catalogue;
        let names = ids.iter().chain(configured).chain(served_before);
        let unnamed = self.holds().then_some((ANY_NAME, NOT_YET));
        names.map(|(name, &id)| (&**name, id)).chain(unnamed)
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

    /// The context length of a model, if a backend lists it.
    pub(crate) fn context(&self, model: ModelId) -> Option<u64> {
        self.catalogue.contexts.get(&model).copied()
    }

    fn unknown(&self) -> Lookup {
        let Catalogue { not_yet, holds, .. } = *self.catalogue;
        if not_yet || holds { Lookup::NotYet(NOT_YET) } else { Lookup::Unknown }
    }
}
