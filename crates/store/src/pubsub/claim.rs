//! [`Store::claim`](crate::Store::claim): claims the first messages of a lane that are here.

use super::PubSubStore;
use super::held::{Held, HeldMessage, State};
use crate::error::StoreError;
use crate::moment::Moment;
use crate::{Claim, ClaimRef, ClaimRequest, token};

pub(super) async fn claim(
    store: &PubSubStore,
    request: ClaimRequest,
    now: Moment,
) -> Result<Vec<Claim>, StoreError> {
    let Some(queue) = store.queue(&request.queue) else { return Ok(Vec::new()) };
    store.saw(now);
    let claims = take(&mut queue.held(), &request);
    queue.demand.notify_one();
    // A message that was just received has its lease. This one may have waited here.
    let tolerance = store.settings.lease / 10;
    let short = |claim: &&Claim| {
        let is_short = |held: &mut HeldMessage| held.lease_until.after(tolerance) < request.until;
        queue.held().owned(&claim.reference).is_some_and(is_short)
    };
    let references: Vec<ClaimRef> =
        claims.iter().filter(short).map(|claim| claim.reference.clone()).collect();
    if !references.is_empty()
        && let Err(error) = super::renew::renew(store, references, request.until).await
    {
        give_back(&mut queue.held(), &claims);
        return Err(error);
    }
    let is_held = |claim: &Claim| queue.held().owned(&claim.reference).is_some();
    Ok(claims.into_iter().filter(is_held).collect())
}

fn take(held: &mut Held, request: &ClaimRequest) -> Vec<Claim> {
    let mut claims = Vec::new();
    for id in held.first(&request.tenant, request.limit) {
        let Some(found) = held.messages.get_mut(&id) else { continue };
        let token = token::owner();
        found.state = State::Claimed(token.clone());
        let reference = ClaimRef { queue: request.queue.clone(), key: id, token };
        claims.push(Claim {
            reference,
            message: found.message.clone(),
            failures: found.failures,
            cancelled: false,
        });
    }
    claims
}

fn give_back(held: &mut Held, claims: &[Claim]) {
    for claim in claims {
        if let Some(owned) = held.claimed(&claim.reference) {
            owned.state = State::Pending;
        }
    }
}
