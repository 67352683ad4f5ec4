//! The dispatcher: sends durable batch work as the gates allow.
//!
//! `claim_loop` claims messages, in the fair order of queues and tenants (`turns`), and only as
//! many as the gates and the workers have room for. Each claimed message is one task that sends the
//! request and stores its result (`delivery`). `outgoing_request` builds the request, and `verdict`
//! decides what a response means for the message. `lease_keeper` renews the claims, applies
//! cancellations and drops lost claims. `gates` limit the requests in flight, `message_size` says
//! how much each counts there, `target` remembers whether a target refuses requests,
//! `failing_lanes` whose messages fail, and `queue_trouble` which queues cannot be used.

mod claim_loop;
mod delivery;
mod error;
mod failing_lanes;
mod lease_keeper;
mod message_size;
mod outgoing_request;
mod queue_trouble;
mod target;
mod turns;
mod verdict;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use store::{ClaimRef, Store};
use tokio::sync::{Notify, oneshot, watch};

use crate::config::settings::dispatch::{Dispatch, Queue};
use crate::gates::{GateSet, Gates};
use crate::ingress::headers::fresh_id;
use crate::observe::dispatch::{DispatchMetrics, QueueMetrics};
use crate::output_history::OutputHistory;
use crate::upstream::client::{BaseUrl, Client};
pub(crate) use error::DispatchError;
use failing_lanes::FailingLanes;
use queue_trouble::QueueTrouble;
use target::{TargetAnswers, TargetHealth};
use verdict::Backoff;

/// A dispatcher and its claimed messages.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    /// A unique name among dispatchers.
    name: String,
    store: Arc<dyn Store>,
    gates: Arc<Gates>,
    settings: Dispatch,
    queues: Vec<ServedQueue>,
    client: Arc<Client>,
    metrics: Arc<DispatchMetrics>,
    answers: TargetAnswers,
    /// The claimed messages.
    claims: Mutex<BTreeMap<ClaimRef, ClaimState>>,
    /// The error of the store, while it is unavailable.
    store_error: Mutex<Option<String>>,
    /// The first time at which a released message is due, in milliseconds since 1970.
    next_due: AtomicU64,
    /// Notified when a claim ends: a worker is free.
    freed: Notify,
    closing: watch::Sender<bool>,
}

/// A queue with its target and its gates.
#[derive(Debug)]
struct ServedQueue {
    queue: Queue,
    target: BaseUrl,
    gates: GateSet,
    /// Whether one of them counts tokens, and how long the outputs were.
    counts_tokens: bool,
    outputs: OutputHistory,
    metrics: Arc<QueueMetrics>,
    health: TargetHealth,
    lanes: FailingLanes,
    trouble: QueueTrouble,
    /// The key for requests to this gateway; `None` for other targets.
    own_key: Option<HeaderValue>,
}

/// The state of a queue for the status pages.
#[derive(Clone, Debug)]
pub(crate) struct QueueView<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) target: &'a str,
    pub(crate) metrics: &'a QueueMetrics,
    pub(crate) in_flight: usize,
    /// Why the target refuses requests, while it does.
    pub(crate) overload: Option<String>,
    /// Why the queue cannot be used although its store can.
    pub(crate) trouble: Option<String>,
    /// Why messages that wait for a retry cannot be kept apart.
    pub(crate) retries_trouble: Option<String>,
}

/// Why a claim ends before its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopReason {
    /// A client cancelled the message.
    Cancelled,
    /// The lease expired and another dispatcher has the message.
    Lost,
    /// The dispatcher shuts down: the message is released at once.
    Release,
}

/// The state of a claimed message, and the way to stop it.
#[derive(Debug)]
enum ClaimState {
    /// Waiting for a gate. A stop reason is kept until the claim loop reads it.
    WaitingAtGate(Option<StopReason>),
    /// Being sent. The sender is gone after the first stop reason.
    InFlight(Option<oneshot::Sender<StopReason>>),
}

/// The arguments of [`Dispatcher::new`].
#[derive(Debug)]
pub(crate) struct DispatcherParts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) settings: Dispatch,
    pub(crate) client: Arc<Client>,
    pub(crate) metrics: Arc<DispatchMetrics>,
    /// The target of queues that name none.
    pub(crate) own: Option<BaseUrl>,
    /// The key for that target.
    pub(crate) own_key: Option<HeaderValue>,
}

