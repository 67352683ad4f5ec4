//! The engine on Redis or Valkey: queues that several machines share. Keys and messages are those
//! of llm-d-async, so that its producers, workers and consumers can use the same queues.
//!
//! ```text
//! <queue> (by deadline) ──claim──▶ <queue>:claimed, :claim-owners, :claims-idx ──▶ result list
//!    ▲                                        │                │
//!    └── reclaim ◀── retry-sortedset ◀────────┴── release      └── dead_letter ──▶ {<queue>}:dead
//! ```
//!
//! Each verb has a module of its name, and runs scripts whose names begin with its name. A script
//! is atomic on the server. It writes before it deletes, so that an error in the middle loses no
//! message, and it can run twice when its reply was lost.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use self::connection::Connection;
use self::keys::Layout;
use self::topology::Topology;
use crate::error::StoreError;
use crate::message::{Message, Outcome, StoredResult};
use crate::moment::Moment;
use crate::{
    Claim, ClaimRef, ClaimRequest, DeadLetter, Depth, Lane, Membership, Receipt, Reclaimed,
    Redriven, Release, Selection, Standing, Store, StoreFuture,
};

mod cancel;
mod changed;
mod check_queue;
mod check_retries;
mod claim;
mod claim_end;
mod claimed_message;
mod complete;
mod connection;
mod dead_letter;
mod depth;
mod envelope;
mod error;
mod join;
mod json_fields;
mod keys;
mod lanes;
mod list_dead_letters;
mod pending;
mod pipeline;
mod purge_dead_letters;
mod quarantine;
mod reclaim;
mod redrive_dead_letters;
mod release;
mod renew;
mod retries;
mod scripts;
mod sentinel;
mod server_check;
mod settings;
mod standing;
mod submit;
mod subscription;
mod take_results;
mod topology;

pub use self::settings::{RedisQueue, RedisSettings};

/// Queues in Redis.
pub struct RedisStore {
    connection: Connection,
    layout: Layout,
    /// The addresses without passwords.
    shown: String,
}

// === impl RedisStore ===

impl RedisStore {
    /// Creates a store without connecting. An error is an error of the settings.
    pub fn new(settings: RedisSettings) -> Result<Arc<Self>, StoreError> {
        let layout = Layout::new(&settings)?;
        let topology = Topology::new(&settings)?;
        let connection = Connection::new(topology, settings.replicas);
        Ok(Arc::new(Self { connection, layout, shown: settings.shown_urls().join(", ") }))
    }

    /// Connects, and returns a warning for each setting of the server that may lose messages. A
    /// server of another kind than configured is an error.
    pub async fn check_server(&self) -> Result<Vec<String>, StoreError> {
        self.connection.established().await?;
        server_check::warnings(&self.connection).await
    }

    /// Creates a store, and connects to servers that must be up.
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
        Box::pin(submit::submit(self, messages, now))
    }

    fn lanes<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Vec<Lane>> {
        Box::pin(lanes::lanes(self, queue, now))
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

    fn cancel<'a>(&'a self, id: &'a str, _now: Moment) -> StoreFuture<'a, bool> {
        Box::pin(cancel::cancel(self, id))
    }

    fn reclaim<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Reclaimed> {
        Box::pin(reclaim::reclaim(self, queue, now))
    }

    fn depth<'a>(&'a self, queue: &'a str) -> StoreFuture<'a, Depth> {
        Box::pin(depth::depth(self, queue))
    }

    fn check_queue<'a>(&'a self, queue: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(check_queue::check_queue(self, queue))
    }

    fn check_retries<'a>(&'a self, queue: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(check_retries::check_retries(self, queue))
    }

    fn list_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        after: Option<u64>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<DeadLetter>> {
        Box::pin(list_dead_letters::list_dead_letters(self, queue, after, limit))
    }

    fn redrive_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        selection: Selection,
        now: Moment,
    ) -> StoreFuture<'a, Redriven> {
        Box::pin(redrive_dead_letters::redrive_dead_letters(self, queue, selection, now))
    }

    fn purge_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        selection: Selection,
    ) -> StoreFuture<'a, u64> {
        Box::pin(purge_dead_letters::purge_dead_letters(self, queue, selection))
    }

    fn take_results<'a>(
        &'a self,
        route: &'a str,
        limit: usize,
    ) -> StoreFuture<'a, Vec<StoredResult>> {
        Box::pin(take_results::take_results(self, route, limit))
    }

    fn join<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        until: Moment,
        now: Moment,
    ) -> StoreFuture<'a, Membership> {
        Box::pin(join::join(self, (group, name), until, now))
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        changed::changed(self)
    }
}
