//! The runtime of batch work: the stores, the Batch API and the dispatchers, on a thread of their
//! own beside the listeners.
//!
//! The queue of the Batch API is in its folder; all other queues are in Redis or in Pub/Sub. Both
//! send through the same gates, so that together they stay within the budgets. If a store is
//! unavailable or full at the start, the process starts without it and keeps trying, because
//! interactive requests need no store.

mod batch_folder;
pub(crate) mod dead_letters;
mod error;
#[cfg(feature = "pubsub")]
mod google_credentials;
#[cfg(feature = "pubsub")]
mod pubsub;
mod redis;
mod shared_queues;
mod status;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use flow::Time;
use flow::start_limiter::StartLoad;
use http::HeaderValue;
use store::Store;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use self::batch_folder::BatchFolder;
use self::error::DurableQueuesError;
use self::shared_queues::SharedQueues;
use crate::batch_api::Batches;
use crate::config::Config;
use crate::config::settings::dispatch::{Dispatch, Queue};
use crate::diagnosis::situation::BatchWork;
use crate::dispatch::{DispatchError, Dispatcher, DispatcherParts};
use crate::gates::{Fullness, GateContext, Gates, LocalScheduler, start_load};
use crate::lifecycle::{self, StartError};
use crate::observe::dispatch::DispatchMetrics;
use crate::reply::Fault;
use crate::state::State;
use crate::task;
use crate::tls_listener::TlsListener;
use crate::upstream::client::{BaseUrl, Client};

/// The pause before a store is tried again, at first and at most.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// See the module's description.
#[derive(Debug)]
pub(crate) struct DurableQueues {
    folder: Option<Arc<BatchFolder>>,
    shared: Option<Arc<SharedQueues>>,
    gates: Arc<Gates>,
}

/// The arguments that all dispatchers share.
#[derive(Debug)]
struct DispatchContext {
    gates: Arc<Gates>,
    settings: Dispatch,
    client: Arc<Client>,
    metrics: Arc<DispatchMetrics>,
    own: Option<BaseUrl>,
    own_key: Option<HeaderValue>,
}

/// A runtime and its thread.
pub(crate) type Opened = (Arc<DurableQueues>, JoinHandle<()>);

/// The listener of a gateway in this process, with TLS if it has it.
pub(crate) type OwnListener = (SocketAddr, Option<Arc<TlsListener>>);

/// Opens the configured stores and starts to send; `None` if no store is configured. `own` is the
/// target of queues that name none.
pub(crate) fn open(
    state: &Arc<State>,
    own: Option<OwnListener>,
) -> Result<Option<Opened>, StartError> {
    let config = state.config.load_full();
    if !config.has_dispatcher() {
        return Ok(None);
    }
    let runtime = task::runtime()?;
    let durable_queues =
        runtime.block_on(DurableQueues::open(state, &config, own)).map_err(unfit)?;
    let durable_queues = Arc::new(durable_queues);
    // There is one runtime in a process, so the cell is empty.
    let _ = state.batch_work.set(Arc::clone(&durable_queues) as Arc<dyn BatchWork>);
    let (ours, state) = (Arc::clone(&durable_queues), Arc::clone(state));
    let thread = lifecycle::spawn("tidegate-batch", move || ours.run(&runtime, &state))?;
    Ok(Some((durable_queues, thread)))
}

// === impl DurableQueues ===

impl DurableQueues {
    async fn open(
        state: &Arc<State>,
        config: &Config,
        own: Option<OwnListener>,
    ) -> Result<Self, DurableQueuesError> {
        if own.is_none() {
            check_targets(&config.dispatch.queues)?;
        }
        let context = DispatchContext::new(state, &config.dispatch, own)?;
        let folder = match &config.batch.folder {
            Some(path) => Some(BatchFolder::open(&context, &config.batch, path).await?),
            None => None,
        };
        let shared = SharedQueues::open(&context).await?;
        Ok(Self { folder, shared, gates: Arc::clone(&context.gates) })
    }

    /// The Batch API. The error does not name the folder, because clients see it; the log and the
    /// status page give the reason.
    pub(crate) fn batches(&self) -> Result<&Arc<Batches>, Fault> {
        let away = || Fault::StoreAway("the folder of the Batch API is not available yet".into());
        self.folder.as_ref().ok_or(Fault::BatchDisabled)?.batches().ok_or_else(away)
    }

    /// The errors of stores that are unavailable, or none of whose queues can be used.
    pub(crate) fn store_errors(&self) -> Vec<String> {
        let closed = self.folder.as_ref().and_then(|folder| folder.error());
        let of = |some: &Arc<Dispatcher>| some.store_error().or_else(|| some.trouble_of_all());
        closed.into_iter().chain(self.dispatchers().filter_map(of)).collect()
    }

