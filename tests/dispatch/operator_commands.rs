//! The commands of operators: cancel, stop, explain, and dead letters.

use std::process::Command;

use serde_json::Value;

use super::fixture::{
    Dispatcher, Fixture, OPEN, QUEUE, QUICK, await_results, config, count, message, submit, unix,
};
use crate::support::tools::tool;
use crate::support::{Backend, HttpRequest, Metrics, Redis, ScriptedResponse};
use crate::support::{eventually, fresh_file, run};

fn tidegate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments);
    command
}

#[test]
fn a_message_that_is_cancelled_in_flight_is_cut_off_and_has_one_result() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok().held());
    submit(&fixture.redis, "unwanted", unix() + 600);
    fixture.backend.await_running(1);
    let token = message("unwanted", 0)["internal"]["request_token"].clone();
    let key = "request-cancel:unwanted";
    fixture.redis.call(&["SET", key, token.as_str().unwrap(), "EX", "100"]);
    fixture.backend.await_left(1);
    let results = await_results(&fixture.redis, 1);
    assert_eq!(results.len(), 1);
    assert_eq!(results[0]["error_code"], "CANCELLED");
}

#[test]
fn d07_sigterm_releases_all_messages_at_once() {
    let mut fixture = Fixture::start("lease = \"1h\"\n", |_| ScriptedResponse::ok().held());
    for id in ["a", "b", "c"] {
        submit(&fixture.redis, id, unix() + 600);
    }
    fixture.backend.await_running(3);
    fixture.dispatcher.process.signal("TERM");
    assert!(fixture.dispatcher.process.exit().success());
    assert_eq!(count(&fixture.redis), 3, "the messages do not wait for a lease of 1 h");
    fixture.backend.open();
    let target = fixture.backend.address();
    let _next = Dispatcher::start(&config(QUICK, "\"open\"", &fixture.redis, target));
    let results = await_results(&fixture.redis, 3);
    assert!(results.iter().all(|result| result["status_code"] == 200), "{results:?}");
}

#[test]
fn d07_a_message_that_fails_too_often_is_a_dead_letter_until_it_is_redriven() {
    let fixture = Fixture::start("attempts = 3\n", |seen| match seen.number {
        0..3 => ScriptedResponse::json(500, "{\"error\": \"broken\"}"),
        _ => ScriptedResponse::ok(),
    });
    let url = format!("http://{}", fixture.dispatcher.process.address());
    submit(&fixture.redis, "poison", unix() + 600);
    let results = await_results(&fixture.redis, 1);
    assert_eq!(results[0]["status_code"], 500, "the last response is its result");
    let dead = |verb: &str, more: &[&str]| {
        let first = ["dispatch", "dead", verb, "--url", &url, "--queue", QUEUE];
        run(&mut tidegate(&[&first[..], more].concat()))
    };
    let table = dead("list", &[]);
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().take(3).collect();
    assert_eq!(row[1..], ["poison", "3"], "{table}");
    let list: Value = serde_json::from_str(&dead("list", &["--json"])).unwrap();
    let [letter] = list["dead"].as_array().unwrap().as_slice() else { panic!("{list}") };
    assert_eq!((&letter["id"], &letter["failures"]), (&"poison".into(), &3.into()));
    let done = dead("redrive", &["--id", "poison"]);
    assert_eq!(done.trim(), format!("{QUEUE}: 1 dead letter is pending again"));
    let results = await_results(&fixture.redis, 2);
    assert_eq!(results[1]["status_code"], 200, "the second delivery succeeded");
    let done: Value = serde_json::from_str(&dead("purge", &["--all", "--json"])).unwrap();
    assert_eq!(done["messages"], 0, "there are no dead letters left");
    assert_eq!(dead("purge", &["--all"]).trim(), format!("{QUEUE}: 0 dead letters deleted"));
    assert_eq!(dead("list", &[]).trim(), format!("no dead letters in {QUEUE}"));
    let mut wrong = tidegate(&["dispatch", "dead", "list", "--url", &url, "--queue", "other"]);
    let said = wrong.output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains(&format!("known are: {QUEUE}")), "{said}");
}

