//! Deliveries: the requests that are sent, their results, and their order.

use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::{
    Dispatcher, Fixture, OPEN, QUEUE, QUICK, await_results, config, count, message, results,
    submit, submit_to, unix,
};
use crate::gateway::spellings::SPELLINGS;
use crate::support::redis::Reply;
use crate::support::{Backend, Redis, ScriptedResponse, eventually};

#[test]
fn d01_a_message_of_llm_d_is_sent_as_best_effort_and_its_response_stored() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok());
    submit(&fixture.redis, "one", unix() + 600);
    let results = await_results(&fixture.redis, 1);
    let seen = &fixture.backend.seen()[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(seen.json()["mark"], "one");
    for (name, value) in [
        ("x-priority", "best_effort"),
        ("x-request-id", "one"),
        ("x-llm-d-inference-fairness-id", "team-a"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    let [result] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!((&result["id"], &result["status_code"]), (&json!("one"), &json!(200)));
    let token = message("one", 0)["internal"]["request_token"].clone();
    assert_eq!(result["request_token"], token);
    let answer: Value = serde_json::from_str(result["payload"].as_str().unwrap()).unwrap();
    assert_eq!(answer["object"], "chat.completion");
    for key in ["claimed", "claim-owners", "claims-idx"] {
        let exists = fixture.redis.call(&["EXISTS", &format!("{QUEUE}:{key}")]);
        assert_eq!(exists, Reply::Number(0), "{key} is left behind");
    }
}

/// The hold of a gate unless it is configured.
const HOLD: Duration = Duration::from_secs(1);

#[test]
fn d05_an_overload_counts_as_no_failure_and_closes_the_gate_for_a_while() {
    // With one attempt, a single failure would make a dead letter.
    let fixture = Fixture::start("attempts = 1\n", |seen| match seen.number {
        0..3 => ScriptedResponse::with_headers(429, &["retry-after: 0"], "{}"),
        3..5 => ScriptedResponse::json(503, "{}"),
        _ => ScriptedResponse::ok(),
    });
    submit(&fixture.redis, "patient", unix() + 600);
    let results = await_results(&fixture.redis, 1);
    assert_eq!(results[0]["status_code"], 200);
    let times: Vec<_> = fixture.backend.seen().iter().map(|seen| seen.at).collect();
    assert_eq!(times.len(), 6);
    let closed = times.windows(2).all(|pair| pair[1] - pair[0] >= HOLD);
    assert!(closed, "the gate stays closed for its hold: {times:?}");
    eventually("counted", || {
        let ends = fixture.dispatcher.queue(QUEUE)["ends"].clone();
        let (congested, dead) = (ends["congested"].as_u64(), ends["dead"].as_u64());
        if (congested, dead) == (Some(5), Some(0)) { Ok(()) } else { Err(ends.to_string()) }
    });
}

#[test]
fn d05_a_very_long_retry_after_does_not_close_the_gate_for_as_long() {
    let fixture = Fixture::start("", |seen| match seen.tag().as_str() {
        "sent-away" => {
            ScriptedResponse::with_headers(429, &["retry-after: 18446744073709551615"], "{}")
        }
        _ => ScriptedResponse::ok(),
    });
    submit(&fixture.redis, "sent-away", unix() + 3600);
    fixture.backend.await_seen(1);
    submit(&fixture.redis, "bystander", unix() + 3600);
    let results = await_results(&fixture.redis, 1);
    assert_eq!(results[0]["id"], "bystander");
}

#[test]
fn d07_an_expired_message_is_not_sent_and_has_a_result_with_the_reason() {
    // The gate stays closed: expired messages must get their result anyway.
    let (redis, backend) = (Redis::start(), Backend::quick());
    let shut = "[[dispatch.gates]]\nname = \"shut\"\nkind = \"constant\"\nvalue = 0.0\n\
                capacity = 10\n";
    let sections = format!("{QUICK}{shut}");
    let dispatcher = Dispatcher::start(&config(&sections, "\"shut\"", &redis, backend.address()));
    submit(&redis, "late", unix() - 5);
    submit(&redis, "soon", unix() + 2);
    submit(&redis, "waits", unix() + 600);
    let results = await_results(&redis, 2);
    for (result, id) in results.iter().zip(["late", "soon"]) {
        assert_eq!(result["id"], id);
        assert_eq!(result["error_code"], "DEADLINE_EXCEEDED");
        assert!(result.get("status_code").is_none(), "{result}");
    }
    assert!(backend.seen().is_empty());
    assert_eq!(count(&redis), 1, "the third message is pending");
    drop(dispatcher);
}

#[test]
fn d07_the_earliest_deadline_goes_first_and_equals_in_their_order() {
    let (redis, backend) = (Redis::start(), Backend::quick());
    let deadline = unix() + 600;
    for (id, deadline) in [("c", deadline + 9), ("a", deadline), ("d", deadline + 20)] {
        submit(&redis, id, deadline);
    }
    submit(&redis, "b", deadline + 1);
    let one = "workers = 1\n";
    let sections = format!("{QUICK}{one}");
    let _dispatcher = Dispatcher::start(&config(&sections, "\"open\"", &redis, backend.address()));
    await_results(&redis, 4);
    assert_eq!(backend.tags(), ["a", "b", "c", "d"]);
}

#[test]
fn d08_queues_share_by_weight() {
    let (redis, backend) = (Redis::start(), Backend::quick());
    let deadline = unix() + 600;
    for number in 0..40 {
        for queue in ["heavy", "light"] {
            submit_to(&redis, queue, &message(&format!("{queue}-{number}"), deadline));
        }
    }
    let queue = |name: &str, weight: f64| {
        format!(
            "[[dispatch.queues]]\nname = \"{name}\"\nweight = {weight}\n\
             target = \"http://{}\"\ngates = [\"open\"]\n",
            backend.address()
        )
    };
    let config = format!(
        "[dispatch]\nworkers = 1\n{OPEN}[dispatch.redis]\nurls = [\"{}\"]\n{}{}",
        redis.url(),
        queue("heavy", 3.0),
        queue("light", 1.0)
    );
    let _dispatcher = Dispatcher::start(&config);
    await_results(&redis, 80);
    let first: Vec<String> = backend.tags().into_iter().take(40).collect();
    let heavy = first.iter().filter(|tag| tag.starts_with("heavy")).count();
    assert!((29..=31).contains(&heavy), "three of four: {first:?}");
}

#[test]
fn d08_tenants_of_a_queue_share_by_weight() {
    let (redis, backend) = (Redis::start(), Backend::quick());
    let deadline = unix() + 600;
    for number in 0..40 {
        for (tenant, later) in [("greedy", 0), ("small", 5)] {
            let mut message = message(&format!("{tenant}-{number}"), deadline + later);
            message["data"]["metadata"]["userid"] = json!(tenant);
            submit_to(&redis, QUEUE, &message);
        }
    }
    let sections = "[dispatch]\nworkers = 1\n";
    let mut config = config(sections, "\"open\"", &redis, backend.address());
    config += "tenants = { small = 2.0 }\n";
    let _dispatcher = Dispatcher::start(&config);
    await_results(&redis, 80);
    let first: Vec<String> = backend.tags().into_iter().take(30).collect();
    let small = first.iter().filter(|tag| tag.starts_with("small")).count();
    assert!((19..=21).contains(&small), "two of three, though its deadlines are later: {first:?}");
}

#[test]
fn d04_a_budget_in_bytes_sends_whole_requests_and_a_large_one_alone() {
    let (redis, backend) = (Redis::start(), Backend::held());
    let gate = "[[dispatch.gates]]\nname = \"bytes\"\nkind = \"constant\"\nbaseline = 0.0\n\
                unit = \"bytes\"\ncapacity = 5000\n";
    let sections = format!("{QUICK}{gate}");
    for (at, (id, size)) in [("a", 3000), ("b", 3000), ("huge", 20_000)].iter().enumerate() {
        let mut message = message(id, unix() + 600 + at as u64);
        message["data"]["payload"]["text"] = json!("x".repeat(*size));
        submit_to(&redis, QUEUE, &message);
    }
    let _dispatcher = Dispatcher::start(&config(&sections, "\"bytes\"", &redis, backend.address()));
    for (count, id) in [(1, "a"), (2, "b"), (3, "huge")] {
        backend.await_seen(count);
        assert_eq!((backend.running(), backend.tags()[count - 1].as_str()), (1, id));
        backend.release(1);
        await_results(&redis, count);
    }
    assert_eq!(backend.most(), 1, "two of them never fit at once");
}

/// Prompts are short, and outputs are what fills an engine. What the responses report replaces the
/// limits that nothing uses.
#[test]
fn d04_a_budget_in_tokens_counts_the_expected_output_and_learns_it() {
    let (redis, backend) = (Redis::start(), Backend::held());
    let gate = "[[dispatch.gates]]\nname = \"tokens\"\nkind = \"constant\"\nbaseline = 0.0\n\
                unit = \"tokens\"\ncapacity = 9000\n";
    for number in 0..40 {
        let mut message = message(&format!("{number:02}"), unix() + 600);
        message["data"]["payload"]["max_tokens"] = json!(4000);
        submit_to(&redis, QUEUE, &message);
    }
    let sections = format!("{QUICK}{gate}");
    let dispatcher = Dispatcher::start(&config(&sections, "\"tokens\"", &redis, backend.address()));
    backend.await_held(2);
    eventually("two requests of 4000 tokens at the gate", || {
        let gates = dispatcher.page("/dispatch").json()["gates"].clone();
        let found = gates.as_array().unwrap().iter().find(|gate| gate["name"] == "tokens").cloned();
        let held = found.and_then(|gate| gate["held"].as_u64());
        if held.is_some_and(|held| held >= 8000) { Ok(()) } else { Err(gates.to_string()) }
    });
    assert_eq!(backend.running(), 2, "there is no room for a third");
    // Their outputs have one token, so from now on a claim counts 256.
    backend.release(2);
    await_results(&redis, 2);
    eventually("more", || match backend.running() {
        enough @ 30.. => Ok(enough),
        running => Err(format!("{running} running")),
    });
    backend.open();
    await_results(&redis, 40);
    assert!(backend.most() <= 9000 / 256, "{} at once", backend.most());
}

#[test]
fn d03_no_more_requests_are_in_flight_than_the_gate_allows() {
    let (redis, backend) = (Redis::start(), Backend::held());
    let gate = "[[dispatch.gates]]\nname = \"half\"\nkind = \"constant\"\nvalue = 0.5\n\
                baseline = 0.1\ncapacity = 10\n";
    for number in 0..12 {
        submit(&redis, &number.to_string(), unix() + 600);
    }
    let sections = format!("{QUICK}{gate}");
    let _dispatcher = Dispatcher::start(&config(&sections, "\"half\"", &redis, backend.address()));
    backend.await_running(4);
    backend.release(1);
    backend.await_seen(5);
    backend.open();
    await_results(&redis, 12);
    assert_eq!(backend.most(), 4, "ten places, half of them free, one reserved");
    assert_eq!(results(&redis).len(), 12);
}

#[test]
fn producers_cannot_reach_other_paths_of_the_server() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok());
    let own =
        ["/dispatch/dead/purge", "/v1/batches/x/cancel", "http://h/v1/x", "//h/v1/x", "/v1/../x"];
    let changes = ["/v1/load_lora_adapter", "/v1/team/v1/load_lora_adapter"];
    let bad: Vec<&str> = own.into_iter().chain(changes).chain(SPELLINGS).collect();
    for (at, endpoint) in bad.iter().enumerate() {
        let mut message = message(&format!("bad-{at}"), unix() + 600);
        message["data"]["endpoint"] = json!(endpoint);
        submit_to(&fixture.redis, QUEUE, &message);
    }
    let results = await_results(&fixture.redis, bad.len());
    for result in &results {
        assert_eq!(result["error_code"], "INVALID_REQUEST", "{result}");
    }
    assert!(fixture.backend.seen().is_empty());
}

