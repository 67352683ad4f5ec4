//! X05: however a request ends after a backend has begun to work for it, its tenant has paid.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::tenant_rights::upload;
use crate::support::gateway::{ONE, config};
use crate::support::keys::Keys;
use crate::support::scripted_response::Step;
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

/// More than one ask, and less than one prompt of [`ask`].
const QUOTA: u64 = 900;
/// Longer than what is no work.
const WORK_MS: u64 = 400;

/// A way in which a request ends.
struct Way {
    name: &'static str,
    /// What the backend does with the request of this number.
    script: fn(usize) -> ScriptedResponse,
    ask: HttpRequest,
    /// What the client does with it.
    client: Client,
}

enum Client {
    /// It reads its response, which has this status.
    Reads(u16),
    /// It leaves when the backend has seen so many requests.
    LeavesAfter(usize),
    /// It leaves when the first part of its response has come.
    LeavesInside,
}

/// A chat of 1,250 tokens.
fn ask() -> HttpRequest {
    let long = json!([{"role": "user", "content": "word ".repeat(1000)}]);
    chat("m").with("messages", long).with("max_tokens", 5)
}

/// The same that waits for a short time alone.
fn impatient() -> HttpRequest {
    ask().header("x-llm-d-inference-ttl", "300ms")
}

fn full() -> ScriptedResponse {
    ScriptedResponse::json(503, "{}")
}

fn failed(status: u16) -> ScriptedResponse {
    ScriptedResponse::json(status, "{}").after_ms(WORK_MS)
}

fn ways() -> Vec<Way> {
    let way = |name, script, ask, client| Way { name, script, ask, client };
    vec![
        way("the client leaves", |_| ScriptedResponse::silence(), ask(), Client::LeavesAfter(1)),
        way(
            "the deadline of the client",
            |_| ScriptedResponse::silence(),
            ask().header("x-request-timeout-ms", "300"),
            Client::Reads(504),
        ),
        way(
            "the timeout of a library",
            |_| ScriptedResponse::silence(),
            ask().header("x-stainless-timeout", "1").streamed(),
            Client::Reads(504),
        ),
        way(
            "the time for a response",
            |_| ScriptedResponse::silence(),
            impatient(),
            Client::Reads(502),
        ),
        way("an error after work", |_| failed(500), impatient(), Client::Reads(500)),
        way("a refusal after work", |_| failed(400), ask(), Client::Reads(400)),
        way(
            "a reset after work",
            |_| ScriptedResponse::reset().after_ms(WORK_MS),
            impatient(),
            Client::Reads(502),
        ),
        way(
            "no backend again after work",
            |number| if number == 0 { failed(500) } else { full() },
            ask().header("x-llm-d-inference-ttl", "2s"),
            Client::Reads(503),
        ),
        way(
            "the client leaves while it waits after work",
            |number| if number == 0 { failed(500) } else { full() },
            ask(),
            Client::LeavesAfter(3),
        ),
        way(
            "a stream that the client leaves",
            |_| ScriptedResponse::stream_begun("a").then_all(ScriptedResponse::silence()),
            ask().streamed(),
            Client::LeavesInside,
        ),
    ]
}

/// A gateway with the tenant `alpha`, its key and a file of accounts.
fn text(keys: &Keys, quota: u64, backend: &Backend) -> String {
    let file: PathBuf = keys.file().with_file_name("usage.db");
    let sections = format!(
        "{}[usage]\nfile = {file:?}\n[upstream]\nanswer_timeout = \"2s\"\n\
         [admin]\nwithout_key = \"all\"\n[[tenants]]\nname = \"alpha\"\n\
         tokens_per_day = {quota}\non_quota = \"refuse\"\n",
        keys.section()
    );
    config(&sections, &[("one", backend.address())])
}