// === impl Dispatcher ===

impl Dispatcher {
    /// Makes a dispatcher; fails if a target or a gate is missing.
    pub(crate) fn new(parts: DispatcherParts) -> Result<Arc<Self>, DispatchError> {
        let DispatcherParts { store, gates, settings, client, metrics, own, own_key } = parts;
        let all_gates = Arc::clone(&gates);
        let served = |queue: &Queue| {
            let target = target(queue, own.as_ref())?;
            let gates = all_gates.named(&queue.gates)?;
            let metrics = metrics.of_queue(&queue.name);
            let own_key = own_key.clone().filter(|_| queue.target.is_none());
            Ok(ServedQueue {
                queue: queue.clone(),
                target,
                counts_tokens: all_gates.counts_tokens(&gates),
                gates,
                outputs: OutputHistory::default(),
                metrics,
                health: TargetHealth::default(),
                lanes: FailingLanes::default(),
                trouble: QueueTrouble::default(),
                own_key,
            })
        };
        let queues: Vec<ServedQueue> =
            settings.queues.iter().map(served).collect::<Result<_, DispatchError>>()?;
        if queues.is_empty() {
            return Err(DispatchError::NoQueue);
        }
        Ok(Arc::new(Self {
            name: fresh_id(),
            store,
            gates,
            settings,
            queues,
            client,
            metrics,
            answers: TargetAnswers::default(),
            claims: Mutex::default(),
            store_error: Mutex::default(),
            next_due: AtomicU64::new(u64::MAX),
            freed: Notify::new(),
            closing: watch::Sender::new(false),
        }))
    }

    /// The store, for commands on dead letters.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The state of each queue, for the status pages.
    pub(crate) fn views(&self) -> impl Iterator<Item = QueueView<'_>> {
        let mut in_flight: BTreeMap<String, usize> = BTreeMap::new();
        for held in self.claims().keys() {
            *in_flight.entry(held.queue.clone()).or_default() += 1;
        }
        self.queues.iter().map(move |served| QueueView {
            queue: &served.queue,
            target: &served.target.place,
            metrics: &served.metrics,
            in_flight: in_flight.get(&served.queue.name).copied().unwrap_or(0),
            overload: served.health.why(),
            trouble: served.trouble.why(),
            retries_trouble: served.trouble.of_retries(),
        })
    }

    /// Records that the store is unavailable.
    pub(crate) fn set_store_error(&self, why: String) {
        *self.store_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// The error of the store, while it is unavailable.
    pub(crate) fn store_error(&self) -> Option<String> {
        self.store_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn claims(&self) -> MutexGuard<'_, BTreeMap<ClaimRef, ClaimState>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, held: &ClaimRef, reason: StopReason) {
        match self.claims().get_mut(held) {
            Some(ClaimState::WaitingAtGate(stopped)) => {
                *stopped = Some(reason);
                self.freed.notify_one();
            }
            Some(ClaimState::InFlight(sender)) => {
                if let Some(sender) = sender.take() {
                    // The delivery may have ended meanwhile.
                    let _ = sender.send(reason);
                }
            }
            None => {}
        }
    }

    /// The stop reason of a message that waits for a gate.
    fn stop_reason(&self, held: &ClaimRef) -> Option<StopReason> {
        match self.claims().get(held) {
            Some(ClaimState::WaitingAtGate(reason)) => *reason,
            _ => None,
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff { first: self.settings.backoff, longest: self.settings.backoff_max }
    }

    fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Resolves when the dispatcher shuts down.
    async fn closed(&self) {
        // A dropped sender means shutdown too.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }
}

/// The target of a queue.
fn target(queue: &Queue, own: Option<&BaseUrl>) -> Result<BaseUrl, DispatchError> {
    let name = || queue.name.clone();
    match (&queue.target, own) {
        (Some(url), _) => {
            BaseUrl::parse(url).map_err(|source| DispatchError::Target { queue: name(), source })
        }
        (None, Some(own)) => Ok(own.clone()),
        (None, None) => Err(DispatchError::NoTarget { queue: name() }),
    }
}
