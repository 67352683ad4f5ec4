//! The engine on Redis or Valkey: queues that several machines share, with the keys and messages of
//! llm-d-async, so that its producers, workers and consumers can stand beside ours.
//!
//! ```text
//! <queue> (by deadline) ──claim──▶ <queue>:claimed, :claim-owners, :claims-idx ──▶ result list
//!    ▲                                        │                │
//!    └──────────── due ◀── retry-sortedset ◀──┴── put back     └──▶ {<queue>}:dead
//! ```
//!
//! What belongs together happens in one script on the server. Scripts write before they remove, so
//! that one that fails half way loses nothing, and each can be asked twice when an answer was lost.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use self::keys::Layout;
use self::link::Link;
use self::nodes::Nodes;
use crate::error::StoreError;
use crate::message::{Message, Outcome, StoredResult};
use crate::moment::Moment;
use crate::{
    Claim, ClaimRef, ClaimRequest, DeadLetter, Depth, Lane, Membership, Receipt, Reclaimed,
    Redriven, Release, Selection, Standing, Store, StoreFuture,
};

mod claim;
mod ear;
mod end;
mod envelope;
mod error;
mod fields;
mod grave;
mod join;
mod keys;
mod link;
mod look;
mod nodes;
mod outcome;
mod revive;
mod scrap;
mod scripts;
mod step;
mod submit;
mod token;

/// How long nobody hears of a message that a foreign producer sent: those tell nobody.
const POLL: Duration = Duration::from_secs(1);

/// Which Redis, and what is called how there.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// Where it is; of several, whichever takes writes.
    pub urls: Vec<String>,
    /// Whether it is a cluster.
    pub cluster: bool,
    /// How many replicas must have a message before it counts as kept.
    pub replicas: u32,
    /// The list for results, unless the queue or the message names another.
    pub results: String,
    /// The set of messages that wait for another try.
    pub retries: String,
    /// What is known of the queues beforehand.
    pub queues: Vec<RedisQueue>,
}

/// Where the results of a queue go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisQueue {
    /// The queue.
    pub name: String,
    /// Its list, before what a message says.
    pub results: Option<String>,
    /// For how long the list is kept after the last result came.
    pub results_ttl: Option<Duration>,
}

/// Queues in Redis.
pub struct RedisStore {
    link: Link,
    layout: Layout,
    shown: String,
}

// === impl RedisSettings ===

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            urls: vec!["redis://127.0.0.1:6379".into()],
            cluster: false,
            replicas: 0,
            results: keys::RESULTS.into(),
            retries: keys::RETRIES.into(),
            queues: Vec::new(),
        }
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses may have passwords in them.
        let urls: Vec<String> = self.urls.iter().map(|url| nodes::shown(url)).collect();
        f.debug_struct("RedisSettings")
            .field("urls", &urls)
            .field("cluster", &self.cluster)
            .field("replicas", &self.replicas)
            .field("results", &self.results)
            .field("retries", &self.retries)
            .field("queues", &self.queues)
            .finish()
    }
}

// === impl RedisStore ===

impl RedisStore {
    /// Queues in these servers. Nobody is asked yet: what is wrong here is wrong for good.
    pub fn new(settings: RedisSettings) -> Result<Arc<Self>, StoreError> {
        let layout = Layout::new(&settings)?;
        let nodes = Nodes::new(&settings.urls, settings.cluster)?;
        let shown: Vec<String> = settings.urls.iter().map(|url| nodes::shown(url)).collect();
        let link = Link::new(nodes, settings.replicas);
        Ok(Arc::new(Self { link, layout, shown: shown.join(", ") }))
    }

    /// Asks once for the server that takes writes. Says what of its settings may lose messages, in
    /// words; a server of another kind than it was said to be is an error.
    pub async fn check_server(&self) -> Result<Vec<String>, StoreError> {
        self.link.wire().await?;
        look::cautions(&self.link).await
    }

    /// Queues in servers that must be there.
    #[cfg(test)]
    pub(crate) async fn connect(settings: RedisSettings) -> Result<Arc<Self>, StoreError> {
        let store = Self::new(settings)?;
        store.check_server().await?;
        Ok(store)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.shown).finish()
    }
}

impl Store for RedisStore {
    fn submit(&self, messages: Vec<Message>, now: Moment) -> StoreFuture<'_, Vec<Receipt>> {
        Box::pin(self.keep(messages, now))
    }

    fn lanes<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Vec<Lane>> {
        Box::pin(self.look_for_lanes(queue, now))
    }

    fn claim(&self, want: ClaimRequest, now: Moment) -> StoreFuture<'_, Vec<Claim>> {
        Box::pin(self.take(want, now))
    }

    fn renew(&self, held: Vec<ClaimRef>, until: Moment) -> StoreFuture<'_, Vec<Standing>> {
        Box::pin(self.check_claims(held, Some(until)))
    }

    fn standing(&self, held: Vec<ClaimRef>) -> StoreFuture<'_, Vec<Standing>> {
        Box::pin(self.check_claims(held, None))
    }

    fn complete(&self, held: ClaimRef, outcome: Outcome, _now: Moment) -> StoreFuture<'_, bool> {
        Box::pin(self.end(held, outcome))
    }

    fn release(&self, held: ClaimRef, back: Release, now: Moment) -> StoreFuture<'_, bool> {
        Box::pin(self.give_back(held, back, now))
    }

    fn dead_letter(&self, held: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool> {
        Box::pin(self.lay_to_rest(held, outcome, now))
    }

    fn cancel<'a>(&'a self, id: &'a str, _now: Moment) -> StoreFuture<'a, bool> {
        Box::pin(self.mark_cancelled(id))
    }

    fn reclaim<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Reclaimed> {
        Box::pin(self.bring_back(queue, now))
    }

    fn depth<'a>(&'a self, queue: &'a str) -> StoreFuture<'a, Depth> {
        Box::pin(self.count(queue))
    }

    fn dead_letters<'a>(
        &'a self,
        queue: &'a str,
        after: Option<u64>,
        most: usize,
    ) -> StoreFuture<'a, Vec<DeadLetter>> {
        Box::pin(self.list_dead(queue, after, most))
    }

    fn redrive<'a>(
        &'a self,
        queue: &'a str,
        which: Selection,
        now: Moment,
    ) -> StoreFuture<'a, Redriven> {
        Box::pin(self.let_wait_again(queue, which, now))
    }

    fn purge<'a>(&'a self, queue: &'a str, which: Selection) -> StoreFuture<'a, u64> {
        Box::pin(self.forget_dead(queue, which))
    }

    fn take_results<'a>(
        &'a self,
        route: &'a str,
        most: usize,
    ) -> StoreFuture<'a, Vec<StoredResult>> {
        Box::pin(self.take_away(route, most))
    }

    fn join<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        until: Moment,
        now: Moment,
    ) -> StoreFuture<'a, Membership> {
        Box::pin(self.sign(group, name, until, now))
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // Made here and not when it is first waited for: it hears from now on.
        let woken = self.link.woken().notified();
        let heard = async {
            self.link.listen().await;
            woken.await;
        };
        // Both ends are good ones.
        Box::pin(async { _ = timeout(POLL, heard).await })
    }
}
