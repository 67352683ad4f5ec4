//! [`Store::renew`](crate::Store::renew): extends the leases of claims.

use super::{PubSubStore, Queue};
use crate::error::StoreError;
use crate::moment::Moment;
use crate::{ClaimRef, Standing};

pub(super) async fn renew(
    store: &PubSubStore,
    claims: Vec<ClaimRef>,
    until: Moment,
) -> Result<Vec<Standing>, StoreError> {
    for queue in store.queues.values() {
        let of_queue = claims.iter().filter(|claim| claim.queue == queue.name);
        renew_in(store, queue, of_queue.collect(), until).await?;
    }
    super::standing::standing(store, claims).await
}

async fn renew_in(
    store: &PubSubStore,
    queue: &Queue,
    claims: Vec<&ClaimRef>,
    until: Moment,
) -> Result<(), StoreError> {
    let ack_ids: Vec<String> = {
        let mut held = queue.held();
        let owned =
            claims.iter().filter_map(|claim| held.owned(claim).map(|held| held.ack_id.clone()));
        owned.collect()
    };
    // The last moment that this engine saw is not after now, so the lease is not too short.
    let gone = store.extend(queue, &ack_ids, until.since(store.last_seen())).await?;
    let mut held = queue.held();
    for claim in claims {
        let Some(owned) = held.owned(claim) else { continue };
        if gone.contains(&owned.ack_id) {
            held.lose(&claim.key);
        } else if ack_ids.contains(&owned.ack_id) {
            owned.lease_until = owned.lease_until.max(until);
        }
    }
    Ok(())
}
