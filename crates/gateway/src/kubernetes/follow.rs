//! Drives the reflectors: makes their requests, and puts their objects together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::api_server::{ApiServer, WatchAnswer};
use super::endpoints::ENDPOINTS_MAX;
use super::lines::Lines;
use super::objects::{
    EndpointSlice, InferenceModelRewrite, InferenceObjective, InferencePool, Object, Pod, Status,
};
use super::reflector::{Call, Next, Objects, Reflector};
use super::resource::{
    ALPHA_POOLS, ENDPOINT_SLICES, Kind, OBJECTIVES, PODS, POOLS, REWRITES, Resource, Selector,
    WATCH_SECS,
};
use super::trouble::{Trouble, told};
use super::{Cluster, ClusterChange, endpoints, rules};
use crate::config::settings::{BackendSpec, ClusterRules, Kubernetes, KubernetesTarget, PoolGroup};
use crate::jitter;

/// A watch that outlasts its time by this much is dead: the API server ends each one.
const WATCH_LIMIT: Duration = Duration::from_secs(WATCH_SECS + 20);
/// Until an API server that cannot be found is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The protocol of a pool whose servers speak HTTP/2 without TLS.
const H2C: &str = "kubernetes.io/h2c";
/// The label of a slice with the name of its service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The objects of one resource as its task knows them. The task ends with it.
#[derive(Debug)]
struct Followed<T> {
    resource: Resource,
    listing: Arc<Mutex<Listing<T>>>,
    _task: JoinSet<()>,
}

#[derive(Debug)]
struct Listing<T> {
    /// `None` until they were listed whole.
    objects: Option<Objects<T>>,
    trouble: Option<Trouble>,
}

/// Where the tasks of all resources get their requests done, and how they say that they have news.
#[derive(Clone, Debug)]
struct Driver {
    server: Arc<ApiServer>,
    changed: Arc<Notify>,
}

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
        slices: Followed<EndpointSlice>,
        port: Option<u16>,
    },
    Pods {
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
            apply(ClusterChange::Backends(backends.clone().unwrap_or_default()));
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
fn known_backends(views: &[View]) -> Option<Vec<BackendSpec>> {
    let known = || views.iter().filter_map(|view| view.backends.as_ref());
    let is_clear = |view: &View| view.backends.is_some() || !view.troubles.is_empty();
    known().next().filter(|_| views.iter().all(is_clear))?;
    Some(known().flatten().cloned().collect())
}

fn pool_kind(group: PoolGroup) -> Kind {
    match group {
        PoolGroup::Stable => POOLS,
        PoolGroup::Alpha => ALPHA_POOLS,
    }
}

// === impl Driver ===

impl Driver {
    /// Starts to follow a resource.
    fn start<T>(&self, kind: Kind, selector: Selector) -> Followed<T>
    where
        T: Object + DeserializeOwned + Send + Sync + 'static,
    {
        let namespace = self.server.namespace.clone();
        let resource = Resource { kind, namespace, selector };
        let listing = Arc::new(Mutex::new(Listing { objects: None, trouble: None }));
        let mut task = JoinSet::new();
        task.spawn(self.clone().drive(Reflector::new(resource.clone()), Arc::clone(&listing)));
        Followed { resource, listing, _task: task }
    }

    async fn drive<T>(self, mut reflector: Reflector<T>, listing: Arc<Mutex<Listing<T>>>)
    where
        T: Object + DeserializeOwned,
    {
        loop {
            tokio::time::sleep(reflector.delay(jitter::fraction())).await;
            match reflector.call() {
                Call::List(path) => self.list(&mut reflector, &path).await,
                Call::Watch(path) => self.watch(&mut reflector, &path, &listing).await,
            }
            self.publish(&reflector, &listing);
        }
    }

    async fn list<T: Object + DeserializeOwned>(&self, reflector: &mut Reflector<T>, path: &str) {
        match self.server.list(path).await {
            Ok(answer) if answer.status.is_success() => reflector.listed(&answer.body),
            Ok(answer) => self.refused(reflector, answer.status.as_u16(), &answer.body),
            Err(error) => reflector.ended(Some(error.to_string()), Duration::ZERO),
        }
    }

    async fn watch<T: Object + DeserializeOwned>(
        &self,
        reflector: &mut Reflector<T>,
        path: &str,
        listing: &Mutex<Listing<T>>,
    ) {
        let began = Instant::now();
        let mut response = match self.server.watch(path).await {
            Ok(WatchAnswer::Events(response)) => response,
            Ok(WatchAnswer::Refused(answer)) => {
                return self.refused(reflector, answer.status.as_u16(), &answer.body);
            }
            Err(error) => return reflector.ended(Some(error.to_string()), Duration::ZERO),
        };
        reflector.accepted();
        self.publish(reflector, listing);
        let mut lines = Lines::default();
        let problem = loop {
            let frame = tokio::time::timeout_at(began + WATCH_LIMIT, response.frame()).await;
            let bytes = match frame {
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(error))) => break format!("the API server: {error}"),
                Ok(None) => break "the API server ends each watch at once".to_owned(),
                Err(_) => break "the API server sent nothing".to_owned(),
            };
            reflector.lasted(began.elapsed());
            let known = reflector.revision();
            let read = lines.push(&bytes, |line| reflector.event(line) == Next::Read);
            // Bookmarks and parts of lines change nothing, and a copy of all objects is dear.
            if reflector.revision() != known {
                self.publish(reflector, listing);
            }
            match read {
                Ok(true) => {}
                // The reflector has noted why.
                Ok(false) => return,
                Err(_) => break "the API server sent a line that is too long".to_owned(),
            }
        };
        reflector.ended(Some(problem), began.elapsed());
    }

    fn refused<T: Object + DeserializeOwned>(
        &self,
        reflector: &mut Reflector<T>,
        code: u16,
        body: &[u8],
    ) {
        // A proxy before the API server may answer in another form.
        let status: Status = serde_json::from_slice(body).unwrap_or_default();
        reflector.refused(code, &status.message, self.server.token_file.clone());
    }

    fn publish<T: Object + DeserializeOwned>(
        &self,
        reflector: &Reflector<T>,
        listing: &Mutex<Listing<T>>,
    ) {
        let known = Listing {
            objects: reflector.objects().cloned(),
            trouble: reflector.trouble().cloned(),
        };
        *listing.lock().unwrap_or_else(PoisonError::into_inner) = known;
        self.changed.notify_one();
    }
}

