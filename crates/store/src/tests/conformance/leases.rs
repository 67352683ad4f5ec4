//! Leases: how claims are held, renewed and lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Fixture, LEASE, QUEUE, Trial, good, ids};
use crate::{Claim, ClaimRef, ClaimRequest, Moment, Reclaimed, Release, Standing, Store};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn d07_a_claimed_message_cannot_be_claimed_again<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    assert_eq!(trial.claim(10).await, []);
    trial.pass(LEASE - SECOND);
    let reclaimed = trial.store.reclaim(QUEUE, trial.now).await.unwrap();
    assert_eq!((reclaimed.lost, reclaimed.due), (0, 0));
    assert_eq!(trial.claim(10).await, []);
    assert!(trial.complete(&claim.reference).await);
}

pub(crate) async fn d07_a_message_is_reclaimed_when_its_lease_has_expired<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    for failures in 0..3 {
        let claim = trial.claim_one().await;
        assert_eq!(claim.failures, failures, "a lost claim counts as a failure");
        trial.pass(LEASE + SECOND);
        assert_eq!(trial.store.reclaim(QUEUE, trial.now).await.unwrap().lost, 1);
    }
    let claim = trial.claim_one().await;
    assert!(trial.complete(&claim.reference).await);
    assert_eq!(trial.result_ids().await, ["one"]);
}

pub(crate) async fn d07_a_renewed_claim_stays_held<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    for _ in 0..5 {
        trial.pass(LEASE / 2);
        let held = vec![claim.reference.clone()];
        let standing = trial.store.renew(held, trial.now.after(LEASE)).await.unwrap();
        assert_eq!(standing, [Standing::Held]);
        assert_eq!(trial.store.reclaim(QUEUE, trial.now).await.unwrap().lost, 0);
    }
    assert!(trial.complete(&claim.reference).await);
}

pub(crate) async fn d07_a_late_renewal_counts_until_the_message_is_reclaimed<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    trial.pass(LEASE * 2);
    let held = vec![claim.reference.clone()];
    let standing = trial.store.renew(held, trial.now.after(LEASE)).await.unwrap();
    assert_eq!(standing, [Standing::Held]);
    assert_eq!(trial.store.reclaim(QUEUE, trial.now).await.unwrap().lost, 0);
    assert!(trial.complete(&claim.reference).await);
}

pub(crate) async fn d07_every_claim_has_a_token_of_its_own<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["1", "2", "3"]).await;
    let mut tokens = BTreeSet::new();
    for _ in 0..4 {
        for claim in trial.claim(10).await {
            assert!(
                claim.reference.token.len() >= 16,
                "{:?} can be guessed",
                claim.reference.token
            );
            assert!(tokens.insert(claim.reference.token), "a token was seen before");
        }
        trial.pass(LEASE + SECOND);
        trial.store.reclaim(QUEUE, trial.now).await.unwrap();
    }
    assert_eq!(tokens.len(), 12);
}

pub(crate) async fn d07_a_lost_claim_can_change_nothing<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let lost = trial.claim_one().await;
    trial.pass(LEASE + SECOND);
    trial.store.reclaim(QUEUE, trial.now).await.unwrap();
    refused(&trial, &lost.reference).await;

    let current = trial.claim_one().await;
    refused(&trial, &lost.reference).await;
    let standing = trial.store.standing(vec![current.reference.clone()]).await.unwrap();
    assert_eq!(standing, [Standing::Held], "the owner has not noticed anything");
    assert_eq!(trial.results().await, []);
    assert!(trial.complete(&current.reference).await);
    assert_eq!(trial.result_ids().await, ["one"]);
}

pub(crate) async fn d07_no_claim_can_change_an_ended_message<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["completed", "buried", "back"]).await;
    let claims = trial.claim(3).await;
    assert!(trial.complete(&claims[0].reference).await);
    assert!(trial.dead_letter(&claims[1].reference).await);
    assert!(trial.release(&claims[2].reference, LEASE, true).await);
    for claim in &claims {
        refused(&trial, &claim.reference).await;
    }
    assert_eq!(trial.result_ids().await, ["completed", "buried"]);
}

pub(crate) async fn a_made_up_claim_can_change_nothing<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["one", "two"]).await;
    let claims = trial.claim(2).await;
    let [first, second] = &claims[..] else { panic!("{claims:?}") };
    let made_up = [
        ClaimRef { token: String::new(), ..first.reference.clone() },
        ClaimRef { token: second.reference.token.clone(), ..first.reference.clone() },
        ClaimRef { key: "nothing".into(), ..first.reference.clone() },
        ClaimRef { key: String::new(), ..first.reference.clone() },
    ];
    for held in made_up {
        refused(&trial, &held).await;
    }
    assert!(trial.complete(&first.reference).await);
}

/// Checks that every verb refuses a claim, and changes nothing.
async fn refused<F: Fixture>(trial: &Trial<F>, held: &ClaimRef) {
    let (store, now) = (&trial.store, trial.now);
    let before = store.depth(QUEUE).await.unwrap();
    let all = vec![held.clone()];
    let standing = store.renew(all.clone(), now.after(LEASE)).await.unwrap();
    assert_eq!(standing, [Standing::Lost], "renew");
    assert_eq!(store.standing(all).await.unwrap(), [Standing::Lost], "standing");
    assert!(!store.complete(held.clone(), good(), now).await.unwrap(), "complete");
    assert!(!store.dead_letter(held.clone(), good(), now).await.unwrap(), "dead_letter");
    let back = Release { due: now, failed: false };
    assert!(!store.release(held.clone(), back, now).await.unwrap(), "release");
    assert_eq!(store.depth(QUEUE).await.unwrap(), before);
}

