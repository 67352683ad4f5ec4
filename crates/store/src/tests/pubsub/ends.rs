//! The end of a message of Pub/Sub: its result, the acknowledgement, and calls that fail between.

use std::time::Duration;

use serde_json::{Value, json};

use super::server::{PubSub, subscription, topic};
use super::{claim_all, refused, server, store};
use crate::tests::conformance::{LEASE, good};
use crate::{ClaimRef, ErrorKind, Moment, Outcome, PubSubStore, Selection, Store as _};

const NOW: Moment = Moment::from_secs(1_800_000_000);
const UNAVAILABLE: u32 = 14;

fn publish(server: &PubSub, id: &str) {
    let deadline = NOW.secs() + 3600;
    let request = json!({"id": id, "deadline": deadline, "payload": {"model": "m"}});
    server.publish("work", &request.to_string(), &json!({}));
}

async fn complete(store: &PubSubStore, claim: &ClaimRef) -> Result<bool, ErrorKind> {
    store.complete(claim.clone(), good(), NOW).await.map_err(|error| error.kind)
}

/// The kinds of the calls that changed something.
fn calls(server: &PubSub) -> Vec<Value> {
    server.events().into_iter().map(|event| event["call"].clone()).collect()
}

#[tokio::test]
async fn d07_no_message_is_acknowledged_before_its_result_is_published() {
    let server = server();
    let store = store(&server);
    publish(&server, "one");
    let claims = claim_all(&store, "work", NOW).await;
    server.fail("Publish", UNAVAILABLE);
    for _ in 0..2 {
        assert_eq!(complete(&store, &claims[0].reference).await, Err(ErrorKind::Unavailable));
    }
    assert_eq!(calls(&server), Vec::<Value>::new());
    server.fail("Publish", 0);
    assert_eq!(complete(&store, &claims[0].reference).await, Ok(true));
    assert_eq!(calls(&server), ["publish", "ack"]);
}

#[tokio::test]
async fn d07_a_result_is_published_once_while_the_acknowledgement_fails() {
    let server = server();
    let store = store(&server);
    publish(&server, "one");
    let claims = claim_all(&store, "work", NOW).await;
    server.fail("Acknowledge", UNAVAILABLE);
    for _ in 0..3 {
        assert_eq!(complete(&store, &claims[0].reference).await, Err(ErrorKind::Unavailable));
    }
    server.fail("Acknowledge", 0);
    assert_eq!(complete(&store, &claims[0].reference).await, Ok(true));
    assert_eq!(server.published("results").len(), 1);
    assert_eq!(complete(&store, &claims[0].reference).await, Ok(false), "it has ended");
}

/// The result is out, but the message was not acknowledged before its lease ended.
#[tokio::test]
async fn d07_a_message_that_is_delivered_again_after_its_result_is_not_sent_again() {
    let server = server();
    let store = store(&server);
    publish(&server, "one");
    let claims = claim_all(&store, "work", NOW).await;
    server.fail("Acknowledge", UNAVAILABLE);
    assert_eq!(complete(&store, &claims[0].reference).await, Err(ErrorKind::Unavailable));
    server.fail("Acknowledge", 0);
    let later = NOW.after(LEASE + Duration::from_secs(1));
    server.advance(LEASE.as_secs_f64() + 1.0);
    assert_eq!(store.reclaim("work", later).await.unwrap().lost, 1);
    assert_eq!(claim_all(&store, "work", later).await, []);
    assert_eq!(calls(&server), ["publish", "ack"]);
    assert_eq!(server.messages()[0]["deliveries"], 2);
}

#[tokio::test]
async fn d09_a_result_for_a_topic_that_does_not_exist_goes_to_the_usual_topic() {
    let server = server();
    let store = store(&server);
    let request = json!({
        "id": "lost", "deadline": NOW.secs() + 3600, "payload": {}, "result_queue_name": "nowhere",
    });
    server.publish("work", &request.to_string(), &json!({}));
    let claims = claim_all(&store, "work", NOW).await;
    assert_eq!(complete(&store, &claims[0].reference).await, Ok(true));
    assert_eq!(server.published("results")[0]["id"], "lost");
}

/// A claim of a message that names this topic for its result.
async fn claim_with_route(server: &PubSub, store: &PubSubStore, route: &str) -> ClaimRef {
    let request = json!({
        "id": "routed", "deadline": NOW.secs() + 3600, "payload": {}, "result_queue_name": route,
    });
    server.publish("work", &request.to_string(), &json!({}));
    claim_all(store, "work", NOW).await[0].reference.clone()
}

/// Google refuses "a b" as invalid. A server that fails for now is asked again.
#[tokio::test]
async fn d09_a_producer_cannot_occupy_a_worker_with_a_topic_that_is_refused() {
    for (code, published) in [(3, 1), (5, 1), (7, 1), (9, 1), (12, 1), (8, 0), (14, 0)] {
        let server = server();
        let store = refused(&server, ("/Publish", "topics/a b", code));
        let claim = claim_with_route(&server, &store, "a b").await;
        let expected = if published == 1 { Ok(true) } else { Err(ErrorKind::Unavailable) };
        assert_eq!(complete(&store, &claim).await, expected, "{code}");
        assert_eq!(server.published("results").len(), published, "{code}");
    }
}

