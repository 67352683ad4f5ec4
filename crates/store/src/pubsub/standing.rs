//! [`Store::standing`](crate::Store::standing): a claim is held while its message is here with its
//! token.

use super::PubSubStore;
use crate::error::StoreError;
use crate::{ClaimRef, Standing};

pub(super) async fn standing(
    store: &PubSubStore,
    claims: Vec<ClaimRef>,
) -> Result<Vec<Standing>, StoreError> {
    let is_held = |claim: &ClaimRef| {
        store.queue(&claim.queue).is_some_and(|queue| queue.held().owned(claim).is_some())
    };
    // A message of Pub/Sub is never cancelled.
    Ok(claims.iter().map(|claim| Standing::new(is_held(claim), false)).collect())
}
