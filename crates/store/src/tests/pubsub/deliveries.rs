//! Deliveries: further ones of the same message, those to another process, and how many are asked
//! for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::server::PubSub;
use super::{claim_all, refused, server, store};
use crate::tests::conformance::{LEASE, good};
use crate::{ClaimRequest, ErrorKind, Moment, PubSubStore, Release, Standing, Store as _};

const NOW: Moment = Moment::from_secs(1_800_000_000);
const FAILED_PRECONDITION: u32 = 9;
const UNAVAILABLE: u32 = 14;

fn publish(server: &PubSub, id: &str) {
    let deadline = NOW.secs() + 3600;
    let request = json!({"id": id, "deadline": deadline, "payload": {"model": "m"}});
    server.publish("work", &request.to_string(), &json!({"userid": ""}));
}

#[tokio::test]
async fn d07_a_message_of_a_killed_process_comes_to_another_with_one_more_failure() {
    let server = server();
    publish(&server, "one");
    let killed = store(&server);
    assert_eq!(claim_all(&killed, "work", NOW).await[0].failures, 0);
    drop(killed);
    let next = store(&server);
    assert_eq!(claim_all(&next, "work", NOW).await, [], "its lease has not ended");
    server.advance(LEASE.as_secs_f64() + 1.0);
    let claims = claim_all(&next, "work", NOW.after(LEASE)).await;
    assert_eq!((claims.len(), claims[0].failures), (1, 1), "{claims:?}");
}

#[tokio::test]
async fn d07_a_process_that_ends_gives_its_messages_back_at_once() {
    let server = server();
    for id in ["pending", "waiting", "unclaimed"] {
        publish(&server, id);
    }
    let first = store(&server);
    let claims = claim_all(&first, "work", NOW).await;
    for claim in &claims[..2] {
        let release = Release { due: NOW.after(Duration::from_secs(30)), failed: false };
        assert!(first.release(claim.reference.clone(), release, NOW).await.unwrap());
    }
    publish(&server, "received");
    first.fetch("work", 10, true, || NOW).await.unwrap();
    first.close().await.unwrap();
    let second = store(&server);
    assert_eq!(claim_all(&second, "work", NOW).await.len(), 3);
    assert!(first.complete(claims[2].reference.clone(), good(), NOW).await.unwrap());
}

/// A lease that ended unnoticed: the same process gets the message a second time.
#[tokio::test]
async fn d07_a_further_delivery_of_a_message_that_is_held_is_not_claimed_twice() {
    let server = server();
    let store = store(&server);
    publish(&server, "one");
    let claims = claim_all(&store, "work", NOW).await;
    server.advance(LEASE.as_secs_f64() + 1.0);
    assert_eq!(claim_all(&store, "work", NOW).await, []);
    assert_eq!(server.messages()[0]["deliveries"], 2);
    assert!(store.complete(claims[0].reference.clone(), good(), NOW).await.unwrap());
    let message = &server.messages()[0];
    assert_eq!(message["acks"], 1, "by the id of the latest delivery: {message}");
}

/// The error of a pull does not outlive the wish for more messages.
#[tokio::test]
async fn d07_messages_that_are_here_are_sent_after_a_pull_has_failed() {
    let server = server();
    let store = store(&server);
    (0..30).for_each(|number| publish(&server, &format!("m{number}")));
    store.fetch("work", 30, true, || NOW).await.unwrap();
    let (queue, tenant) = ("work".to_owned(), String::new());
    let request = ClaimRequest { queue, tenant, limit: 16, until: NOW.after(LEASE) };
    let claims = store.claim(request, NOW).await.unwrap();
    server.fail("Pull", UNAVAILABLE);
    let failed = store.changed();
    let receiver = Arc::clone(&store);
    tokio::spawn(async move { receiver.receive("work", || NOW).await });
    failed.await;
    assert_eq!(store.lanes("work", NOW).await.unwrap_err().kind, ErrorKind::Unavailable);
    for claim in claims {
        assert!(store.complete(claim.reference, good(), NOW).await.unwrap());
    }
    let sent = async {
        while store.lanes("work", NOW).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), sent).await.expect("they wait for ever");
}

/// Nothing is claimed for longer than the deadline of the subscription, which is ten seconds.
#[tokio::test]
async fn d07_a_message_that_is_received_ahead_keeps_its_lease_while_all_workers_are_busy() {
    let server = server();
    let (store, other) = (store(&server), store(&server));
    let changed = store.changed();
    publish(&server, "sent");
    let receiver = Arc::clone(&store);
    tokio::spawn(async move { receiver.receive("work", || NOW).await });
    changed.await;
    let (queue, tenant) = ("work".to_owned(), String::new());
    let request = ClaimRequest { queue, tenant, limit: 1, until: NOW.after(LEASE) };
    let claims = store.claim(request.clone(), NOW).await.unwrap();
    let changed = store.changed();
    publish(&server, "ahead");
    changed.await;
    let mut now = NOW;
    while now < NOW.after(Duration::from_secs(120)) {
        let held = vec![claims[0].reference.clone()];
        assert_eq!(store.renew(held, now.after(LEASE)).await.unwrap(), [Standing::Held]);
        let next = store.reclaim("work", now).await.unwrap().next.unwrap();
        assert!(next > now, "nothing was renewed");
        server.advance(next.since(now).as_secs_f64());
        now = next;
        assert_eq!(claim_all(&other, "work", now).await, [], "its lease has ended");
    }
    let ahead = store.claim(ClaimRequest { until: now.after(LEASE), ..request }, now).await;
    let ahead = ahead.unwrap();
    assert_eq!((ahead.len(), ahead[0].failures), (1, 0), "{ahead:?}");
    let deliveries = server.messages().into_iter().map(|message| message["deliveries"].clone());
    assert_eq!(deliveries.collect::<Vec<_>>(), [1, 1]);
}

