//! Messages that make their target fail: each is tried so many times, and others do not wait for
//! them. An outage of the target ends no message.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::fixture::{
    Dispatcher, OPEN, QUEUE, QUICK, await_results, config, message, results, submit, submit_to,
    unix,
};
use crate::support::gateway::TWO;
use crate::support::{Backend, Gateway, Redis, ScriptedResponse, chat, eventually};

/// A dispatcher of the queues `bad` and `good`, with this target.
fn two_queues(sections: &str, redis: &Redis, target: SocketAddr) -> Dispatcher {
    let queue = |name: &str| {
        format!(
            "[[dispatch.queues]]\nname = \"{name}\"\ntarget = \"http://{target}\"\n\
             gates = [\"open\"]\n"
        )
    };
    let (bad, good, url) = (queue("bad"), queue("good"), redis.url());
    Dispatcher::start(&format!(
        "{QUICK}{sections}{OPEN}[dispatch.redis]\nurls = [\"{url}\"]\n{bad}{good}"
    ))
}

fn result_of(redis: &Redis, id: &str) -> Option<Value> {
    results(redis).into_iter().find(|result| result["id"] == id)
}

/// Serves other messages of a queue, one after the other, until this holds.
fn serve_until(redis: &Redis, queue: &str, model: &str, done: impl Fn() -> bool) {
    let mut number = 0;
    eventually("the other message", || {
        if done() {
            return Ok(());
        }
        let id = format!("other-{number}");
        let mut other = message(&id, unix() + 600);
        other["data"]["payload"]["model"] = json!(model);
        submit_to(redis, queue, &other);
        number += 1;
        eventually("a result", || result_of(redis, &id).ok_or_else(String::new));
        Err(format!("{number} others served"))
    });
}

/// The gateway keeps a lone request that its backend fails, until its time to live is over. For the
/// message this is a failure and no overload.
#[test]
fn n05_a_lone_message_that_a_gateway_keeps_in_vain_becomes_a_dead_letter() {
    let backend = Backend::start(|_| ScriptedResponse::json(500, "{}"));
    let gateway = Gateway::before(&format!("[queue]\nqueue_ttl = \"1s\"\n{TWO}"), &backend);
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.code().as_str()), (503, "queue_timeout"));
    let failed: u32 = answer.header("x-failed-attempts").unwrap().parse().unwrap();
    assert!(failed > 0);
    let redis = Redis::start();
    let sections = format!("{QUICK}attempts = 2\n");
    let _dispatcher = Dispatcher::start(&config(&sections, "\"open\"", &redis, gateway.address()));
    submit(&redis, "poison", unix() + 600);
    assert_eq!(await_results(&redis, 1)[0]["status_code"], 503);
    let dead = redis.call(&["ZCARD", &format!("{{{QUEUE}}}:dead")]).texts();
    assert_eq!(dead, ["1"]);
}

/// All messages fail at the gateway, so none is to blame: each of them outlives the outage.
#[test]
fn n05_messages_that_a_gateway_keeps_in_vain_outlive_an_outage_of_its_backend() {
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let backend = Backend::start(move |_| match ended.load(Ordering::SeqCst) {
        true => ScriptedResponse::ok(),
        false => ScriptedResponse::json(500, "{}"),
    });
    let sections = format!("[queue]\nqueue_ttl = \"1s\"\n[health]\neject_for = \"1s\"\n{TWO}");
    let gateway = Gateway::before(&sections, &backend);
    let redis = Redis::start();
    let sections = format!("{QUICK}attempts = 2\n");
    let dispatcher = Dispatcher::start(&config(&sections, "\"open\"", &redis, gateway.address()));
    for number in 0..3 {
        submit(&redis, &number.to_string(), unix() + 600);
    }
    eventually("three failures of each", || match dispatcher.queue(QUEUE)["ends"].clone() {
        ends if ends["failed"].as_u64() >= Some(9) => Ok(()),
        ends => Err(ends.to_string()),
    });
    over.store(true, Ordering::SeqCst);
    let results = await_results(&redis, 3);
    assert!(results.iter().all(|result| result["status_code"] == 200), "{results:?}");
}

/// Its own queue has no message that the target answers, but another one has.
#[test]
fn d07_the_poison_of_a_queue_is_given_up_while_its_target_answers_another_queue() {
    let redis = Redis::start();
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "poison" => ScriptedResponse::json(500, "{}"),
        _ => ScriptedResponse::ok(),
    });
    let _dispatcher = two_queues("", &redis, backend.address());
    submit_to(&redis, "bad", &message("poison", unix() + 600));
    serve_until(&redis, "good", "m", || result_of(&redis, "poison").is_some());
    assert_eq!(result_of(&redis, "poison").unwrap()["status_code"], 500);
    let tried = backend.tags().iter().filter(|tag| *tag == "poison").count();
    assert!((20..40).contains(&tried), "it was tried {tried} times");
    assert_eq!(redis.call(&["ZCARD", "{bad}:dead"]).texts(), ["1"]);
}

/// What serves one model fails all requests, and what serves another one does not.
#[test]
fn d07_a_message_outlives_an_outage_of_its_model_while_others_are_answered() {
    let over = Arc::new(AtomicBool::new(false));
    let failed = Arc::new(AtomicUsize::new(0));
    let (ended, count) = (Arc::clone(&over), Arc::clone(&failed));
    let backend = Backend::start(move |seen| {
        if seen.json()["model"] == "healthy" || ended.load(Ordering::SeqCst) {
            return ScriptedResponse::ok();
        }
        count.fetch_add(1, Ordering::SeqCst);
        ScriptedResponse::json(500, "{}")
    });
    let redis = Redis::start();
    let _dispatcher = Dispatcher::start(&config(QUICK, "\"open\"", &redis, backend.address()));
    submit(&redis, "patient", unix() + 600);
    serve_until(&redis, QUEUE, "healthy", || failed.load(Ordering::SeqCst) >= 24);
    over.store(true, Ordering::SeqCst);
    eventually("the result", || result_of(&redis, "patient").ok_or_else(String::new));
    assert_eq!(result_of(&redis, "patient").unwrap()["status_code"], 200);
}

/// The messages of one queue fail, at last each after a long time. They leave workers to a queue
/// whose messages are answered.
#[test]
fn d08_a_queue_whose_messages_all_fail_leaves_workers_to_others() {
    let bad = AtomicUsize::new(0);
    let backend = Backend::start(move |seen| match seen.tag().starts_with("bad") {
        true if bad.fetch_add(1, Ordering::SeqCst) < 40 => ScriptedResponse::json(500, "{}"),
        true => ScriptedResponse::json(500, "{}").held(),
        false => ScriptedResponse::ok(),
    });
    let redis = Redis::start();
    let dispatcher = two_queues("workers = 8\n", &redis, backend.address());
    for number in 0..60 {
        submit_to(&redis, "bad", &message(&format!("bad-{number}"), unix() + 600));
    }
    backend.await_held(4);
    for number in 0..20 {
        submit_to(&redis, "good", &message(&format!("good-{number}"), unix() + 600));
    }
    let served = await_results(&redis, 20);
    assert!(served.iter().all(|result| result["status_code"] == 200), "{served:?}");
    assert_eq!(backend.running(), 4, "half of the workers");
    assert_eq!(dispatcher.queue("bad")["in_flight"], 4);
    backend.open();
}
