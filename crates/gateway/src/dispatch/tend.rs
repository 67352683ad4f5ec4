//! What is done beside sending: claims are renewed, cancellations heard, and the pages' numbers
//! brought up to date.

use std::sync::Arc;
use std::time::Duration;

use store::{ClaimRef, Membership, Standing, StoreError};
use tokio::time::Instant;

use super::{Dispatcher, Word};
use crate::clock::moment;

/// Claims are renewed three times in the life of a lease.
const RENEWALS: u32 = 3;
/// Cancellations are not looked for more often than this.
const LOOK_MIN: Duration = Duration::from_millis(200);
/// How often the queues are counted.
const COUNT_EVERY: Duration = Duration::from_secs(2);
/// How long a dispatcher counts among those of its gates after it last said so.
const PRESENT_FOR: Duration = Duration::from_secs(10);
/// After this long all others know of a new one.
const KNOWN_AFTER: Duration = Duration::from_millis(2500);
/// The most claims that are named in one step.
const NAMED_MAX: usize = 256;

// === impl Dispatcher ===

impl Dispatcher {
    /// Looks after what is under way, until everything has ended.
    pub(super) async fn tend(self: Arc<Self>) {
        let renew_every = self.settings.lease / RENEWALS;
        let mut renew_at = Instant::now() + renew_every;
        let mut count_at = Instant::now();
        loop {
            if Instant::now() >= count_at {
                self.attend(PRESENT_FOR).await;
                // What sends complains of a store that is away.
                let _ = self.count().await;
                count_at = Instant::now() + COUNT_EVERY;
            }
            let next = renew_at.min(count_at);
            tokio::select! {
                () = self.store.changed() => {
                    self.look(None).await;
                    tokio::time::sleep(LOOK_MIN).await;
                }
                () = tokio::time::sleep_until(next) => {}
                () = self.closed() => return,
            }
            if Instant::now() >= renew_at {
                self.look(Some(self.settings.lease)).await;
                renew_at = Instant::now() + renew_every;
            }
        }
    }

    /// Joins those who share its gates. Where others are, it waits until they know: together they
    /// must not send more than the gates allow.
    pub(super) async fn join(&self) {
        if self.attend(PRESENT_FOR).await > 1 {
            tokio::time::sleep(KNOWN_AFTER).await;
        }
    }

    /// Leaves them, so that its share is theirs at once.
    pub(super) async fn leave(&self) {
        self.attend(Duration::ZERO).await;
    }

    /// Says that it is there, and takes its share; says how many there are.
    async fn attend(&self, present_for: Duration) -> u32 {
        let (now, group) = (moment(), self.gates.group());
        let until = now.after(present_for);
        match self.store.join(&group, &self.name, until, now).await {
            Ok(Membership { rank, size: of }) => {
                self.gates.share(rank, of);
                of
            }
            // It keeps the share it had: the others still count it for a while.
            Err(_) => 1,
        }
    }

    /// Asks how the claims stand, perhaps holding them for as long again.
    async fn look(&self, lease: Option<Duration>) {
        let all: Vec<ClaimRef> = self.held().keys().cloned().collect();
        for some in all.chunks(NAMED_MAX) {
            let asked = match lease {
                Some(lease) => self.store.renew(some.to_vec(), moment().after(lease)).await,
                None => self.store.standing(some.to_vec()).await,
            };
            match asked {
                Ok(standings) => self.heard(some, &standings),
                Err(error) => return unheard(&error),
            }
        }
    }

    fn heard(&self, held: &[ClaimRef], standings: &[Standing]) {
        for (held, standing) in held.iter().zip(standings) {
            match standing {
                Standing::Held => {}
                Standing::Cancelled => self.tell(held, Word::Cancelled),
                Standing::Lost => self.tell(held, Word::Lost),
            }
        }
    }

    /// Counts the queues.
    pub(crate) async fn count(&self) -> Result<(), StoreError> {
        self.board.gates(self.gates.gauges());
        for line in &self.lines {
            let depth = self.store.depth(&line.queue.name).await?;
            let before = line.row.depth().dead;
            line.row.counted(depth);
            if depth.dead > before {
                let (queue, dead) = (&line.queue.name, depth.dead);
                tracing::warn!(queue, dead, "messages are dead, `dispatch dead list` says why");
            }
        }
        Ok(())
    }
}

/// The claims stay as they are: they run out if this goes on.
fn unheard(error: &StoreError) {
    tracing::warn!(%error, "claims could not be renewed");
}
