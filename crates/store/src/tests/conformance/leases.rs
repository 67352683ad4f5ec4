//! Claims: held for a while by one, and lost by whoever was too slow.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Fixture, LEASE, QUEUE, Trial, good, ids};
use crate::{Back, Claim, Held, Moment, Revived, Standing, Store, Want};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn d07_a_claimed_message_is_nobody_elses<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    assert_eq!(trial.claim(10).await, []);
    trial.pass(LEASE - SECOND);
    let revived = trial.store.revive(QUEUE, trial.now).await.unwrap();
    assert_eq!((revived.lost, revived.due), (0, 0));
    assert_eq!(trial.claim(10).await, []);
    assert!(trial.complete(&claim.held).await);
}

pub(crate) async fn d07_a_message_comes_back_when_its_lease_has_run_out<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    for failures in 0..3 {
        let claim = trial.claim_one().await;
        assert_eq!(claim.failures, failures, "a lost claim counts as a failure");
        trial.pass(LEASE + SECOND);
        assert_eq!(trial.store.revive(QUEUE, trial.now).await.unwrap().lost, 1);
    }
    let claim = trial.claim_one().await;
    assert!(trial.complete(&claim.held).await);
    assert_eq!(trial.result_ids().await, ["one"]);
}

pub(crate) async fn d07_a_renewed_claim_is_kept<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    for _ in 0..5 {
        trial.pass(LEASE / 2);
        let held = vec![claim.held.clone()];
        let standing = trial.store.renew(held, trial.now.after(LEASE)).await.unwrap();
        assert_eq!(standing, [Standing::Held]);
        assert_eq!(trial.store.revive(QUEUE, trial.now).await.unwrap().lost, 0);
    }
    assert!(trial.complete(&claim.held).await);
}

pub(crate) async fn d07_a_late_renewal_counts_while_nobody_looked<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    trial.pass(LEASE * 2);
    let held = vec![claim.held.clone()];
    let standing = trial.store.renew(held, trial.now.after(LEASE)).await.unwrap();
    assert_eq!(standing, [Standing::Held]);
    assert_eq!(trial.store.revive(QUEUE, trial.now).await.unwrap().lost, 0);
    assert!(trial.complete(&claim.held).await);
}

pub(crate) async fn d07_every_claim_has_a_token_of_its_own<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["1", "2", "3"]).await;
    let mut tokens = BTreeSet::new();
    for _ in 0..4 {
        for claim in trial.claim(10).await {
            assert!(claim.held.token.len() >= 16, "{:?} can be guessed", claim.held.token);
            assert!(tokens.insert(claim.held.token), "a token was seen before");
        }
        trial.pass(LEASE + SECOND);
        trial.store.revive(QUEUE, trial.now).await.unwrap();
    }
    assert_eq!(tokens.len(), 12);
}

pub(crate) async fn d07_whoever_lost_a_claim_has_no_say<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let lost = trial.claim_one().await;
    trial.pass(LEASE + SECOND);
    trial.store.revive(QUEUE, trial.now).await.unwrap();
    refused(&trial, &lost.held).await;

    let current = trial.claim_one().await;
    refused(&trial, &lost.held).await;
    let standing = trial.store.standing(vec![current.held.clone()]).await.unwrap();
    assert_eq!(standing, [Standing::Held], "the owner has not noticed anything");
    assert_eq!(trial.results().await, []);
    assert!(trial.complete(&current.held).await);
    assert_eq!(trial.result_ids().await, ["one"]);
}

pub(crate) async fn d07_nobody_has_a_say_after_the_end<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["completed", "buried", "back"]).await;
    let claims = trial.claim(3).await;
    assert!(trial.complete(&claims[0].held).await);
    assert!(trial.bury(&claims[1].held).await);
    assert!(trial.put_back(&claims[2].held, LEASE, true).await);
    for claim in &claims {
        refused(&trial, &claim.held).await;
    }
    assert_eq!(trial.result_ids().await, ["completed", "buried"]);
}

pub(crate) async fn a_made_up_claim_has_no_say<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["one", "two"]).await;
    let claims = trial.claim(2).await;
    let [first, second] = &claims[..] else { panic!("{claims:?}") };
    let made_up = [
        Held { token: String::new(), ..first.held.clone() },
        Held { token: second.held.token.clone(), ..first.held.clone() },
        Held { key: "nothing".into(), ..first.held.clone() },
        Held { key: String::new(), ..first.held.clone() },
    ];
    for held in made_up {
        refused(&trial, &held).await;
    }
    assert!(trial.complete(&first.held).await);
}

