//! Where batch work is kept and sent from, beside a door: the stores, the Batch API and the
//! dispatchers, on a thread of their own.
//!
//! The Batch API's queue is in its folder; all other queues are in Redis. Both are sent through the
//! same gates, so that together they take what the gates allow and no more. A store that is away or
//! full when the door opens is waited for beside it: whoever asks now needs none.

mod folder;
pub(crate) mod page;
mod shared;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use store::Store;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use self::folder::Folder;
use self::shared::Shared;
use crate::batch::Batches;
use crate::config::Resolved;
use crate::config::resolved::dispatch::{Dispatch, Queue};
use crate::dispatch::gates::Gates;
use crate::dispatch::{Dispatcher, Parts};
use crate::lifecycle::{self, StartError};
use crate::observe::dispatch::Board;
use crate::state::State;
use crate::task;
use crate::upstream::client::{BaseUrl, Client};

/// How long to wait before a store is tried again, at first and at most.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What is kept and sent.
#[derive(Debug)]
pub(crate) struct Depot {
    folder: Option<Arc<Folder>>,
    shared: Option<Arc<Shared>>,
    gates: Arc<Gates>,
}

/// What dispatchers are made of, whatever their store is.
#[derive(Debug)]
struct Kit {
    gates: Arc<Gates>,
    settings: Dispatch,
    client: Arc<Client>,
    board: Arc<Board>,
    own: Option<BaseUrl>,
}

/// A depot and the thread on which it runs.
pub(crate) type Opened = (Arc<Depot>, JoinHandle<()>);

/// Opens what is configured and begins to send; nothing where nothing is configured. `own` is where
/// messages go of queues that name no target.
pub(crate) fn open(
    state: &Arc<State>,
    own: Option<SocketAddr>,
) -> Result<Option<Opened>, StartError> {
    let config = state.config.load_full();
    if config.batch.folder.is_none() && config.dispatch.redis.is_none() {
        return Ok(None);
    }
    let runtime = task::runtime()?;
    let depot = runtime.block_on(Depot::open(state, &config, own)).map_err(StartError::Unfit)?;
    let depot = Arc::new(depot);
    let (ours, state) = (Arc::clone(&depot), Arc::clone(state));
    let thread = lifecycle::spawn("tidegate-depot", move || ours.run(&runtime, &state))?;
    Ok(Some((depot, thread)))
}

// === impl Depot ===

impl Depot {
    async fn open(
        state: &Arc<State>,
        config: &Resolved,
        own: Option<SocketAddr>,
    ) -> Result<Self, String> {
        if let Some(queue) = config.dispatch.queues.iter().find(|queue| queue.target.is_none())
            && own.is_none()
        {
            return Err(no_target(&queue.name));
        }
        let kit = Kit::new(state, &config.dispatch, own)?;
        let folder = match &config.batch.folder {
            Some(path) => Some(Folder::open(&kit, &config.batch, path).await?),
            None => None,
        };
        let shared = match &config.dispatch.redis {
            Some(redis) => Some(Shared::open(&kit, redis).await?),
            None => None,
        };
        Ok(Self { folder, shared, gates: Arc::clone(&kit.gates) })
    }

    /// The Batch API, where there is one. Whoever asks for it need not know where its folder is:
    /// why it cannot be used yet stands in the log and on the dispatcher's page.
    pub(crate) fn batches(&self) -> Option<Result<&Arc<Batches>, String>> {
        let away = || "the folder of the Batch API cannot be used yet".to_owned();
        self.folder.as_ref().map(|folder| folder.batches().ok_or_else(away))
    }

    /// Why stores cannot be used.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let closed = self.folder.as_ref().and_then(|folder| folder.trouble());
        closed.into_iter().chain(self.dispatchers().filter_map(|some| some.trouble())).collect()
    }

    /// The names of the queues that are open.
    pub(crate) fn queues(&self) -> Vec<String> {
        let names = |some: &Arc<Dispatcher>| {
            some.views().map(|view| view.queue.name.clone()).collect::<Vec<_>>()
        };
        self.dispatchers().flat_map(names).collect()
    }

    /// Those whose stores could be opened.
    fn dispatchers(&self) -> impl Iterator<Item = &Arc<Dispatcher>> {
        let ours = self.folder.iter().filter_map(|folder| folder.dispatcher());
        ours.chain(self.shared.iter().map(|shared| &shared.dispatcher))
    }

    /// Sends and tends until the gate closes, and hands back what is under way.
    fn run(self: Arc<Self>, runtime: &Runtime, state: &Arc<State>) {
        runtime.block_on(async {
            task::spawn(Arc::clone(&self.gates).watch());
            let (done, mut all_done) = mpsc::channel(1);
            if let Some(folder) = &self.folder {
                task::spawn(until(Arc::clone(folder).run(Arc::clone(state)), done.clone()));
            }
            if let Some(shared) = &self.shared {
                task::spawn(until(Arc::clone(shared).run(Arc::clone(state)), done.clone()));
            }
            drop(done);
            // Ends when the last of them has let go of its end.
            let _ = all_done.recv().await;
        });
    }
}

// === impl Kit ===

impl Kit {
    fn new(
        state: &Arc<State>,
        settings: &Dispatch,
        own: Option<SocketAddr>,
    ) -> Result<Arc<Self>, String> {
        let client = Arc::new(Client::default());
        let inside = own.is_some().then(|| Arc::clone(state));
        let gates = Gates::new(&settings.gates, inside, state.clock, Arc::clone(&client))?;
        let own = own.map(|address| BaseUrl::parse(&format!("http://{}", reachable(address))));
        let (settings, board) = (settings.clone(), Arc::clone(&state.observer.board));
        Ok(Arc::new(Self { gates, settings, client, board, own: own.transpose()? }))
    }

    /// A dispatcher of some queues.
    fn dispatcher(
        &self,
        store: Arc<dyn Store>,
        is_ours: fn(&Queue) -> bool,
    ) -> Result<Arc<Dispatcher>, String> {
        let mut settings = self.settings.clone();
        settings.queues.retain(is_ours);
        Dispatcher::new(Parts {
            store,
            gates: Arc::clone(&self.gates),
            settings,
            client: Arc::clone(&self.client),
            board: Arc::clone(&self.board),
            own: self.own.clone(),
        })
    }
}

async fn until(running: impl Future<Output = ()>, done: mpsc::Sender<()>) {
    running.await;
    drop(done);
}

/// How long to wait before the next try.
fn later(pause: Duration) -> Duration {
    (pause * 2).min(PAUSE_MAX)
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
