//! Servers that crash: one restarts from its log, and the replica of another takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::server::{Redis, Reply, until};
use super::{connect, message, settings, want};
use crate::{ErrorKind, Message, Moment, Outcome, Receipt, RedisSettings, RedisStore, Store};

const NOW: Moment = Moment::from_secs(1_800_000_000);

/// Makes a replica synchronise at once.
const QUICK: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// Retries while the server is unavailable. Every other error fails the test.
macro_rules! patiently {
    ($ask:expr) => {
        'found: {
            // Each attempt itself retries for some seconds.
            for _ in 0..20 {
                match $ask.await {
                    Ok(answer) => break 'found answer,
                    Err(error) => assert_eq!(error.kind, ErrorKind::Unavailable, "{error}"),
                }
            }
            panic!("it stays away");
        }
    };
}

/// Submits messages one by one, and records those that were accepted.
async fn produce(store: Arc<RedisStore>, count: usize, heard: Arc<std::sync::Mutex<Vec<String>>>) {
    for number in 0..count {
        let id = format!("m{number:03}");
        let batch: Vec<Message> = vec![message(&id, NOW)];
        let receipt = patiently!(store.submit(batch.clone(), NOW));
        // After a lost reply the message is a duplicate.
        assert!(matches!(receipt[0], Receipt::Accepted | Receipt::Duplicate), "{receipt:?}");
        heard.lock().unwrap().push(id);
    }
}

