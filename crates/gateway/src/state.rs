//! The shared state of the process: one value, made at the start.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use flow::Controller;
use http::request::Parts;
use tokio::sync::watch;

use crate::api_keys::ApiKey;
use crate::backend::Fleet;
use crate::body_memory::BodyMemory;
use crate::clock::{self, Clock};
use crate::config::reload::{ReloadProblems, Reloads};
use crate::config::{Config, Source};
use crate::connections::Connections;
use crate::diagnosis::Trends;
use crate::diagnosis::situation::BatchWork;
use crate::hold_places::HoldPlaces;
use crate::ingress::{self, Caller, Proof};
use crate::kubernetes::{Cluster, ClusterChange};
use crate::large_bodies::LargeBodies;
use crate::observe::Observer;
use crate::output_history::OutputHistory;
use crate::places::Places;
use crate::process_limits::OpenFiles;
use crate::reply::Fault;
use crate::scheduler::Scheduler;
use crate::tenants::TenantLimits;
use crate::tls_listener::{ClientCertificate, TlsListener};
use crate::upstream::{BackendFiles, RetryBudgets};
use crate::viewers::Viewers;

/// The shared state of the process.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) clock: Clock,
    /// The configuration in force; a reload replaces it whole.
    pub(crate) config: ArcSwap<Config>,
    /// Why the last change of the configuration is not in force, if it is not.
    pub(crate) reload_problems: ReloadProblems,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) cluster: Cluster,
    pub(crate) observer: Arc<Observer>,
    pub(crate) retries: RetryBudgets,
    pub(crate) open_files: OpenFiles,
    pub(crate) backend_files: Arc<BackendFiles>,
    pub(crate) connections: Connections,
    /// Those to the status pages at an address of their own.
    pub(crate) page_connections: Connections,
    /// Those that were refused, while the rest of what they send is read.
    pub(crate) refused_connections: Connections,
    pub(crate) body_memory: Arc<BodyMemory>,
    /// The memory of responses that clients have not read.
    pub(crate) unread_memory: Arc<BodyMemory>,
    pub(crate) large_bodies: LargeBodies,
    pub(crate) hold_places: HoldPlaces,
    /// Requests that only read, which do not use the queue: as bytes, one of each.
    pub(crate) reads: Arc<BodyMemory>,
    /// The streams of autoscalers.
    pub(crate) scaler_places: Places,
    /// Calls of autoscalers whose message is being read.
    pub(crate) scaler_calls: Places,
    /// Counts the requests that began to wait without a backend.
    pub(crate) unserved: watch::Sender<u64>,
    pub(crate) tenants: TenantLimits,
    /// What the status page remembers.
    pub(crate) trends: Mutex<Trends>,
    /// The last event for the viewers of the status, and the viewers.
    pub(crate) status_feed: watch::Sender<Bytes>,
    pub(crate) status_viewers: Viewers,
    /// The certificates of the listeners, if they have any.
    pub(crate) tls: OnceLock<Arc<TlsListener>>,
    /// The dispatcher in this process, if it has one.
    pub(crate) batch_work: OnceLock<Arc<dyn BatchWork>>,
    pub(crate) outputs: OutputHistory,
    /// The key of the own dispatcher, made anew at each start.
    pub(crate) own_key: Option<ApiKey>,
    /// A name that no other process has.
    instance: String,
    phase: watch::Sender<Phase>,
}

/// The phase of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Open,
    /// Requests are served, and health checks fail so that clients go elsewhere.
    Draining,
    /// No new requests are accepted, streams may finish.
    Closing,
    /// Open connections are cut.
    Over,
}

/// The state of the process as the status pages show it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'a> {
    /// A name that no other process has, by which it recognises itself.
    pub(crate) instance: &'a str,
    pub(crate) shutting_down: bool,
}

// === impl State ===

