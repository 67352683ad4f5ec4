//! The engine on Google Cloud Pub/Sub, with the topics and messages of llm-d-async.
//!
//! A queue is a subscription. Pub/Sub lends a message to a subscriber for a time and cannot be
//! asked what waits, so this process receives a few messages ahead and holds them ([`held`]). The
//! verbs work on those: the earliest deadline and the fair share are those of the messages that are
//! here. The deadline of the acknowledgement is the lease.
//!
//! Pub/Sub has no place for what the other verbs need. They fail with [`ErrorKind::Unsupported`]
//! and say what an operator can do instead.

mod admit;
mod calls;
mod claim;
mod complete;
mod dead_letter;
mod dead_letters;
mod held;
mod past;
mod receive;
mod reclaim;
mod release;
mod renew;
mod request;
mod server_check;
mod settings;
mod standing;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Notify};

use self::calls::Calls;
pub use self::calls::{CallError, CallFuture, PubSubCalls};
use self::held::Held;
pub use self::settings::{PubSubQueue, PubSubSettings};
use crate::error::{ErrorKind, StoreError};
use crate::message::{Message, Outcome, StoredResult};
use crate::moment::Moment;
use crate::{
    Claim, ClaimRef, ClaimRequest, DeadLetter, Depth, Lane, Membership, PUBSUB_LEASE_MAX, Receipt,
    Reclaimed, Redriven, Release, Selection, Standing, Store, StoreFuture,
};

/// Queues in Pub/Sub.
pub struct PubSubStore {
    calls: Calls,
    settings: PubSubSettings,
    queues: BTreeMap<String, Queue>,
    changed: Notify,
    /// The last moment that a verb was called with, in milliseconds since 1970.
    last_seen: AtomicU64,
}

/// A subscription and its messages that are here.
#[derive(Debug)]
struct Queue {
    name: String,
    subscription: String,
    /// The topic of its results, if it has one of its own.
    results: Option<String>,
    held: Mutex<Held>,
    /// Held while received messages are admitted.
    admission: AsyncMutex<()>,
    /// Notified when more messages may be wanted.
    demand: Notify,
}

// === impl PubSubStore ===

impl PubSubStore {
    /// A store that calls Pub/Sub this way.
    pub fn new(settings: PubSubSettings, calls: Arc<dyn PubSubCalls>) -> Arc<Self> {
        let queue = |queue: &PubSubQueue| {
            let made = Queue {
                name: queue.name.clone(),
                subscription: settings.subscription(&queue.name),
                results: queue.results.as_ref().map(|topic| settings.topic(topic)),
                held: Mutex::default(),
                admission: AsyncMutex::default(),
                demand: Notify::new(),
            };
            (queue.name.clone(), made)
        };
        let queues = settings.queues.iter().map(queue).collect();
        let lease = settings.lease.min(PUBSUB_LEASE_MAX);
        Arc::new(Self {
            calls: Calls(calls),
            settings: PubSubSettings { lease, ..settings },
            queues,
            changed: Notify::new(),
            last_seen: AtomicU64::new(0),
        })
    }

    /// The names of the queues.
    pub fn queues(&self) -> Vec<String> {
        self.queues.keys().cloned().collect()
    }

    fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.get(name)
    }

    /// Remembers the moment of a verb.
    fn saw(&self, now: Moment) {
        self.last_seen.store(now.millis(), Ordering::Relaxed);
    }

    fn last_seen(&self) -> Moment {
        Moment::from_millis(self.last_seen.load(Ordering::Relaxed))
    }

    /// Keeps deliveries for this long; returns those that are gone.
    async fn extend(
        &self,
        queue: &Queue,
        ack_ids: &[String],
        lease: Duration,
    ) -> Result<Vec<String>, StoreError> {
        let seconds = lease.min(PUBSUB_LEASE_MAX).as_millis().div_ceil(1000).max(1);
        self.extend_by(queue, ack_ids, i32::try_from(seconds).unwrap_or(i32::MAX)).await
    }

    async fn extend_by(
        &self,
        queue: &Queue,
        ack_ids: &[String],
        seconds: i32,
    ) -> Result<Vec<String>, StoreError> {
        let name = &queue.subscription;
        let extended = self.calls.modify_ack_deadline(name, ack_ids, seconds).await;
        extended.map_err(|error| error.about(name))
    }

    async fn acknowledge(&self, queue: &Queue, ack_id: String) -> Result<(), StoreError> {
        let name = &queue.subscription;
        self.calls.acknowledge(name, &[ack_id]).await.map_err(|error| error.retried(name))
    }

    /// Gives all messages back that no claim holds.
    async fn give_back(&self) -> Result<(), StoreError> {
        let mut given_back = Ok(());
        for queue in self.queues.values() {
            let ack_ids = queue.held().close();
            queue.demand.notify_one();
            // Each queue is given back, whatever happens to the others.
            given_back = self.extend_by(queue, &ack_ids, 0).await.map(drop).and(given_back);
        }
        given_back
    }

    /// What an operator is told about the topic for dead letters.
    fn elsewhere<T: Send + 'static>(&self, what: &str) -> StoreFuture<'_, T> {
        let place = match &self.settings.dead_letters {
            Some(topic) => format!("a subscription of the topic {:?}", self.settings.topic(topic)),
            None => "a topic, which `dispatch.pubsub.dead_letters` names".to_owned(),
        };
        unsupported(format!(
            "{what}: dead letters are in {place}. Publish one to the topic of the queue to send it \
             again, acknowledge it to delete it"
        ))
    }
}

