//! The ledger of batches and their files, in the same SQLite file as the queue.
//!
//! A batch is one row. Its requests are messages of the queue, and the id of the batch is their
//! route. The content of its files is in a folder; their rows are here. Each transition of a batch
//! is one transaction that checks the state before it. A transition that runs twice, or after a
//! concurrent one, changes nothing. The process that reconciles batches may therefore crash at any
//! point and start again.
//!
//! ```text
//! validating ─▶ in_progress ─▶ finalizing ─▶ completed, expired
//!     │  └──────────┬─┘
//!     ▼             ▼
//!   failed      cancelling ─▶ cancelled
//! ```

mod batches;
mod ending;
mod files;
mod lines;
mod status;
pub(super) mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::SqliteStore;
use crate::message::{Message, StoredResult};
use crate::moment::Moment;
use crate::{StoreError, StoreFuture};

pub use self::status::Status;

/// The maximum number of batches, and of files. Clients create them, and must not fill the disk.
const ROWS_MAX: u64 = 100_000;

/// The maximum number of batches that have not ended.
const OPEN_BATCHES_MAX: u64 = 1000;

/// One owner may have this part of them, so that it cannot take all. One address, where there are
/// no tenants, may have all of the open batches but this part.
const OWNER_PART: u64 = 4;

/// Batches and files.
#[derive(Clone, Debug)]
pub struct Ledger {
    store: Arc<SqliteStore>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// The id, which is also the file name of the content.
    pub id: String,
    /// The name that the client gave. It is only shown, and never used as a path.
    pub name: String,
    /// The purpose.
    pub purpose: String,
    /// The size in bytes.
    pub bytes: u64,
    /// When the file was created.
    pub created: Moment,
    /// When the file expires.
    pub expires: Moment,
    /// The client that may see it, by name; empty if all clients may.
    pub owner: String,
}

/// A batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The id, which is also the route of the results.
    pub id: String,
    /// The path of all requests.
    pub endpoint: String,
    /// The id of the file with the requests.
    pub input: String,
    /// The completion window, as the client wrote it.
    pub window: String,
    /// The tenant; empty for none.
    pub tenant: String,
    /// Headers of the client that all requests carry.
    pub headers: BTreeMap<String, String>,
    /// The metadata of the client, as JSON.
    pub metadata: Option<String>,
    /// How long the result files are kept.
    pub keep: Duration,
    /// When the batch was created.
    pub created: Moment,
    /// When the requests without a response are given up.
    pub deadline: Moment,
    /// The status.
    pub status: Status,
    /// When the batch entered each status.
    pub times: BatchTimes,
    /// The number of requests.
    pub counts: RequestCounts,
    /// How many lines were submitted as messages.
    pub queued: u64,
    /// The model, if all requests name the same.
    pub model: Option<String>,
    /// The file of the successful responses.
    pub output: Option<String>,
    /// The file of all other results.
    pub failures: Option<String>,
    /// The errors of the input file, as JSON.
    pub flaws: Option<String>,
    /// The final status, once it is certain.
    pub ending: Option<Status>,
    /// The client that may see it, by name; empty if all clients may.
    pub owner: String,
    /// The address of its client, without tenants. It bounds how many are open; none is read back.
    pub address: String,
}

/// When a batch entered each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTimes {
    /// When all requests were submitted as messages.
    pub in_progress: Option<Moment>,
    /// When the result files began to be written.
    pub finalizing: Option<Moment>,
    /// When a client cancelled the batch.
    pub cancelling: Option<Moment>,
    /// When the batch ended, in any final status.
    pub ended: Option<Moment>,
}

/// The number of requests of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// All requests.
    pub total: u64,
    /// Requests with a successful response.
    pub completed: u64,
    /// Requests with another response or none.
    pub failed: u64,
}

/// Selects a page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// The id after which the page begins.
    pub after: Option<String>,
    /// The maximum number of rows.
    pub limit: usize,
    /// Whether the oldest row is first.
    pub oldest_first: bool,
    /// The purpose of the files; all files without it.
    pub purpose: Option<String>,
    /// The owner of the rows; all rows without it.
    pub owner: Option<String>,
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Whether more rows follow.
    pub more: bool,
}

