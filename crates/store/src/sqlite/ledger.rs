//! The ledger of batches and their files, in the same file as the queue.
//!
//! A batch is one row, its requests are messages of the queue whose results go by the batch's id,
//! and its files lie in a folder whose rows are here. Every step of a batch's life is one
//! transaction that says what it expects: done twice, or after somebody else was faster, it changes
//! nothing. So whoever tends batches can die anywhere and begin again.
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

use std::sync::Arc;
use std::time::Duration;

use super::{SqliteStore, error};
use crate::message::{Message, StoredResult};
use crate::moment::Moment;
use crate::{StoreError, StoreFuture};

pub use self::status::Status;

/// Batches and files that are kept at most, and batches that may be under way at once: what
/// clients make must not fill the disk with rows.
const KEPT_MAX: u64 = 100_000;
const OPEN_MAX: u64 = 1000;

/// Batches and files.
#[derive(Clone, Debug)]
pub struct Ledger {
    store: Arc<SqliteStore>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Its name here, which is also that of its bytes.
    pub id: String,
    /// Its name where it came from: for people, never for a path.
    pub name: String,
    /// What it is for.
    pub purpose: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// When it came.
    pub created: Moment,
    /// When it goes.
    pub expires: Moment,
}

/// A batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Its name, and the route of its results.
    pub id: String,
    /// The path that all its requests go to.
    pub endpoint: String,
    /// The file of its requests.
    pub input: String,
    /// How long it may take, as its sender wrote it.
    pub window: String,
    /// Whose it is; empty for nobody's.
    pub tenant: String,
    /// What its sender wants to read again, as JSON.
    pub metadata: Option<String>,
    /// For how long the files of its answers are kept.
    pub keep: Duration,
    /// When it was made.
    pub created: Moment,
    /// When what has not been answered is given up.
    pub deadline: Moment,
    /// How it stands.
    pub status: Status,
    /// When it came to where it is.
    pub times: BatchTimes,
    /// Its requests.
    pub counts: RequestCounts,
    /// How many lines wait as messages.
    pub queued: u64,
    /// The one model that all ask for.
    pub model: Option<String>,
    /// The file of good answers, and that of all others.
    pub output: Option<String>,
    /// See [`Batch::output`].
    pub failures: Option<String>,
    /// What is wrong with its file, as JSON.
    pub flaws: Option<String>,
    /// How it ends, once that is sure.
    pub ending: Option<Status>,
}

/// When a batch came to where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTimes {
    /// All its requests wait or are further.
    pub in_progress: Option<Moment>,
    /// Its files are being written.
    pub finalizing: Option<Moment>,
    /// Somebody wanted it cancelled.
    pub cancelling: Option<Moment>,
    /// It has ended, in whatever way its status says.
    pub ended: Option<Moment>,
}

/// How many requests a batch has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// All of them.
    pub total: u64,
    /// Answered well.
    pub completed: u64,
    /// Answered badly, or not at all.
    pub failed: u64,
}

/// Which part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// What comes after this one.
    pub after: Option<String>,
    /// So many at most.
    pub most: usize,
    /// Whether the oldest comes first.
    pub oldest_first: bool,
    /// Only files with this purpose.
    pub purpose: Option<String>,
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed<T> {
    /// What is in it.
    pub rows: Vec<T>,
    /// Whether there is more behind it.
    pub more: bool,
}

/// What became of something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is kept.
    Kept,
    /// There are as many as can be.
    TooMany,
    /// Its input is not there, or is no file for batches.
    NoInput,
}

/// What became of a file that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// It is gone, and so many bytes with it.
    Gone(u64),
    /// There is none.
    Unknown,
    /// This batch needs it.
    Used(String),
}

/// A batch's result: which line it is of, and where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultPlace {
    /// The line.
    pub line: u64,
    /// Where it is kept.
    pub number: i64,
}

/// What there is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueBatches {
    /// The batches to be looked after, oldest first.
    pub ids: Vec<String>,
    /// Whether there are others, whose lines are being answered.
    pub underway: bool,
    /// Whether there are files and batches that have become too old.
    pub old: bool,
}

/// The id of the message for a line of a batch.
pub fn message_id(batch: &str, line: u64) -> String {
    format!("{batch}/{line}")
}

// === impl Ledger ===

impl Ledger {
    /// The ledger in a queue's file.
    pub fn new(store: Arc<SqliteStore>) -> Self {
        Self { store }
    }

