//! D08: a key of one queue that has another type stops that queue alone.

use std::net::SocketAddr;

use serde_json::Value;

use super::fixture::{Dispatcher, OPEN, QUICK, await_results, message, results, submit_to, unix};
use crate::support::{Backend, Redis, ScriptedResponse, eventually};

/// A dispatcher of two queues.
fn config(redis: &Redis, target: SocketAddr) -> String {
    let queue = |name: &str| {
        format!(
            "[[dispatch.queues]]\nname = \"{name}\"\ntarget = \"http://{target}\"\n\
             gates = [\"open\"]\n"
        )
    };
    let own = "results = \"own-results\"\n";
    format!(
        "{QUICK}lease = \"1s\"\n{OPEN}[dispatch.redis]\nurls = [\"{}\"]\n{}{}{own}",
        redis.url(),
        queue("q"),
        queue("q2")
    )
}

fn submit(redis: &Redis, queue: &str, ids: impl Iterator<Item = usize>) {
    for id in ids {
        submit_to(redis, queue, &message(&format!("{queue}-{id}"), unix() + 600));
    }
}

/// The findings about queues that cannot be used, by `/status`.
fn findings(dispatcher: &Dispatcher) -> Vec<Value> {
    let page = dispatcher.page("/status").json();
    let found = page["findings"].as_array().unwrap().iter();
    found.filter(|found| found["id"] == "batch_queue_unusable").cloned().collect()
}

fn await_finding(dispatcher: &Dispatcher, words: [&str; 3]) {
    eventually("a finding", || {
        let found = findings(dispatcher);
        let texts: Vec<&str> = found.iter().filter_map(|found| found["text"].as_str()).collect();
        match texts[..] {
            [text] if words.iter().all(|word| text.contains(word)) => Ok(()),
            _ => Err(format!("{found:?}")),
        }
    });
}

/// Another program has each of these keys. The other queue works on, before and after; and so does
/// this one when the key is away.
#[test]
fn d08_a_key_of_another_type_stops_its_queue_alone() {
    let keys = ["q2", "q2:claimed", "q2:claims-idx", "{q2}:dead", "own-results"];
    for key in keys {
        let (redis, backend) = (Redis::start(), Backend::quick());
        redis.call(&["SET", key, "mine"]);
        submit(&redis, "q", 0..10);
        if key != "q2" {
            submit(&redis, "q2", 0..2);
        }
        let dispatcher = Dispatcher::start(&config(&redis, backend.address()));
        await_results(&redis, 10);
        let named = format!("the key {key:?} is a string and must be a ");
        await_finding(&dispatcher, ["the batch queue q2 cannot be used", &named, "RENAME"]);
        let text = dispatcher.page("/dispatch.txt").text();
        assert!(text.contains(&format!("nothing is sent: {named}")), "{text}");
        assert_eq!(dispatcher.page("/ready").status, 200, "the other queue is served");
        assert_eq!(backend.seen().len(), 10, "nothing of the other queue was sent");
        submit(&redis, "q", 10..12);
        await_results(&redis, 12);
        redis.call(&["RENAME", key, "away"]);
        if key == "q2" {
            submit(&redis, "q2", 0..2);
        }
        eventually("served again", || match redis.call(&["LLEN", "own-results"]).texts() {
            count if count == ["2"] => Ok(()),
            count => Err(format!("{count:?} results, {:?}", findings(&dispatcher))),
        });
        eventually("no finding", || match findings(&dispatcher) {
            none if none.is_empty() => Ok(()),
            found => Err(format!("{found:?}")),
        });
        let told = "cannot be used and sends nothing";
        let log = dispatcher.process.await_log(told, 1);
        assert_eq!(log.matches(told).count(), 1, "it is logged once: {log}");
    }
}

