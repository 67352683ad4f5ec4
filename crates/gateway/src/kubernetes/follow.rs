//! Follows the objects of each target, and puts them together to backends and rules.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::api_server::ApiServer;
use super::driver::{Driver, Followed};
use super::endpoints::ENDPOINTS_MAX;
use super::objects::{
    EndpointSlice, InferenceModelRewrite, InferenceObjective, InferencePool, Pod,
};
use super::resource::{
    ALPHA_POOLS, ENDPOINT_SLICES, Kind, OBJECTIVES, PODS, POOLS, REWRITES, Selector,
};
use super::rules::PoolIdentity;
use super::trouble::{Trouble, told};
use super::{Cluster, ClusterChange, endpoints, rules};
use crate::config::settings::{BackendSpec, ClusterRules, Kubernetes, KubernetesTarget, PoolGroup};

/// Until an API server that cannot be found is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The protocol of a pool whose servers speak HTTP/2 without TLS.
const H2C: &str = "kubernetes.io/h2c";
/// The label of a slice with the name of its service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The followed resources of a target.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a process follows a few targets")]
enum FollowedTarget {
    Pool {
        name: String,
        pools: Followed<InferencePool>,
        /// The pods of the pool's present selector.
        pods: Option<Followed<Pod>>,
        objectives: Followed<InferenceObjective>,
        rewrites: Followed<InferenceModelRewrite>,
    },
    Service {
        name: String,
        slices: Followed<EndpointSlice>,
        port: Option<u16>,
    },
    Pods {
        selector: String,
        pods: Followed<Pod>,
        port: u16,
    },
}

/// What is known of a target. `None` stands for unknown: the last known state stays.
#[derive(Debug, Default)]
struct View {
    backends: Option<Vec<BackendSpec>>,
    rules: Option<ClusterRules>,
    troubles: Vec<Trouble>,
}

