//! The models of all backends by name, each with its id.

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::{BackendId, ModelId, Span, Time};
use serde_json::value::RawValue;

use super::backend_state::{BackendState, ServedModels};
use super::model_ids::{ANY_OTHER, ModelIds, NOT_YET};
use super::model_list::ListedModel;

/// For how long a pool that was at zero counts as such while Kubernetes reports pods as ready and
/// no model list can be read.
const LIST_GRACE: Span = Span::from_secs(60);
/// The most models that a pool is remembered to have had.
const BEFORE_MAX: usize = 4096;

/// All listed models.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    pub(super) ids: BTreeMap<Arc<str>, ModelId>,
    /// The models of the configuration, listed or not.
    pub(super) configured: BTreeMap<Arc<str>, ModelId>,
    /// The models that a pool had before it lost all models, and that no backend lists yet.
    pub(super) served_before: BTreeMap<Arc<str>, ModelId>,
    /// Until when they may return, once the pool has a model again.
    return_until: Option<Time>,
    /// Whether a pool has no models yet, or no more: requests for any model wait.
    pub(super) holds: bool,
    /// Whether a pool has no models because it has no pods that are ready, or had none before.
    pub(super) at_zero: bool,
    /// Until when that counts although pods are ready.
    at_zero_until: Option<Time>,
    pub(super) entries: Vec<ModelEntry>,
    /// The longest context of a model at any backend, as far as backends say so.
    pub(super) contexts: BTreeMap<ModelId, u64>,
    /// Whether a backend serves any name.
    pub(super) any: bool,
    /// Whether a model that no backend lists may be in a list that is still unknown.
    pub(super) not_yet: bool,
    /// Whether the list of a backend is unknown, and is waited for also beside other lists.
    pub(super) awaits_lists: bool,
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
            catalogue.awaits_lists |= backend.is_list_awaited(now);
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
        let knows_list = !catalogue.ids.is_empty() || catalogue.any;
        catalogue.not_yet &= catalogue.awaits_lists || !knows_list;
        catalogue.entries = entries.into_values().collect();
        catalogue
    }

    /// Holds the requests for a pool without models. A pool that is scaled to zero may start with
    /// none, and then no name can be known. The models of a pool return one after the other, so
    /// those that it had are held for `grace` after the first, and while a list is unknown.
    pub(super) fn hold(&mut self, before: &Self, grace: Span, now: Time) {
        self.holds = self.ids.is_empty() && !self.any;
        let until = before.return_until.unwrap_or(now.after(grace));
        let lost = self.holds.then_some(&before.ids).into_iter().flatten();
        let had = lost.chain(&before.served_before);
        let missing = had.filter(|(name, _)| !self.ids.contains_key(*name)).take(BEFORE_MAX);
        if self.holds || self.not_yet || now < until {
            self.served_before = missing.map(|(name, &id)| (name.clone(), id)).collect();
        }
        let returns = !self.holds && !self.served_before.is_empty();
        self.return_until = returns.then_some(until);
    }

    /// Notes whether a pool without models is at zero. If it has pods that are ready, that holds
    /// only for a while: without an end, a gateway that can read no list would look ready.
    pub(super) fn note_zero(
        &mut self,
        before: &Self,
        backends: &BTreeMap<BackendId, BackendState>,
        now: Time,
    ) {
        let has_none = backends.values().all(|backend| backend.spec.drain.is_some());
        let until = before.at_zero_until.unwrap_or(now.after(LIST_GRACE));
        let was_left = (before.at_zero || !before.ids.is_empty()) && now < until;
        self.at_zero = self.holds && (has_none || was_left);
        self.at_zero_until = (self.at_zero && !has_none).then_some(until);
    }

    /// When it changes by time alone.
    pub(super) fn next_change(&self) -> Option<Time> {
        let returns = self.return_until.filter(|_| !self.not_yet);
        returns.into_iter().chain(self.at_zero_until).min()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.ids.keys().chain(self.configured.keys());
        names.chain(self.served_before.keys()).map(AsRef::as_ref)
    }

    /// A backend that serves any name also serves every name that requests may wait for, and every
    /// name that another backend lists.
    pub(super) fn complete(&self, backend: &mut BackendState) {
        match backend.models {
            ServedModels::Unknown => backend.serves.push(NOT_YET),
            ServedModels::Any => {
                backend.serves.push(ANY_OTHER);
                let held = self.configured.values().chain(self.served_before.values());
                backend.serves.extend(self.ids.values().chain(held));
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
