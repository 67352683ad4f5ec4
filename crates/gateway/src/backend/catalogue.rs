//! The models of all backends by name, each with its id.

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::{BackendId, ModelId, Time};
use serde_json::value::RawValue;

use super::backend_state::{BackendState, ServedModels};
use super::model_ids::{ANY_OTHER, ModelIds, NOT_YET};
use super::model_list::ListedModel;

/// All listed models.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    pub(super) ids: BTreeMap<Arc<str>, ModelId>,
    /// The models of the configuration, listed or not.
    pub(super) configured: BTreeMap<Arc<str>, ModelId>,
    /// While a pool has no models, those that it had last.
    pub(super) served_before: BTreeMap<Arc<str>, ModelId>,
    /// Whether a pool has no models yet, or no more: requests for any model wait.
    pub(super) holds: bool,
    /// Whether a pool has no models because it has no pods that are ready, or had none before.
    pub(super) at_zero: bool,
    pub(super) entries: Vec<ModelEntry>,
    /// The longest context of a model at any backend, as far as backends say so.
    pub(super) contexts: BTreeMap<ModelId, u64>,
    /// Whether a backend serves any name.
    pub(super) any: bool,
    /// Whether the model list of a backend is still unknown.
    pub(super) not_yet: bool,
}

/// One model as the backends list it.
#[derive(Clone, Debug)]
pub(crate) struct ModelEntry {
    pub(crate) id: String,
    pub(crate) owned_by: Option<String>,
    pub(crate) created: Option<u64>,
    /// The model's whole entry in an Ollama list, if a backend gave one.
    pub(crate) tag: Option<Arc<RawValue>>,
    /// The names of the backends that list it.
    pub(crate) backends: Vec<String>,
}

// === impl Catalogue ===

impl Catalogue {
    /// Merges the lists of all backends, and stores in each backend the ids of its models.
    pub(super) fn of(
        backends: &mut BTreeMap<BackendId, BackendState>,
        configured: &[String],
        model_ids: &mut ModelIds,
        now: Time,
    ) -> Self {
        let number = |name: &String| Some((name.as_str().into(), model_ids.number(name, now)?));
        let configured: BTreeMap<Arc<str>, ModelId> =
            configured.iter().filter_map(number).collect();
        let mut catalogue = Self { configured, ..Self::default() };
        let mut entries: BTreeMap<String, ModelEntry> = BTreeMap::new();
        for backend in backends.values_mut() {
            catalogue.any |= matches!(backend.models, ServedModels::Any);
            catalogue.not_yet |= matches!(backend.models, ServedModels::Unknown);
            let BackendState { spec, models, serves, .. } = backend;
            let listed = models.listed().iter();
            let known =
                listed.filter_map(|listed| Some((listed, model_ids.number(&listed.id, now)?)));
            serves.clear();
            for (listed, id) in known {
                serves.push(id);
                let longest = catalogue.contexts.get(&id).copied().max(listed.context);
                catalogue.contexts.extend(longest.map(|longest| (id, longest)));
                catalogue.ids.insert(listed.id.as_str().into(), id);
                listed.enter(&mut entries, &spec.id);
            }
        }
        catalogue.entries = entries.into_values().collect();
        backends.values_mut().for_each(|backend| catalogue.complete(backend));
        catalogue
    }

    /// Holds the requests for a pool without models. A pool that is scaled to zero may start with
    /// none, and then no name can be known.
    pub(super) fn hold(&mut self, before: &Self, backends: &BTreeMap<BackendId, BackendState>) {
        self.holds = self.ids.is_empty() && !self.any;
        if self.holds {
            let served = if before.holds { &before.served_before } else { &before.ids };
            self.served_before.clone_from(served);
            let has_none = backends.values().all(|backend| backend.spec.drain.is_some());
            self.at_zero = before.at_zero || has_none || !served.is_empty();
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.ids.keys().chain(self.configured.keys());
        names.chain(self.served_before.keys()).map(AsRef::as_ref)
    }

    /// A backend that serves any name also serves every configured name and every name that
    /// another backend lists.
    fn complete(&self, backend: &mut BackendState) {
        match backend.models {
            ServedModels::Unknown => backend.serves.push(NOT_YET),
            ServedModels::Any => {
                backend.serves.push(ANY_OTHER);
                backend.serves.extend(self.ids.values().chain(self.configured.values()));
            }
            ServedModels::Listed(_) => {}
        }
        backend.serves.sort_unstable();
        backend.serves.dedup();
    }
}

// === impl ListedModel ===

impl ListedModel {
    /// Merges one backend's entry for a model into the catalogue. An alias gets no entry of its
    /// own.
    fn enter(&self, entries: &mut BTreeMap<String, ModelEntry>, backend: &str) {
        if !self.alias {
            let entry = entries.entry(self.id.clone());
            entry.or_insert_with(|| ModelEntry::named(&self.id)).add(self, backend);
        }
    }
}

// === impl ModelEntry ===

impl ModelEntry {
    fn named(id: &str) -> Self {
        Self { id: id.into(), owned_by: None, created: None, tag: None, backends: Vec::new() }
    }

    fn add(&mut self, listed: &ListedModel, backend: &str) {
        self.owned_by = self.owned_by.take().or_else(|| listed.owned_by.clone());
        self.created = self.created.or(listed.created);
        self.tag = self.tag.take().or_else(|| listed.tag.clone());
        if self.backends.last().is_none_or(|last| last != backend) {
            self.backends.push(backend.into());
        }
    }
}
