//! Durable queues of batch work.
//!
//! A producer submits a message. A dispatcher claims it for the length of a lease, sends its
//! request, and completes it with one result, which the store keeps. When a dispatcher crashes, its
//! leases expire and its messages become pending again. Each claim has its own token, and every
//! later call about the message must present that token. A dispatcher that was presumed dead
//! therefore cannot overwrite the work of its successor.
//!
//! ```text
//! submit ─▶ pending ──claim──▶ claimed ──complete──▶ result
//!              ▲                 │  │
//!              ├─ reclaim: lease ┘  ├──dead_letter──▶ dead, with a result
//!              ├─ reclaim: due ◀── retry ◀── release   │
//!              └─ redrive_dead_letters ◀───────────────┘
//! ```
//!
//! Delivery is at least once: when a dispatcher crashes between the response of the model server
//! and [`Store::complete`], the next dispatcher sends the request again. The result and the end of
//! the message are one atomic step, so no result is lost or stored twice.
//!
//! No code of this crate reads a clock: every verb takes `now` as an argument.

mod error;
#[cfg(test)]
#[expect(dead_code, reason = "no parser of this crate reads its input in pieces")]
#[path = "../../../tests/support/fuzz.rs"]
mod fuzz;
mod llm_d_async;
mod message;
mod moment;
#[cfg(feature = "pubsub")]
mod pubsub;
mod redis;
mod sqlite;
#[cfg(test)]
mod tests;
mod token;
mod usage;

#[cfg(feature = "pubsub")]
pub use self::pubsub::{
    CallError, CallFuture, PubSubCalls, PubSubQueue, PubSubSettings, PubSubStore,
};
pub use self::redis::{RedisQueue, RedisSettings, RedisStore};
pub use error::{ErrorKind, StoreError};
pub use message::{BATCH_ROUTE, Body, Message, Outcome, StoredResult};
pub use moment::Moment;
pub use sqlite::{SqliteStore, ledger};
pub use usage::{UsageAmounts, UsageKey, UsageQuery, UsageStore, UsedTokens};

use std::pin::Pin;
use std::time::Duration;

/// The longest lease in Pub/Sub, which extends the deadline of an acknowledgement by no more.
pub const PUBSUB_LEASE_MAX: Duration = Duration::from_secs(600);

/// The future that every fallible verb of a store returns.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Queues that outlive the process.
///
/// Each verb is implemented in the file of that name of each engine: `claim` in `sqlite/claim.rs`,
/// `redis/claim.rs` and `redis/scripts/claim.lua`.
pub trait Store: std::fmt::Debug + Send + Sync {
    /// Stores messages, in one transaction where the engine can. When the future resolves, they are
    /// durable. A message whose id and content are already known is not stored again; the engine
    /// remembers ids for a while after their messages have ended. The creation time is not part of
    /// the content, because a producer that retries sets it again.
    fn submit(&self, messages: Vec<Message>, now: Moment) -> StoreFuture<'_, Vec<Receipt>>;

    /// Lists the tenants that have pending messages in a queue, with the approximate number of
    /// each. An engine that cannot look at all messages looks at those with the earliest deadlines.
    fn lanes<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Vec<Lane>>;

    /// Claims messages of one lane: the earliest deadline first, the first submitted among equals.
    /// Expired and cancelled messages are included: the dispatcher that claims them completes them
    /// with the result that says so.
    fn claim(&self, request: ClaimRequest, now: Moment) -> StoreFuture<'_, Vec<Claim>>;

    /// Extends the leases of claims to `until`, and returns the standing of each claim.
    fn renew(&self, claims: Vec<ClaimRef>, until: Moment) -> StoreFuture<'_, Vec<Standing>>;

    /// Returns the standing of claims without extending their leases.
    fn standing(&self, claims: Vec<ClaimRef>) -> StoreFuture<'_, Vec<Standing>>;

    /// Stores the result and ends the message, in one step. Returns `false` when the claim was
    /// lost; then the result is not stored.
    fn complete(&self, claim: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool>;

    /// Gives a claimed message back, to be claimed again at once or later. Returns `false` when the
    /// claim was lost.
    fn release(&self, claim: ClaimRef, release: Release, now: Moment) -> StoreFuture<'_, bool>;

    /// Stores the result as [`Store::complete`] does, and keeps the message as a dead letter. This
    /// counts as a failure of the message.
    fn dead_letter(&self, claim: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool>;

    /// Cancels a message in any state. A pending message may get its result at once; the dispatcher
    /// that holds a claimed message learns of it from [`Store::renew`] or [`Store::standing`].
    /// Returns `false` when the id is unknown or its message has ended.
    fn cancel<'a>(&'a self, id: &'a str, now: Moment) -> StoreFuture<'a, bool>;

    /// Makes messages pending again: claimed messages whose lease has expired, and released
    /// messages that are due. An expired lease counts as a failure: a message that crashes every
    /// dispatcher must end, too.
    fn reclaim<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Reclaimed>;

    /// Counts the messages of a queue by state.
    fn depth<'a>(&'a self, queue: &'a str) -> StoreFuture<'a, Depth>;

    /// Lists the dead letters of a queue, oldest first, after the one with the number `after`.
    fn list_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        after: Option<u64>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<DeadLetter>>;

    /// Makes dead letters pending again as if they had just been submitted, with their original
    /// time to live. It skips lines of a batch, whose result file is final, and unreadable
    /// messages.
    fn redrive_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        selection: Selection,
        now: Moment,
    ) -> StoreFuture<'a, Redriven>;

    /// Deletes dead letters, and returns how many it deleted.
    fn purge_dead_letters<'a>(
        &'a self,
        queue: &'a str,
        selection: Selection,
    ) -> StoreFuture<'a, u64>;