/// The topic of another project is not even tried: the account may have the right to write there.
#[tokio::test]
async fn d09_a_producer_cannot_direct_a_result_to_another_project() {
    let rows = [
        ("projects/elsewhere/topics/other", "results"),
        ("projects/tests/topics/other", "other"),
        ("other", "other"),
    ];
    for (route, expected) in rows {
        let server = server();
        let store = refused(&server, ("/Publish", "projects/elsewhere", UNAVAILABLE));
        let claim = claim_with_route(&server, &store, route).await;
        assert_eq!(complete(&store, &claim).await, Ok(true), "{route}");
        assert_eq!(server.published(expected).len(), 1, "{route}");
    }
}

#[tokio::test]
async fn d09_a_result_that_is_larger_than_a_message_may_be_says_so() {
    let server = server();
    let store = store(&server);
    publish(&server, "large");
    let claims = claim_all(&store, "work", NOW).await;
    let large = Outcome::Answered { status: 200, body: vec![b'x'; 11_000_000].into() };
    assert!(store.complete(claims[0].reference.clone(), large, NOW).await.unwrap());
    let results = server.published("results");
    assert_eq!(
        (&results[0]["id"], &results[0]["error_code"]),
        (&json!("large"), &json!("INFERENCE_ERROR"))
    );
    assert!(results[0]["error_message"].as_str().unwrap().contains("more than Pub/Sub takes"));
}

#[tokio::test]
async fn d09_dead_letters_are_forwarded_with_their_reason() {
    let server = server();
    let store = store(&server);
    publish(&server, "poison");
    server.publish("work", "not JSON", &json!({"team": "a"}));
    let claims = claim_all(&store, "work", NOW).await;
    let [claim] = &claims[..] else { panic!("{claims:?}") };
    let outcome = Outcome::Answered { status: 500, body: "{}".into() };
    assert!(store.dead_letter(claim.reference.clone(), outcome, NOW).await.unwrap());
    let events = server.events();
    let dead: Vec<&Value> = events.iter().filter(|event| event["topic"] == topic("dead")).collect();
    let reason = |event: &Value| event["attributes"]["TidegateDeadLetterReason"].to_string();
    assert_eq!(dead[0]["data"], "not JSON");
    assert_eq!(dead[0]["attributes"]["team"], "a", "its own attributes stay");
    assert!(reason(dead[0]).contains("it cannot be read"), "{dead:?}");
    assert!(dead[1]["data"].as_str().unwrap().contains("poison"));
    assert!(reason(dead[1]).contains("status 500"), "{dead:?}");
    let counted = &dead[1]["attributes"]["CloudPubSubDeadLetterSourceDeliveryCount"];
    assert_eq!(*counted, "1");
    assert_eq!(server.published("results").len(), 1, "an unreadable message has no result");
    let acks = events.iter().filter(|event| event["call"] == "ack").count();
    assert_eq!(acks, 2);
    let listed = store.list_dead_letters("work", None, 9).await.unwrap();
    assert_eq!(listed.len(), 2);
}

/// A topic for dead letters that fails, or none: the message stays, and stops no other.
#[tokio::test]
async fn d09_an_unreadable_message_that_can_go_nowhere_is_kept_and_told() {
    let server = server();
    let store = store(&server);
    server.publish("work", "not JSON", &json!({}));
    publish(&server, "good");
    server.fail("Publish", UNAVAILABLE);
    let claims = claim_all(&store, "work", NOW).await;
    assert_eq!(claims[0].message.id, "good");
    let listed = store.list_dead_letters("work", None, 9).await.unwrap();
    assert!(listed[0].why.contains(&topic("dead")), "{listed:?}");
    assert_eq!(calls(&server), Vec::<Value>::new(), "it is not acknowledged");
    server.advance(300.0);
    assert_eq!(claim_all(&store, "work", NOW).await, [], "it does not come again soon");
    assert_eq!(store.list_dead_letters("work", None, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn d09_what_pubsub_cannot_do_is_refused_with_what_can_be_done() {
    let server = server();
    let store = store(&server);
    let redriven = store.redrive_dead_letters("work", Selection::All, NOW).await.unwrap_err();
    assert_eq!(redriven.kind, ErrorKind::Unsupported);
    assert!(redriven.text.contains(&topic("dead")), "{redriven}");
    let purged = store.purge_dead_letters("work", Selection::All).await.unwrap_err();
    let cancelled = store.cancel("one", NOW).await.unwrap_err();
    let taken = store.take_results("results", 1).await.unwrap_err();
    let submitted = store.submit(Vec::new(), NOW).await.unwrap_err();
    for error in [purged, cancelled, taken, submitted] {
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.text.starts_with("not supported by Pub/Sub: "), "{error}");
    }
}

#[tokio::test]
async fn d09_topics_and_subscriptions_that_do_not_exist_are_found_at_the_start() {
    let server = server();
    assert_eq!(store(&server).check_server().await.unwrap(), Vec::<String>::new());
    let empty = PubSub::start();
    let error = store(&empty).check_server().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.text.contains(&subscription("day")), "{error}");
    assert!(error.text.contains("create it"), "{error}");
    server.fail("GetSubscription", 7);
    server.fail("GetTopic", 7);
    assert!(store(&server).check_server().await.is_ok(), "a subscriber may not read the settings");
}
