//! The metrics of each pair of model names, and the bound on label values.
//!
//! Clients may write any name into a request. Only names that the configuration or a backend lists
//! become label values, so the operator's models bound the number of series; all other names share
//! `other`. Reads take no lock: the index is replaced as a whole when it grows, once for each pair.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::model_counters::ModelCounters;

/// The most names, and the most pairs of names.
pub(super) const NAMES_MAX: usize = 1000;
const PAIRS_MAX: usize = 1000;
/// A longer name is not used as a label: two names cut to the same length could share a series.
const NAME_MAX: usize = 256;

const OTHER: &str = "other";
/// The value of a label that does not apply.
pub(super) const NONE: &str = "-";

/// The position of a name in the index.
type Label = u16;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct ModelLabels {
    index: ArcSwap<Index>,
    growing: Mutex<()>,
}

#[derive(Clone, Debug)]
struct Index {
    names: BTreeMap<Arc<str>, Label>,
    labels: Vec<Arc<str>>,
    by_pair: BTreeMap<(Label, Label), u32>,
    /// Model, target model and their metrics; the first entry is for all other names.
    entries: Vec<(Label, Label, Arc<ModelCounters>)>,
}

/// The requested model and the target model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ModelNames {
    pub(super) model: Arc<str>,
    pub(super) target: Arc<str>,
}

// === impl ModelLabels ===

impl ModelLabels {
    /// Allows these names as label values.
    pub(super) fn learn<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = Index::clone(&self.index.load());
        names.into_iter().for_each(|name| index.learn(name));
        self.index.store(Arc::new(index));
    }

    /// The metrics of a pair of names, created on first use, and their index.
    pub(super) fn find(&self, model: &str, target: &str) -> (u32, Arc<ModelCounters>) {
        let index = self.index.load();
        let label = index.label(model);
        let labels = (label, if target == model { label } else { index.label(target) });
        match index.by_pair.get(&labels) {
            Some(&number) => index.entry(number),
            None if index.entries.len() >= PAIRS_MAX => index.entry(0),
            None => self.open(labels),
        }
    }

    fn open(&self, (model, target): (Label, Label)) -> (u32, Arc<ModelCounters>) {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut index = Index::clone(&self.index.load());
        let next = index.entries.len() as u32;
        let number = *index.by_pair.entry((model, target)).or_insert(next);
        if number == next {
            index.entries.push((model, target, Arc::default()));
            self.index.store(Arc::new(index));
        }
        self.index.load().entry(number)
    }

    /// The metrics of all pairs, in order of creation.
    pub(super) fn all(&self) -> Vec<(ModelNames, Arc<ModelCounters>)> {
        let index = self.index.load();
        let named = index.entries.iter().map(|(model, target, metrics)| {
            let names = ModelNames { model: index.text(*model), target: index.text(*target) };
            (names, Arc::clone(metrics))
        });
        named.collect()
    }

    /// The label value of a name.
    pub(super) fn label(&self, name: &str) -> Arc<str> {
        let index = self.index.load();
        index.text(index.label(name))
    }
}

// === impl Index ===

impl Index {
    const OTHER: Label = 0;
    const NONE: Label = 1;

    fn label(&self, name: &str) -> Label {
        self.names.get(name).copied().unwrap_or(Self::OTHER)
    }

    fn entry(&self, number: u32) -> (u32, Arc<ModelCounters>) {
        (number, Arc::clone(&self.entries[number as usize].2))
    }

    fn text(&self, label: Label) -> Arc<str> {
        Arc::clone(&self.labels[usize::from(label)])
    }

    fn learn(&mut self, name: &str) {
        let full = self.names.len() >= NAMES_MAX;
        if full || name.len() > NAME_MAX || self.names.contains_key(name) {
            return;
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name), self.labels.len() as Label);
        self.labels.push(name);
    }
}

impl Default for Index {
    fn default() -> Self {
        let names = [(OTHER, Self::OTHER), (NONE, Self::NONE), ("", Self::NONE)];
        Self {
            names: names.into_iter().map(|(name, label)| (name.into(), label)).collect(),
            labels: vec![OTHER.into(), NONE.into()],
            by_pair: BTreeMap::from([((Self::OTHER, Self::OTHER), 0)]),
            entries: vec![(Self::OTHER, Self::OTHER, Arc::default())],
        }
    }
}