    /// The names of the open queues.
    pub(crate) fn queues(&self) -> Vec<String> {
        let names = |some: &Arc<Dispatcher>| {
            some.views().map(|view| view.queue.name.clone()).collect::<Vec<_>>()
        };
        self.dispatchers().flat_map(names).collect()
    }

    /// The dispatchers of open stores.
    fn dispatchers(&self) -> impl Iterator<Item = &Arc<Dispatcher>> {
        let ours = self.folder.iter().filter_map(|folder| folder.dispatcher());
        ours.chain(self.shared.iter().map(|shared| &shared.dispatcher))
    }

    /// Runs until the process shuts down, and releases all claims.
    fn run(self: Arc<Self>, runtime: &Runtime, state: &Arc<State>) {
        runtime.block_on(async {
            task::spawn(Arc::clone(&self.gates).poll());
            let (done, mut all_done) = mpsc::channel(1);
            if let Some(folder) = &self.folder {
                task::spawn(until(Arc::clone(folder).run(Arc::clone(state)), done.clone()));
            }
            if let Some(shared) = &self.shared {
                task::spawn(until(Arc::clone(shared).run(Arc::clone(state)), done.clone()));
            }
            drop(done);
            // Returns `None` when all senders are dropped.
            let _ = all_done.recv().await;
        });
    }
}

// === impl State ===

impl LocalScheduler for State {
    fn fullness(&self, ours: f64) -> (Fullness, Time) {
        self.scheduler.with(|core, now| (Fullness::of(core, ours), now))
    }

    fn start_load(&self) -> Option<StartLoad> {
        self.scheduler.with(|core, _| start_load(core))
    }
}

// === impl DispatchContext ===

impl DispatchContext {
    fn new(
        state: &Arc<State>,
        settings: &Dispatch,
        own: Option<OwnListener>,
    ) -> Result<Arc<Self>, DurableQueuesError> {
        let client = Arc::new(Client::default());
        let local = own.is_some().then(|| Arc::clone(state) as Arc<dyn LocalScheduler>);
        let gates = GateContext { local, clock: state.clock, client: Arc::clone(&client) };
        let gates = Gates::new(&settings.gates, &gates)?;
        let connections_max = state.config.load().server.connections_max;
        let workers = state.open_files.workers(connections_max, own.is_some());
        let own = own.map(|(address, tls)| {
            let certificates = tls.as_ref().map(|tls| tls.certificates());
            BaseUrl::own(reachable(address), certificates)
        });
        let own = own.transpose().map_err(DurableQueuesError::OwnAddress)?;
        let settings = Dispatch { workers: settings.workers.min(workers), ..settings.clone() };
        let metrics = Arc::clone(&state.observer.dispatch);
        let own_key = own_key(state);
        Ok(Arc::new(Self { gates, settings, client, metrics, own, own_key }))
    }

    /// A dispatcher of the queues that `is_ours` selects.
    fn dispatcher(
        &self,
        store: Arc<dyn Store>,
        is_ours: fn(&Queue) -> bool,
    ) -> Result<Arc<Dispatcher>, DispatchError> {
        let mut settings = self.settings.clone();
        settings.queues.retain(is_ours);
        Dispatcher::new(DispatcherParts {
            store,
            gates: Arc::clone(&self.gates),
            settings,
            client: Arc::clone(&self.client),
            metrics: Arc::clone(&self.metrics),
            own: self.own.clone(),
            own_key: self.own_key.clone(),
        })
    }
}

/// Without a gateway in this process each queue must name its target.
fn check_targets(queues: &[Queue]) -> Result<(), DispatchError> {
    match queues.iter().find(|queue| queue.target.is_none()) {
        Some(queue) => Err(DispatchError::NoTarget { queue: queue.name.clone() }),
        None => Ok(()),
    }
}

async fn until(running: impl Future<Output = ()>, done: mpsc::Sender<()>) {
    running.await;
    drop(done);
}

/// The next, longer pause.
fn later(pause: Duration) -> Duration {
    (pause * 2).min(PAUSE_MAX)
}

fn unfit(error: DurableQueuesError) -> StartError {
    StartError::Unfit(error.into())
}

/// The key with which dispatchers call the gateway of this process.
fn own_key(state: &State) -> Option<HeaderValue> {
    let mut key = HeaderValue::from_str(state.own_key.as_ref()?.text()).ok()?;
    key.set_sensitive(true);
    Some(key)
}

/// The address at which this machine reaches a listener.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}
