//! OpenAI's Batch API: clients upload input files, their lines become messages of the queue, and
//! the responses become output files.
//!
//! ```text
//! POST /v1/files ─▶ upload ─▶ file_store (content), ledger (row)
//! POST /v1/batches ─▶ ledger ─▶ reconcile: input ─▶ queue "batch" ⇄ the dispatcher
//!                                  └─ result_writer ◀─ results ◀────────┘
//! ```
//!
//! The ledger holds all state that outlives a request. `reconcile` reads the next steps from it, so
//! a gateway that was killed resumes its batches. Memory does not grow with the size of a file,
//! except for one small record per line of the one batch that is being read.

mod api;
mod create_request;
mod disk_room;
mod download;
mod faults;
mod file_store;
pub mod input;
mod objects;
mod reconcile;
mod result_writer;
#[cfg(test)]
mod tests;
mod upload;
mod upload_slots;

use std::path::Path;
use std::sync::Arc;

use store::ledger::{Added, File, Ledger, Removed};
use store::{SqliteStore, StoreError};
use tokio::sync::Notify;

pub(crate) use self::api::{BatchResponse, Sent};
pub(crate) use self::download::Download;
use self::file_store::{Draft, FileStore, Reservation};
pub(crate) use self::upload::Upload;
use self::upload_slots::UploadSlots;
use crate::config::settings::dispatch;
use crate::reply::Fault;
use crate::task;

/// The purpose of input files and of output files.
const PURPOSE: &str = "batch";
const OUTPUT_PURPOSE: &str = "batch_output";

/// The Batch API.
#[derive(Debug)]
pub(crate) struct Batches {
    settings: dispatch::Batch,
    ledger: Ledger,
    files: Arc<FileStore>,
    uploads: Arc<UploadSlots>,
    /// Notified when a batch needs a step.
    changed: Notify,
}

// === impl Batches ===

impl Batches {
    /// Opens the files and the ledger of a folder whose queue is open, and deletes the leftovers of
    /// a crash.
    pub(crate) async fn open(
        settings: &dispatch::Batch,
        folder: &Path,
        queue: Arc<SqliteStore>,
    ) -> Result<Arc<Self>, StoreError> {
        let disk = |error: std::io::Error| StoreError::disk(folder, error);
        let files = FileStore::open(folder, settings.files_limit).map_err(disk)?;
        let ledger = Ledger::new(queue);
        let (ids, bytes) = ledger.all_files().await?;
        let left = files.tidy(&ids.into_iter().collect(), bytes).map_err(disk)?;
        if left > 0 {
            tracing::info!(files = left, "deleted leftovers of an earlier process");
        }
        Ok(Arc::new(Self {
            settings: settings.clone(),
            ledger,
            files,
            uploads: Arc::default(),
            changed: Notify::new(),
        }))
    }

    /// Looks at the room on the disk in intervals, forever.
    pub(crate) async fn watch_room(self: Arc<Self>) {
        loop {
            let files = Arc::clone(&self.files);
            // A look that failed says nothing; the next one may.
            let _ = task::blocking(move || files.room().look()).await;
            tokio::time::sleep(disk_room::LOOK_EVERY).await;
        }
    }

    /// Why no file can be written, if the disk is full.
    pub(crate) fn disk_error(&self) -> Option<String> {
        self.files.room().error()
    }

    /// Moves a complete upload to its path, and inserts its row.
    async fn place(
        self: Arc<Self>,
        file: File,
        draft: Draft,
        reservation: Reservation,
    ) -> Result<File, Fault> {
        let kept = task::blocking(move || draft.keep()).await.map_err(|_| Fault::Internal)?;
        kept.map_err(|error| faults::disk(&error))?;
        let added = self.ledger.add_file(file.clone(), self.settings.files_limit).await;
        let fault = match added {
            Ok(Added::Kept) => {
                reservation.keep();
                tracing::info!(id = file.id, bytes = file.bytes, "file uploaded");
                return Ok(file);
            }
            Ok(_) => Fault::StorageFull(
                "There are too many files, or too large ones: delete some.".into(),
            ),
            Err(error) => faults::ledger(&error),
        };
        self.unlink(file.id).await;
        Err(fault)
    }

    /// Deletes a file that no batch needs.
    async fn discard(&self, id: &str) -> Result<Removed, Fault> {
        let removed = self.ledger.remove_file(id).await;
        let removed = removed.map_err(|error| faults::ledger(&error))?;
        if let Removed::Gone(bytes) = removed {
            self.files.release(bytes);
            self.unlink(id.to_owned()).await;
        }
        Ok(removed)
    }

    async fn unlink(&self, id: String) {
        let files = Arc::clone(&self.files);
        let named = id.clone();
        let removed = task::blocking(move || files.remove(&named)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%error, id, "the content of a file stays until the next start");
        }
    }
}