/// The sum of a field over the rows of a tenant, once it is as wanted.
fn used(gateway: &Gateway, key: &str, name: &str, wanted: impl Fn(u64) -> bool) -> u64 {
    let of = |rows: &Value, field: &str| -> u64 {
        rows["data"].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum()
    };
    eventually(name, || {
        let rows = gateway.ask(&HttpRequest::get("/usage").key(key)).json();
        let tokens = of(&rows, "prompt_tokens") + of(&rows, "completion_tokens");
        if of(&rows, "requests") > 0 && wanted(tokens) { Ok(tokens) } else { Err(rows.to_string()) }
    })
}

fn finish(gateway: &Gateway, backend: &Backend, way: &Way, key: &str) {
    let mut call = gateway.send(&way.ask.clone().key(key));
    match way.client {
        Client::Reads(status) => {
            let answer = call.finish();
            assert_eq!(answer.status, status, "{}: {}", way.name, answer.text());
        }
        Client::LeavesAfter(seen) => {
            eventually(way.name, || {
                let count = backend.seen().len();
                if count >= seen { Ok(()) } else { Err(format!("{count} seen")) }
            });
        }
        Client::LeavesInside => assert!(call.chunk().is_some(), "{}", way.name),
    }
}

fn refused(gateway: &Gateway, key: &str, name: &str) {
    // The request ends at the gateway a moment after its client has heard of it.
    eventually(name, || {
        let answer = gateway.ask(&chat("m").key(key));
        let is_used_up = (answer.status, answer.code()) == (429, "insufficient_quota".into());
        let is_settled = answer.header("retry-after") != Some("5");
        if is_used_up && is_settled { Ok(()) } else { Err(answer.text()) }
    });
}

#[test]
fn x05_however_a_request_ends_after_work_its_tenant_has_paid() {
    for way in ways() {
        let (keys, script) = (Keys::new(), way.script);
        let key = keys.tenant("alpha", "a");
        let backend = Backend::start(move |seen| script(seen.number));
        let text = text(&keys, QUOTA, &backend);
        let mut gateway = Gateway::start(&text);
        finish(&gateway, &backend, &way, &key);
        let before = used(&gateway, &key, way.name, |tokens| tokens > QUOTA);
        refused(&gateway, &key, way.name);
        gateway.process.kill();
        gateway = Gateway::start(&text);
        refused(&gateway, &key, way.name);
        assert_eq!(used(&gateway, &key, way.name, |_| true), before, "{}", way.name);
    }
}

/// What no backend worked for is free.
#[test]
fn x05_a_request_that_only_full_backends_saw_costs_nothing() {
    let (keys, backend) = (Keys::new(), Backend::start(|_| full()));
    let key = keys.tenant("alpha", "a");
    let gateway = Gateway::start(&text(&keys, QUOTA, &backend));
    assert_eq!(gateway.ask(&impatient().key(&key)).status, 503);
    assert_eq!(used(&gateway, &key, "accounted", |_| true), 0);
    assert_eq!(gateway.ask(&impatient().key(&key)).status, 503);
}

/// Where a backend reports nothing and nothing can be counted, the estimate is what a request
/// costs, also for the process that comes next.
#[test]
fn x05_a_quota_is_the_same_after_a_restart_where_no_usage_was_reported() {
    let rerank = HttpRequest::post(
        "/v1/rerank",
        json!({"model": "m", "query": "tide", "documents": ["word ".repeat(1000)]}).to_string(),
    );
    let claim = chat("m").with("max_tokens", 2000);
    for (ask, body, quota) in [
        (rerank, "{\"results\":[{\"index\":0,\"relevance_score\":0.5}]}", QUOTA),
        (claim, "{\"choices\":[]}", 1500),
    ] {
        let keys = Keys::new();
        let key = keys.tenant("alpha", "a");
        let backend = Backend::start(move |_| ScriptedResponse::json(200, body));
        let text = text(&keys, quota, &backend);
        let mut gateway = Gateway::start(&text);
        assert_eq!(gateway.ask(&ask.clone().key(&key)).status, 200);
        refused(&gateway, &key, "used up");
        let before = used(&gateway, &key, "accounted", |tokens| tokens > quota);
        gateway.process.kill();
        gateway = Gateway::start(&text);
        refused(&gateway, &key, "used up after a restart");
        assert_eq!(used(&gateway, &key, "accounted", |_| true), before);
    }
}

