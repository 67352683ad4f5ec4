//! Where batch work is kept and sent from, beside a door: the stores, the Batch API and the
//! dispatchers, on a thread of their own.
//!
//! The Batch API's queue is in its folder; all other queues are in Redis. Both are sent through the
//! same gates, so that together they take what the gates allow and no more.

pub(crate) mod page;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use store::{RedisQueue, RedisSettings, RedisStore, Sqlite, Store};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::batch::Batches;
use crate::client::{Base, Client};
use crate::config::settled::dispatch::{Dispatch, Queue, Redis};
use crate::config::{BATCH_QUEUE, Settled};
use crate::dispatch::gates::Gates;
use crate::dispatch::{Dispatcher, Parts};
use crate::gate::Gate;
use crate::running::{self, StartError};
use crate::task;

/// The name of the queue's file in the folder of the Batch API.
const FILE: &str = "queue.db";

/// What is kept and sent.
#[derive(Debug)]
pub(crate) struct Depot {
    pub(crate) batches: Option<Arc<Batches>>,
    pub(crate) dispatchers: Vec<Arc<Dispatcher>>,
    pub(crate) gates: Arc<Gates>,
}

/// A depot and the thread on which it runs.
pub(crate) type Opened = (Arc<Depot>, JoinHandle<()>);

/// Opens what is configured and begins to send; nothing where nothing is configured. `own` is where
/// messages go of queues that name no target.
pub(crate) fn open(
    gate: &Arc<Gate>,
    own: Option<SocketAddr>,
) -> Result<Option<Opened>, StartError> {
    let settled = gate.settled.load_full();
    if settled.batch.folder.is_none() && settled.dispatch.redis.is_none() {
        return Ok(None);
    }
    let runtime = task::runtime()?;
    let depot = runtime.block_on(Depot::open(gate, &settled, own)).map_err(StartError::Unfit)?;
    let depot = Arc::new(depot);
    let (ours, gate) = (Arc::clone(&depot), Arc::clone(gate));
    let thread = running::spawn("tidegate-depot", move || ours.run(&runtime, &gate))?;
    Ok(Some((depot, thread)))
}

// === impl Depot ===

impl Depot {
    async fn open(
        gate: &Arc<Gate>,
        settled: &Settled,
        own: Option<SocketAddr>,
    ) -> Result<Self, String> {
        if let Some(queue) = settled.dispatch.queues.iter().find(|queue| queue.target.is_none())
            && own.is_none()
        {
            return Err(no_target(&queue.name));
        }
        let client = Arc::new(Client::default());
        let dispatch = &settled.dispatch;
        let inside = own.is_some().then(|| Arc::clone(gate));
        let gates = Gates::new(&dispatch.gates, inside, gate.clock, Arc::clone(&client))?;
        let own = own.map(|address| Base::read(&format!("http://{}", reachable(address))));
        let own = own.transpose()?;
        let parts = |store: Arc<dyn Store>, is_ours: fn(&Queue) -> bool| {
            let mut settings = dispatch.clone();
            settings.queues.retain(is_ours);
            Dispatcher::new(Parts {
                store,
                gates: Arc::clone(&gates),
                settings,
                client: Arc::clone(&client),
                board: Arc::clone(&gate.observer.board),
                own: own.clone(),
            })
        };
        let mut dispatchers = Vec::new();
        let mut batches = None;
        if let Some(folder) = &settled.batch.folder {
            let store = open_file(folder)?;
            let opened = Batches::open(&settled.batch, folder, Arc::clone(&store)).await;
            batches = Some(opened?);
            dispatchers.push(parts(store, |queue| queue.name == BATCH_QUEUE)?);
        }
        if let Some(redis) = &dispatch.redis {
            let store = RedisStore::connect(redis_settings(redis, dispatch)).await;
            let store = store.map_err(|error| format!("Redis: {error}"))?;
            dispatchers.push(parts(store, |queue| queue.name != BATCH_QUEUE)?);
        }
        Ok(Self { batches, dispatchers, gates })
    }

    /// Sends and tends until the gate closes, and hands back what is under way.
    fn run(self: Arc<Self>, runtime: &Runtime, gate: &Arc<Gate>) {
        runtime.block_on(async {
            task::spawn(Arc::clone(&self.gates).watch());
            if let Some(batches) = &self.batches {
                task::spawn(Arc::clone(batches).tend());
            }
            let (done, mut all_done) = mpsc::channel(1);
            for dispatcher in &self.dispatchers {
                let running = Arc::clone(dispatcher).run(gate.closing());
                task::spawn(until(running, done.clone()));
            }
            drop(done);
            // Ends when the last of them has let go of its end.
            let _ = all_done.recv().await;
        });
    }
}

async fn until(running: impl Future<Output = ()>, done: mpsc::Sender<()>) {
    running.await;
    drop(done);
}

fn open_file(folder: &std::path::Path) -> Result<Arc<Sqlite>, String> {
    let wrong = |error: &dyn std::fmt::Display| {
        format!("the folder of the Batch API, {}: {error}", folder.display())
    };
    std::fs::create_dir_all(folder).map_err(|error| wrong(&error))?;
    Sqlite::open(folder.join(FILE)).map_err(|error| wrong(&error))
}

fn redis_settings(redis: &Redis, dispatch: &Dispatch) -> RedisSettings {
    let queue = |queue: &Queue| RedisQueue {
        name: queue.name.clone(),
        results: queue.results.clone(),
        results_ttl: queue.results_ttl,
    };
    RedisSettings {
        urls: redis.urls.clone(),
        cluster: redis.cluster,
        replicas: redis.replicas,
        results: redis.results.clone(),
        retries: redis.retries.clone(),
        queues: dispatch.queues.iter().map(queue).collect(),
    }
}

fn no_target(queue: &str) -> String {
    format!("the queue {queue:?} has no target: set its `target`, or give --target URL")
}

/// Where a listener can be reached from the same machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}
