//! Advances all batches in the background: reads their input, enqueues their requests, writes their
//! output and deletes old ones.

mod enqueue;
mod finish;

use std::sync::Arc;
use std::time::Duration;

use store::ledger::{Batch, Status};
use store::{Moment, StoreError};

use super::Batches;
use crate::clock;

/// The interval at which batches in progress are checked for their end.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// The interval at which old files and batches are deleted.
const DELETE_EVERY: Duration = Duration::from_secs(60);
/// The pause after an error.
const PAUSE: Duration = Duration::from_secs(5);
/// How long requests in flight may continue after their batch was cancelled or has expired.
const GRACE: Duration = Duration::from_secs(30);
/// The most rows deleted in one transaction.
const DELETED_MAX: usize = 100;

/// A clock: an iteration takes a while, and tests have their own time.
type Now<'a> = &'a (dyn Fn() -> Moment + Send + Sync);

// === impl Batches ===

impl Batches {
    /// Advances all batches, forever.
    pub(crate) async fn reconcile(self: Arc<Self>) {
        loop {
            let pause = match self.run_once(&clock::moment).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "the batches could not be advanced, trying again");
                    PAUSE
                }
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does all steps that are due and returns the time to the next call. Reading a file takes a
    /// while, so each call reads one file, after it has advanced all other batches.
    pub(super) async fn run_once(&self, now: Now<'_>) -> Result<Duration, StoreError> {
        let keep = u64::try_from(self.settings.keep.as_millis()).unwrap_or(u64::MAX);
        let old = Moment::from_millis(now().millis().saturating_sub(keep));
        let due = self.ledger.due(now(), old).await?;
        if due.old {
            self.delete_old(now(), old).await?;
        }
        let mut pause = if due.underway { CHECK_EVERY } else { DELETE_EVERY };
        let (mut unread, mut more) = (None, false);
        for id in &due.ids {
            let Some(batch) = self.ledger.batch(id).await? else { continue };
            if batch.status == Status::Validating && now() < batch.deadline {
                more |= unread.is_some();
                unread.get_or_insert(batch);
            } else {
                pause = pause.min(self.advance_or_log(&batch, now).await);
            }
        }
        let Some(batch) = unread else { return Ok(pause) };
        Ok(match self.read(&batch, now).await {
            Ok(()) if more => Duration::ZERO,
            Ok(()) => pause.min(CHECK_EVERY),
            Err(error) => failed(&batch, &error),
        })
    }

    /// Advances a batch that needs no reading; returns the time to its next check.
    async fn advance_or_log(&self, batch: &Batch, now: Now<'_>) -> Duration {
        match self.advance(batch, now).await {
            Ok(true) => DELETE_EVERY,
            Ok(false) => CHECK_EVERY,
            Err(error) => failed(batch, &error),
        }
    }

    /// Deletes expired files, and batches that ended before `old`.
    async fn delete_old(&self, now: Moment, old: Moment) -> Result<(), StoreError> {
        loop {
            let files = self.ledger.old_files(now, DELETED_MAX).await?;
            let mut stuck = false;
            for id in &files {
                tracing::info!(id, "file expired");
                // The error was logged; the next call tries again.
                stuck |= self.discard(id).await.is_err();
            }
            if stuck || files.len() < DELETED_MAX {
                break;
            }
        }
        while self.ledger.forget_batches(old, DELETED_MAX).await? == DELETED_MAX as u64 {}
        Ok(())
    }
}

/// Logs the error of one batch; the other batches continue.
fn failed(batch: &Batch, error: &dyn std::fmt::Display) -> Duration {
    tracing::warn!(id = batch.id, error = %error, "a batch could not be advanced, trying again");
    PAUSE
}
