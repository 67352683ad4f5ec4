//! What is done for batches while nobody asks: they are read, queued, ended and forgotten.

mod ending;
mod queueing;

use std::sync::Arc;
use std::time::Duration;

use store::ledger::{Batch, Status};
use store::{Moment, StoreError};

use super::Batches;
use crate::clock;

/// How often it is looked whether batches that are under way have come to their end.
const LOOK: Duration = Duration::from_millis(500);
/// How often it is looked what has become too old.
const AGEING: Duration = Duration::from_secs(60);
/// How long to wait after something failed.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a request that is being sent may go on after its batch was given up.
const GRACE: Duration = Duration::from_secs(30);
/// Rows that are forgotten in one step.
const FORGOTTEN: usize = 100;

/// What tells the time: rounds take a while, and tests have a time of their own.
type Now<'a> = &'a (dyn Fn() -> Moment + Send + Sync);

// === impl Batches ===

impl Batches {
    /// Does what is to be done, for ever.
    pub(crate) async fn tend(self: Arc<Self>) {
        loop {
            let pause = match self.round(&clock::moment).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(%error, "batches are not tended, trying again");
                    PAUSE
                }
            };
            tokio::select! {
                () = self.bell.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does what is to be done now; says when to look again. Reading a file takes a while, so only
    /// one is read in each round, after all others were looked after.
    pub(super) async fn round(&self, now: Now<'_>) -> Result<Duration, StoreError> {
        let keep = u64::try_from(self.settings.keep.as_millis()).unwrap_or(u64::MAX);
        let old = Moment::from_millis(now().millis().saturating_sub(keep));
        let due = self.ledger.due(now(), old).await?;
        if due.old {
            self.age(now(), old).await?;
        }
        let mut pause = if due.underway { LOOK } else { AGEING };
        let (mut unread, mut more) = (None, false);
        for id in &due.ids {
            let Some(batch) = self.ledger.batch(id).await? else { continue };
            if batch.status == Status::Validating && now() < batch.deadline {
                more |= unread.is_some();
                unread.get_or_insert(batch);
            } else {
                pause = pause.min(self.attend(&batch, now).await);
            }
        }
        let Some(batch) = unread else { return Ok(pause) };
        Ok(match self.read(&batch, now).await {
            Ok(()) if more => Duration::ZERO,
            Ok(()) => pause.min(LOOK),
            Err(error) => failed(&batch, &error),
        })
    }

    /// Brings a batch that needs no reading as far as it goes; says when to look at it again.
    async fn attend(&self, batch: &Batch, now: Now<'_>) -> Duration {
        match self.advance(batch, now).await {
            Ok(true) => AGEING,
            Ok(false) => LOOK,
            Err(error) => failed(batch, &error),
        }
    }

    /// Forgets files whose time has come, and batches that ended before `old`.
    async fn age(&self, now: Moment, old: Moment) -> Result<(), StoreError> {
        loop {
            let files = self.ledger.old_files(now, FORGOTTEN).await?;
            let mut stuck = false;
            for id in &files {
                tracing::info!(id, "a file has become too old");
                // Why it did not go was logged; the next round tries again.
                stuck |= self.discard(id).await.is_err();
            }
            if stuck || files.len() < FORGOTTEN {
                break;
            }
        }
        while self.ledger.forget_batches(old, FORGOTTEN).await? == FORGOTTEN as u64 {}
        Ok(())
    }
}

/// One batch's trouble is not that of the others.
fn failed(batch: &Batch, error: &dyn std::fmt::Display) -> Duration {
    tracing::warn!(id = batch.id, error = %error, "a batch does not go on, trying again");
    PAUSE
}
