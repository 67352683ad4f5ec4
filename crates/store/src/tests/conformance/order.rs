//! Claims: which messages they get, in which order, and with which content.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Fixture, QUEUE, Trial, ids};
use crate::{Body, Lane, Message, Moment, Receipt};

pub(crate) async fn the_earliest_deadline_goes_first_and_the_first_submitted_among_equals<
    F: Fixture,
>() {
    let trial = Trial::<F>::new().await;
    let due = |id: &str, secs| {
        let deadline = trial.now.after(Duration::from_secs(secs));
        Message { deadline, ..trial.message(id) }
    };
    trial.accept(&[due("c", 300), due("z1", 200), due("a1", 200)]).await;
    trial.accept(&[due("b", 100)]).await;
    trial.accept(&[due("m1", 200), due("d", 301)]).await;
    assert_eq!(ids(&trial.claim(10).await), ["b", "z1", "a1", "m1", "c", "d"]);
}

pub(crate) async fn lanes_have_tenant_count_and_earliest_deadline<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    assert_eq!(trial.store.lanes(QUEUE, trial.now).await.unwrap(), []);
    let of = |id: &str, tenant: &str, secs| {
        let deadline = trial.now.after(Duration::from_secs(secs));
        Message { deadline, tenant: tenant.into(), ..trial.message(id) }
    };
    let elsewhere = Message { queue: "elsewhere".into(), ..trial.message("x") };
    trial.accept(&[of("1", "ann", 300), of("2", "ann", 100), of("3", "", 200), elsewhere]).await;
    let lane = |tenant: &str, waiting, secs| {
        let deadline = trial.now.after(Duration::from_secs(secs));
        Lane { tenant: tenant.into(), waiting, deadline }
    };
    assert_eq!(lanes(&trial).await, [lane("", 1, 200), lane("ann", 2, 100)]);
    let claims = trial.claim_of(QUEUE, "ann", 1).await;
    assert_eq!(lanes(&trial).await, [lane("", 1, 200), lane("ann", 1, 300)]);
    trial.complete(&claims[0].reference).await;
    trial.claim_of(QUEUE, "ann", 1).await;
    assert_eq!(lanes(&trial).await, [lane("", 1, 200)], "a claimed message is not pending");
}

async fn lanes<F: Fixture>(trial: &Trial<F>) -> Vec<Lane> {
    let mut lanes = trial.store.lanes(QUEUE, trial.now).await.unwrap();
    lanes.sort_by(|left, right| left.tenant.cmp(&right.tenant));
    lanes
}

pub(crate) async fn d08_a_claim_takes_messages_of_one_lane_only<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let of = |id: &str, queue: &str, tenant: &str| Message {
        queue: queue.into(),
        tenant: tenant.into(),
        ..trial.message(id)
    };
    let messages =
        [of("1", "day", "ann"), of("2", "day", "bob"), of("3", "night", "ann"), of("4", "day", "")];
    trial.accept(&messages).await;
    assert_eq!(ids(&trial.claim_of("day", "bob", 10).await), ["2"]);
    assert_eq!(ids(&trial.claim_of("night", "ann", 10).await), ["3"]);
    assert_eq!(ids(&trial.claim_of("day", "", 10).await), ["4"]);
    assert_eq!(ids(&trial.claim_of("day", "ann", 10).await), ["1"]);
    assert_eq!(trial.claim_of("day", "unknown", 10).await, []);
}

pub(crate) async fn a_claim_takes_at_most_its_limit<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    trial.accept_ids(&["1", "2", "3"]).await;
    assert_eq!(trial.claim(0).await, []);
    assert_eq!(ids(&trial.claim(2).await), ["1", "2"]);
    assert_eq!(ids(&trial.claim(2).await), ["3"]);
    assert_eq!(trial.claim(2).await, []);
}

pub(crate) async fn d07_an_expired_message_can_be_claimed<F: Fixture>() {
    let mut trial = Trial::<F>::new().await;
    trial.accept_ids(&["late"]).await;
    trial.pass(Duration::from_secs(7200));
    let claim = trial.claim_one().await;
    assert!(claim.message.deadline < trial.now, "and the dispatcher can see it");
    assert!(trial.complete(&claim.reference).await);
}

pub(crate) async fn a_message_is_claimed_as_it_was_submitted<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let message = Message {
        tenant: "ann".into(),
        created: Moment::from_secs(trial.now.secs() - 10),
        metadata: BTreeMap::from([pair("team", "søk \"é\" 'x'"), pair("", "")]),
        headers: BTreeMap::from([pair("x-trace", "1,2;3")]),
        body: Body::Bytes(r#"{"messages":[{"role":"user","content":"\u0000 ☃ \\"}]}"#.into()),
        ..trial.message("whole")
    };
    trial.accept(std::slice::from_ref(&message)).await;
    let claims = trial.claim_of(QUEUE, "ann", 1).await;
    assert_eq!(claims[0].message, message);
    assert_eq!((claims[0].failures, claims[0].cancelled), (0, false));
    assert_eq!(claims[0].reference.queue, QUEUE);
}

pub(crate) async fn a_large_body_is_returned_whole<F: Fixture>() {
    let trial = Trial::<F>::new().await;
    let text: String = (0..1 << 20).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    let body = Body::Bytes(format!(r#"{{"prompt":"{text}"}}"#).into());
    let message = Message { body, ..trial.message("large") };
    trial.accept(std::slice::from_ref(&message)).await;
    let claim = trial.claim_one().await;
    assert!(claim.message == message, "a body of 1 MiB has changed");
    assert!(trial.complete(&claim.reference).await);
}

pub(crate) async fn odd_ids_are_kept_unchanged<F: Fixture>() {
    let names =
        ["ünïcode ☃ 漢字", "quo'te", "dou\"ble", "{tag}", "a:b", "%", " ", "'; DROP", "\\n"];
    let trial = Trial::<F>::new().await;
    let messages: Vec<Message> = names.iter().map(|id| trial.message(id)).collect();
    assert_eq!(trial.submit(&messages).await, vec![Receipt::Accepted; names.len()]);
    let claims = trial.claim(names.len()).await;
    assert_eq!(ids(&claims), names);
    for claim in &claims {
        assert!(trial.complete(&claim.reference).await, "{}", claim.message.id);
    }
    assert_eq!(trial.result_ids().await, names);
}