pub(crate) async fn standing_does_not_extend_the_lease<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    trial.pass(LEASE - SECOND);
    let held = vec![claim.reference.clone()];
    assert_eq!(trial.store.standing(held).await.unwrap(), [Standing::Held]);
    trial.pass(SECOND * 2);
    assert_eq!(trial.store.reclaim(QUEUE, trial.now).await.unwrap().lost, 1);
}

pub(crate) async fn each_claim_has_its_own_standing<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["held", "ended", "cancelled", "also held"]).await;
    let claims = trial.claim(4).await;
    assert!(trial.complete(&claims[1].reference).await);
    assert!(trial.cancel("cancelled").await);
    let held: Vec<ClaimRef> = claims.into_iter().map(|claim| claim.reference).collect();
    let expected = [Standing::Held, Standing::Lost, Standing::Cancelled, Standing::Held];
    assert_eq!(trial.store.standing(held.clone()).await.unwrap(), expected);
    let until = trial.now.after(LEASE);
    assert_eq!(trial.store.renew(held, until).await.unwrap(), expected);
    assert_eq!(trial.store.renew(Vec::new(), until).await.unwrap(), []);
}

pub(crate) async fn reclaim_returns_when_the_next_lease_expires<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    let nothing = trial.store.reclaim(QUEUE, trial.now).await.unwrap();
    assert_eq!((nothing.lost, nothing.due), (0, 0));
    trial.accept_ids(&["1", "2"]).await;
    let first = trial.now.after(LEASE);
    trial.claim(1).await;
    trial.pass(SECOND * 10);
    let second = trial.now.after(LEASE);
    trial.claim(1).await;
    let reclaimed = trial.store.reclaim(QUEUE, trial.now).await.unwrap();
    assert_eq!((reclaimed.lost, reclaimed.due), (0, 0));
    // An engine may return no time; if it does return one, it must not be too late.
    assert!(reclaimed.next.is_none_or(|next| next <= first), "{reclaimed:?}");
    let reclaimed = trial.store.reclaim(QUEUE, first).await.unwrap();
    assert_eq!(reclaimed.lost, 1);
    assert!(reclaimed.next.is_none_or(|next| next <= second), "{reclaimed:?}");
}

pub(crate) async fn a_clock_that_jumps_ahead_costs_an_attempt_and_no_message<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let slow = trial.claim_one().await;
    trial.pass(Duration::from_secs(10 * 365 * 24 * 3600));
    assert_eq!(trial.store.reclaim(QUEUE, trial.now).await.unwrap().lost, 1);
    assert!(!trial.complete(&slow.reference).await, "another dispatcher has claimed it");
    let again = trial.claim_one().await;
    assert!(trial.complete(&again.reference).await);
    assert_eq!(trial.result_ids().await, ["one"]);
}

pub(crate) async fn a_clock_that_jumps_back_costs_nothing<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["held", "back", "waits"]).await;
    let claims = trial.claim(2).await;
    assert!(trial.release(&claims[1].reference, SECOND, false).await);
    let later = trial.now;
    trial.now = Moment::from_secs(trial.now.secs() - 24 * 3600);
    let reclaimed = trial.store.reclaim(QUEUE, trial.now).await.unwrap();
    assert_eq!((reclaimed.lost, reclaimed.due), (0, 0));
    let standing = trial.store.standing(vec![claims[0].reference.clone()]).await.unwrap();
    assert_eq!(standing, [Standing::Held]);
    assert_eq!(ids(&trial.claim(1).await), ["waits"]);
    assert!(trial.complete(&claims[0].reference).await);
    let reclaimed = trial.store.reclaim(QUEUE, later.after(LEASE)).await.unwrap();
    assert_eq!(reclaimed, Reclaimed { lost: 1, due: 1, next: reclaimed.next });
}

pub(crate) async fn d08_concurrent_claims_never_get_the_same_message<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let names: Vec<String> = (0..60).map(|number| format!("m{number:02}")).collect();
    trial.accept_ids(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let workers: Vec<_> =
        (0..8).map(|_| tokio::spawn(claim_all(trial.store.clone(), trial.now))).collect();
    let mut got = Vec::new();
    for worker in workers {
        got.extend(worker.await.unwrap().into_iter().map(|claim| claim.message.id));
    }
    got.sort();
    assert_eq!(got, names);
}

/// Claims a few messages at a time until none is left.
async fn claim_all(store: Arc<dyn Store>, now: Moment) -> Vec<Claim> {
    let want = ClaimRequest { queue: QUEUE.into(), tenant: String::new(), limit: 3, until: now };
    let mut got = Vec::new();
    loop {
        let claims = store.claim(want.clone(), now).await.unwrap();
        if claims.is_empty() {
            return got;
        }
        got.extend(claims);
        tokio::task::yield_now().await;
    }
}
