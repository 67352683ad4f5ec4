//! The models that a backend has loaded, if it loads them on demand, as Ollama and llama-swap do.
//!
//! A request for another model makes the backend load it, which takes seconds to minutes, and often
//! throws the loaded one out. So a load is a price, and a backend stays with a model for a while.

use std::collections::BTreeSet;

use crate::ask::ModelId;
use crate::time::{Span, Time};

/// The time that a load takes, until one was seen.
const LOAD_UNKNOWN: f64 = 10.0;
/// The weight of one load in the moving mean.
const STEP: f64 = 0.3;
/// A longer load counts as this.
const LOAD_MAX: f64 = 1000.0;

#[derive(Clone, Debug, Default)]
pub(crate) struct LoadedModels {
    /// `None` if that is not known: then every model counts as loaded.
    models: Option<BTreeSet<ModelId>>,
    /// The ask that made it load a model, until it has started or ended.
    loading: Option<u32>,
    /// When the last load ended.
    loaded_at: Option<Time>,
    /// In seconds.
    load_time: Option<f64>,
}

// === impl LoadedModels ===

impl LoadedModels {
    /// Takes what the backend reports. A report from the time of a load may be older than the load.
    pub(crate) fn report(&mut self, models: Option<BTreeSet<ModelId>>) {
        if self.loading.is_none() {
            self.models = models;
        }
    }

    pub(crate) fn has(&self, model: ModelId) -> bool {
        self.models.as_ref().is_none_or(|models| models.contains(&model))
    }

    /// Counts a grant. Returns whether it makes the backend load a model; the others are believed
    /// to be thrown out, until the backend reports them.
    pub(crate) fn granted(&mut self, model: ModelId, ask: u32) -> bool {
        if self.has(model) {
            return false;
        }
        self.models = Some(BTreeSet::from([model]));
        self.loading = Some(ask);
        true
    }

    /// An ask has produced its first token, this long after its grant.
    pub(crate) fn started(&mut self, ask: u32, took: Span, now: Time) {
        if self.loading == Some(ask) {
            let took = took.secs_f64().min(LOAD_MAX);
            let mean = self.load_time.unwrap_or(took);
            self.load_time = Some(mean + STEP * (took - mean));
            self.ended(ask, now);
        }
    }

    /// An ask has ended.
    pub(crate) fn ended(&mut self, ask: u32, now: Time) {
        if self.loading == Some(ask) {
            (self.loading, self.loaded_at) = (None, Some(now));
        }
    }

    /// What is left of the time for which it stays with its models.
    pub(crate) fn stay_left(&self, stay: Span, now: Time) -> Span {
        match (self.loading, self.loaded_at) {
            (Some(_), _) => stay,
            (None, Some(at)) => at.after(stay).since(now),
            (None, None) => Span::ZERO,
        }
    }

    /// The milliseconds until it can serve a model.
    pub(crate) fn price_ms(&self, model: ModelId, stay: Span, now: Time) -> f64 {
        if self.has(model) {
            return 0.0;
        }
        let load = self.load_time.unwrap_or(LOAD_UNKNOWN);
        (load + self.stay_left(stay, now).secs_f64()) * 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ModelId = ModelId(0);
    const B: ModelId = ModelId(1);
    const STAY: Span = Span::from_secs(10);

    fn at(secs: u64) -> Time {
        Time::ZERO.after(Span::from_secs(secs))
    }

    #[test]
    fn k04_a_backend_that_reports_nothing_has_every_model() {
        let mut loaded = LoadedModels::default();
        assert!(loaded.has(A) && !loaded.granted(B, 7));
        assert_eq!(loaded.price_ms(A, STAY, at(0)), 0.0);
        assert_eq!(loaded.stay_left(STAY, at(0)), Span::ZERO);
    }

    #[test]
    fn k04_a_load_is_learned_and_then_stayed_with() {
        let mut loaded = LoadedModels::default();
        loaded.report(Some(BTreeSet::from([A])));
        assert_eq!(loaded.price_ms(B, STAY, at(0)), 10_000.0, "a load that was never seen");
        assert!(loaded.granted(B, 7) && !loaded.granted(B, 8));
        assert!(loaded.has(B) && !loaded.has(A));
        loaded.report(Some(BTreeSet::from([A])));
        assert!(loaded.has(B), "a report from before the load");
        loaded.started(8, Span::from_secs(1), at(1));
        assert_eq!(loaded.stay_left(STAY, at(19)), STAY, "it loads");
        loaded.started(7, Span::from_secs(20), at(20));
        assert_eq!(loaded.stay_left(STAY, at(23)), Span::from_secs(7));
        assert_eq!(loaded.price_ms(A, STAY, at(23)), 27_000.0);
        assert_eq!(loaded.price_ms(A, STAY, at(40)), 20_000.0, "the stay is over");
        loaded.report(Some(BTreeSet::from([A, B])));
        assert!(loaded.has(A) && loaded.has(B), "both fit");
    }

    #[test]
    fn k04_a_load_that_is_given_up_ends() {
        let mut loaded = LoadedModels::default();
        loaded.report(Some(BTreeSet::new()));
        assert!(loaded.granted(A, 3));
        loaded.ended(3, at(5));
        assert_eq!(loaded.stay_left(STAY, at(6)), Span::from_secs(9));
        assert_eq!(loaded.price_ms(B, Span::ZERO, at(6)), 10_000.0, "no time was learned");
    }
}