/// Completes messages until the producer has ended and none is left.
async fn work(store: Arc<RedisStore>, no_more: Arc<AtomicBool>) {
    let mut now = NOW;
    loop {
        let last = no_more.load(Ordering::SeqCst);
        let claims = patiently!(store.claim(want("q", "", 4, now), now));
        let idle = claims.is_empty();
        for claim in claims {
            let outcome = Outcome::Answered { status: 200, body: claim.message.id.into() };
            // A lost claim is fine: the message is then claimed again.
            let _ = patiently!(store.complete(claim.reference.clone(), outcome.clone(), now));
        }
        if idle {
            // A claim whose reply was lost must expire.
            now = now.after(Duration::from_secs(120));
            let reclaimed = patiently!(store.reclaim("q", now));
            if last && reclaimed.lost == 0 && reclaimed.next.is_none() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// The number of results of each message.
fn results(redis: &Redis) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for text in redis.call(&["LRANGE", "result-list", "0", "-1"]).texts() {
        let result: serde_json::Value = serde_json::from_str(&text).unwrap();
        *counts.entry(result["id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    counts
}

/// Every accepted message has one result.
fn check(redis: &Redis, accepted: &[String]) {
    let counts = results(redis);
    let more: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
    assert!(more.is_empty(), "results that were kept twice: {more:?}");
    let accepted: BTreeSet<&String> = accepted.iter().collect();
    let lost: Vec<_> = accepted.iter().filter(|id| !counts.contains_key(**id)).collect();
    assert!(lost.is_empty(), "accepted and without a result: {lost:?}");
}

#[tokio::test]
async fn d07_nothing_accepted_is_lost_when_the_server_is_killed_and_started_again() {
    let mut redis = Redis::start_with(&["--appendfsync", "always"]);
    let store = connect(&redis).await;
    let (heard, no_more) = (Arc::default(), Arc::new(AtomicBool::new(false)));
    let producer = tokio::spawn(produce(store.clone(), 200, Arc::clone(&heard)));
    let worker = tokio::spawn(work(store.clone(), Arc::clone(&no_more)));
    for reached in [40, 80, 120] {
        while heard.lock().unwrap().len() < reached {
            tokio::task::yield_now().await;
        }
        redis.kill();
        redis.restart();
    }
    producer.await.unwrap();
    no_more.store(true, Ordering::SeqCst);
    worker.await.unwrap();
    let accepted = heard.lock().unwrap().clone();
    assert_eq!(accepted.len(), 200);
    check(&redis, &accepted);
}

fn follows(replica: &Redis) -> bool {
    let info = replica.call(&["INFO", "replication"]).texts();
    info[0].contains("role:slave") && info[0].contains("master_link_status:up")
}

#[tokio::test]
async fn d07_nothing_accepted_is_lost_when_a_replica_takes_over() {
    let mut first = Redis::start_with(&QUICK);
    let second = Redis::start_with(&QUICK);
    let ports = [first.port().to_string(), second.port().to_string()];
    second.call(&["REPLICAOF", "127.0.0.1", &ports[0]]);
    until("the replica follows", || follows(&second).then_some(()));

    let both = RedisSettings { replicas: 1, ..settings(&[&first, &second]) };
    let store = RedisStore::connect(both).await.unwrap();
    let (heard, no_more) = (Arc::default(), Arc::new(AtomicBool::new(false)));
    let producer = tokio::spawn(produce(store.clone(), 200, Arc::clone(&heard)));
    let worker = tokio::spawn(work(store.clone(), Arc::clone(&no_more)));
    while heard.lock().unwrap().len() < 80 {
        tokio::task::yield_now().await;
    }
    first.kill();
    second.call(&["REPLICAOF", "NO", "ONE"]);
    // The old primary restarts, and still acts as the primary. It has no replica, so writes to it
    // do not count.
    first.restart();
    first.call(&["REPLICAOF", "127.0.0.1", &ports[1]]);
    producer.await.unwrap();
    no_more.store(true, Ordering::SeqCst);
    worker.await.unwrap();
    let accepted = heard.lock().unwrap().clone();
    assert_eq!(accepted.len(), 200);
    check(&second, &accepted);
    until("the old primary follows", || follows(&first).then_some(()));
    check(&first, &accepted);
}

#[tokio::test]
async fn a_primary_without_its_replica_accepts_nothing() {
    let first = Redis::start_with(&QUICK);
    let mut second = Redis::start_with(&QUICK);
    second.call(&["REPLICAOF", "127.0.0.1", &first.port().to_string()]);
    until("the replica follows", || follows(&second).then_some(()));
    let both = RedisSettings { replicas: 1, ..settings(&[&second, &first]) };
    let store = RedisStore::connect(both).await.unwrap();
    assert_eq!(store.submit(vec![message("a", NOW)], NOW).await.unwrap(), [Receipt::Accepted]);
    second.kill();
    let error = store.submit(vec![message("b", NOW)], NOW).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    // The message may be stored all the same; then a second submission is a duplicate.
    second.restart();
    second.call(&["REPLICAOF", "127.0.0.1", &first.port().to_string()]);
    until("the replica follows", || follows(&second).then_some(()));
    let receipt = patiently!(store.submit(vec![message("b", NOW)], NOW));
    assert_eq!(receipt, [Receipt::Duplicate]);
    assert_eq!(store.depth("q").await.unwrap().pending, 2);
}

/// Two servers that both act as the primary: only one has a replica.
#[tokio::test]
async fn d07_of_two_primaries_the_one_with_a_replica_is_used() {
    let start = || Redis::start_with(&QUICK);
    let (forsaken, followed, replica) = (start(), start(), start());
    replica.call(&["REPLICAOF", "127.0.0.1", &followed.port().to_string()]);
    until("the replica follows", || follows(&replica).then_some(()));
    let both = RedisSettings { replicas: 1, ..settings(&[&forsaken, &followed]) };
    let store = RedisStore::connect(both).await.unwrap();
    let receipt = patiently!(store.submit(vec![message("a", NOW)], NOW));
    assert_eq!(receipt, [Receipt::Accepted]);
    assert_eq!(followed.call(&["ZCARD", "q"]), Reply::Number(1));
    assert_eq!(replica.call(&["ZCARD", "q"]), Reply::Number(1));
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_replaced_by_the_primary() {
    let first = Redis::start();
    let second = Redis::start();
    let store = RedisStore::connect(settings(&[&first, &second])).await.unwrap();
    store.submit(vec![message("a", NOW)], NOW).await.unwrap();
    assert_eq!(first.call(&["ZCARD", "q"]), Reply::Number(1));
    first.call(&["REPLICAOF", "127.0.0.1", &second.port().to_string()]);
    let receipt = patiently!(store.submit(vec![message("b", NOW)], NOW));
    assert_eq!(receipt, [Receipt::Accepted]);
    assert_eq!(second.call(&["ZCARD", "q"]), Reply::Number(1), "where writes are taken now");
}

/// A sentinel gets the password of the primary only if it asks for one.
#[tokio::test]
async fn d07_sentinels_name_the_primary_with_a_password_or_without() {
    let password = ["--requirepass", "secret"];
    let primary = Redis::start_with(&password);
    for options in [&[][..], &password] {
        let sentinel = Redis::sentinel(primary.port(), options);
        let url = format!("redis://:secret@127.0.0.1:{}", sentinel.port());
        let of = |name: &str| RedisSettings {
            urls: vec!["redis://127.0.0.1:1".into(), url.clone()],
            sentinel: Some(name.into()),
            ..RedisSettings::default()
        };
        let store = RedisStore::connect(of("main")).await.unwrap();
        let submitted = store.submit(vec![message(&url, NOW)], NOW).await.unwrap();
        assert_eq!(submitted, [Receipt::Accepted]);
        let error = RedisStore::connect(of("other")).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.text.contains("watches no \"other\""), "{error}");
        assert!(!error.text.contains("secret"), "{error}");
    }
}