/// The result of adding a file or a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The row was added.
    Kept,
    /// The maximum number of rows is reached.
    TooMany,
    /// The input file does not exist, or has another purpose.
    NoInput,
}

/// The result of removing a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The row of a file of this size was removed.
    Gone(u64),
    /// The file does not exist.
    Unknown,
    /// The batch with this id needs the file.
    Used(String),
}

/// The position of a result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultPlace {
    /// The line of the input file.
    pub line: u64,
    /// The number of the stored result.
    pub number: i64,
}

/// The batches and files that need work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueBatches {
    /// The ids of batches to reconcile, oldest first.
    pub ids: Vec<String>,
    /// Whether other batches wait for the results of their lines.
    pub underway: bool,
    /// Whether files or batches have expired.
    pub old: bool,
}

/// The result files of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOutput {
    /// The successful responses, if any.
    pub output: Option<File>,
    /// All other results, if any.
    pub failures: Option<File>,
    /// The number of requests.
    pub counts: RequestCounts,
}

/// The id of the message for a line of a batch.
pub fn message_id(batch: &str, line: u64) -> String {
    format!("{batch}/{line}")
}

// === impl File ===

impl File {
    /// Whether a client may see it. The empty name stands for a client that may see all.
    pub fn is_seen_by(&self, client: &str) -> bool {
        client.is_empty() || self.owner == client
    }
}

// === impl Batch ===

impl Batch {
    /// Whether a client may see it. The empty name stands for a client that may see all.
    pub fn is_seen_by(&self, client: &str) -> bool {
        client.is_empty() || self.owner == client
    }
}

// === impl Ledger ===

impl Ledger {
    /// The ledger in the file of a queue.
    pub fn new(store: Arc<SqliteStore>) -> Self {
        Self { store }
    }