    /// Keeps a file's row.
    pub fn add_file(&self, file: File) -> StoreFuture<'_, Added> {
        self.store.write(move |step| files::add(step, &file).map_err(error::from))
    }

    /// A file.
    pub fn file(&self, id: &str) -> StoreFuture<'_, Option<File>> {
        let id = id.to_owned();
        self.store.read(move |step| files::get(step, &id).map_err(error::from))
    }

    /// Files; nothing when the one to begin after is not known.
    pub fn files(&self, page: ListQuery) -> StoreFuture<'_, Option<Listed<File>>> {
        self.store.read(move |step| files::list(step, &page).map_err(error::from))
    }

    /// All ids, and how many bytes the files have together.
    pub fn all_files(&self) -> StoreFuture<'_, (Vec<String>, u64)> {
        self.store.read(|step| files::all(step).map_err(error::from))
    }

    /// Forgets a file that no batch needs.
    pub fn remove_file(&self, id: &str) -> StoreFuture<'_, Removed> {
        let id = id.to_owned();
        self.store.write(move |step| files::remove(step, &id).map_err(error::from))
    }

    /// Files whose time has come and that no batch needs, so many at most.
    pub fn old_files(&self, now: Moment, most: usize) -> StoreFuture<'_, Vec<String>> {
        self.store.read(move |step| files::old(step, now, most).map_err(error::from))
    }

    /// Keeps a new batch, which waits to be validated.
    pub fn add_batch(&self, batch: Batch) -> StoreFuture<'_, Added> {
        self.store.write(move |step| batches::add(step, &batch).map_err(error::from))
    }

    /// A batch.
    pub fn batch(&self, id: &str) -> StoreFuture<'_, Option<Batch>> {
        let id = id.to_owned();
        self.store.read(move |step| batches::get(step, &id).map_err(error::from))
    }

    /// Batches; nothing when the one to begin after is not known.
    pub fn batches(&self, page: ListQuery) -> StoreFuture<'_, Option<Listed<Batch>>> {
        self.store.read(move |step| batches::list(step, &page).map_err(error::from))
    }

    /// What there is to do. Batches that ended before `old` have been kept for long enough.
    pub fn due(&self, now: Moment, old: Moment) -> StoreFuture<'_, DueBatches> {
        self.store.read(move |step| batches::due(step, now, old).map_err(error::from))
    }

    /// Forgets batches that ended before then, so many at most; says how many.
    pub fn forget_batches(&self, before: Moment, most: usize) -> StoreFuture<'_, u64> {
        self.store.write(move |step| batches::forget(step, before, most).map_err(error::from))
    }

    /// The file of a batch is in order and has so many requests. `false` when the batch is no
    /// longer to be validated.
    pub fn accept(&self, id: &str, total: u64, model: Option<String>) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.write(move |step| batches::accept(step, &id, total, model).map_err(error::from))
    }

    /// The next lines of a batch wait as messages; with the last of them it is in progress. `false`
    /// when the batch is no longer to be validated, or these lines are not its next.
    pub fn enqueue(
        &self,
        id: &str,
        from: u64,
        lines: Vec<Message>,
        now: Moment,
    ) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.write_and_wake(bool::clone, move |step| {
            batches::enqueue(step, (&id, from), &lines, now)
        })
    }

    /// A batch turns out to be one that cannot be done. `false` when it no longer stands as it did.
    pub fn fail(
        &self,
        id: &str,
        from: Status,
        flaws: String,
        now: Moment,
    ) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store
            .write(move |step| ending::fail(step, (&id, from), &flaws, now).map_err(error::from))
    }

    /// Somebody wants a batch cancelled. Nothing when it is not known, else how it stands after
    /// this; `false` when it had ended or was ending already.
    pub fn begin_cancel(&self, id: &str, now: Moment) -> StoreFuture<'_, Option<(Batch, bool)>> {
        let id = id.to_owned();
        self.store.write(move |step| ending::cancel(step, &id, now).map_err(error::from))
    }

    /// All lines of a batch are answered, or its time is over: its files can be written.
    pub fn begin_ending(&self, id: &str, ending: Status, now: Moment) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.write(move |step| ending::begin(step, &id, ending, now).map_err(error::from))
    }

    /// Whether some line of a batch was not answered before its deadline.
    pub fn is_late(&self, id: &str) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.read(move |step| ending::is_late(step, &id).map_err(error::from))
    }

    /// Gives up the lines of a batch that have not been answered. Says how many are still being
    /// sent: whoever sends them hears of it.
    pub async fn give_up(&self, id: &str, now: Moment) -> Result<u64, StoreError> {
        self.store.cancel_route(id, now).await?;
        let id = id.to_owned();
        let operation =
            move |step: &rusqlite::Transaction<'_>| lines::claimed(step, &id).map_err(error::from);
        self.store.write_and_wake(|count| *count > 0, operation).await
    }

    /// Forgets those lines of a batch that somebody still sends. What they get will not be kept.
    pub fn abandon(&self, id: &str) -> StoreFuture<'_, u64> {
        let id = id.to_owned();
        self.store.write(move |step| lines::abandon(step, &id).map_err(error::from))
    }

    /// Where the results of a batch are, after this number, so many at most.
    pub fn places(&self, id: &str, after: i64, most: usize) -> StoreFuture<'_, Vec<ResultPlace>> {
        let id = id.to_owned();
        self.store.read(move |step| lines::places(step, &id, after, most).map_err(error::from))
    }

    /// The results at these places, as many as fit into so many bytes, at least one.
    pub fn results(
        &self,
        places: Vec<ResultPlace>,
        bytes: usize,
    ) -> StoreFuture<'_, Vec<(u64, StoredResult)>> {
        self.store.read(move |step| lines::results(step, &places, bytes).map_err(error::from))
    }

    /// A batch's files are written: it has ended. `false` when it had before.
    pub fn finish(&self, id: &str, written: BatchOutput, now: Moment) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.write(move |step| ending::finish(step, &id, &written, now).map_err(error::from))
    }

    /// Forgets what is left of the lines of a batch that has ended, so many at most. Says whether
    /// that was all of it.
    pub fn clear(&self, id: &str, most: usize) -> StoreFuture<'_, bool> {
        let id = id.to_owned();
        self.store.write(move |step| lines::clear(step, &id, most).map_err(error::from))
    }
}

/// What was written at the end of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOutput {
    /// The good answers, if there are any.
    pub output: Option<File>,
    /// All others, if there are any.
    pub failures: Option<File>,
    /// How many there are.
    pub counts: RequestCounts,
}
