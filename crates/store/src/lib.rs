//! Durable queues of batch work.
//!
//! A message is submitted, waits, is claimed for a while by one who sends it, and ends with exactly
//! one result that is kept. Whoever claims has a lease: if it dies, the message comes back when the
//! lease has run out. Every claim has a token of its own, and every later word about the message
//! must name it: one who was thought dead and comes back cannot overwrite what happened since.
//!
//! ```text
//! submit ─▶ pending ──claim──▶ claimed ──complete──▶ result
//!              ▲                 │  │
//!              ├── lease ran out ┘  ├──dead_letter──▶ dead, with a result ──redrive──▶ pending
//!              └──── due ── retry ◀─┘ put back
//! ```
//!
//! Work is done at least once: a sender that dies after the answer came and before it was kept lets
//! the next one send again. Results are kept in the same step that ends the message, so none is
//! lost and none is kept twice.
//!
//! Nothing here reads a clock: every verb takes `now`.

mod error;
mod message;
mod moment;
mod redis;
mod sqlite;
#[cfg(test)]
mod tests;

pub use self::redis::{RedisQueue, RedisSettings, RedisStore};
pub use error::{ErrorKind, StoreError};
pub use message::{BATCH_ROUTE, Body, Message, Outcome, StoredResult};
pub use moment::Moment;
pub use sqlite::{SqliteStore, ledger};

use std::pin::Pin;

/// What every verb of a store gives.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Queues that outlive the process.
pub trait Store: std::fmt::Debug + Send + Sync {
    /// Keeps messages for later, all in one step where the engine can. When this returns they are
    /// durable. A message that is known under its id with the same content is not kept again; an
    /// engine knows it for a while after it has ended, too. The moment at which it was made is not
    /// content: whoever tries again makes it again.
    fn submit(&self, messages: Vec<Message>, now: Moment) -> StoreFuture<'_, Vec<Receipt>>;

    /// Whose messages could be claimed in a queue, and about how many each has. An engine that
    /// cannot look at all of them looks at those with the earliest deadlines.
    fn lanes<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Vec<Lane>>;

    /// Takes messages of one lane for a while: those with the earliest deadline, and the first
    /// submitted among equals. Those whose deadline has passed, or that were cancelled, come too:
    /// whoever claims them gives them the result that says so.
    fn claim(&self, want: ClaimRequest, now: Moment) -> StoreFuture<'_, Vec<Claim>>;

    /// Holds claims until `until`, and says of each how it stands.
    fn renew(&self, held: Vec<ClaimRef>, until: Moment) -> StoreFuture<'_, Vec<Standing>>;

    /// How claims stand, without holding them longer: whether somebody wants them cancelled.
    fn standing(&self, held: Vec<ClaimRef>) -> StoreFuture<'_, Vec<Standing>>;

    /// Keeps the result and forgets the message, in one step. `false` when the claim was lost: then
    /// nothing is kept.
    fn complete(&self, held: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool>;

    /// Gives a message back, to be claimed again at once or later. `false` when the claim was lost.
    fn release(&self, held: ClaimRef, back: Release, now: Moment) -> StoreFuture<'_, bool>;

    /// Keeps the result as [`Store::complete`] does, and the message among the dead. That counts as
    /// a failure.
    fn dead_letter(&self, held: ClaimRef, outcome: Outcome, now: Moment) -> StoreFuture<'_, bool>;

    /// Wants a message cancelled, wherever it is. One that waits may get its result at once; of one
    /// that is claimed, its owner hears. `false` when none is known by that id, or it has ended.
    fn cancel<'a>(&'a self, id: &'a str, now: Moment) -> StoreFuture<'a, bool>;

    /// Brings back what is due: claims whose lease has run out, and messages that were put back for
    /// later. A lost claim counts as a failure: a message that ends whoever sends it must end, too.
    /// Says how many came back, and when it is worth looking again.
    fn reclaim<'a>(&'a self, queue: &'a str, now: Moment) -> StoreFuture<'a, Reclaimed>;

    /// How much of what a queue has.
    fn depth<'a>(&'a self, queue: &'a str) -> StoreFuture<'a, Depth>;

    /// The dead of a queue, oldest first, after the one with this number.
    fn dead_letters<'a>(
        &'a self,
        queue: &'a str,
        after: Option<u64>,
        most: usize,
    ) -> StoreFuture<'a, Vec<DeadLetter>>;