    /// Adds the row of a file, unless there are too many, or the files of its owner together have
    /// more bytes than a fourth of `bytes_max`.
    pub fn add_file(&self, file: File, bytes_max: u64) -> StoreFuture<'_, Added> {
        self.store.write(move |tx| files::add(tx, &file, bytes_max / OWNER_PART))
    }

    /// Finds a file.
    pub fn file(&self, id: &str) -> StoreFuture<'_, Option<File>> {
        let id = id.to_owned();
        self.store.read(move |tx| files::get(tx, &id))
    }

    /// Lists files; `None` when the id that the page begins after is unknown.
    pub fn files(&self, query: ListQuery) -> StoreFuture<'_, Option<Listed<File>>> {
        self.store.read(move |tx| files::list(tx, &query))
    }

    /// The ids of all files, and their total size in bytes.
    pub fn all_files(&self) -> StoreFuture<'_, (Vec<String>, u64)> {
        self.store.read(files::all)
    }

    /// Removes the row of a file, unless a batch needs it.
    pub fn remove_file(&self, id: &str) -> StoreFuture<'_, Removed> {
        let id = id.to_owned();
        self.store.write(move |tx| files::remove(tx, &id))
    }

    /// Lists expired files that no batch needs.
    pub fn old_files(&self, now: Moment, limit: usize) -> StoreFuture<'_, Vec<String>> {
        self.store.read(move |tx| files::old(tx, now, limit))
    }

    /// Adds a batch, with the status `validating`.
    pub fn add_batch(&self, batch: Batch) -> StoreFuture<'_, Added> {
        self.store.write(move |tx| batches::add(tx, &batch))
    }

    /// Finds a batch.
    pub fn batch(&self, id: &str) -> StoreFuture<'_, Option<Batch>> {
        let id = id.to_owned();
        self.store.read(move |tx| batches::get(tx, &id))
    }

    /// Lists batches; `None` when the id that the page begins after is unknown.
    pub fn batches(&self, query: ListQuery) -> StoreFuture<'_, Option<Listed<Batch>>> {
        self.store.read(move |tx| batches::list(tx, &query))
    }

    /// Lists the batches that need work. Batches that ended before `old` have expired.
    pub fn due(&self, now: Moment, old: Moment) -> StoreFuture<'_, DueBatches> {
        self.store.read(move |tx| batches::due(tx, now, old))
    }

    /// Deletes batches that ended before a time, and returns how many it deleted.
    pub fn forget_batches(&self, before: Moment, limit: usize) -> StoreFuture<'_, u64> {
        self.store.write(move |tx| batches::forget(tx, before, limit))
    }

    /// Records that the input file of a batch is valid and how many requests it has. Returns
    /// `false` when the batch is no longer `validating`.
    pub fn accept(&self, id: &str, total: u64, model: Option<String>) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.write(move |tx| batches::accept(tx, &id, total, model))
    }

    /// Submits the next lines of a batch as messages; with the last line the batch is
    /// `in_progress`. Returns `false` when the batch is no longer `validating`, or the lines are
    /// not the next.
    pub fn enqueue(
        &self,
        id: &str,
        from: u64,
        lines: Vec<Message>,
        now: Moment,
    ) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store
            .write_and_notify(bool::clone, move |tx| batches::enqueue(tx, (&id, from), &lines, now))
    }

    /// Ends a batch as `failed`. Returns `false` when its status is no longer `from`.
    pub fn fail(
        &self,
        id: &str,
        from: Status,
        flaws: String,
        now: Moment,
    ) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.write(move |tx| ending::fail(tx, (&id, from), &flaws, now))
    }

    /// Begins to cancel a batch. Returns the batch, and `false` when it had ended or was ending;
    /// `None` when the id is unknown.
    pub fn begin_cancel(&self, id: &str, now: Moment) -> StoreFuture<'_, Option<(Batch, bool)>> {
        let id = id.to_owned();
        self.store.write(move |tx| ending::cancel(tx, &id, now))
    }

    /// Begins to finalize a batch whose lines all have results, or whose deadline has passed.
    pub fn begin_ending(&self, id: &str, ending: Status, now: Moment) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.write(move |tx| ending::begin(tx, &id, ending, now))
    }

    /// Whether the deadline of a line of a batch passed before its response.
    pub fn is_late(&self, id: &str) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.read(move |tx| ending::is_late(tx, &id))
    }

    /// Cancels the lines of a batch that have no result. Returns how many are still claimed; the
    /// dispatchers that hold them learn of the cancellation.
    pub async fn give_up(&self, id: &str, now: Moment) -> Result<u64, StoreError> {
        self.store.cancel_route(id, now).await?;
        let id = id.to_owned();
        self.store.write_and_notify(|count| *count > 0, move |tx| lines::claimed(tx, &id)).await
    }

    /// Deletes the claimed lines of a batch. Their responses will not be stored.
    pub fn abandon(&self, id: &str) -> StoreFuture<'_, u64> {
        let id = id.to_owned();
        self.store.write(move |tx| lines::abandon(tx, &id))
    }

    /// Lists the positions of the results of a batch, after the number `after`.
    pub fn places(&self, id: &str, after: i64, limit: usize) -> StoreFuture<'_, Vec<ResultPlace>> {
        let id = id.to_owned();
        self.store.read(move |tx| lines::places(tx, &id, after, limit))
    }

    /// Reads results, as many as fit into `bytes`, at least one.
    pub fn results(
        &self,
        places: Vec<ResultPlace>,
        bytes: usize,
    ) -> StoreFuture<'_, Vec<(u64, StoredResult)>> {
        self.store.read(move |tx| lines::results(tx, &places, bytes))
    }

    /// Ends a batch whose result files are written. Returns `false` when it had ended before.
    pub fn finish(&self, id: &str, output: BatchOutput, now: Moment) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.write(move |tx| ending::finish(tx, &id, &output, now))
    }

    /// Deletes messages and results of a batch that has ended. Returns whether none is left.
    pub fn clear(&self, id: &str, limit: usize) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.write(move |tx| lines::clear(tx, &id, limit))
    }
}
