//! The kind `redis`.

use std::sync::atomic::Ordering;

use super::fake::{Fake, Process, Reply, free_port};
use super::*;
use crate::gates::kinds::redis::RedisAddress;

fn says(text: &str) -> Reply {
    Reply::Text(text.into())
}

fn redis(url: String) -> Arc<Gates> {
    let kind = GateKind::Redis(redis_gate(&url, "dispatch-gate-budget"));
    gates(&[gate("g", kind, Capacity::Fixed(100.0))])
}

#[test]
fn d02_an_address_needs_only_a_host() {
    for (url, shown) in [
        ("redis://h", "h:6379"),
        ("redis://h:1", "h:1"),
        ("redis://u:p@h:1/2", "h:1"),
        ("redis://:p%40@[::1]/2", "[::1]:6379"),
    ] {
        let address = RedisAddress::parse(url, None).unwrap();
        assert!(format!("{address:?}").contains(&format!("{shown:?}")), "{address:?}");
    }
    for url in ["h:1", "http://h", "redis://", "redis://:1", "redis://h/x", "redis://:%4@h"] {
        let error = RedisAddress::parse(url, None).unwrap_err().to_string();
        assert!(error.starts_with("the URL of Redis is wrong: "), "{url}: {error}");
    }
}

#[tokio::test]
async fn d02_a_number_is_read_on_one_connection_with_a_user_and_a_password() {
    let ok = says("+OK\r\n");
    let fake = Fake::start(vec![ok.clone(), ok, says("$3\r\n0.7\r\n")]).await;
    let gates = redis(format!("redis://me:p%20w@127.0.0.1:{}/3", fake.port));
    let _polling = polled(&gates);
    let found = until(&gates, "read", |gate| gate.open).await;
    assert_eq!((found.left, found.value), (50, Some(0.7)));
    until(&gates, "read thrice", |_| fake.received.lock().unwrap().len() > 4).await;
    let received = fake.received.lock().unwrap()[..4].to_vec();
    let get = "GET dispatch-gate-budget";
    assert_eq!(received, ["AUTH me p w", "SELECT 3", get, get]);
    assert_eq!(fake.connections.load(Ordering::Relaxed), 1);
}

/// The number contains none of our requests: all that are in flight count against it.
#[tokio::test]
async fn d03_a_number_is_a_level() {
    let fake = Fake::start(vec![says("$3\r\n0.4\r\n")]).await;
    let gates = redis(format!("redis://127.0.0.1:{}", fake.port));
    let _polling = polled(&gates);
    until(&gates, "read", |gate| gate.open).await;
    let permits = take_all(&gates);
    assert_eq!(permits.len(), 20);
    let asked = fake.received.lock().unwrap().len();
    until(&gates, "read again", |_| fake.received.lock().unwrap().len() > asked + 2).await;
    assert!(take_all(&gates).is_empty(), "however often it is read");
    fake.set(says("$1\r\n7\r\n"));
    until(&gates, "more", |gate| gate.left == 60).await;
}

#[tokio::test]
async fn d06_a_reply_that_is_not_a_number_closes_the_gate() {
    let fake = Fake::start(vec![says("$1\r\n1\r\n")]).await;
    let gates = redis(format!("redis://127.0.0.1:{}", fake.port));
    let _polling = polled(&gates);
    let long = format!("+{}\r\n", "x".repeat(600));
    for (reply, why) in [
        ("$-1\r\n", "the key \"dispatch-gate-budget\" does not exist"),
        ("$3\r\nyes\r\n", "\"dispatch-gate-budget\" holds \"yes\", not a number"),
        ("$3\r\nNaN\r\n", "dispatch-gate-budget is NaN"),
        ("$3\r\ninf\r\n", "dispatch-gate-budget is inf"),
        ("-NOAUTH no\r\n", "Redis refused: NOAUTH no"),
        ("-MOVED 1 h:1\r\n", "Redis refused: MOVED 1 h:1"),
        ("$999999999999\r\n", "it holds 999999999999 bytes, which is no number"),
        ("$x\r\n", "the reply is not from Redis: \"$x\""),
        ("HTTP/1.1 400 Bad\r\n", "the reply is not from Redis: \"HTTP"),
        ("*0\r\n", "the reply is not from Redis: \"*0\""),
        (&long, "the reply is not from Redis: \"+xxx"),
    ] {
        fake.set(says(reply));
        let why = format!("unreadable: {why}");
        until(&gates, &why, |gate| gate.state.starts_with(&why)).await;
        fake.set(says("$1\r\n1\r\n"));
        until(&gates, "read again", |gate| gate.open).await;
    }
    fake.set(Reply::Closed);
    until(&gates, "closed", |gate| gate.state == "unreadable: the connection was closed").await;
}

/// The Redis of Debian.
#[tokio::test]
async fn d02_a_real_redis_is_read() {
    let port = free_port();
    let text = port.to_string();
    let settings = ["--port", &text, "--save", "", "--requirepass", "s e:c"];
    let server = Process::start("redis-server", &settings);
    let gates = redis(format!("redis://:s%20e%3Ac@127.0.0.1:{port}/1"));
    let _polling = polled(&gates);
    let missing = "unreadable: the key \"dispatch-gate-budget\" does not exist";
    until(&gates, "asked", |gate| gate.state == missing).await;
    let set = ["-p", &text, "-a", "s e:c", "-n", "1", "SET", "dispatch-gate-budget", "0.5"];
    let _client = Process::start("redis-cli", &set);
    let found = until(&gates, "read", |gate| gate.open).await;
    assert_eq!(found.left, 30);
    drop(server);
    until(&gates, "gone", |gate| gate.state.starts_with("unreadable: ")).await;
}
