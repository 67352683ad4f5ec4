//! OpenAI's Batch API: files come in, their lines wait in the queue, files of answers go out.
//!
//! ```text
//! POST /v1/files ─▶ upload ─▶ shelf (bytes), ledger (row)
//! POST /v1/batches ─▶ ledger ─▶ tend: lines ─▶ queue "batch" ⇄ the dispatcher
//!                                  └─ book ◀─ results ◀─────────┘
//! ```
//!
//! Everything that outlives a request is in the ledger; `tend` looks there for what is to be done
//! next, so a gateway that was killed goes on where it was. Nothing is held in memory that grows
//! with a file, except one small entry for each line of the one batch that is being read.

mod answer;
mod ask;
mod book;
mod download;
mod form;
pub mod lines;
mod shapes;
mod shelf;
mod tend;
#[cfg(test)]
mod tests;
mod trouble;
mod upload;

use std::path::Path;
use std::sync::Arc;

use store::ledger::{Added, File, Ledger, Removed};
use store::{SqliteStore, StoreError};
use tokio::sync::{Notify, Semaphore};

pub(crate) use self::answer::Answered;
pub(crate) use self::download::Download;
use self::shelf::{Draft, Share, Shelf};
pub(crate) use self::upload::Upload;
use crate::config::resolved::dispatch;
use crate::reply::Fault;
use crate::task;

/// What files that come in are for, and what those are for that go out.
const PURPOSE: &str = "batch";
const OUTPUT_PURPOSE: &str = "batch_output";
/// Files that come in at once.
const UPLOADS_MAX: usize = 16;

/// The Batch API.
#[derive(Debug)]
pub(crate) struct Batches {
    settings: dispatch::Batch,
    ledger: Ledger,
    shelf: Arc<Shelf>,
    uploads: Arc<Semaphore>,
    /// Rung when there is something to tend.
    bell: Notify,
}

// === impl Batches ===

impl Batches {
    /// Opens what is in a folder, where a queue is open already, and clears away what a crash has
    /// left there.
    pub(crate) async fn open(
        settings: &dispatch::Batch,
        folder: &Path,
        queue: Arc<SqliteStore>,
    ) -> Result<Arc<Self>, StoreError> {
        let disk = |error: std::io::Error| StoreError::disk(folder, error);
        let shelf = Shelf::open(folder, settings.files_limit).map_err(disk)?;
        let ledger = Ledger::new(queue);
        let (ids, bytes) = ledger.all_files().await?;
        let left = shelf.tidy(&ids.into_iter().collect(), bytes).map_err(disk)?;
        if left > 0 {
            tracing::info!(files = left, "cleared away what was left half done");
        }
        Ok(Arc::new(Self {
            settings: settings.clone(),
            ledger,
            shelf,
            uploads: Arc::new(Semaphore::new(UPLOADS_MAX)),
            bell: Notify::new(),
        }))
    }

    /// Puts a file that has come whole into its place, and gives it a row.
    async fn place(self: Arc<Self>, file: File, draft: Draft, share: Share) -> Result<File, Fault> {
        let kept = task::blocking(move || draft.keep()).await.map_err(|_| Fault::Internal)?;
        kept.map_err(|error| trouble::disk(&error))?;
        let fault = match self.ledger.add_file(file.clone()).await {
            Ok(Added::Kept) => {
                share.keep();
                tracing::info!(id = file.id, bytes = file.bytes, "a file was uploaded");
                return Ok(file);
            }
            Ok(_) => Fault::StorageFull("There are too many files: delete some.".into()),
            Err(error) => trouble::ledger(&error),
        };
        self.unlink(file.id).await;
        Err(fault)
    }

    /// Takes a file away that no batch needs.
    async fn discard(&self, id: &str) -> Result<Removed, Fault> {
        let removed = self.ledger.remove_file(id).await;
        let removed = removed.map_err(|error| trouble::ledger(&error))?;
        if let Removed::Gone(bytes) = removed {
            self.shelf.give_back(bytes);
            self.unlink(id.to_owned()).await;
        }
        Ok(removed)
    }

    async fn unlink(&self, id: String) {
        let shelf = Arc::clone(&self.shelf);
        let named = id.clone();
        let removed = task::blocking(move || shelf.remove(&named)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%error, id, "a file stays until the next start");
        }
    }
}