#[test]
fn a_dispatcher_explains_why_it_sends_or_does_not() {
    let (redis, backend) = (Redis::start(), Backend::held());
    let gate = "[[dispatch.gates]]\nname = \"two\"\nkind = \"constant\"\nbaseline = 0.0\n\
                capacity = 2\n";
    let sections = format!("{QUICK}{gate}");
    let target = backend.address();
    let dispatcher = Dispatcher::start(&config(&sections, "\"two\", \"open\"", &redis, target));
    for number in 0..5 {
        submit(&redis, &number.to_string(), unix() + 600);
    }
    backend.await_running(2);
    let url = format!("http://{}", dispatcher.process.address());
    eventually("explained", || {
        let json = run(&mut tidegate(&["dispatch", "explain", "--json", "--url", &url]));
        let page: Value = serde_json::from_str(&json).unwrap();
        let queue = &page["queues"][0];
        let counts = [&queue["pending"], &queue["claimed"], &queue["in_flight"]];
        // One more message may be claimed and wait for the gate.
        let right = counts[2].as_u64() >= Some(2) && page["gates"].as_array().unwrap().len() == 2;
        if right { Ok(()) } else { Err(page.to_string()) }
    });
    let text = run(&mut tidegate(&["dispatch", "explain", "--url", &url]));
    for words in [QUEUE, "two", "open", "constant"] {
        assert!(text.contains(words), "{words} is missing:\n{text}");
    }
    let metrics = Metrics::read(&dispatcher.page("/metrics").text());
    assert_eq!(metrics.sum("tidegate_dispatch_sent_total"), 2.0);
    assert_eq!(metrics.sum_where("tidegate_dispatch_gate_readable", "two"), 1.0);
    backend.open();
    await_results(&redis, 5);
}

