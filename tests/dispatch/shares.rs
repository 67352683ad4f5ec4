//! D08: queues and tenants share what a gate allows while it is full, which it is most of the time.

use serde_json::json;

use super::fixture::{Dispatcher, QUEUE, await_results, config, message, results, submit_to, unix};
use crate::support::{Backend, Redis, eventually};

/// A configuration of queues with one gate.
fn queues(gate: &str, redis: &Redis, backend: &Backend, queues: &[(&str, f64)]) -> String {
    let queue = |(name, weight): &(&str, f64)| {
        format!(
            "[[dispatch.queues]]\nname = \"{name}\"\nweight = {weight}\n\
             target = \"http://{}\"\ngates = [\"shared\"]\n",
            backend.address()
        )
    };
    let queues: String = queues.iter().map(queue).collect();
    format!(
        "[[dispatch.gates]]\nname = \"shared\"\nbaseline = 0.0\n{gate}\
         [dispatch.redis]\nurls = [\"{}\"]\n{queues}",
        redis.url()
    )
}

fn submit_many(redis: &Redis, queue: &str, count: usize, bytes: usize) {
    for number in 0..count {
        let mut message = message(&format!("{queue}-{number}"), unix() + 600);
        message["data"]["payload"]["text"] = json!("x".repeat(bytes));
        submit_to(redis, queue, &message);
    }
}

/// How many of the first requests have a mark that begins so.
fn of_first(backend: &Backend, first: usize, begin: &str) -> usize {
    let tags = backend.tags();
    tags[..first].iter().filter(|tag| tag.starts_with(begin)).count()
}

#[test]
fn d08_queues_share_a_full_gate_by_weight() {
    for gate in [
        "kind = \"constant\"\ncapacity = 1\n",
        "kind = \"constant\"\ncapacity = 3\n",
        "kind = \"constant\"\ncapacity = 3000\nunit = \"bytes\"\n",
        "kind = \"aimd\"\nmax = 2\n",
    ] {
        let (redis, backend) = (Redis::start(), Backend::quick());
        submit_many(&redis, "heavy", 60, 1000);
        submit_many(&redis, "light", 60, 1000);
        let all = [("light", 1.0), ("heavy", 3.0)];
        let _dispatcher = Dispatcher::start(&queues(gate, &redis, &backend, &all));
        await_results(&redis, 120);
        let heavy = of_first(&backend, 40, "heavy");
        assert!((28..=32).contains(&heavy), "{gate}: {heavy} of 40, and three of four are due");
    }
}

/// What a message needs has no influence on how many its tenant has.
#[test]
fn d08_tenants_share_a_budget_in_bytes_however_large_their_messages_are() {
    let (redis, backend) = (Redis::start(), Backend::quick());
    let gate = "[[dispatch.gates]]\nname = \"bytes\"\nkind = \"constant\"\nbaseline = 0.0\n\
                unit = \"bytes\"\ncapacity = 5000\n";
    for number in 0..40 {
        for (tenant, bytes) in [("large", 3000), ("small", 10)] {
            let mut message = message(&format!("{tenant}-{number}"), unix() + 600);
            message["data"]["metadata"]["userid"] = json!(tenant);
            message["data"]["payload"]["text"] = json!("x".repeat(bytes));
            submit_to(&redis, QUEUE, &message);
        }
    }
    let _dispatcher = Dispatcher::start(&config(gate, "\"bytes\"", &redis, backend.address()));
    await_results(&redis, 80);
    let small = of_first(&backend, 40, "small");
    assert!((18..=22).contains(&small), "{small} of 40 are of the one with small messages");
}

/// The small messages of another queue always fit into what is left.
#[test]
fn d08_a_message_that_needs_the_whole_gate_is_not_passed_for_ever() {
    let (redis, backend) = (Redis::start(), Backend::held());
    let gate = "kind = \"constant\"\ncapacity = 6000\nunit = \"bytes\"\n";
    submit_many(&redis, "small", 60, 1000);
    let all = [("small", 1.0), ("huge", 1.0)];
    let _dispatcher = Dispatcher::start(&queues(gate, &redis, &backend, &all));
    backend.await_running(3);
    submit_many(&redis, "huge", 1, 20_000);
    eventually("all results", || {
        if backend.running() > 0 {
            backend.release(1);
        }
        let count = results(&redis).len();
        if count == 61 { Ok(()) } else { Err(format!("{count} results")) }
    });
    let place = backend.tags().iter().position(|tag| tag.starts_with("huge"));
    assert!(place.is_some_and(|place| place < 30), "it was sent as number {place:?}");
}

/// A request that is in flight at its deadline shows no room, so the window of `aimd` stays.
#[test]
fn d03_a_target_that_answers_nothing_gets_no_more_requests() {
    let (redis, backend) = (Redis::start(), Backend::held());
    let mut submitted = 0;
    for wave in 2..6 {
        for number in 0..20 {
            let message = message(&format!("{wave}-{number}"), unix() + wave);
            submit_to(&redis, "mute", &message);
            submitted += 1;
        }
    }
    let gate = "kind = \"aimd\"\n";
    let dispatcher = Dispatcher::start(&queues(gate, &redis, &backend, &[("mute", 1.0)]));
    let ended = await_results(&redis, submitted);
    assert!(ended.iter().all(|result| result["error_code"] == "DEADLINE_EXCEEDED"), "{ended:?}");
    assert_eq!(backend.most(), 1, "no answer has shown that there is room for two");
    eventually("the cause", || {
        let status = dispatcher.page("/status").text();
        let cause = "without an answer before the deadline";
        if status.contains(cause) { Ok(()) } else { Err(status) }
    });
}