/// A gate for 2000 bytes with a request in flight, and a message that does not fit beside it.
fn crowded() -> Fixture {
    let gate = "[[dispatch.gates]]\nname = \"bytes\"\nkind = \"constant\"\nbaseline = 0.0\n\
                unit = \"bytes\"\ncapacity = 2000\n";
    let (redis, backend) = (Redis::start(), Backend::held());
    let sections = format!("{QUICK}{gate}");
    let dispatcher = Dispatcher::start(&config(&sections, "\"bytes\"", &redis, backend.address()));
    let fixture = Fixture { redis, backend, dispatcher };
    submit(&fixture.redis, "first", unix() + 900);
    fixture.backend.await_running(1);
    let mut large = message("large", unix() + 800);
    large["data"]["payload"]["text"] = json!("x".repeat(5000));
    submit_to(&fixture.redis, QUEUE, &large);
    eventually("claimed", || {
        let claimed = fixture.dispatcher.queue(QUEUE)["in_flight"].as_u64();
        if claimed == Some(2) { Ok(()) } else { Err(format!("{claimed:?}")) }
    });
    fixture
}

#[test]
fn d04_a_large_message_that_waits_for_a_gate_yields_to_an_earlier_deadline() {
    let fixture = crowded();
    submit(&fixture.redis, "urgent", unix() + 500);
    fixture.backend.await_running(2);
    assert_eq!(fixture.backend.tags(), ["first", "urgent"]);
    fixture.backend.open();
    let results = await_results(&fixture.redis, 3);
    assert!(results.iter().all(|result| result["status_code"] == 200), "{results:?}");
}

#[test]
fn a_message_that_is_cancelled_while_it_waits_for_a_gate_is_not_sent() {
    let fixture = crowded();
    let token = message("large", 0)["internal"]["request_token"].clone();
    fixture.redis.call(&["SET", "request-cancel:large", token.as_str().unwrap(), "EX", "100"]);
    let results = await_results(&fixture.redis, 1);
    assert_eq!(
        (&results[0]["id"], &results[0]["error_code"]),
        (&json!("large"), &json!("CANCELLED"))
    );
    assert_eq!(fixture.backend.tags(), ["first"]);
}