// === impl Followed ===

impl<T> Followed<T> {
    fn listing(&self) -> MutexGuard<'_, Listing<T>> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
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
                Self::Service { slices, port: *port }
            }
            KubernetesTarget::Pods { selector, port } => {
                let pods = driver.start(PODS, Selector::Labels(selector.clone()));
                Self::Pods { pods, port: *port }
            }
        }
    }

    /// What is known now. A pool may turn out to select other pods.
    fn view(&mut self, driver: &Driver) -> View {
        let mut view = View::default();
        match self {
            Self::Pool { name, pools, pods, objectives, rewrites } => {
                view.see_pool(name, pools, pods, driver);
                view.see_rules(name, objectives, rewrites);
            }
            Self::Service { slices, port } => {
                let listing = slices.listing();
                view.troubles.extend(listing.trouble.clone());
                let objects = listing.objects.as_ref();
                view.backends = objects.map(|slices| endpoints::of_slices(slices, *port));
            }
            Self::Pods { pods, port } => view.see_pods(pods, &[*port], false),
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
            let namespace = driver.server.namespace.clone();
            self.troubles.push(Trouble::NoPool { name: name.to_owned(), namespace });
            *pods = None;
            self.backends = Some(Vec::new());
            return;
        };
        let ports = pool.spec.ports();
        let problem = match pool.spec.selector.text() {
            None => "has no selector, and so it selects every pod",
            Some(_) if ports.is_empty() => "has no target port",
            Some(labels) => {
                let selector = Selector::Labels(labels);
                let followed = match pods.take() {
                    Some(known) if known.resource.selector == selector => known,
                    _ => driver.start(PODS, selector),
                };
                let http2 = pool.spec.app_protocol.as_deref() == Some(H2C);
                self.see_pods(&followed, &ports, http2);
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

    fn see_rules(
        &mut self,
        pool: &str,
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