fn unsupported<'a, T: Send + 'a>(text: String) -> StoreFuture<'a, T> {
    let text = format!("not supported by Pub/Sub: {text}");
    Box::pin(async { Err(StoreError::new(ErrorKind::Unsupported, text)) })
}

impl fmt::Debug for PubSubStore {
    /// As a part of a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pub/Sub in the project {}", self.settings.project)
    }
}

// === impl Queue ===

impl Queue {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for PubSubStore {
    fn submit(&self, _messages: Vec<Message>, _now: Moment) -> StoreFuture<'_, Vec<Receipt>> {
        unsupported("a producer publishes to the topic of the queue".to_owned())
    }

    fn lanes<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Vec<Lane>> {
        Box::pin(async move {
            self.saw(now);
            let Some(queue) = self.queue(queue) else { return Ok(Vec::new()) };
            let held = queue.held();
            match &held.trouble {
                Some(error) => Err(error.clone()),
                None => Ok(held.lanes()),
            }
        })
    }

    fn claim(&self, request: ClaimRequest, now: Moment) -> StoreFuture<'_, Vec<Claim>> {
        Box::pin(claim::claim(self, request, now))
    }

    fn renew(&self, claims: Vec<ClaimRef>, until: Moment) -> StoreFuture<'_, Vec<Standing>> {
        Box::pin(renew::renew(self, claims, until))
    }

    fn standing(&self, claims: Vec<ClaimRef>) -> StoreFuture<'_, Vec<Standing>> {
        Box::pin(standing::standing(self, claims))
    }

    fn complete(&self, claim: ClaimRef, outcome: Outcome, _now: Moment) -> StoreFuture<'_, bool> {
        Box::pin(complete::complete(self, claim, outcome))
    }

    fn release(&self, claim: ClaimRef, release: Release, now: Moment) -> StoreFuture<'_, bool> {
        Box::pin(release::release(self, claim, release, now))
    }

    fn dead_letter(&self, claim: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool> {
        Box::pin(dead_letter::dead_letter(self, claim, outcome, now))
    }

    fn cancel<'a>(&'a self, _id: &'a str, _now: Moment) -> StoreFuture<'a, bool> {
        unsupported("a published message cannot be cancelled; give it a deadline".to_owned())
    }

    fn reclaim<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Reclaimed> {
        Box::pin(reclaim::reclaim(self, queue, now))
    }

    fn depth<'a>(&'a self, queue: &'a str) -> StoreFuture<'a, Depth> {
        let depth = self.queue(queue).map(|queue| queue.held().depth()).unwrap_or_default();
        Box::pin(async move { Ok(depth) })
    }

    fn list_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        after: Option<u64>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<DeadLetter>> {
        let list = self.queue(queue).map(|queue| queue.held().dead.list(after, limit));
        Box::pin(async { Ok(list.unwrap_or_default()) })
    }

    fn redrive_dead_letters<'a>(
        &'a self,
        _queue: &'a str,
        _selection: Selection,
        _now: Moment,
    ) -> StoreFuture<'a, Redriven> {
        self.elsewhere("redrive")
    }

    fn purge_dead_letters<'a>(
        &'a self,
        _queue: &'a str,
        _selection: Selection,
    ) -> StoreFuture<'a, u64> {
        self.elsewhere("purge")
    }

    fn take_results<'a>(
        &'a self,
        _route: &'a str,
        _limit: usize,
    ) -> StoreFuture<'a, Vec<StoredResult>> {
        unsupported("results are received from a subscription of their topic".to_owned())
    }

    /// Pub/Sub does not know its subscribers, so each dispatcher counts itself alone.
    fn join<'a>(
        &'a self,
        _group: &'a str,
        _name: &'a str,
        _until: Moment,
        _now: Moment,
    ) -> StoreFuture<'a, Membership> {
        Box::pin(async { Ok(Membership { rank: 0, size: 1 }) })
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.changed.notified())
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.give_back())
    }

    fn counts_all(&self) -> bool {
        false
    }

    fn queues_fail_alone(&self) -> bool {
        true
    }
}
