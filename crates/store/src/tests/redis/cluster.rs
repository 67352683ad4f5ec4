//! Clusters: names in several slots are refused at the start, and three servers share the queues.

use std::collections::BTreeSet;

use super::server::{Redis, Reply, until};
use super::{cluster_of_one, join, message, settings, want};
use crate::{
    ErrorKind, Message, Moment, Outcome, Receipt, RedisQueue, RedisSettings, RedisStore, Selection,
    Store,
};

const NOW: Moment = Moment::from_secs(1_800_000_000);

fn queue(name: &str, results: Option<&str>) -> RedisQueue {
    RedisQueue { name: name.into(), results: results.map(str::to_owned), results_ttl: None }
}

#[tokio::test]
async fn names_in_several_slots_are_refused_with_a_better_name() {
    let base = RedisSettings { cluster: true, ..RedisSettings::default() };
    let with = |queues: Vec<RedisQueue>| RedisSettings { queues, ..base.clone() };
    let cases = [
        (with(vec![queue("q", Some("results"))]), "\"{q}:results\""),
        (with(vec![queue("{pool}:q", Some("{q}:results"))]), "\"{pool}:q:results\""),
        (with(vec![queue("a}b", None)]), "must not have \"}\""),
        (
            RedisSettings { results: "all".into(), ..with(vec![queue("q", None)]) },
            "\"{q}:results\"",
        ),
        (
            RedisSettings { retries: "again".into(), ..with(vec![queue("q", None)]) },
            "\"{q}:retry\"",
        ),
    ];
    for (settings, hint) in cases {
        let error = RedisStore::connect(settings).await.expect_err(hint);
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(error.text.contains(hint), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_cluster_setting_is_refused() {
    let alone = Redis::start();
    let cluster = cluster_of_one();
    let wrong = RedisSettings { cluster: true, ..settings(&[&alone]) };
    let error = RedisStore::connect(wrong).await.expect_err("it is none");
    assert!(error.text.contains("cluster support disabled"), "{error}");
    let error = RedisStore::connect(settings(&[&cluster])).await.expect_err("it is one");
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.text.contains("cluster = true"), "{error}");
}

#[tokio::test]
async fn d09_in_a_cluster_all_keys_of_a_queue_are_in_its_slot() {
    let redis = cluster_of_one();
    let store = join(&redis).await;
    let messages = ["a", "b", "c"].map(|id| message(id, NOW));
    assert_eq!(store.submit(messages.into(), NOW).await.unwrap(), [Receipt::Accepted; 3]);
    let claims = store.claim(want("q", "", 9, NOW), NOW).await.unwrap();
    let [a, b, c] = &claims[..] else { panic!("{claims:?}") };
    let outcome = Outcome::failed(Outcome::FAILED, "no");
    assert!(store.complete(a.reference.clone(), outcome.clone(), NOW).await.unwrap());
    assert!(store.dead_letter(b.reference.clone(), outcome, NOW).await.unwrap());
    let later = NOW.after(std::time::Duration::from_secs(9));
    let back = crate::Release { due: later, failed: true };
    assert!(store.release(c.reference.clone(), back, NOW).await.unwrap());
    let slot = |key: &str| redis.call(&["CLUSTER", "KEYSLOT", key]);
    let keys: BTreeSet<String> = redis.call(&["KEYS", "*"]).texts().into_iter().collect();
    let by_id = |key: &&String| !key.starts_with("request-active:");
    for key in keys.iter().filter(by_id) {
        assert_eq!(slot(key), slot("q"), "{key}");
    }
    for key in ["{q}:results", "{q}:retry", "{q}:dead", "request-seq:{q}:1800003600"] {
        assert!(keys.contains(key), "{key} is not among {keys:?}");
    }
    assert_eq!(store.take_results("{q}:results", 9).await.unwrap().len(), 2);
}

/// Three servers with a third of the slots each.
fn three() -> Vec<Redis> {
    let nodes: Vec<Redis> =
        (0..3).map(|_| Redis::start_with(&["--cluster-enabled", "yes"])).collect();
    for (node, (first, last)) in
        nodes.iter().zip([("0", "5460"), ("5461", "10922"), ("10923", "16383")])
    {
        assert_eq!(node.call(&["CLUSTER", "ADDSLOTSRANGE", first, last]), Reply::Text("OK".into()));
        let port = nodes[0].port().to_string();
        assert_eq!(node.call(&["CLUSTER", "MEET", "127.0.0.1", &port]), Reply::Text("OK".into()));
    }
    until("the cluster is ready", || {
        let ready = |node: &Redis| {
            let info = node.call(&["CLUSTER", "INFO"]).texts().remove(0);
            ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3"]
                .iter()
                .all(|word| info.contains(word))
        };
        nodes.iter().all(ready).then_some(())
    });
    nodes
}

/// Runs every verb on a queue.
async fn exercise(store: &RedisStore, queue: &str, route: &str) {
    let list = if route.is_empty() { format!("{{{queue}}}:results") } else { route.to_owned() };
    let with = |id: &str| {
        let id = format!("{queue}-{route}-{id}");
        Message { queue: queue.into(), route: route.into(), ..message(&id, NOW) }
    };
    let batch = vec![with("done"), with("dead"), with("cancelled")];
    assert_eq!(store.submit(batch.clone(), NOW).await.unwrap(), [Receipt::Accepted; 3]);
    assert_eq!(store.submit(batch, NOW).await.unwrap(), [Receipt::Duplicate; 3]);
    assert!(store.cancel(&with("cancelled").id, NOW).await.unwrap());
    let claims = store.claim(want(queue, "", 9, NOW), NOW).await.unwrap();
    let [done, dead, cancelled] = &claims[..] else { panic!("{claims:?}") };
    assert!(cancelled.cancelled && !done.cancelled);
    let outcome = || Outcome::failed(Outcome::FAILED, "no");
    assert!(store.complete(done.reference.clone(), outcome(), NOW).await.unwrap());
    assert!(!store.complete(done.reference.clone(), outcome(), NOW).await.unwrap());
    assert!(store.dead_letter(dead.reference.clone(), outcome(), NOW).await.unwrap());
    assert!(store.complete(cancelled.reference.clone(), outcome(), NOW).await.unwrap());
    assert_eq!(store.take_results(&list, 99).await.unwrap().len(), 3);
    assert_eq!(store.redrive_dead_letters(queue, Selection::All, NOW).await.unwrap().requeued, 1);
    let again = store.claim(want(queue, "", 9, NOW), NOW).await.unwrap().remove(0);
    assert!(store.complete(again.reference, outcome(), NOW).await.unwrap());
    assert_eq!(store.take_results(&list, 99).await.unwrap().len(), 1);
}

#[tokio::test]
async fn d09_three_servers_share_the_queues_also_when_a_slot_moves() {
    let nodes = three();
    let store = join(&nodes[0]).await;
    // The slots of these queues are 15495, 3300 and 7365: each on another server.
    for queue in ["a", "b", "c"] {
        exercise(&store, queue, "").await;
        exercise(&store, queue, "results-elsewhere").await;
    }
    let counts: Vec<Reply> = nodes.iter().map(|node| node.call(&["DBSIZE"])).collect();
    assert!(counts.iter().all(|count| *count != Reply::Number(0)), "{counts:?}");
    // The slot of `d`, 11298, moves from the third to the first server, unknown to the store.
    let id = nodes[0].call(&["CLUSTER", "MYID"]).texts().remove(0);
    for node in &nodes {
        let moved = node.call(&["CLUSTER", "SETSLOT", "11298", "NODE", &id]);
        assert_eq!(moved, Reply::Text("OK".into()));
    }
    exercise(&store, "d", "").await;
    assert!(nodes[0].call(&["KEYS", "*{d}*"]).texts().len() > 1);
}

/// A result list in another slot than the queue needs a step of its own. After a crash between the
/// two steps, the next dispatcher must not store a second result.
#[tokio::test]
async fn d07_a_result_in_another_slot_is_stored_once_even_if_the_claim_is_reclaimed() {
    let redis = cluster_of_one();
    let store = join(&redis).await;
    store.submit(vec![Message { route: "out".into(), ..message("a", NOW) }], NOW).await.unwrap();
    let outcome = || Outcome::failed(Outcome::FAILED, "no");
    let claim = store.claim(want("q", "", 1, NOW), NOW).await.unwrap().remove(0);
    let saved: Vec<(String, Vec<String>)> = ["{q}:claimed", "{q}:claim-owners"]
        .map(|key| (key.to_owned(), redis.call(&["HGETALL", key]).texts()))
        .into();
    assert!(store.complete(claim.reference.clone(), outcome(), NOW).await.unwrap());
    // As after a crash between the result and the end of the claim.
    for (key, pair) in &saved {
        redis.call(&["HSET", key, &pair[0], &pair[1]]);
        redis.call(&["ZADD", "{q}:claims-idx", "1", &pair[0]]);
    }
    assert_eq!(store.reclaim("q", NOW).await.unwrap().lost, 1);
    let again = store.claim(want("q", "", 1, NOW), NOW).await.unwrap().remove(0);
    assert!(!store.complete(claim.reference, outcome(), NOW).await.unwrap(), "it lost its claim");
    assert!(store.complete(again.reference, outcome(), NOW).await.unwrap());
    assert_eq!(store.take_results("out", 9).await.unwrap().len(), 1);
}
