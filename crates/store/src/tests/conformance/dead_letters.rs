//! Dead letters: listed, redriven, purged.

use std::time::Duration;

use super::{Fixture, LEASE, QUEUE, Trial, ids};
use crate::{DeadLetter, Depth, Message, Outcome, Receipt, Selection};

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) async fn d07_a_dead_letter_has_a_result_and_is_listed<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    assert!(trial.release(&claim.reference, Duration::ZERO, true).await);
    let claim = trial.claim_one().await;
    assert!(trial.dead_letter(&claim.reference).await);
    let results = trial.results().await;
    assert_eq!(results[0].error.as_deref(), Some(Outcome::FAILED));
    let dead = dead(&trial).await;
    assert_eq!((dead[0].id.as_str(), dead[0].at, dead[0].failures), ("one", trial.now, 2));
    assert!(dead[0].why.contains("it broke"), "{dead:?}");
    trial.pass(LEASE * 10);
    trial.store.reclaim(QUEUE, trial.now).await.unwrap();
    assert_eq!(trial.claim(10).await, [], "a dead letter stays one");
    assert_eq!(trial.store.depth(QUEUE).await.unwrap(), Depth { dead: 1, ..Depth::default() });
}

async fn dead<F: Fixture>(trial: &Trial<F>) -> Vec<DeadLetter> {
    trial.store.list_dead_letters(QUEUE, None, 1000).await.unwrap()
}

async fn redrive_all<F: Fixture>(trial: &Trial<F>) -> u64 {
    let redriven = trial.store.redrive_dead_letters(QUEUE, Selection::All, trial.now).await;
    redriven.unwrap().requeued
}

/// Submits messages, and makes them dead letters in this order.
async fn make_dead<F: Fixture>(trial: &Trial<F>, names: &[&str]) {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    trial.accept_ids(&sorted).await;
    let claims = trial.claim(names.len()).await;
    for name in names {
        let claim = claims.iter().find(|claim| claim.message.id == *name).unwrap();
        assert!(trial.dead_letter(&claim.reference).await);
    }
    assert_eq!(trial.results().await.len(), names.len());
}

pub(crate) async fn dead_letters_are_listed_oldest_first_and_page_by_page<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    assert_eq!(dead(&trial).await, []);
    make_dead(&trial, &["d", "b", "e", "a", "c"]).await;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = trial.store.list_dead_letters(QUEUE, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 2, "{page:?}");
        after = Some(last.number);
        found.extend(page.into_iter().map(|dead| dead.id));
    }
    assert_eq!(found, ["d", "b", "e", "a", "c"]);
    assert_eq!(trial.store.list_dead_letters("elsewhere", None, 9).await.unwrap(), []);
}

pub(crate) async fn redriven_messages_are_pending_as_if_just_submitted<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    make_dead(&trial, &["a", "b"]).await;
    trial.pass(HOUR * 5);
    trial.accept_ids(&["first"]).await;
    let change = trial.store.changed();
    assert_eq!(redrive_all(&trial).await, 2);
    Trial::<F>::told(change).await;
    assert_eq!(dead(&trial).await, []);
    let claims = trial.claim(10).await;
    assert_eq!(ids(&claims), ["first", "a", "b"], "earlier messages go first");
    for claim in &claims {
        assert_eq!((claim.failures, claim.cancelled), (0, false));
        assert_eq!(claim.message.deadline, trial.now.after(HOUR), "as much time as at first");
        assert_eq!(claim.message.body, trial.message(&claim.message.id).body);
    }
}

pub(crate) async fn a_redriven_message_ends_with_a_result_of_its_own<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    make_dead(&trial, &["one"]).await;
    assert_eq!(redrive_all(&trial).await, 1);
    assert_eq!(redrive_all(&trial).await, 0);
    let claim = trial.claim_one().await;
    assert!(trial.complete(&claim.reference).await);
    assert_eq!(trial.result_ids().await, ["one"]);
}

pub(crate) async fn only_selected_dead_letters_are_redriven_or_purged<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    make_dead(&trial, &["a", "b", "c", "d"]).await;
    let which = |ids: &[&str]| Selection::Ids(ids.iter().map(|id| (*id).to_owned()).collect());
    let (store, now) = (&trial.store, trial.now);
    let named = which(&["c", "unknown", "c"]);
    assert_eq!(store.redrive_dead_letters(QUEUE, named, now).await.unwrap().requeued, 1);
    let redriven = store.redrive_dead_letters("elsewhere", which(&["a"]), now).await.unwrap();
    assert_eq!(redriven.requeued, 0);
    assert_eq!(store.purge_dead_letters(QUEUE, which(&["a", "c", "unknown"])).await.unwrap(), 1);
    assert_eq!(store.purge_dead_letters("elsewhere", which(&["b"])).await.unwrap(), 0);
    let left: Vec<String> = dead(&trial).await.into_iter().map(|dead| dead.id).collect();
    assert_eq!(left, ["b", "d"]);
    assert_eq!(ids(&trial.claim(10).await), ["c"]);
}

pub(crate) async fn dead_letters_of_a_batch_are_not_redriven<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let line = Message { route: "batch_1".into(), ..trial.message("line") };
    trial.accept(&[line, trial.message("one")]).await;
    for claim in trial.claim(2).await {
        assert!(trial.dead_letter(&claim.reference).await);
    }
    assert_eq!(redrive_all(&trial).await, 1);
    let named = Selection::Ids(vec!["line".into()]);
    let redriven = trial.store.redrive_dead_letters(QUEUE, named, trial.now).await.unwrap();
    assert_eq!((redriven.requeued, redriven.skipped), (0, 1));
    assert!(
        redriven.reasons[0].0 == "line" && redriven.reasons[0].1.contains("batch"),
        "{redriven:?}"
    );
    assert_eq!(dead(&trial).await[0].id, "line");
    assert_eq!(trial.store.purge_dead_letters(QUEUE, Selection::All).await.unwrap(), 1);
}

pub(crate) async fn two_concurrent_purges_count_each_dead_letter_once<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    make_dead(&trial, &["a", "b", "c", "d", "e"]).await;
    let purge = || trial.store.purge_dead_letters(QUEUE, Selection::All);
    let (one, other) = tokio::join!(purge(), purge());
    assert_eq!(one.unwrap() + other.unwrap(), 5);
}

pub(crate) async fn purged_dead_letters_are_deleted<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    make_dead(&trial, &["a", "b"]).await;
    assert_eq!(trial.store.purge_dead_letters(QUEUE, Selection::All).await.unwrap(), 2);
    assert_eq!(trial.store.purge_dead_letters(QUEUE, Selection::All).await.unwrap(), 0);
    assert_eq!(redrive_all(&trial).await, 0);
    assert_eq!(trial.store.depth(QUEUE).await.unwrap(), Depth::default());
    let again = trial.submit(&[trial.message("a")]).await;
    assert_ne!(again, [Receipt::Conflict]);
}