/// Every verb says no, and nothing changes.
async fn refused<F: Fixture>(trial: &Trial<F>, held: &Held) {
    let (store, now) = (&trial.store, trial.now);
    let before = store.depth(QUEUE).await.unwrap();
    let all = vec![held.clone()];
    let standing = store.renew(all.clone(), now.after(LEASE)).await.unwrap();
    assert_eq!(standing, [Standing::Lost], "renew");
    assert_eq!(store.standing(all).await.unwrap(), [Standing::Lost], "standing");
    assert!(!store.complete(held.clone(), good(), now).await.unwrap(), "complete");
    assert!(!store.bury(held.clone(), good(), now).await.unwrap(), "bury");
    let back = Back { due: now, failed: false };
    assert!(!store.put_back(held.clone(), back, now).await.unwrap(), "put_back");
    assert_eq!(store.depth(QUEUE).await.unwrap(), before);
}

pub(crate) async fn how_a_claim_stands_can_be_asked_without_holding_it_longer<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    trial.pass(LEASE - SECOND);
    let held = vec![claim.held.clone()];
    assert_eq!(trial.store.standing(held).await.unwrap(), [Standing::Held]);
    trial.pass(SECOND * 2);
    assert_eq!(trial.store.revive(QUEUE, trial.now).await.unwrap().lost, 1);
}

pub(crate) async fn it_is_told_of_each_claim_how_it_stands<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["held", "ended", "cancelled", "also held"]).await;
    let claims = trial.claim(4).await;
    assert!(trial.complete(&claims[1].held).await);
    assert!(trial.cancel("cancelled").await);
    let held: Vec<Held> = claims.into_iter().map(|claim| claim.held).collect();
    let expected = [Standing::Held, Standing::Lost, Standing::Cancelled, Standing::Held];
    assert_eq!(trial.store.standing(held.clone()).await.unwrap(), expected);
    let until = trial.now.after(LEASE);
    assert_eq!(trial.store.renew(held, until).await.unwrap(), expected);
    assert_eq!(trial.store.renew(Vec::new(), until).await.unwrap(), []);
}

pub(crate) async fn it_is_known_when_the_next_lease_runs_out<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    let nothing = trial.store.revive(QUEUE, trial.now).await.unwrap();
    assert_eq!((nothing.lost, nothing.due), (0, 0));
    trial.accept_ids(&["1", "2"]).await;
    let first = trial.now.after(LEASE);
    trial.claim(1).await;
    trial.pass(SECOND * 10);
    let second = trial.now.after(LEASE);
    trial.claim(1).await;
    let revived = trial.store.revive(QUEUE, trial.now).await.unwrap();
    assert_eq!((revived.lost, revived.due), (0, 0));
    // An engine may not know; if it does, it must not be too late.
    assert!(revived.next.is_none_or(|next| next <= first), "{revived:?}");
    let revived = trial.store.revive(QUEUE, first).await.unwrap();
    assert_eq!(revived.lost, 1);
    assert!(revived.next.is_none_or(|next| next <= second), "{revived:?}");
}

pub(crate) async fn a_clock_that_jumps_ahead_costs_a_try_and_no_message<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let slow = trial.claim_one().await;
    trial.pass(Duration::from_secs(10 * 365 * 24 * 3600));
    assert_eq!(trial.store.revive(QUEUE, trial.now).await.unwrap().lost, 1);
    assert!(!trial.complete(&slow.held).await, "it is somebody else's now");
    let again = trial.claim_one().await;
    assert!(trial.complete(&again.held).await);
    assert_eq!(trial.result_ids().await, ["one"]);
}

pub(crate) async fn a_clock_that_jumps_back_costs_nothing<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["held", "back", "waits"]).await;
    let claims = trial.claim(2).await;
    assert!(trial.put_back(&claims[1].held, SECOND, false).await);
    let later = trial.now;
    trial.now = Moment::from_secs(trial.now.secs() - 24 * 3600);
    let revived = trial.store.revive(QUEUE, trial.now).await.unwrap();
    assert_eq!((revived.lost, revived.due), (0, 0));
    let standing = trial.store.standing(vec![claims[0].held.clone()]).await.unwrap();
    assert_eq!(standing, [Standing::Held]);
    assert_eq!(ids(&trial.claim(1).await), ["waits"]);
    assert!(trial.complete(&claims[0].held).await);
    let revived = trial.store.revive(QUEUE, later.after(LEASE)).await.unwrap();
    assert_eq!(revived, Revived { lost: 1, due: 1, next: revived.next });
}

pub(crate) async fn d08_those_who_claim_at_once_never_get_the_same_message<F: Fixture>() {
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

/// Claims a few at a time until there is nothing left.
async fn claim_all(store: Arc<dyn Store>, now: Moment) -> Vec<Claim> {
    let want = Want { queue: QUEUE.into(), tenant: String::new(), most: 3, until: now };
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