/// A flow whose request has ended by its deadline has had its turn: the other one is next. This
/// flow is known before, so its turn comes before that of the new one.
#[test]
fn q03_a_request_that_ends_by_its_deadline_keeps_its_charge() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "first" => ScriptedResponse::ok().held(),
        "late" => ScriptedResponse::silence(),
        _ => ScriptedResponse::ok(),
    });
    let sections = format!("[queue]\nflow_by = [\"header:x-team\"]\ncost = \"tokens\"\n{ONE}");
    let gateway = Gateway::before(&sections, &backend);
    let of =
        |team: &str, tag: &str| chat("m").header("x-team", team).tag(tag).with("max_tokens", 10);
    assert_eq!(gateway.ask(&of("a", "known")).status, 200);
    gateway.await_idle();
    let first = gateway.send(&of("c", "first"));
    backend.await_running(1);
    let late = of("a", "late").with("max_tokens", 3000).header("x-request-timeout-ms", "3000");
    let late = gateway.enqueue(&late, 0);
    let next = gateway.enqueue(&of("a", "next"), 1);
    let other = gateway.enqueue(&of("b", "other"), 2);
    backend.release(1);
    assert_eq!(late.finish().code(), "deadline_exceeded");
    assert!([first, next, other].into_iter().all(|call| call.finish().status == 200));
    assert_eq!(backend.tags(), ["known", "first", "late", "other", "next"]);
}

/// What a stream has sent before it breaks off is charged with its prompt.
#[test]
fn x05_a_stream_that_breaks_off_costs_what_came() {
    let keys = Keys::new();
    let key = keys.tenant("alpha", "a");
    let words = "the tide rises now. ".repeat(200);
    let backend = Backend::start(move |_| {
        ScriptedResponse::stream_begun(&words).then(Step::Hold).then(Step::Reset)
    });
    let gateway = Gateway::start(&text(&keys, 1_000_000, &backend));
    let mut call = gateway.send(&ask().streamed().key(&key));
    assert!(call.chunk().is_some());
    backend.open();
    assert!(call.answer().is_err(), "it was cut");
    let tokens = used(&gateway, &key, "accounted", |_| true);
    assert!((2250..2400).contains(&tokens), "{tokens}");
}

/// The dispatcher leaves a request like any client when its batch is cancelled.
#[test]
fn x05_d10_a_batch_that_is_cancelled_has_used_what_was_sent() {
    let (keys, backend) = (Keys::new(), Backend::held());
    let key = keys.tenant("alpha", "a");
    let batches = "[batch]\nfolder = \"batches\"\n\
        [[dispatch.queues]]\nname = \"batch\"\ngates = [\"open\"]\n\
        [[dispatch.gates]]\nname = \"open\"\nkind = \"constant\"\ncapacity = 100\n";
    let text = text(&keys, 1, &backend).replace("answer_timeout = \"2s\"", "");
    let gateway = Gateway::start(&format!("{batches}{text}"));
    let file = gateway.ask(&upload(&key, 1)).json()["id"].clone();
    let wanted = json!({"input_file_id": file, "endpoint": "/v1/chat/completions",
        "completion_window": "24h"});
    let create = HttpRequest::post("/v1/batches", wanted.to_string());
    let batch = gateway.ask(&create.key(&key)).json()["id"].as_str().unwrap().to_owned();
    backend.await_running(1);
    let cancel = HttpRequest::post(&format!("/v1/batches/{batch}/cancel"), "");
    assert_eq!(gateway.ask(&cancel.key(&key)).status, 200);
    backend.await_left(1);
    refused(&gateway, &key, "the batch");
    assert!(used(&gateway, &key, "accounted", |tokens| tokens > 0) < 100);
}
