//! Released messages.

use std::time::Duration;

use super::{Fixture, LEASE, QUEUE, Trial, ids};
use crate::{Depth, Message};

const NOW: Duration = Duration::ZERO;
const LATER: Duration = Duration::from_secs(30);

pub(crate) async fn a_released_message_keeps_its_place<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["1", "2", "3"]).await;
    let claims = trial.claim(2).await;
    assert!(trial.release(&claims[0].reference, NOW, false).await);
    assert_eq!(ids(&trial.claim(10).await), ["1", "3"]);
}

pub(crate) async fn only_a_failure_counts_as_one<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let mut failures = 0;
    for failed in [false, true, false, false, true] {
        let claim = trial.claim_one().await;
        assert_eq!(claim.failures, failures);
        assert!(trial.release(&claim.reference, NOW, failed).await);
        failures += u32::from(failed);
    }
    assert_eq!(trial.claim_one().await.failures, 2);
    assert_eq!(trial.results().await, [], "nothing has ended");
}

pub(crate) async fn a_message_released_for_later_is_pending_when_it_is_due<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    assert!(trial.release(&claim.reference, LATER, true).await);
    let waits = Depth { retry: 1, ..Depth::default() };
    assert_eq!(trial.store.depth(QUEUE).await.unwrap(), waits);
    trial.pass(LATER / 2);
    assert_eq!(trial.store.reclaim(QUEUE, trial.now).await.unwrap().due, 0);
    assert_eq!(trial.claim(10).await, []);
    trial.pass(LATER / 2);
    let reclaimed = trial.store.reclaim(QUEUE, trial.now).await.unwrap();
    assert_eq!((reclaimed.lost, reclaimed.due), (0, 1));
    let again = trial.claim_one().await;
    assert_eq!((again.failures, &again.message), (1, &claim.message));
    assert!(trial.complete(&again.reference).await);
}

pub(crate) async fn reclaim_returns_when_the_next_message_is_due<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["1", "2"]).await;
    let claims = trial.claim(2).await;
    assert!(trial.release(&claims[0].reference, LATER * 2, true).await);
    assert!(trial.release(&claims[1].reference, LATER, true).await);
    let reclaimed = trial.store.reclaim(QUEUE, trial.now).await.unwrap();
    assert_eq!(reclaimed.due, 0);
    assert!(reclaimed.next.is_none_or(|next| next <= trial.now.after(LATER)), "{reclaimed:?}");
}

pub(crate) async fn reclaim_affects_one_queue_only<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    let elsewhere = Message { queue: "elsewhere".into(), ..trial.message("2") };
    trial.accept(&[trial.message("1"), elsewhere]).await;
    let here = trial.claim_one().await;
    trial.claim_of("elsewhere", "", 1).await;
    assert!(trial.release(&here.reference, LATER, false).await);
    trial.pass(LEASE * 2);
    let reclaimed = trial.store.reclaim("elsewhere", trial.now).await.unwrap();
    assert_eq!((reclaimed.lost, reclaimed.due), (1, 0));
    assert_eq!(trial.store.depth(QUEUE).await.unwrap().retry, 1);
}

pub(crate) async fn changed_resolves_at_a_release<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    let change = trial.store.changed();
    assert!(trial.release(&claim.reference, NOW, false).await);
    Trial::<F>::told(change).await;
}
