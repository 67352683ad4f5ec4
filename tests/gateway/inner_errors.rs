//! M03, G02, R07: responses with status 200 that are no answer, because they end with an error or
//! say nothing.

use serde_json::json;

use super::status::named;
use crate::support::gateway::{TWO, config};
use crate::support::scripted_response::{delta, event};
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat};

/// A gateway before one backend that ejects nothing.
fn before(backend: &Backend) -> Gateway {
    let sections = format!("[health]\neject_after = 100\n{TWO}");
    Gateway::start(&config(&sections, &[("one", backend.address())]))
}

fn at(path: &str) -> HttpRequest {
    HttpRequest { path: path.into(), ..chat("m").streamed() }
}

/// Streams that begin well and end with an error, or say nothing, and their paths.
fn broken_streams() -> Vec<(&'static str, ScriptedResponse)> {
    let error = json!({"error": {"message": "out of memory", "code": 500}}).to_string();
    let line = |said: &str| format!("{{\"message\":{{\"content\":\"{said}\"}},\"done\":false}}\n");
    let lines = line("the") + &line("tide") + "{\"error\":\"unexpected EOF\"}\n";
    let of_response = |kind: &str, rest: &str| {
        event(&format!("{{\"type\":\"response.{kind}\",\"response\":{{{rest}}}}}"))
    };
    let said = event(r#"{"type":"response.output_text.delta","delta":"the tide"}"#);
    let failed = of_response("failed", r#""status":"failed","error":{"code":"server_error"}"#);
    let message =
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"the tide"}}"#;
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error"}}"#;
    let done = event("[DONE]");
    vec![
        (
            "/v1/chat/completions",
            ScriptedResponse::stream(&[&delta("the"), &delta("tide"), &event(&error), &done]),
        ),
        (
            "/v1/chat/completions",
            ScriptedResponse::stream(&[&delta("the"), "error: {\"code\":500}\n\n"]),
        ),
        (
            "/api/chat",
            ScriptedResponse::with_headers(200, &["content-type: application/x-ndjson"], &lines),
        ),
        ("/v1/responses", ScriptedResponse::stream(&[&of_response("created", ""), &said, &failed])),
        ("/v1/messages", ScriptedResponse::stream(&[&event(message), &event(overloaded)])),
        ("/v1/completions", ScriptedResponse::stream(&[&done])),
    ]
}

/// Only a whole response ends a series of broken ones: one that ends with an error is not whole.
#[test]
fn r07_g02_streams_that_end_with_an_error_are_broken() {
    for (path, stream) in broken_streams() {
        let backend = Backend::start(move |_| stream.clone());
        let sections = format!("[health]\neject_after = 3\neject_for = \"1h\"\n{TWO}");
        let gateway = Gateway::start(&config(&sections, &[("one", backend.address())]));
        for number in 0..3 {
            assert_eq!(gateway.backend("one")["state"], "ready", "{path} after {number}");
            assert_eq!(gateway.ask(&at(path)).status, 200);
        }
        let shown = gateway.backend("one");
        assert_eq!(shown["state"], "ejected", "{path}: {shown}");
        assert!(shown["reason"].as_str().unwrap().contains("ended with an error"), "{shown}");
        named(&gateway, ("requests_refused", "failed_by_backend"), "");
    }
}

#[test]
fn m03_g02_responses_that_say_nothing_are_never_a_green_verdict() {
    let greeting =
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    for silent in [
        ScriptedResponse::json(200, ""),
        ScriptedResponse::json(200, " \n"),
        ScriptedResponse::with_headers(204, &[], ""),
        ScriptedResponse::stream(&[]),
        ScriptedResponse::stream(&["data: [DONE]\n\n"]),
        ScriptedResponse::stream(&[": hello\n\n", greeting, "data: [DONE]\n\n"]),
    ] {
        let said = format!("{silent:?}");
        let backend = Backend::start(move |_| silent.clone());
        let gateway = before(&backend);
        for _ in 0..6 {
            assert!(matches!(gateway.ask(&at("/v1/completions")).status, 200 | 204));
        }
        let found = named(&gateway, ("requests_refused", "failed_by_backend"), "");
        assert_eq!(found["level"], "trouble", "{said}: {found}");
    }
}

/// What has no text can be an answer: a finish reason, an empty list, or work that goes on.
#[test]
fn m03_g02_responses_without_text_are_answers() {
    let finish = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":0}}"#;
    let error = event(r#"{"error":{"code":500}}"#);
    let failed =
        ScriptedResponse::json(200, r#"{"object":"response","status":"failed","error":"e"}"#);
    let chat = "/v1/chat/completions";
    for (ask, answer) in [
        (at(chat), ScriptedResponse::stream(&[&event(finish), &event("[DONE]")])),
        (at(chat), ScriptedResponse::stream(&[&event(usage)])),
        (at(chat), ScriptedResponse::stream(&[&delta("a"), &error, &delta("b")])),
        (HttpRequest::get("/v1/responses/r"), failed),
        (at("/v1/responses"), ScriptedResponse::json(200, "{\"status\":\"queued\"}")),
        (at("/v1/completions"), ScriptedResponse::json(200, usage)),
        (at("/v1/embeddings"), ScriptedResponse::with_headers(204, &[], "")),
    ] {
        let said = format!("{} {answer:?}", ask.path);
        let backend = Backend::start(move |_| answer.clone());
        let gateway = before(&backend);
        for _ in 0..6 {
            gateway.ask(&ask);
        }
        gateway.await_idle();
        let page = gateway.get("/status").json();
        assert_eq!(page["level"], "ok", "{said}: {page}");
    }
}
