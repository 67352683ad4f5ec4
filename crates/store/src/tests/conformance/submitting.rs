//! Submitting messages, once and again.

use std::time::Duration;

use super::{Fixture, Trial};
use crate::{Body, ErrorKind, Message, Receipt};

pub(crate) async fn d07_a_message_submitted_twice_is_stored_once<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let (one, two) = (trial.message("one"), trial.message("two"));
    let twice = [one.clone(), one.clone()];
    assert_eq!(trial.submit(&twice).await, [Receipt::Accepted, Receipt::Duplicate]);
    assert_eq!(trial.submit(&[one, two]).await, [Receipt::Duplicate, Receipt::Accepted]);
    let claims = trial.claim(10).await;
    assert_eq!(claims.len(), 2, "{claims:?}");
    for claim in &claims {
        assert!(trial.complete(&claim.reference).await);
    }
    assert_eq!(trial.result_ids().await, ["one", "two"]);
}

pub(crate) async fn an_id_with_other_content_is_a_conflict<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let message = trial.message("one");
    trial.accept(std::slice::from_ref(&message)).await;
    let pair = [("k".to_owned(), "v".to_owned())];
    let others = [
        Message { queue: "elsewhere".into(), ..message.clone() },
        Message { tenant: "ann".into(), ..message.clone() },
        Message { deadline: message.deadline.after(Duration::from_secs(1)), ..message.clone() },
        Message { endpoint: "/v1/completions".into(), ..message.clone() },
        Message { model: "n".into(), ..message.clone() },
        Message { metadata: pair.clone().into(), ..message.clone() },
        Message { headers: pair.into(), ..message.clone() },
        Message { route: "other".into(), ..message.clone() },
        Message { body: Body::Bytes("{}".into()), ..message.clone() },
    ];
    for other in others {
        let receipts = trial.submit(std::slice::from_ref(&other)).await;
        assert_eq!(receipts, [Receipt::Conflict], "{other:?}");
    }
    assert_eq!(trial.claim_one().await.message, message, "the first is unharmed");
}

pub(crate) async fn a_message_is_known_in_every_state<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let ids = ["pending", "claimed", "retry", "dead"];
    let messages: Vec<Message> = ids.iter().map(|id| trial.message(id)).collect();
    trial.accept(&messages[1..]).await;
    let claims = trial.claim(3).await;
    assert!(trial.release(&claims[1].reference, Duration::from_secs(60), false).await);
    assert!(trial.dead_letter(&claims[2].reference).await);
    trial.accept(&messages[..1]).await;
    assert_eq!(trial.submit(&messages).await, [Receipt::Duplicate; 4]);
    let others = messages.iter().map(|message| Message { model: "n".into(), ..message.clone() });
    assert_eq!(trial.submit(&others.collect::<Vec<_>>()).await, [Receipt::Conflict; 4]);
}

pub(crate) async fn a_message_is_known_for_a_while_after_it_has_ended<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    let message = trial.message("one");
    trial.accept(std::slice::from_ref(&message)).await;
    let claim = trial.claim_one().await;
    assert!(trial.complete(&claim.reference).await);
    trial.pass(Duration::from_secs(60));
    assert_eq!(trial.submit(std::slice::from_ref(&message)).await, [Receipt::Duplicate]);
    let other = Message { model: "n".into(), ..message };
    assert_eq!(trial.submit(&[other]).await, [Receipt::Conflict]);
    assert_eq!(trial.claim(10).await, []);
    assert_eq!(trial.result_ids().await, ["one"]);
}

pub(crate) async fn a_later_submission_is_the_same_message<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    let message = trial.message("one");
    trial.accept(std::slice::from_ref(&message)).await;
    trial.pass(Duration::from_secs(7));
    let again = Message { created: trial.now, ..message };
    assert_eq!(trial.submit(&[again]).await, [Receipt::Duplicate]);
}

pub(crate) async fn an_id_that_cannot_be_stored_is_refused<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let long = "x".repeat(5000);
    for id in ["", "nul\0nul", &long] {
        let messages = vec![trial.message("fine"), trial.message(id)];
        let error = trial.store.submit(messages, trial.now).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }
    let nowhere = Message { queue: String::new(), ..trial.message("lost") };
    let error = trial.store.submit(vec![nowhere], trial.now).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.text.contains("lost"), "{error}");
    assert_eq!(trial.claim(10).await, [], "nothing of a call that was refused is kept");
}

pub(crate) async fn changed_resolves_at_a_submission<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let change = trial.store.changed();
    assert_eq!(trial.claim(10).await, []);
    // The message is submitted after the claim and before the wait.
    trial.accept_ids(&["one"]).await;
    Trial::<F>::told(change).await;
}
