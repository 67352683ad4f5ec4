//! [`Store::release`](crate::Store::release): the message stays with this process, which claims it
//! again.
//!
//! Pub/Sub counts each message that is given back as a delivery that failed, and can delay it for
//! ten minutes at most. Here an overload counts as no failure, and a message waits as long as it
//! should.

use super::PubSubStore;
use super::held::State;
use crate::error::StoreError;
use crate::moment::Moment;
use crate::{ClaimRef, Release};

pub(super) async fn release(
    store: &PubSubStore,
    claim: ClaimRef,
    release: Release,
    now: Moment,
) -> Result<bool, StoreError> {
    store.saw(now);
    let Some(queue) = store.queue(&claim.queue) else { return Ok(false) };
    let mut held = queue.held();
    let Some(claimed) = held.claimed(&claim) else { return Ok(false) };
    claimed.failures = claimed.failures.saturating_add(u32::from(release.failed));
    claimed.state = if release.due > now { State::Waiting(release.due) } else { State::Pending };
    drop(held);
    store.changed.notify_waiters();
    Ok(true)
}
