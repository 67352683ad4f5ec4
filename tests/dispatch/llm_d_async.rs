//! Beside llm-d-async: its results, its defaults and its probes, and what its operators expect.

use serde_json::{Value, json};

use super::fixture::{
    Dispatcher, Fixture, OPEN, QUEUE, QUICK, await_results, config, message, results, submit,
    submit_to, unix,
};
use crate::support::{Backend, Redis, ScriptedResponse, eventually};

/// A queue with this target, and its gates if any.
fn queue(name: &str, target: &Backend, gates: &str) -> String {
    let target = target.address();
    format!("[[dispatch.queues]]\nname = \"{name}\"\ntarget = \"http://{target}\"\n{gates}\n")
}

/// A dispatcher of these queues on this Redis.
fn dispatcher(redis: &Redis, sections: &str, queues: &[String]) -> Dispatcher {
    let redis = format!("[dispatch.redis]\nurls = [\"{}\"]\n", redis.url());
    Dispatcher::start(&format!("{QUICK}{sections}{redis}{}", queues.concat()))
}

#[test]
fn d07_results_without_a_response_have_the_texts_of_llm_d_async() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok().held());
    submit(&fixture.redis, "late", unix() - 5);
    submit(&fixture.redis, "unwanted", unix() + 600);
    fixture.backend.await_running(1);
    let token = message("unwanted", 0)["internal"]["request_token"].clone();
    fixture.redis.call(&["SET", "request-cancel:unwanted", token.as_str().unwrap(), "EX", "100"]);
    let results = await_results(&fixture.redis, 2);
    for (id, code, text) in
        [("late", "DEADLINE_EXCEEDED", "deadline exceeded"), ("unwanted", "CANCELLED", "cancelled")]
    {
        let result = results.iter().find(|result| result["id"] == id).unwrap();
        assert_eq!((&result["error_code"], &result["error_message"]), (&json!(code), &json!(text)));
        let payload: Value = serde_json::from_str(result["payload"].as_str().unwrap()).unwrap();
        assert_eq!(payload, json!({ "error": text }));
    }
}

#[test]
fn d01_a_message_without_a_path_goes_where_its_payload_belongs() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok());
    let chat = json!({"model": "m", "messages": []});
    let prompt = json!({"model": "m", "prompt": "hi", "text": {"messages": 1}});
    let rows = [(chat, "/v1/chat/completions"), (prompt, "/v1/completions")];
    for (at, (payload, path)) in rows.into_iter().enumerate() {
        let mut message = message(&format!("m{at}"), unix() + 600);
        message["data"]["payload"] = payload;
        message["data"].as_object_mut().unwrap().remove("endpoint");
        submit_to(&fixture.redis, QUEUE, &message);
        await_results(&fixture.redis, at + 1);
        assert_eq!(fixture.backend.seen()[at].path, path);
    }
}

#[test]
fn d01_a_payload_that_is_null_is_sent_as_it_is() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok());
    let mut message = message("empty", unix() + 600);
    message["data"]["payload"] = Value::Null;
    submit_to(&fixture.redis, QUEUE, &message);
    assert_eq!(await_results(&fixture.redis, 1)[0]["status_code"], 200);
    assert_eq!(fixture.backend.seen()[0].body, b"null");
}

