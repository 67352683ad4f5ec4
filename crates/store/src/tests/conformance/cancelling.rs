//! Cancelling a message in any state. A pending message ends at once with one engine; with the
//! other, the dispatcher that claims it ends it. There is one result in both cases.

use std::time::Duration;

use super::{Fixture, LEASE, QUEUE, Trial};
use crate::{Depth, Outcome, Selection, Standing};

/// Completes cancelled messages as a dispatcher does, and returns how many it had to claim.
async fn end_cancelled<F: Fixture>(trial: &Trial<F>) -> usize {
    let claims = trial.claim(10).await;
    for claim in &claims {
        assert!(claim.cancelled, "{claim:?} would be sent");
        let outcome = Outcome::failed(Outcome::CANCELLED, "it was cancelled");
        assert!(trial.store.complete(claim.reference.clone(), outcome, trial.now).await.unwrap());
    }
    claims.len()
}

/// Checks that there is one result, with the code of a cancellation.
async fn ended_once<F: Fixture>(trial: &Trial<F>) {
    let results = trial.results().await;
    assert_eq!(results.len(), 1, "{results:?}");
    assert_eq!(results[0].error.as_deref(), Some(Outcome::CANCELLED));
    assert_eq!(trial.store.depth(QUEUE).await.unwrap(), Depth::default());
}

pub(crate) async fn a_pending_message_ends_cancelled_once<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    assert!(trial.cancel("one").await);
    trial.cancel("one").await;
    assert_eq!(end_cancelled(&trial).await, usize::from(!F::CANCELS_AT_ONCE));
    ended_once(&trial).await;
}

pub(crate) async fn a_released_message_ends_cancelled_without_being_sent<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    assert!(trial.release(&claim.reference, LEASE, true).await);
    assert!(trial.cancel("one").await);
    trial.pass(LEASE);
    trial.store.reclaim(QUEUE, trial.now).await.unwrap();
    end_cancelled(&trial).await;
    ended_once(&trial).await;
}

pub(crate) async fn the_holder_of_a_message_learns_that_it_is_cancelled<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    let held = vec![claim.reference.clone()];
    assert!(trial.cancel("one").await);
    assert_eq!(trial.store.standing(held.clone()).await.unwrap(), [Standing::Cancelled]);
    let standing = trial.store.renew(held, trial.now.after(LEASE)).await.unwrap();
    assert_eq!(standing, [Standing::Cancelled]);
    let outcome = Outcome::failed(Outcome::CANCELLED, "it was cancelled");
    assert!(trial.store.complete(claim.reference, outcome, trial.now).await.unwrap());
    ended_once(&trial).await;
}

pub(crate) async fn the_result_from_the_holder_of_a_cancelled_message_counts<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    assert!(trial.cancel("one").await);
    assert!(
        trial.complete(&claim.reference).await,
        "the response came before the cancellation was known"
    );
    assert_eq!(trial.results().await[0].status, Some(200));
}

pub(crate) async fn a_cancelled_message_that_is_released_is_not_sent_again<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    for (id, delay) in [("now", Duration::ZERO), ("later", LEASE)] {
        trial.accept_ids(&[id]).await;
        let claim = trial.claim_one().await;
        assert!(trial.cancel(id).await);
        assert!(trial.release(&claim.reference, delay, true).await);
        trial.pass(LEASE);
        trial.store.reclaim(QUEUE, trial.now).await.unwrap();
        end_cancelled(&trial).await;
        ended_once(&trial).await;
    }
}

pub(crate) async fn d07_a_cancelled_message_whose_owner_died_ends_once<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    assert!(trial.cancel("one").await);
    trial.pass(LEASE * 2);
    trial.store.reclaim(QUEUE, trial.now).await.unwrap();
    assert!(!trial.complete(&claim.reference).await);
    end_cancelled(&trial).await;
    ended_once(&trial).await;
}

pub(crate) async fn ended_and_unknown_messages_are_not_cancelled<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    assert!(!trial.cancel("unknown").await);
    trial.accept_ids(&["ended", "dead", "other"]).await;
    let claims = trial.claim(3).await;
    assert!(trial.complete(&claims[0].reference).await);
    assert!(trial.dead_letter(&claims[1].reference).await);
    assert!(!trial.cancel("ended").await);
    assert!(!trial.cancel("dead").await);
    let standing = trial.store.standing(vec![claims[2].reference.clone()]).await.unwrap();
    assert_eq!(standing, [Standing::Held]);
    assert_eq!(trial.result_ids().await, ["ended", "dead"]);
    trial.store.redrive_dead_letters(QUEUE, Selection::All, trial.now).await.unwrap();
    assert!(!trial.claim_one().await.cancelled, "an earlier cancellation has no effect");
}

pub(crate) async fn changed_resolves_at_a_cancellation<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    trial.claim_one().await;
    let change = trial.store.changed();
    assert!(trial.cancel("one").await);
    Trial::<F>::told(change).await;
}