/// Follows a cluster for ever.
pub(super) async fn follow(
    cluster: &Cluster,
    settings: &Kubernetes,
    apply: &mut impl FnMut(ClusterChange),
) {
    let server = match ApiServer::new(settings) {
        Ok(server) => Arc::new(server),
        Err(error) => {
            cluster.set_troubles(vec![Trouble::NotConfigured(error.to_string())]);
            return tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let changed = Arc::new(Notify::new());
    let driver = Driver { server, changed: Arc::clone(&changed) };
    let mut targets: Vec<FollowedTarget> =
        settings.targets.iter().map(|target| FollowedTarget::new(target, &driver)).collect();
    if !targets.iter().any(|target| matches!(target, FollowedTarget::Pool { .. })) {
        // The rules of a pool that was followed before.
        apply(ClusterChange::Rules(ClusterRules::default()));
    }
    let mut last: Vec<View> = targets.iter().map(|_| View::default()).collect();
    let (mut backends, mut rules) = (None, None);
    loop {
        for (target, last) in targets.iter_mut().zip(&mut last) {
            last.update(target.view(&driver));
        }
        cluster.set_troubles(last.iter().flat_map(|view| view.troubles.clone()).collect());
        let present = known_backends(&last);
        if present.is_some() && present != backends {
            backends = present;
            backends.clone().into_iter().for_each(&mut *apply);
        }
        // Only a pool has rules, and there is at most one.
        let present = last.iter().find_map(|view| view.rules.clone());
        if present.is_some() && present != rules {
            rules = present;
            apply(ClusterChange::Rules(rules.clone().unwrap_or_default()));
        }
        changed.notified().await;
    }
}

/// The backends of all targets that are known; `None` while one may still become known.
fn known_backends(views: &[View]) -> Option<ClusterChange> {
    let known = || views.iter().filter_map(|view| view.backends.as_ref());
    let is_clear = |view: &View| view.backends.is_some() || !view.troubles.is_empty();
    known().next().filter(|_| views.iter().all(is_clear))?;
    let lacks_pool =
        |view: &View| view.troubles.iter().any(|trouble| matches!(trouble, Trouble::NoPool { .. }));
    Some(match views.iter().all(lacks_pool) {
        true => ClusterChange::NoPool,
        false => ClusterChange::Backends(known().flatten().cloned().collect()),
    })
}

fn pool_kind(group: PoolGroup) -> Kind {
    match group {
        PoolGroup::Stable => POOLS,
        PoolGroup::Alpha => ALPHA_POOLS,
    }
}

// === impl FollowedTarget ===

impl FollowedTarget {
    fn new(target: &KubernetesTarget, driver: &Driver) -> Self {
        match target {
            KubernetesTarget::Pool { name, group } => Self::Pool {
                name: name.clone(),
                pools: driver.start(pool_kind(*group), Selector::Name(name.clone())),
                pods: None,
                objectives: driver.start(OBJECTIVES, Selector::All),
                rewrites: driver.start(REWRITES, Selector::All),
            },
            KubernetesTarget::Service { name, port } => {
                let label = format!("{SERVICE_LABEL}={name}");
                let slices = driver.start(ENDPOINT_SLICES, Selector::Labels(label));
                Self::Service { name: name.clone(), slices, port: *port }
            }
            KubernetesTarget::Pods { selector, port } => {
                let pods = driver.start(PODS, Selector::Labels(selector.clone()));
                Self::Pods { selector: selector.clone(), pods, port: *port }
            }
        }
    }

    /// What is known now. A pool may turn out to select other pods.
    fn view(&mut self, driver: &Driver) -> View {
        let mut view = View::default();
        match self {
            Self::Pool { name, pools, pods, objectives, rewrites } => {
                view.see_pool(name, pools, pods, driver);
                let group = pools.listing().group;
                view.see_rules(PoolIdentity { name, group }, objectives, rewrites);
            }
            Self::Service { name, slices, port } => {
                let listing = slices.listing();
                view.troubles.extend(listing.trouble.clone());
                let objects = listing.objects.as_ref();
                view.backends = objects.map(|slices| endpoints::of_slices(slices, *port));
                view.tell_empty(&driver.server.namespace, || format!("the Service {name}"));
            }
            Self::Pods { selector, pods, port } => {
                view.see_pods(pods, &[*port], false);
                view.tell_empty(&driver.server.namespace, || format!("the selector {selector}"));
            }
        }
        view.bound_backends();
        view
    }
}

// === impl View ===

impl View {
    /// Takes a newer view. What it does not know stays.
    fn update(&mut self, newer: Self) {
        let Self { backends, rules, troubles } = newer;
        self.backends = backends.or(self.backends.take());
        self.rules = rules.or(self.rules.take());
        self.troubles = troubles;
    }

    fn see_pool(
        &mut self,
        name: &str,
        pools: &Followed<InferencePool>,
        pods: &mut Option<Followed<Pod>>,
        driver: &Driver,
    ) {
        let listing = pools.listing();
        self.troubles.extend(listing.trouble.clone());
        let Some(found) = &listing.objects else { return };
        let Some(pool) = found.get(name) else {
            let (name, namespace) = (name.to_owned(), driver.server.namespace.clone());
            let group = pools.resource.kind.only_group();
            self.troubles.push(Trouble::NoPool { name, group, namespace });
            *pods = None;
            self.backends = Some(Vec::new());
            return;
        };
        let ports = pool.spec.ports();
        let problem = match pool.spec.selector.text() {
            None => "has no selector, and so it selects every pod",
            Some(_) if ports.is_empty() => "has no target port",
            Some(labels) => {
                let source = || format!("the InferencePool {name} with the selector {labels}");
                let selector = Selector::Labels(labels.clone());
                let followed = match pods.take() {
                    Some(known) if known.resource.selector == selector => known,
                    _ => driver.start(PODS, selector),
                };
                let http2 = pool.spec.app_protocol.as_deref() == Some(H2C);
                self.see_pods(&followed, &ports, http2);
                self.tell_empty(&driver.server.namespace, source);
                *pods = Some(followed);
                return;
            }
        };
        self.troubles.push(Trouble::UnusablePool { name: name.to_owned(), problem });
    }

    fn see_pods(&mut self, pods: &Followed<Pod>, ports: &[u16], http2: bool) {
        let listing = pods.listing();
        self.troubles.extend(listing.trouble.clone());
        let objects = listing.objects.as_ref();
        self.backends = objects.map(|pods| endpoints::of_pods(pods, ports, http2));
    }

    /// Notes that a target has no endpoints.
    fn tell_empty(&mut self, namespace: &str, source: impl FnOnce() -> String) {
        if self.backends.as_ref().is_some_and(Vec::is_empty) {
            let namespace = namespace.to_owned();
            self.troubles.push(Trouble::NoEndpoints { source: source(), namespace });
        }
    }

    fn see_rules(
        &mut self,
        pool: PoolIdentity<'_>,
        objectives: &Followed<InferenceObjective>,
        rewrites: &Followed<InferenceModelRewrite>,
    ) {
        let (objectives, rewrites) = (objectives.listing(), rewrites.listing());
        self.troubles.extend(objectives.trouble.clone());
        self.troubles.extend(rewrites.trouble.clone());
        let known = objectives.objects.is_some() || rewrites.objects.is_some();
        let mut rules = ClusterRules::default();
        if let Some(objectives) = &objectives.objects {
            rules.objectives = rules::objectives(objectives, pool);
        }
        if let Some(rewrites) = &rewrites.objects {
            let problem = rules::rewrites(rewrites, pool, &mut rules);
            self.troubles.extend(problem.map(|problem| Trouble::Rewrite(told(&problem))));
        }
        self.rules = known.then_some(rules);
    }

    fn bound_backends(&mut self) {
        let Some(backends) = &mut self.backends else { return };
        let refused = endpoints::leave_out_unusable(backends);
        if refused > 0 {
            self.troubles.push(Trouble::UnusableIds { count: refused });
        }
        if backends.len() > ENDPOINTS_MAX {
            backends.truncate(ENDPOINTS_MAX);
            self.troubles.push(Trouble::TooManyEndpoints { most: ENDPOINTS_MAX });
        }
    }
}