/// The key breaks while messages are in flight: their leases are kept, and what cannot be stored is
/// sent again later.
#[test]
fn d08_a_key_that_breaks_while_its_queue_works_stops_no_other_queue() {
    let (redis, backend) = (Redis::start(), Backend::held());
    let dispatcher = Dispatcher::start(&config(&redis, backend.address()));
    submit(&redis, "q2", 0..1);
    backend.await_running(1);
    submit(&redis, "q", 0..1);
    backend.await_running(2);
    redis.call(&["SET", "own-results", "mine"]);
    backend.open();
    assert_eq!(await_results(&redis, 1)[0]["id"], "q-0");
    await_finding(&dispatcher, ["queue q2", "\"own-results\" is a string", "must be a list"]);
    submit(&redis, "q", 1..20);
    await_results(&redis, 20);
    redis.call(&["DEL", "own-results"]);
    eventually("the result", || match redis.call(&["LLEN", "own-results"]).texts() {
        count if count == ["1"] => Ok(()),
        count => Err(format!("{count:?}")),
    });
    assert!(results(&redis).iter().all(|result| result["status_code"] == 200));
}

/// All queues share the set of retries. Another program has a key of its name, and messages that
/// fail and that are refused are sent again all the same.
#[test]
fn d08_a_key_of_another_type_in_the_place_of_the_retries_stops_no_queue() {
    let redis = Redis::start();
    redis.call(&["SET", "retry-sortedset", "mine"]);
    let backend = Backend::start(|seen| match seen.number {
        0..3 => ScriptedResponse::json(500, "{}"),
        3..5 => ScriptedResponse::with_headers(429, &["retry-after: 0"], "{}"),
        _ => ScriptedResponse::ok(),
    });
    let dispatcher = Dispatcher::start(&config(&redis, backend.address()));
    submit(&redis, "q", 0..5);
    submit(&redis, "q2", 0..1);
    await_results(&redis, 5);
    let done = |list: &str| redis.call(&["LLEN", list]).texts();
    eventually("the other queue", || match done("own-results") {
        count if count == ["1"] => Ok(()),
        count => Err(format!("{count:?}")),
    });
    let found = || {
        let page = dispatcher.page("/status").json();
        let found = page["findings"].as_array().unwrap().iter();
        let found = found.filter(|found| found["id"] == "batch_retries_unusable");
        found.map(|found| found["text"].to_string()).collect::<Vec<_>>()
    };
    let named = "the key \\\"retry-sortedset\\\" is a string and must be a sorted set";
    eventually("a finding for each queue", || match found() {
        texts if texts.len() == 2 && texts.iter().all(|text| text.contains(named)) => Ok(()),
        texts => Err(format!("{texts:?}")),
    });
    assert!(findings(&dispatcher).is_empty(), "no queue stops");
    redis.call(&["RENAME", "retry-sortedset", "away"]);
    eventually("no finding", || match found() {
        none if none.is_empty() => Ok(()),
        texts => Err(format!("{texts:?}")),
    });
}

/// Anybody who submits a message may write its key of cancellation. Its queue goes on: it is
/// released and sent again, and another message beside it can be cancelled.
#[test]
fn d08_a_key_of_cancellation_of_another_type_stops_nothing() {
    let redis = Redis::start();
    redis.call(&["LPUSH", "request-cancel:q-0", "mine"]);
    let backend = Backend::start(|seen| match seen.number {
        0..2 => ScriptedResponse::with_headers(429, &["retry-after: 0"], "{}"),
        _ => ScriptedResponse::ok().held(),
    });
    let dispatcher = Dispatcher::start(&config(&redis, backend.address()));
    submit(&redis, "q", 0..2);
    backend.await_held(2);
    let token = message("q-1", 0)["internal"]["request_token"].as_str().unwrap().to_owned();
    redis.call(&["SET", "request-cancel:q-1", &token, "EX", "100"]);
    let cancelled = await_results(&redis, 1);
    assert_eq!(
        (&cancelled[0]["id"], &cancelled[0]["error_code"]),
        (&"q-1".into(), &"CANCELLED".into())
    );
    backend.open();
    assert_eq!(await_results(&redis, 2)[1]["status_code"], 200);
    assert_eq!(backend.seen().len(), 4, "nothing was sent twice");
    let log = dispatcher.process.log();
    assert!(!log.contains("cannot be used") && !log.contains("cannot be stored"), "{log}");
}
