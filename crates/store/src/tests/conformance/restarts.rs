//! Restarts of the process that uses the queues.

use std::time::Duration;

use super::{Fixture, LEASE, QUEUE, Trial, ids};
use crate::{Depth, Receipt, Standing};

pub(crate) async fn d07_accepted_messages_survive_a_restart<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let messages = ["1", "2", "3"].map(|id| trial.message(id));
    trial.accept(&messages).await;
    let trial = trial.reopened().await;
    let claims = trial.claim(10).await;
    assert!(claims.iter().map(|claim| &claim.message).eq(&messages), "{claims:?}");
    assert!(claims.iter().all(|claim| claim.failures == 0), "{claims:?}");
}

pub(crate) async fn d07_messages_claimed_at_a_crash_are_pending_with_one_more_failure<
    F: Fixture,
>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["one", "two"]).await;
    let before = trial.claim(1).await;
    let mut trial = trial.reopened().await;
    if !F::OWNED {
        trial.pass(LEASE);
        assert_eq!(trial.store.reclaim(QUEUE, trial.now).await.unwrap().lost, 1);
    }
    let standing = trial.store.standing(vec![before[0].reference.clone()]).await.unwrap();
    assert_eq!(standing, [Standing::Lost]);
    assert!(!trial.complete(&before[0].reference).await);
    let claims = trial.claim(10).await;
    assert_eq!(ids(&claims), ["one", "two"]);
    assert_eq!((claims[0].failures, claims[1].failures), (1, 0));
}

pub(crate) async fn d07_receipts_and_dead_letters_survive_a_restart<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let messages = ["ended", "dead", "later"].map(|id| trial.message(id));
    trial.accept(&messages).await;
    let claims = trial.claim(3).await;
    assert!(trial.complete(&claims[0].reference).await);
    assert!(trial.dead_letter(&claims[1].reference).await);
    assert!(trial.release(&claims[2].reference, LEASE, true).await);
    let mut trial = trial.reopened().await;
    let depth = Depth { retry: 1, dead: 1, ..Depth::default() };
    assert_eq!(trial.store.depth(QUEUE).await.unwrap(), depth);
    assert_eq!(trial.submit(&messages).await, [Receipt::Duplicate; 3]);
    assert_eq!(trial.store.list_dead_letters(QUEUE, None, 9).await.unwrap()[0].id, "dead");
    assert_eq!(trial.result_ids().await, ["ended", "dead"]);
    trial.pass(LEASE + Duration::from_secs(1));
    assert_eq!(trial.store.reclaim(QUEUE, trial.now).await.unwrap().due, 1);
    assert_eq!(trial.claim_one().await.failures, 1);
}
