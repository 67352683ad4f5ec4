//! Discovery in Kubernetes: the endpoints of an InferencePool, of a service or of pods, and the
//! objectives and model names of a pool.
//!
//! `reflector` follows the objects of one resource, without IO. `endpoints` and `rules` make
//! backends and rules from objects. `driver` drives the reflectors with the requests of
//! `api_server`, for each target that `follow` follows. Whatever fails, the last known state stays
//! in use, and [`Cluster`] says what is wrong. `token_review` asks whether a client may
//! see the status pages. There is no request to change anything in the cluster.

mod api_server;
mod driver;
mod endpoints;
mod follow;
mod lines;
mod objects;
mod reflector;
mod resource;
mod review_turns;
mod rules;
mod token_review;
mod trouble;

#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use self::token_review::Reviews;
pub(crate) use self::token_review::{ReviewError, TokenVerdict};
use self::trouble::{Effect, Trouble};
use crate::config::settings::{BackendSpec, ClusterRules, Kubernetes};

/// The cluster that the gateway follows, if it follows one.
#[derive(Debug)]
pub(crate) struct Cluster {
    settings: watch::Sender<Option<Kubernetes>>,
    troubles: Mutex<Vec<Trouble>>,
    reviews: Reviews,
}

/// What is wrong, in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiscoveryProblems {
    /// Why the present state of the cluster is not known.
    pub(crate) failing: Vec<String>,
    /// Objects that are left out.
    pub(crate) incomplete: Vec<String>,
    /// The targets that have no endpoint.
    pub(crate) empty: Vec<String>,
}

/// A change in the cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ClusterChange {
    /// All backends there are now. More may come.
    Backends(Vec<BackendSpec>),
    /// There is no pool, so no backend will come.
    NoPool,
    /// All rules for requests there are now.
    Rules(ClusterRules),
}

// === impl Cluster ===

impl Cluster {
    pub(crate) fn new(settings: Option<Kubernetes>) -> Self {
        Self {
            settings: watch::Sender::new(settings),
            troubles: Mutex::default(),
            reviews: Reviews::default(),
        }
    }

    /// Applies new settings.
    pub(crate) fn configure(&self, settings: &Option<Kubernetes>) {
        self.settings.send_if_modified(|present| {
            let changed = present != settings;
            if changed {
                present.clone_from(settings);
            }
            changed
        });
    }

    /// What is wrong, in words.
    pub(crate) fn problems(&self) -> DiscoveryProblems {
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let mut problems = DiscoveryProblems::default();
        for trouble in troubles.iter() {
            let list = match trouble.effect() {
                Effect::Failing => &mut problems.failing,
                Effect::Incomplete => &mut problems.incomplete,
                Effect::Empty => &mut problems.empty,
            };
            list.push(trouble.to_string());
        }
        problems
    }

    /// Follows the cluster of the present settings, and reports each change. Never returns.
    pub(crate) async fn follow(&self, mut apply: impl FnMut(ClusterChange)) {
        let mut settings = self.settings.subscribe();
        let mut followed = false;
        loop {
            let wanted = settings.borrow_and_update().clone();
            let Some(wanted) = wanted else {
                self.set_troubles(Vec::new());
                let ended = std::mem::take(&mut followed);
                // The fleet has removed the backends, but a change may have come after that.
                ended.then_some(ClusterChange::NoPool).into_iter().for_each(&mut apply);
                apply(ClusterChange::Rules(ClusterRules::default()));
                match settings.changed().await {
                    Ok(()) => continue,
                    Err(_) => return,
                }
            };
            followed = true;
            tokio::select! {
                // Settings that are old must not apply one more change.
                biased;
                changed = settings.changed() => if changed.is_err() { return },
                () = follow::follow(self, &wanted, &mut apply) => {}
            }
        }
    }

    /// Replaces what is wrong. What is new is logged.
    fn set_troubles(&self, found: Vec<Trouble>) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        for trouble in found.iter().filter(|trouble| !troubles.contains(trouble)) {
            match trouble.effect() {
                Effect::Empty => tracing::info!("discovery in Kubernetes: {trouble}"),
                _ => tracing::warn!("discovery in Kubernetes: {trouble}"),
            }
        }
        let wrong = |troubles: &[Trouble]| troubles.iter().any(|one| one.effect() != Effect::Empty);
        if !wrong(&found) && wrong(&troubles) {
            tracing::info!("discovery in Kubernetes works again");
        }
        *troubles = found;
    }
}
