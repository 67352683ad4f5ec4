//! The subscription to changes, and reading many large messages.

use std::time::Duration;

use tokio::time::Instant;

use super::server::{Redis, Reply};
use super::{cluster_of_one, connect, join, message, want};
use crate::{Body, Message, Moment, RedisStore, Store};

const NOW: Moment = Moment::from_secs(1_800_000_000);

/// Polling once a second would take more than twice as long as this.
const NEWS: u32 = 25;
const BOUND: Duration = Duration::from_secs(10);

/// One store submits messages, and `changed` of the other resolves for each.
async fn told_of(news: &str, from: &RedisStore, to: &RedisStore) {
    let start = Instant::now();
    for number in 0..NEWS {
        let change = to.changed();
        from.submit(vec![message(&format!("{news}-{number}"), NOW)], NOW).await.unwrap();
        change.await;
    }
    let took = start.elapsed();
    assert!(took < BOUND, "{NEWS} pieces of news took {took:?}");
}

#[tokio::test]
async fn changed_resolves_before_the_poll_interval() {
    let redis = Redis::start();
    let (from, to) = (connect(&redis).await, connect(&redis).await);
    told_of("first", &from, &to).await;
    // The server disconnects all subscribers, and they subscribe again.
    assert_ne!(redis.call(&["CLIENT", "KILL", "TYPE", "pubsub"]), Reply::Number(0));
    told_of("second", &from, &to).await;
}

#[tokio::test]
async fn changed_resolves_in_a_cluster() {
    let redis = cluster_of_one();
    let (from, to) = (join(&redis).await, join(&redis).await);
    told_of("first", &from, &to).await;
}

/// A server disconnects a subscriber with more than 32 MiB of replies in its output buffer.
#[tokio::test]
async fn a_window_of_large_messages_can_be_read() {
    let redis = Redis::start();
    let store = connect(&redis).await;
    let body = Body::Bytes(format!(r#"{{"prompt":"{}"}}"#, "x".repeat(65_000)).into());
    let messages = (0..600).map(|number| Message {
        tenant: format!("t{}", number % 3),
        body: body.clone(),
        ..message(&format!("m{number}"), NOW)
    });
    store.submit(messages.collect(), NOW).await.unwrap();
    let change = store.changed();
    let lanes = store.lanes("q", NOW).await.unwrap();
    let waiting: Vec<u64> = lanes.iter().map(|lane| lane.waiting).collect();
    assert_eq!(waiting, [171, 171, 170], "of the first 512");
    let claims = store.claim(want("q", "t2", 256, NOW), NOW).await.unwrap();
    assert_eq!(claims.len(), 170);
    change.await;
}
