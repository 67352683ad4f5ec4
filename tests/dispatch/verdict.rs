//! M03: what a dispatcher says of itself while its messages fail.

use std::process::Command;

use serde_json::Value;

use super::fixture::{
    Dispatcher, Fixture, OPEN, QUEUE, QUICK, await_results, message, submit, submit_to, unix,
};
use crate::support::{Backend, Redis, ScriptedResponse, eventually};

/// The finding about a queue of which most attempts fail, when it has these words.
fn await_failing(dispatcher: &Dispatcher, words: &[&str]) -> Value {
    eventually("a finding", || {
        let page = dispatcher.page("/status").json();
        let findings = page["findings"].as_array().unwrap();
        let found = findings.iter().find(|found| found["id"] == "batch_requests_fail");
        match found {
            Some(found) if words.iter().all(|word| found["text"].to_string().contains(word)) => {
                Ok(found.clone())
            }
            _ => Err(page["findings"].to_string()),
        }
    })
}

/// Each message has its result, and nobody is served.
#[test]
fn m03_a_dispatcher_whose_messages_are_all_refused_is_not_well() {
    let fixture = Fixture::start("", |_| ScriptedResponse::json(404, "{\"error\": \"model\"}"));
    for number in 0..6 {
        submit(&fixture.redis, &number.to_string(), unix() + 600);
    }
    await_results(&fixture.redis, 6);
    let named = format!("6 of 6 attempts of the batch queue {QUEUE} failed");
    let found = await_failing(&fixture.dispatcher, &[&named, "6 status 404"]);
    assert_eq!(found["level"], "trouble", "{found}");
    assert!(found["advice"].to_string().contains("GET /v1/models"), "{found}");
    let url = format!("http://{}", fixture.dispatcher.process.address());
    let mut status = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let said = status.args(["status", "--url", &url]).output().unwrap();
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stdout).contains(&named), "{said:?}");
}

#[test]
fn m03_a_dispatcher_whose_messages_expire_is_not_well() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok());
    for number in 0..2 {
        submit(&fixture.redis, &number.to_string(), unix() - 5);
    }
    await_results(&fixture.redis, 2);
    let found = await_failing(&fixture.dispatcher, &["2 of 2 attempts", "2 deadline exceeded"]);
    assert_eq!(found["level"], "warning", "{found}");
}

/// The other queue is served, and the finding names the one that is not.
#[test]
fn m03_a_dispatcher_whose_messages_become_dead_letters_is_not_well() {
    let redis = Redis::start();
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "poison" => ScriptedResponse::json(500, "{}"),
        _ => ScriptedResponse::ok(),
    });
    let queue = |name: &str| {
        format!(
            "[[dispatch.queues]]\nname = \"{name}\"\ntarget = \"http://{}\"\n\
             gates = [\"open\"]\n",
            backend.address()
        )
    };
    let (good, bad, url) = (queue("good"), queue("bad"), redis.url());
    let dispatcher = Dispatcher::start(&format!(
        "{QUICK}attempts = 3\n{OPEN}[dispatch.redis]\nurls = [\"{url}\"]\n{good}{bad}"
    ));
    submit_to(&redis, "bad", &message("poison", unix() + 600));
    submit_to(&redis, "good", &message("fine", unix() + 600));
    await_results(&redis, 2);
    let words = ["3 of 3 attempts of the batch queue bad", "3 status 500", "1 new dead letter"];
    let found = await_failing(&dispatcher, &words);
    assert_eq!(found["subject"], "bad");
    let advice = found["advice"].to_string();
    assert!(advice.contains("tidegate dispatch dead list --queue bad"), "{advice}");
}
