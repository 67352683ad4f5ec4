//! Renews the claims, applies cancellations, keeps the membership among dispatchers, and counts the
//! queues for the status pages.

use std::sync::Arc;
use std::time::Duration;

use store::{ClaimRef, Depth, Lane, Membership, Standing, StoreError};
use tokio::time::Instant;

use super::delivery::can_wait;
use super::{Dispatcher, ServedQueue, StopReason};
use crate::clock::moment;

/// Renewals within one lease.
const RENEWALS: u32 = 3;
/// The shortest pause between two checks for cancellations.
const CHECK_MIN: Duration = Duration::from_millis(200);
/// The interval at which the queues are counted.
const COUNT_EVERY: Duration = Duration::from_secs(2);
/// How long the membership of a dispatcher lasts after its last renewal.
const MEMBER_FOR: Duration = Duration::from_secs(10);
/// The time after which all other dispatchers know a new one.
const KNOWN_AFTER: Duration = Duration::from_millis(2500);
/// The most claims in one call of the store.
const CLAIMS_MAX: usize = 256;

// === impl Dispatcher ===

impl Dispatcher {
    /// Renews the claims until the dispatcher shuts down.
    pub(super) async fn keep_leases(self: Arc<Self>) {
        let renew_every = self.settings.lease / RENEWALS;
        let mut renew_at = Instant::now() + renew_every;
        let mut count_at = Instant::now();
        loop {
            if Instant::now() >= count_at {
                self.attend(MEMBER_FOR).await;
                // The claim loop reports a store that is unavailable.
                let _ = self.count().await;
                count_at = Instant::now() + COUNT_EVERY;
            }
            let next = renew_at.min(count_at);
            tokio::select! {
                () = self.store.changed() => {
                    self.check_claims(None).await;
                    tokio::time::sleep(CHECK_MIN).await;
                }
                () = tokio::time::sleep_until(next) => {}
                () = self.closed() => return,
            }
            if Instant::now() >= renew_at {
                self.check_claims(Some(self.settings.lease)).await;
                renew_at = Instant::now() + renew_every;
            }
        }
    }

    /// Joins the dispatchers that share its gates. If there are others, it waits until they know of
    /// it, because together they must stay within the budgets.
    pub(super) async fn join(&self) {
        if self.attend(MEMBER_FOR).await > 1 {
            tokio::time::sleep(KNOWN_AFTER).await;
        }
    }

    /// Leaves the dispatchers, which then have its share at once.
    pub(super) async fn leave(&self) {
        self.attend(Duration::ZERO).await;
    }

    /// Renews the membership and applies the share; returns the number of members.
    async fn attend(&self, present_for: Duration) -> u32 {
        let queues = self.queues.iter().map(|served| (served.queue.name.as_str(), &served.gates));
        let mut most = 1;
        for gate in self.gates.groups(&queues.collect::<Vec<_>>()) {
            // The old share stays: the other dispatchers still count this one for a while.
            let Ok(Membership { rank, size: of }) = self.largest(&gate.groups, present_for).await
            else {
                continue;
            };
            self.gates.share(&gate, rank, of);
            most = most.max(of);
        }
        most
    }

    /// Joins these groups; returns the membership in the largest.
    async fn largest(
        &self,
        groups: &[String],
        present_for: Duration,
    ) -> Result<Membership, StoreError> {
        let mut largest = Membership { rank: 0, size: 1 };
        for group in groups {
            let now = moment();
            let joined = self.store.join(group, &self.name, now.after(present_for), now).await?;
            if joined.size > largest.size {
                largest = joined;
            }
        }
        Ok(largest)
    }

    /// Reads the standing of all claims, and renews them if a lease is given.
    async fn check_claims(&self, lease: Option<Duration>) {
        let all: Vec<ClaimRef> = self.claims().keys().cloned().collect();
        // One call for each queue, because the keys of one may be unusable.
        let of_queues = all.chunk_by(|one, other| one.queue == other.queue);
        for some in of_queues.flat_map(|claims| claims.chunks(CLAIMS_MAX)) {
            let asked = match lease {
                Some(lease) => self.store.renew(some.to_vec(), moment().after(lease)).await,
                None => self.store.standing(some.to_vec()).await,
            };
            match asked {
                Ok(standings) => self.apply_standings(some, &standings),
                Err(error) => renewal_failed(&error),
            }
        }
    }

    fn apply_standings(&self, held: &[ClaimRef], standings: &[Standing]) {
        for (held, standing) in held.iter().zip(standings) {
            match standing {
                Standing::Held => {}
                Standing::Cancelled => self.stop(held, StopReason::Cancelled),
                Standing::Lost => self.stop(held, StopReason::Lost),
            }
        }
    }

    async fn look(&self, served: &ServedQueue) -> Result<(Depth, Vec<Lane>), StoreError> {
        let depth = self.store.depth(&served.queue.name).await?;
        Ok((depth, self.store.lanes(&served.queue.name, moment()).await?))
    }

    /// Counts the queues that can be used.
    pub(crate) async fn count(&self) -> Result<(), StoreError> {
        self.metrics.gates(self.gates.gauges());
        for served in &self.queues {
            if served.trouble.why().is_some() {
                continue;
            }
            let (depth, lanes) = match self.look(served).await {
                Ok(counted) => counted,
                Err(error) if can_wait(&error) => return Err(error),
                // The claim loop says why the queue cannot be used.
                Err(_) => continue,
            };
            served.note_retries(self.store.check_retries(&served.queue.name).await?);
            let before = served.metrics.depth().dead;
            served.metrics.counted(depth);
            served.metrics.due(&lanes, moment());
            if depth.dead > before {
                let (queue, dead) = (&served.queue.name, depth.dead);
                tracing::warn!(queue, dead, "new dead letters: see `tidegate dispatch dead list`");
            }
        }
        Ok(())
    }
}

/// The claims of a queue stay as they are; their leases expire if the errors continue.
fn renewal_failed(error: &StoreError) {
    tracing::warn!(%error, "claims could not be renewed");
}