#[test]
fn configurations_that_cannot_work_are_errors_at_the_start() {
    let redis = Redis::start();
    let said = |arguments: &[&str]| {
        let output = tidegate(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let free = ["--listen", "127.0.0.1:0"];
    let url = redis.url();
    let no_target = said(&[&["dispatch", "--redis", &url, "--queue", "q"][..], &free].concat());
    assert!(no_target.contains("--target"), "{no_target}");
    let nothing = said(&[&["dispatch", "--target", "http://127.0.0.1:1"][..], &free].concat());
    assert!(nothing.contains("--redis"), "{nothing}");
    let nowhere = ["dispatch", "--redis", "http://127.0.0.1:1", "--queue", "q"];
    let nowhere = said(&[&nowhere[..], &["--target", "http://127.0.0.1:1"], &free].concat());
    assert!(nowhere.contains("127.0.0.1:1"), "{nowhere}");
    let file = fresh_file();
    let unknown = OPEN.replace("constant", "prometheus-saturatoin");
    std::fs::write(&file, unknown).unwrap();
    let unknown = said(&["dispatch", file.to_str().unwrap()]);
    assert!(unknown.contains("did you mean \"prometheus-saturation\"?"), "{unknown}");
}

#[test]
fn an_unsendable_message_has_a_result_with_the_reason() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok());
    let mut endless = message("endless", 0);
    endless["data"].as_object_mut().unwrap().remove("deadline");
    let bare = message("bare", unix() + 600)["data"].to_string();
    fixture.redis.call(&["ZADD", QUEUE, "1764045130", &endless.to_string()]);
    fixture.redis.call(&["ZADD", QUEUE, "1764045130", &bare]);
    let mut early = message("early", 0);
    early["data"]["deadline"] = (-5).into();
    fixture.redis.call(&["ZADD", QUEUE, "1764045130", &early.to_string()]);
    for result in await_results(&fixture.redis, 2) {
        assert_eq!(result["error_code"], "INVALID_REQUEST", "{result}");
        let said = result["error_message"].to_string();
        assert!(said.contains("`deadline` is missing or not a time"), "{result}");
    }
    let list = fixture.dispatcher.page(&format!("/dispatch/dead?queue={QUEUE}")).json();
    assert_eq!(list["dead"][0]["id"], "bare", "{list}");
    let why = list["dead"][0]["why"].as_str().unwrap();
    assert!(why.contains("no request_kind") && why.contains(r#"{\"created\":"#), "{why}");
    let url = format!("http://{}", fixture.dispatcher.process.address());
    let first = ["dispatch", "dead", "redrive", "--url", &url, "--queue", QUEUE];
    let redrive = |more: &[&str]| {
        let output = tidegate(&[&first[..], more].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{more:?}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("1 dead letter was not redriven"), "{more:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let done: Value = serde_json::from_str(&redrive(&["--json", "--id", "bare"])).unwrap();
    assert_eq!((&done["messages"], &done["stay"]), (&0.into(), &1.into()));
    assert!(done["why"][0]["why"].to_string().contains("cannot be read"), "{done}");
    for which in [&["--id", "bare"][..], &["--all"]] {
        let words = redrive(which);
        assert!(words.contains("0 dead letters are pending again\n  bare: "), "{words}");
    }
    fixture.dispatcher.process.await_log("new dead letters", 1);
}

#[test]
fn the_pages_of_a_dispatcher_have_no_gateway_content() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok());
    let health = fixture.dispatcher.page("/health").json();
    assert_eq!((&health["status"], &health["queues"][0]), (&"ok".into(), &QUEUE.into()));
    assert!(health["backends"].is_null(), "{health}");
    assert_eq!(fixture.dispatcher.page("/ready").status, 200);
    for path in ["/", "/backends", "/v1/models"] {
        let answer = fixture.dispatcher.page(path);
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
        assert!(answer.text().contains("/dispatch.txt"), "{path}: {}", answer.text());
    }
    let text = fixture.dispatcher.page("/metrics").text();
    assert!(!text.contains("tidegate_queue_length"), "it has no queue of requests:\n{text}");
    assert!(text.contains("tidegate_dispatch_depth"), "{text}");
    let open = HttpRequest::get("/metrics").header("accept", "application/openmetrics-text");
    let text = fixture.dispatcher.ask(&open).text();
    assert!(text.ends_with("# EOF\n"), "not OpenMetrics:\n{text}");
}

#[test]
fn calls_to_the_dispatcher_are_counted_and_logged() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok());
    let dispatcher = &fixture.dispatcher;
    assert_eq!(dispatcher.page("/dispatch").status, 200);
    assert_eq!(dispatcher.page("/v1/files").code(), "batch_disabled");
    assert_eq!(dispatcher.page("/dispatch/dead/purge").code(), "method_not_allowed");
    let metrics = Metrics::read(&dispatcher.page("/metrics").text());
    assert_eq!(metrics.sum_where("tidegate_requests_total", "outcome=\"ok\""), 1.0);
    assert_eq!(metrics.sum_where("tidegate_requests_total", "batch_disabled"), 1.0);
    let of_no_band = metrics.sum_where("tidegate_requests_total", "band=\"-\"");
    assert_eq!(of_no_band, 3.0, "they take no place in the queue");
    eventually("all lines", || {
        let lines = dispatcher.process.access();
        let all = ["=/dispatch ", "=/v1/files ", "method_not_allowed"];
        let all = all.iter().all(|words| lines.contains(words));
        if all && !lines.contains("priority=") { Ok(()) } else { Err(lines) }
    });
}

#[test]
fn a_website_cannot_purge_dead_letters_through_its_visitors() {
    let fixture = Fixture::start("", |_| ScriptedResponse::ok());
    let url = format!("http://{}/dispatch/dead/purge", fixture.dispatcher.process.address());
    let body = format!("{{\"queue\": \"{QUEUE}\"}}");
    let post = |kind: &str| {
        let header = format!("Content-Type: {kind}");
        let arguments = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", &header];
        run(tool("curl").args(arguments).args(["-d", &body, &url]))
    };
    assert_eq!(post("text/plain"), "400", "a browser sends this without a preflight");
    assert_eq!(post("application/json"), "200");
    assert_eq!(fixture.dispatcher.page("/ready").status, 200);
}