    /// Lets the dead wait again, as if they had just been submitted, with as much time as they had
    /// at first. Those of a batch stay: it has had their final answer. So does what cannot be read.
    fn redrive<'a>(
        &'a self,
        queue: &'a str,
        which: Selection,
        now: Moment,
    ) -> StoreFuture<'a, Redriven>;

    /// Forgets the dead; says how many.
    fn purge<'a>(&'a self, queue: &'a str, which: Selection) -> StoreFuture<'a, u64>;

    /// Takes results away, oldest first. Those of a message that names no route go by the name of
    /// its queue, unless the engine was told otherwise.
    fn take_results<'a>(
        &'a self,
        route: &'a str,
        most: usize,
    ) -> StoreFuture<'a, Vec<StoredResult>>;

    /// Says that a dispatcher of this name is there until then, unless it says so again, and hears
    /// which one it is of those who said the same for this group. One that ends says `now`.
    fn join<'a>(
        &'a self,
        group: &'a str,
        name: &'a str,
        until: Moment,
        now: Moment,
    ) -> StoreFuture<'a, Membership>;

    /// Resolves when something may have changed that whoever claims wants to know: messages came,
    /// or somebody wants some cancelled. Whoever calls this before looking, and waits after it,
    /// misses nothing. It may resolve for no reason, and an engine that cannot know resolves after
    /// a while.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// What became of a submitted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It is kept.
    Accepted,
    /// It was kept before.
    Duplicate,
    /// Another message is known under its id.
    Conflict,
}

/// Messages of one tenant in one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Whose they are; empty for nobody's.
    pub tenant: String,
    /// How many could be claimed, at least one.
    pub waiting: u64,
    /// The earliest deadline among them.
    pub deadline: Moment,
}

/// What is to be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// From this queue.
    pub queue: String,
    /// Of this tenant; empty for nobody's.
    pub tenant: String,
    /// So many at most.
    pub limit: usize,
    /// Until then, unless renewed.
    pub until: Moment,
}

/// A message that was claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What every later word about it must name.
    pub reference: ClaimRef,
    /// What is to be done.
    pub message: Message,
    /// How often it was claimed and failed before, congestion apart.
    pub failures: u32,
    /// Whether somebody wants it cancelled.
    pub cancelled: bool,
}

/// The name of a claim. Nobody else has it, and a later claim of the same message has another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    /// The queue of the message.
    pub queue: String,
    /// What the engine knows the message by.
    pub key: String,
    /// This claim's own token.
    pub token: String,
}

/// How a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is held.
    Held,
    /// It is held, and somebody wants the message cancelled.
    Cancelled,
    /// It was lost: the lease had run out and the message came back, or it has ended.
    Lost,
}

/// How a message goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Not before then, if later than now.
    pub due: Moment,
    /// Whether that was a failure of its own.
    pub failed: bool,
}

/// What came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Claims whose lease had run out.
    pub lost: u64,
    /// Messages that were due again.
    pub due: u64,
    /// When the next one is due or runs out, if that is known.
    pub next: Option<Moment>,
}

/// How much of what a queue has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Could be claimed.
    pub pending: u64,
    /// Put back for later.
    pub retry: u64,
    /// Claimed.
    pub claimed: u64,
    /// Failed too often.
    pub dead: u64,
}

/// Which one of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Its place, from 0 on.
    pub rank: u32,
    /// How many there are, at least one.
    pub size: u32,
}

/// A message that failed too often.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// Its place among the dead.
    pub number: u64,
    /// Its id; that of a message in which none can be found is made up.
    pub id: String,
    /// When it was buried.
    pub at: Moment,
    /// Why.
    pub why: String,
    /// How often it had failed.
    pub failures: u32,
}

/// What became of the dead that were to wait again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    /// So many do.
    pub requeued: u64,
    /// So many cannot.
    pub skipped: u64,
    /// Why, by their ids, for the first of them.
    pub reasons: Vec<(String, String)>,
}

/// Which of the dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of them.
    All,
    /// Those with these ids.
    Ids(Vec<String>),
}

// === impl Redriven ===

impl Redriven {
    /// The most that are named.
    const NAMED: usize = 100;

    /// One cannot wait again; gives back that it does not.
    pub(crate) fn stays(&mut self, id: &str, why: String) -> bool {
        self.skipped += 1;
        if self.reasons.len() < Self::NAMED {
            self.reasons.push((id.to_owned(), why));
        }
        false
    }
}