impl State {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        let clock = Clock::start();
        let scheduler = Arc::new(Scheduler::new(config.flow.clone(), clock));
        let fleet = Fleet::new(&config.fleet, Arc::clone(&scheduler), clock);
        let cluster = Cluster::new(config.fleet.kubernetes.clone());
        let pool = config.epp.llm_d_metrics.then(|| config.pool_name().to_owned());
        let observer = Arc::new(Observer::new(&config.log, pool, config.traces.as_ref()));
        let tenants = TenantLimits::default();
        tenants.configure(&config.tenants);
        let open_files = OpenFiles::now();
        let backend_files = BackendFiles::new(
            open_files.backends(config.server.connections_max, config.has_dispatcher()),
        );
        let own_key = ApiKey::generate();
        if let Err(error) = &own_key {
            tracing::warn!(%error, "there are no random numbers: batch work has no key");
        }
        Arc::new(Self {
            clock,
            config: ArcSwap::from_pointee(config),
            reload_problems: ReloadProblems::default(),
            scheduler,
            fleet,
            cluster,
            observer,
            retries: RetryBudgets::default(),
            open_files,
            backend_files,
            connections: Connections::default(),
            page_connections: Connections::default(),
            refused_connections: Connections::default(),
            body_memory: Arc::default(),
            unread_memory: Arc::default(),
            large_bodies: LargeBodies::new(),
            hold_places: HoldPlaces::default(),
            reads: Arc::default(),
            scaler_places: Places::default(),
            scaler_calls: Places::default(),
            unserved: watch::Sender::default(),
            tenants,
            trends: Mutex::default(),
            status_feed: watch::Sender::default(),
            status_viewers: Viewers::default(),
            tls: OnceLock::new(),
            batch_work: OnceLock::new(),
            outputs: OutputHistory::default(),
            own_key: own_key.ok(),
            instance: ingress::headers::fresh_id(),
            phase: watch::Sender::new(Phase::Open),
        })
    }

    /// The tenant of a request, if there are tenants, by its key or by the certificate of its
    /// client. Removes the key from the headers.
    pub(crate) fn caller(
        &self,
        config: &Config,
        parts: &mut Parts,
    ) -> Result<Option<Caller>, Fault> {
        if config.tenants.is_empty() {
            return Ok(None);
        }
        let own = self.own_key.as_ref().map(ApiKey::digest);
        let now = clock::since_epoch().as_secs();
        let certificate = parts.extensions.get::<ClientCertificate>();
        let certified = certificate.and_then(ClientCertificate::name);
        ingress::caller(config, &mut parts.headers, Proof { own, certified, now })
    }

    /// Fails health checks for a time, so that load balancers go elsewhere before the shutdown.
    pub(crate) async fn drain(&self, time: Duration) {
        self.phase.send_replace(Phase::Draining);
        tokio::time::sleep(time).await;
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }

    /// Begins the shutdown.
    pub(crate) fn close(&self) {
        self.phase.send_replace(Phase::Closing);
        self.scheduler.with(Controller::close);
    }

    /// Resolves when no connection is open.
    async fn closed(&self) {
        self.connections.none().await;
        self.page_connections.none().await;
    }

    /// Cuts open connections.
    pub(crate) fn cut_off(&self) {
        self.phase.send_replace(Phase::Over);
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.phase.borrow() >= Phase::Closing
    }

    /// The state for the status pages.
    pub(crate) fn standing(&self) -> Standing<'_> {
        Standing { instance: &self.instance, shutting_down: self.is_draining() }
    }

    /// Notifies of every phase that begins.
    pub(crate) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Resolves when the shutdown begins.
    pub(crate) fn closing(&self) -> impl Future<Output = ()> + use<> {
        self.reaches(Phase::Closing)
    }

    /// Resolves at the end of the shutdown: no connection is open, the grace period is over, or the
    /// operator asked for the end at once. Returns the number of open connections.
    pub(crate) async fn ended(&self) -> usize {
        self.closing().await;
        let grace = self.config.load().server.grace;
        tokio::select! {
            () = self.closed() => {}
            () = self.reaches(Phase::Over) => {}
            () = tokio::time::sleep(grace) => {}
        }
        self.observer.begin_to_cut();
        self.connections.count() + self.page_connections.count()
    }

    fn reaches(&self, phase: Phase) -> impl Future<Output = ()> + use<> {
        let mut reached = self.phase.subscribe();
        async move {
            // The sender lives as long as the state; its end means the same.
            let _ = reached.wait_for(|&now| now >= phase).await;
        }
    }

    /// Tells the observer the known models whenever they change. Never returns.
    pub(crate) async fn learn_names(self: Arc<Self>) {
        let mut learnt = self.fleet.models_changed();
        loop {
            learnt.borrow_and_update();
            self.observer.known(self.fleet.roster().numbered().map(|(name, _)| name));
            self.observer.known(self.config.load().ruled_names());
            if learnt.changed().await.is_err() {
                return;
            }
        }
    }

    /// Applies what changes in the cluster that the configuration names. Never returns.
    pub(crate) async fn follow_cluster(self: Arc<Self>) {
        let apply = |change| match change {
            ClusterChange::Backends(backends) => self.fleet.set_cluster(Some(backends)),
            ClusterChange::NoPool => self.fleet.set_cluster(None),
            ClusterChange::Rules(rules) => {
                self.observer.known(rules.names.ruled());
                let rules = Arc::new(rules);
                self.config.rcu(|present| {
                    let cluster = Arc::clone(&rules);
                    Config { cluster, ..Config::clone(present) }
                });
            }
        };
        self.cluster.follow(apply).await;
    }

    /// Applies new configuration whenever there is one. Never returns.
    pub(crate) async fn reload(self: Arc<Self>, source: Source) {
        let mut reloads = match Reloads::new(source, Config::clone(&self.config.load())) {
            Ok(reloads) => reloads.showing(Arc::clone(&self.reload_problems)),
            Err(error) => return tracing::warn!(%error, "the configuration is not watched"),
        };
        loop {
            let config = reloads.next().await;
            for notice in &config.notices {
                tracing::warn!("{notice}");
            }
            let before = self.config.load().values.profile();
            self.configure(&config);
            tracing::info!("the configuration was reloaded");
            tell_profile(before, config.values.profile());
        }
    }

    /// Applies a configuration to each part that has settings of its own.
    fn configure(&self, config: &Config) {
        self.scheduler.with(|controller, now| controller.configure(config.flow.clone(), now));
        self.fleet.configure(&config.fleet);
        self.observer.known(config.names.ruled());
        self.tenants.configure(&config.tenants);
        self.cluster.configure(&config.fleet.kubernetes);
        self.config.rcu(|present| {
            // The file knows nothing of the cluster.
            Config { cluster: Arc::clone(&present.cluster), ..config.clone() }
        });
    }
}

/// Tells the operator that other rules hold as a whole. What implies them may move in the file.
fn tell_profile(before: Option<String>, now: Option<String>) {
    let told = [before, now].map(|profile| profile.unwrap_or_else(|| "none".into()));
    let [before, now] = told.each_ref().map(|profile| profile.split(',').next());
    if before != now {
        let [before, now] = told;
        tracing::info!("profile {now} instead of {before}; `tidegate check` shows its rules");
    }
}