#[test]
fn d01_probes_find_the_paths_of_llm_d_async() {
    let mut fixture = Fixture::start("", |_| ScriptedResponse::ok());
    let status = |fixture: &Fixture, path: &str| fixture.dispatcher.page(path).status;
    assert_eq!(status(&fixture, "/healthz"), 200);
    eventually("ready", || match status(&fixture, "/readyz") {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
    fixture.redis.kill();
    eventually("not ready", || match status(&fixture, "/readyz") {
        503 => Ok(()),
        other => Err(other.to_string()),
    });
    assert_eq!(status(&fixture, "/healthz"), 200, "the process itself is well");
}

#[test]
fn d02_a_missing_number_in_redis_may_mean_a_free_share() {
    let (redis, target) = (Redis::start(), Backend::quick());
    let gate = format!(
        "[[dispatch.gates]]\nname = \"key\"\nkind = \"redis\"\nurl = \"{}\"\ncapacity = 10\n\
         interval = \"50ms\"\nmissing = 1.0\n",
        redis.url()
    );
    let sections = format!("{QUICK}{gate}");
    let _dispatcher = Dispatcher::start(&config(&sections, "\"key\"", &redis, target.address()));
    submit(&redis, "one", unix() + 600);
    assert_eq!(await_results(&redis, 1)[0]["status_code"], 200);
}

/// Long after the fifth failure the target answers again.
#[test]
fn d07_an_outage_of_the_target_ends_no_message() {
    let fixture = Fixture::start("", |seen| match seen.number {
        0..40 => ScriptedResponse::json(500, "{}"),
        _ => ScriptedResponse::ok(),
    });
    for id in ["a", "b"] {
        submit(&fixture.redis, id, unix() + 3600);
    }
    let results = await_results(&fixture.redis, 2);
    assert!(results.iter().all(|result| result["status_code"] == 200), "{results:?}");
}

#[test]
fn d07_a_message_that_fails_until_its_deadline_has_the_last_response_and_can_be_redriven() {
    let fixture = Fixture::start("", |_| ScriptedResponse::json(502, "{\"error\": \"down\"}"));
    submit(&fixture.redis, "hopeless", unix() + 3);
    let results = await_results(&fixture.redis, 1);
    assert_eq!(
        (&results[0]["status_code"], &results[0]["error_code"]),
        (&json!(502), &Value::Null)
    );
    assert!(fixture.backend.seen().len() > 5, "it was sent until its deadline");
    let dead = fixture.dispatcher.page(&format!("/dispatch/dead?queue={QUEUE}")).json();
    assert_eq!(dead["dead"][0]["id"], "hopeless", "{dead}");
}

/// Otherwise one message could trouble the target until its deadline.
#[test]
fn d07_a_message_that_fails_while_others_are_answered_becomes_a_dead_letter() {
    let fixture = Fixture::start("", |seen| match seen.tag().as_str() {
        "poison" => ScriptedResponse::json(500, "{}"),
        _ => ScriptedResponse::ok(),
    });
    submit(&fixture.redis, "poison", unix() + 3600);
    let mut bystanders = 0;
    let poisoned = eventually("a dead letter", || {
        bystanders += 1;
        submit(&fixture.redis, &format!("bystander-{bystanders}"), unix() + 3600);
        let results = results(&fixture.redis);
        let found = results.iter().find(|result| result["id"] == "poison");
        found.cloned().ok_or_else(|| format!("{} results", results.len()))
    });
    assert_eq!(poisoned["status_code"], 500);
    let tries = fixture.backend.tags().iter().filter(|tag| *tag == "poison").count();
    assert!((20..60).contains(&tries), "{tries}");
}

/// The message that was refused waits as long as the target asks. The others do not.
#[test]
fn d05_one_429_delays_only_its_own_message() {
    let (redis, target) = (
        Redis::start(),
        Backend::start(|seen| match seen.tag().as_str() {
            "refused" => ScriptedResponse::with_headers(429, &["retry-after: 3600"], "{}"),
            _ => ScriptedResponse::ok(),
        }),
    );
    let gates = [
        "name = \"some\"\nkind = \"constant\"\ncapacity = 10\nhold = \"20ms\"\n",
        "name = \"some\"\nkind = \"aimd\"\nhold = \"20ms\"\n",
    ];
    for (at, gate) in gates.into_iter().enumerate() {
        // The longest wait is no bound here: it could be as long as the target asks for.
        let sections = format!("[dispatch]\nbackoff_max = \"1h\"\n[[dispatch.gates]]\n{gate}");
        let _dispatcher =
            Dispatcher::start(&config(&sections, "\"some\"", &redis, target.address()));
        submit(&redis, "refused", unix() + 7200);
        target.await_seen(2 * at + 1);
        submit(&redis, &format!("bystander-{at}"), unix() + 7200);
        assert_eq!(await_results(&redis, at + 1)[at]["status_code"], 200, "{gate}");
        redis.call(&["DEL", "retry-sortedset"]);
    }
}

/// A place that one of our own requests leaves is free, whatever the target said before.
#[test]
fn d05_after_a_429_the_requests_that_end_are_replaced() {
    let (redis, target) = (
        Redis::start(),
        Backend::start(|seen| match seen.tag().as_str() {
            "refused" => ScriptedResponse::json(429, "{}"),
            _ => ScriptedResponse::ok().held(),
        }),
    );
    let gate = "[[dispatch.gates]]\nname = \"some\"\nkind = \"constant\"\ncapacity = 100\n\
                hold = \"10m\"\n";
    let sections = format!("[dispatch]\nworkers = 4\n{gate}");
    let dispatcher = Dispatcher::start(&config(&sections, "\"some\"", &redis, target.address()));
    for number in 0..3 {
        submit(&redis, &format!("m{number}"), unix() + 600);
    }
    target.await_running(3);
    submit(&redis, "refused", unix() + 1200);
    eventually("refused", || match dispatcher.queue(QUEUE) {
        queue if queue["ends"]["congested"] == 1 => Ok(()),
        queue => Err(queue.to_string()),
    });
    for number in 3..12 {
        submit(&redis, &format!("m{number}"), unix() + 600);
    }
    target.open();
    let results = await_results(&redis, 12);
    assert!(results.iter().all(|result| result["status_code"] == 200), "{results:?}");
    assert_eq!(target.most(), 4, "the three, and the one that was refused");
}

#[test]
fn d08_gates_of_one_name_on_unrelated_queues_do_not_share_their_number() {
    let redis = Redis::start();
    let targets = [Backend::held(), Backend::held()];
    let five = "[[dispatch.gates]]\nname = \"five\"\nkind = \"constant\"\nbaseline = 0.0\n\
                capacity = 5\n";
    let mut dispatchers = Vec::new();
    for (name, target) in ["one", "two"].into_iter().zip(&targets) {
        for number in 0..9 {
            submit_to(&redis, name, &message(&format!("{name}-{number}"), unix() + 600));
        }
        let queue = queue(name, target, "gates = [\"five\"]");
        dispatchers.push(dispatcher(&redis, five, &[queue]));
        target.await_running(5);
    }
    targets.iter().for_each(Backend::open);
    await_results(&redis, 18);
    assert_eq!(targets.each_ref().map(Backend::most), [5, 5]);
}

/// A queue without a gate has one that learns from the responses of its target.
#[test]
fn d08_targets_that_nothing_connects_have_windows_of_their_own() {
    let redis = Redis::start();
    let (slow, quick) = (Backend::held(), Backend::quick());
    let queues = [queue("slow", &slow, ""), queue("quick", &quick, "")];
    let dispatcher = dispatcher(&redis, OPEN, &queues);
    submit_to(&redis, "slow", &message("held", unix() + 600));
    slow.await_running(1);
    for number in 0..5 {
        submit_to(&redis, "quick", &message(&number.to_string(), unix() + 600));
    }
    await_results(&redis, 5);
    let page = dispatcher.page("/dispatch").json();
    let gates: Vec<String> = page["gates"].as_array().unwrap().iter().map(name).collect();
    let own = |target: &Backend| format!("aimd {}", target.address());
    assert_eq!(gates, ["open".to_owned(), own(&slow), own(&quick)]);
    slow.open();
    await_results(&redis, 6);
}

fn name(gate: &Value) -> String {
    gate["name"].as_str().unwrap().to_owned()
}
