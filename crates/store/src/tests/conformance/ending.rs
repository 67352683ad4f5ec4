//! The end of messages, with one result each.

use std::time::Duration;

use super::{Fixture, LEASE, QUEUE, ROUTE, Trial, good};
use crate::{Depth, Message, Outcome, StoredResult};

pub(crate) async fn d07_the_result_is_stored_and_the_message_ends_in_one_step<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    assert_eq!(trial.results().await, [], "there is no result before the end");
    assert!(trial.complete(&claim.reference).await);
    assert_eq!(trial.store.depth(QUEUE).await.unwrap(), Depth::default());
    trial.pass(LEASE * 10);
    assert_eq!(trial.store.reclaim(QUEUE, trial.now).await.unwrap().lost, 0);
    assert_eq!(trial.claim(10).await, []);
    assert_eq!(trial.result_ids().await, ["one"]);
}

pub(crate) async fn d07_a_claim_ends_once<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["one"]).await;
    let claim = trial.claim_one().await;
    let (store, now) = (&trial.store, trial.now);
    let (first, second, third) = tokio::join!(
        store.complete(claim.reference.clone(), good(), now),
        store.complete(claim.reference.clone(), good(), now),
        store.dead_letter(claim.reference.clone(), good(), now),
    );
    let ended = [first.unwrap(), second.unwrap(), third.unwrap()];
    assert_eq!(ended.iter().filter(|ended| **ended).count(), 1, "{ended:?}");
    assert_eq!(trial.result_ids().await, ["one"]);
}

pub(crate) async fn results_are_taken_oldest_first_and_once<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["1", "2", "3", "4"]).await;
    let claims = trial.claim(4).await;
    for at in [2, 0, 3, 1] {
        assert!(trial.complete(&claims[at].reference).await);
    }
    let take = async |most| {
        let taken = trial.store.take_results(ROUTE, most).await.unwrap();
        taken.into_iter().map(|stored| stored.id).collect::<Vec<_>>()
    };
    assert_eq!(take(0).await, Vec::<String>::new());
    assert_eq!(take(3).await, ["3", "1", "4"]);
    assert_eq!(take(3).await, ["2"]);
    assert_eq!(take(3).await, Vec::<String>::new());
}

pub(crate) async fn results_go_to_the_route_of_the_message<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let other = Message { route: "other".into(), ..trial.message("2") };
    trial.accept(&[trial.message("1"), other]).await;
    for claim in trial.claim(2).await {
        assert!(trial.complete(&claim.reference).await);
    }
    assert_eq!(trial.store.take_results("unknown", 9).await.unwrap(), []);
    assert_eq!(trial.store.take_results("other", 9).await.unwrap()[0].id, "2");
    assert_eq!(trial.result_ids().await, ["1"]);
}

pub(crate) async fn a_result_has_the_outcome_of_its_message<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["good", "bad", "none"]).await;
    let claims = trial.claim(3).await;
    let outcomes = [
        Outcome::Answered { status: 200, body: "{\"text\":\"☃ \\\"x\\\"\"}\n".into() },
        Outcome::Answered { status: 422, body: "not JSON".into() },
        Outcome::failed(Outcome::DEADLINE, "it was \"too\" late"),
    ];
    for (claim, outcome) in claims.iter().zip(outcomes) {
        assert!(trial.store.complete(claim.reference.clone(), outcome, trial.now).await.unwrap());
    }
    let answered = |id: &str, status, body: &'static str| {
        let (id, body) = (id.into(), body.into());
        StoredResult { id, status: Some(status), body, error: None, text: None }
    };
    let none = StoredResult {
        id: "none".into(),
        status: None,
        body: r#"{"error":"it was \"too\" late"}"#.into(),
        error: Some("DEADLINE_EXCEEDED".into()),
        text: Some("it was \"too\" late".into()),
    };
    let good = answered("good", 200, "{\"text\":\"☃ \\\"x\\\"\"}\n");
    assert_eq!(trial.results().await, [good, answered("bad", 422, "not JSON"), none]);
}

pub(crate) async fn depth_counts_messages_by_state<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let elsewhere = Message { queue: "elsewhere".into(), ..trial.message("x") };
    trial.accept(&[elsewhere]).await;
    assert_eq!(trial.store.depth(QUEUE).await.unwrap(), Depth::default());
    trial.accept_ids(&["1", "2", "3", "4", "5", "6", "7"]).await;
    let claims = trial.claim(5).await;
    assert!(trial.dead_letter(&claims[0].reference).await);
    assert!(trial.complete(&claims[1].reference).await);
    assert!(trial.release(&claims[2].reference, Duration::from_secs(9), true).await);
    assert!(trial.release(&claims[3].reference, Duration::ZERO, true).await);
    let expected = Depth { pending: 3, retry: 1, claimed: 1, dead: 1 };
    assert_eq!(trial.store.depth(QUEUE).await.unwrap(), expected);
}