/// What was received stays with this process, which tries again before it receives more.
#[tokio::test]
async fn d07_a_message_that_could_not_be_kept_is_kept_when_the_server_can_again() {
    let server = server();
    let store = store(&server);
    server.fail("ModifyAckDeadline", UNAVAILABLE);
    let failed = store.changed();
    publish(&server, "one");
    let receiver = Arc::clone(&store);
    tokio::spawn(async move { receiver.receive("work", || NOW).await });
    failed.await;
    assert_eq!(store.lanes("work", NOW).await.unwrap_err().kind, ErrorKind::Unavailable);
    let kept = store.changed();
    server.fail("ModifyAckDeadline", 0);
    kept.await;
    assert_eq!(store.lanes("work", NOW).await.unwrap()[0].waiting, 1);
    assert_eq!(server.messages()[0]["deliveries"], 1);
}

fn start_receiving(store: &Arc<PubSubStore>, queue: &'static str) {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.receive(queue, || NOW).await });
}

/// One subscription is out of its quota, or detached.
#[tokio::test]
async fn d08_the_trouble_of_a_subscription_is_that_of_its_queue_alone() {
    for (code, kind) in [(8, ErrorKind::Unavailable), (FAILED_PRECONDITION, ErrorKind::Invalid)] {
        let server = server();
        let store = refused(&server, ("/Pull", "subscriptions/elsewhere", code));
        assert!(store.queues_fail_alone());
        for queue in ["elsewhere", "work"] {
            let changed = store.changed();
            publish(&server, queue);
            start_receiving(&store, queue);
            changed.await;
        }
        // Both verbs say so: one that succeeds would end the trouble.
        assert_eq!(store.lanes("elsewhere", NOW).await.unwrap_err().kind, kind);
        assert_eq!(store.reclaim("elsewhere", NOW).await.unwrap_err().kind, kind);
        while store.lanes("work", NOW).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(store.reclaim("work", NOW).await.is_ok());
    }
}

/// With exactly-once delivery, Pub/Sub says that a lease has ended.
#[tokio::test]
async fn d07_a_claim_whose_delivery_is_gone_is_lost() {
    let server = server();
    let store = store(&server);
    publish(&server, "one");
    publish(&server, "two");
    let claims = claim_all(&store, "work", NOW).await;
    let held: Vec<_> = claims.into_iter().map(|claim| claim.reference).collect();
    server.fail("ModifyAckDeadline", FAILED_PRECONDITION);
    let standing = store.renew(held.clone(), NOW.after(LEASE)).await.unwrap();
    assert_eq!(standing, [Standing::Lost; 2]);
    assert!(!store.complete(held[0].clone(), good(), NOW).await.unwrap());
    assert_eq!(server.events().len(), 0);
}

/// What waits here is kept: released for an hour, in memory, with its lease renewed.
#[tokio::test]
async fn d07_a_message_that_waits_long_stays_with_its_process_and_counts_no_delivery() {
    let server = server();
    let store = store(&server);
    publish(&server, "one");
    let claims = claim_all(&store, "work", NOW).await;
    let due = NOW.after(Duration::from_secs(1200));
    let release = Release { due, failed: false };
    assert!(store.release(claims[0].reference.clone(), release, NOW).await.unwrap());
    let mut now = NOW;
    while now < due {
        let next = store.reclaim("work", now).await.unwrap().next.unwrap();
        assert!(next > now, "nothing was renewed");
        server.advance(next.since(now).as_secs_f64());
        now = next;
    }
    assert_eq!(store.reclaim("work", now).await.unwrap().due, 1);
    let again = claim_all(&store, "work", now).await;
    assert_eq!((again.len(), again[0].failures), (1, 0));
    assert_eq!(server.messages()[0]["deliveries"], 1);
}

#[tokio::test]
async fn d08_two_processes_share_a_subscription_and_none_takes_all() {
    let server = server();
    let ids: Vec<String> = (0..40).map(|number| format!("m{number}")).collect();
    ids.iter().for_each(|id| publish(&server, id));
    let both = [store(&server), store(&server)];
    let changes = both.each_ref().map(|store| store.changed());
    let receivers = both.each_ref().map(|store| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.receive("work", || NOW).await })
    });
    for (store, change) in both.iter().zip(changes) {
        change.await;
        // An idle process receives a few messages ahead.
        let lanes = store.lanes("work", NOW).await.unwrap();
        assert!((1..=8).contains(&lanes[0].waiting), "{lanes:?}");
    }
    let mut seen = BTreeSet::new();
    while seen.len() < ids.len() {
        for store in &both {
            let ids = complete_some(store).await;
            assert!(ids.into_iter().all(|id| seen.insert(id)), "twice");
        }
        tokio::task::yield_now().await;
    }
    for store in &both {
        store.close().await.unwrap();
    }
    for receiver in receivers {
        receiver.await.unwrap();
    }
    assert_eq!(server.published("results").len(), ids.len());
}

/// Claims and completes what is here; returns the ids.
async fn complete_some(store: &PubSubStore) -> Vec<String> {
    let (queue, tenant) = ("work".to_owned(), String::new());
    let request = ClaimRequest { queue, tenant, limit: 8, until: NOW.after(LEASE) };
    let claims = store.claim(request, NOW).await.unwrap();
    for claim in &claims {
        assert!(store.complete(claim.reference.clone(), good(), NOW).await.unwrap());
    }
    claims.into_iter().map(|claim| claim.message.id).collect()
}