    /// Removes and returns the results of a route, oldest first. The results of a message without a
    /// route go to a route with the name of its queue, unless the engine is configured otherwise.
    fn take_results<'a>(
        &'a self,
        route: &'a str,
        limit: usize,
    ) -> StoreFuture<'a, Vec<StoredResult>>;

    /// Registers a dispatcher as a member of a group until `until`, and returns its rank among the
    /// present members. A dispatcher calls this again before `until`; one that leaves passes `now`.
    fn join<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        until: Moment,
        now: Moment,
    ) -> StoreFuture<'a, Membership>;

    /// Looks at the data of one queue. Returns what is wrong with it and what to do, if a verb on
    /// the queue must fail because of that. An engine that owns its data has nothing to look at.
    fn check_queue<'a>(&'a self, _queue: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async { Ok(None) })
    }

    /// The same about the place of the messages that wait for a retry, which several queues may
    /// share. Without it the verbs succeed: a released message waits in its claim until it is due.
    fn check_retries<'a>(&'a self, _queue: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async { Ok(None) })
    }

    /// Resolves when the queues may have changed: messages became pending, or one was cancelled. A
    /// dispatcher that calls this before it looks, and awaits it afterwards, misses no change. The
    /// future may resolve spuriously; an engine that cannot know of all changes resolves after a
    /// while.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Gives back what this process holds beyond its claims, so that others can have it at once. A
    /// dispatcher that ends calls this last.
    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Whether [`Store::depth`] counts all messages of a queue, rather than those that this process
    /// holds.
    fn counts_all(&self) -> bool {
        true
    }

    /// Whether a queue that is unavailable says nothing of the others: each has an owner, a quota
    /// and rights of its own at the server.
    fn queues_fail_alone(&self) -> bool {
        false
    }
}

/// The result of submitting one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// The message is stored.
    Accepted,
    /// The same message was stored before.
    Duplicate,
    /// The id is in use by a message with other content.
    Conflict,
}

/// The pending messages of one tenant in one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The tenant; empty for messages without a tenant.
    pub tenant: String,
    /// The number of pending messages, at least one.
    pub waiting: u64,
    /// The earliest deadline among them.
    pub deadline: Moment,
}

/// The arguments of [`Store::claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The queue to claim from.
    pub queue: String,
    /// The tenant to claim for; empty for messages without a tenant.
    pub tenant: String,
    /// The maximum number of messages.
    pub limit: usize,
    /// When the leases expire, unless renewed.
    pub until: Moment,
}

/// A claimed message.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The reference that later calls present.
    pub reference: ClaimRef,
    /// The message.
    pub message: Message,
    /// How often the message failed before. Congestion does not count.
    pub failures: u32,
    /// Whether the message was cancelled.
    pub cancelled: bool,
}

/// Identifies one claim of one message. A later claim of the same message has another token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    /// The queue of the message.
    pub queue: String,
    /// The engine's key of the message.
    pub key: String,
    /// The token of this claim.
    pub token: String,
}

/// The standing of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The lease is held.
    Held,
    /// The lease is held, and the message was cancelled.
    Cancelled,
    /// The claim was lost: its lease expired and the message was reclaimed, or the message ended.
    Lost,
}

/// How a claimed message is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The earliest time of the next claim. The message is pending at once unless this is later
    /// than now.
    pub due: Moment,
    /// Whether the attempt counts as a failure of the message.
    pub failed: bool,
}

/// The messages that [`Store::reclaim`] made pending again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// The number of messages whose lease had expired.
    pub lost: u64,
    /// The number of released messages that were due.
    pub due: u64,
    /// When the next lease expires or the next message is due, if known.
    pub next: Option<Moment>,
}

/// The number of messages of a queue in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages that can be claimed.
    pub pending: u64,
    /// Released messages that are not due yet.
    pub retry: u64,
    /// Claimed messages.
    pub claimed: u64,
    /// Dead letters.
    pub dead: u64,
}

/// The place of a dispatcher among the members of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The rank of the dispatcher, from 0.
    pub rank: u32,
    /// The number of members, at least one.
    pub size: u32,
}

/// A message that failed too often, or that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// The position among the dead letters of the queue.
    pub number: u64,
    /// The id of the message. The engine makes one up for an unreadable message without an id.
    pub id: String,
    /// When the message became a dead letter.
    pub at: Moment,
    /// The reason.
    pub why: String,
    /// How often the message had failed.
    pub failures: u32,
}

/// The result of [`Store::redrive_dead_letters`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    /// The number of messages that are pending again.
    pub requeued: u64,
    /// The number of messages that stay dead letters.
    pub skipped: u64,
    /// The ids of the first skipped messages, each with the reason.
    pub reasons: Vec<(String, String)>,
}

/// Selects dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All dead letters of the queue.
    All,
    /// The dead letters with these ids.
    Ids(Vec<String>),
}

// === impl Redriven ===

impl Redriven {
    /// The maximum number of reasons.
    const REASONS_MAX: usize = 100;

    /// Counts a message that stays a dead letter.
    pub(crate) fn skip(&mut self, id: &str, why: String) {
        self.skipped += 1;
        if self.reasons.len() < Self::REASONS_MAX {
            self.reasons.push((id.to_owned(), why));
        }
    }
}

// === impl Standing ===

impl Standing {
    /// The standing of a claim that is held or not, of a message that is cancelled or not.
    pub(crate) fn new(held: bool, cancelled: bool) -> Self {
        match (held, cancelled) {
            (false, _) => Self::Lost,
            (true, true) => Self::Cancelled,
            (true, false) => Self::Held,
        }
    }
}
