//! X05, X03: tokens that a client hides where the gateway might not look: in the prompt, and in a
//! stream without usage.

use serde_json::{Value, json};

use super::usage_attack::charged;
use crate::support::scripted_response::event;
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat};

/// The length of what is hidden: 10,000 tokens.
const HIDDEN: usize = 40_000;

fn prose() -> String {
    "The tide rises now. ".repeat(HIDDEN / 20)
}

/// What looks like base64, and is as much text.
fn like_base64() -> String {
    "VGhlIHRpZGUgcmlzZXMu".repeat(HIDDEN / 20)
}

fn list_of(item: Value) -> Value {
    let length = item.to_string().len() + 1;
    Value::Array(vec![item; HIDDEN / length])
}

/// Bodies that have the same prompt and the text in another place.
fn hidden_prompts() -> Vec<(&'static str, HttpRequest)> {
    let (prose, base64) = (prose(), like_base64());
    let url = format!("data:image/png;base64,{base64}");
    let tool = |value: Value| chat("m").with("tools", json!([{"function": value}]));
    let part = |value: Value| chat("m").with("messages", json!([{"content": [value]}]));
    let call = |value: Value| {
        let calls = json!([{"function": {"name": "f", "arguments": value}}]);
        chat("m").with("messages", json!([{"role": "assistant", "tool_calls": calls}]))
    };
    let at = |path: &str, body: Value| HttpRequest::post(path, body.to_string());
    vec![
        ("under image_url", part(json!({"image_url": {"alt": prose}}))),
        ("as the address of an image", part(json!({"image_url": {"url": prose}}))),
        ("behind an address", part(json!({"video_url": format!("https://x/{prose}")}))),
        (
            "as a text file",
            part(json!({"file": {"file_data": format!("data:text/plain,{prose}")}})),
        ),
        ("an image in a tool", tool(json!({"image_url": {"url": url}}))),
        ("audio_url in a tool", tool(json!({"audio_url": prose}))),
        ("data in a tool", tool(json!({"data": base64}))),
        ("data in a call", call(json!({"data": base64}))),
        ("nulls in tools", chat("m").with("tools", list_of(Value::Null))),
        ("true in tools", chat("m").with("tools", list_of(json!(true)))),
        ("empty lists in tools", chat("m").with("tools", list_of(json!([])))),
        ("empty texts in tools", chat("m").with("tools", list_of(json!("")))),
        ("template arguments", chat("m").with("chat_template_kwargs", json!({"a": prose}))),
        ("a template", chat("m").with("chat_template", prose.clone())),
        ("an unknown key", chat("m").with("extra", json!({"text": [prose]}))),
        (
            "a template of Ollama",
            at("/api/generate", json!({"model": "m", "prompt": "a", "template": prose})),
        ),
        (
            "a context of Ollama",
            at("/api/generate", json!({"model": "m", "prompt": "a", "context": vec![7; 10_000]})),
        ),
        ("a score", at("/v1/score", json!({"model": "m", "text_1": "a", "text_2": [prose]}))),
        (
            "a score of many",
            at(
                "/v1/score",
                json!({"model": "m", "text_1": "word ".repeat(200), "text_2": vec!["a"; 40]}),
            ),
        ),
        (
            "a query for many documents",
            at(
                "/v1/rerank",
                json!({"model": "m", "documents": vec!["a"; 40], "query": "word ".repeat(200)}),
            ),
        ),
        ("no object", at("/v1/other", json!([prose]))),
    ]
}

/// A backend that reports nothing.
fn silent(body: &'static str) -> Backend {
    Backend::start(move |_| ScriptedResponse::json(200, body))
}

#[test]
fn x05_no_place_in_a_body_hides_a_prompt() {
    let backend = silent("{\"response\":\"a\",\"choices\":[{\"text\":\"a\"}]}");
    let mut hidden: Vec<String> = Vec::new();
    let digits = format!(
        "{{\"model\":\"m\",\"messages\":[],\"tools\":[{}]}}",
        vec!["9".repeat(308); HIDDEN / 309].join(",")
    );
    let digits = ("digits", HttpRequest::post("/v1/chat/completions", digits));
    for (name, ask) in hidden_prompts().into_iter().chain([digits]) {
        let [prompt, _, _] = charged(&backend, &[ask]);
        if !(4_500..20_000).contains(&prompt) {
            hidden.push(format!("{name}: {prompt}"));
        }
    }
    assert!(hidden.is_empty(), "{hidden:#?}");
}

/// An image where the API has it is one piece, however long it is.
#[test]
fn x05_an_image_counts_as_a_piece_where_the_api_has_it() {
    let backend = silent("{\"response\":\"a\",\"choices\":[{\"text\":\"a\"}]}");
    let url = format!("data:image/png;base64,{}", like_base64());
    let part = json!({"type": "image_url", "image_url": {"url": url}});
    let ask = chat("m").with("messages", json!([{"role": "user", "content": [part]}]));
    let [prompt, _, _] = charged(&backend, &[ask]);
    assert!((600..660).contains(&prompt), "{prompt}");
}

/// A response to each of a hundred prompts is a hundred times the work.
#[test]
fn x03_all_prompts_of_a_request_count() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "held" => ScriptedResponse::ok().held(),
        _ => ScriptedResponse::ok(),
    });
    let bounds = "[controller]\nstock = \"tokens\"\nlower_bound_per_backend = 1000\n\
        watermark_per_backend = 1000\nupper_bound_per_backend = 1000\n";
    let gateway = Gateway::before(bounds, &backend);
    let body = json!({"model": "m", "max_tokens": 10, "prompt": vec!["a"; 100]});
    let many = HttpRequest::post("/v1/completions", body.to_string()).tag("held");
    let many = gateway.send(&many);
    backend.await_running(1);
    let waiting = gateway.enqueue(&chat("m").with("max_tokens", 10), 0);
    backend.open();
    assert_eq!((many.finish().status, waiting.finish().status), (200, 200));
}

/// The events of a stream without usage, and the path at which it comes.
fn streams() -> Vec<(&'static str, &'static str, Value)> {
    let (chat, long) = ("/v1/chat/completions", "The tide rises now. ".repeat(20));
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let call = json!([{"index": 0, "function": {"name": "f", "arguments": long}}]);
    let calls = json!([
        {"index": 0, "function": {"arguments": "a"}}, {"index": 1, "function": {"arguments": long}}
    ]);
    let texts = json!({"choices": [{"text": "a"}, {"index": 1, "text": long}]});
    let choices = json!({"choices": [{"delta": {"content": "a"}}, {"delta": {"content": long}}]});
    let message = |message: Value| json!({"model": "m", "message": message, "done": false});
    vec![
        ("the second choice", chat, choices),
        ("the second text", "/v1/completions", texts),
        ("a tool call", chat, delta(json!({"content": "a", "tool_calls": call}))),
        ("the second tool call", chat, delta(json!({"tool_calls": calls}))),
        ("reasoning", chat, delta(json!({"content": "a", "reasoning_content": long}))),
        ("content behind reasoning", chat, delta(json!({"reasoning": "a", "content": long}))),
        ("thinking", "/api/chat", message(json!({"content": "a", "thinking": long}))),
        ("a call in a line", "/api/chat", message(json!({"tool_calls": [{"arguments": long}]}))),
        ("a line", "/api/generate", json!({"response": long, "done": false})),
        (
            "thinking beside a line",
            "/api/generate",
            json!({"response": "a", "thinking": long, "done": false}),
        ),
    ]
}

#[test]
fn x05_every_text_of_a_stream_without_usage_counts() {
    let mut hidden: Vec<String> = Vec::new();
    for (name, path, piece) in streams() {
        let is_events = path.starts_with("/v1/");
        let backend = Backend::start(move |_| {
            if is_events {
                let events = event(&piece.to_string()).repeat(10);
                return ScriptedResponse::stream(&[&events, &event("[DONE]")]);
            }
            let lines = format!("{piece}\n").repeat(10) + "{\"done\":true}\n";
            ScriptedResponse::with_headers(200, &["content-type: application/x-ndjson"], &lines)
        });
        let body = json!({"model": "m", "stream": true, "prompt": "a", "messages": []});
        let [_, _, output] = charged(&backend, &[HttpRequest::post(path, body.to_string())]);
        // Ten texts of 400 bytes.
        if !(1000..1100).contains(&output) {
            hidden.push(format!("{name}: {output}"));
        }
    }
    assert!(hidden.is_empty(), "{hidden:#?}");
}

/// What stands beside the text is none.
#[test]
fn x05_probabilities_and_names_in_a_stream_are_no_tokens() {
    let token = json!({"token": "The tide", "logprob": -0.5, "bytes": [84, 104]});
    let logprobs = json!({"content": [{"token": "The", "top_logprobs": vec![token; 20]}]});
    let delta = json!({"role": "assistant", "content": "The"});
    let piece = json!({"choices": [{"delta": delta, "logprobs": logprobs, "index": 0}]});
    let events = event(&piece.to_string()).repeat(10);
    let backend = Backend::start(move |_| ScriptedResponse::stream(&[&events, &event("[DONE]")]));
    let [_, _, output] = charged(&backend, &[chat("m").streamed()]);
    assert_eq!(output, 10);
}

/// Ollama's thinking stands beside the response.
#[test]
fn x05_thinking_in_one_piece_counts() {
    let body = json!({"response": "a", "thinking": prose(), "done": true}).to_string();
    let backend = Backend::start(move |_| ScriptedResponse::json(200, &body));
    let ask = json!({"model": "m", "prompt": "a", "stream": false}).to_string();
    let [_, _, output] = charged(&backend, &[HttpRequest::post("/api/generate", ask)]);
    assert!((10_000..10_100).contains(&output), "{output}");
}

/// Tokens without text, which an engine sends for those it skips, and answers of LM Studio's own
/// API and of Anthropic's behind a prefix: no way to 2,000 tokens costs a handful.
#[test]
fn x05_no_event_without_text_and_no_path_hides_a_response() {
    let (long, hidden) = ("word ".repeat(2000), "\"token_ids\":[128009]");
    let delta =
        |text: &str| format!("{{\"choices\":[{{\"delta\":{{\"content\":{text:?}}},{hidden}}}]}}");
    let text = |text: &str| format!("{{\"choices\":[{{\"text\":{text:?},{hidden}}}]}}");
    let stream = |first: String, then: String| {
        let events = [event(&first), event(&then).repeat(2000), event("[DONE]")].concat();
        ScriptedResponse::stream(&[&events])
    };
    let whole = |body: Value| ScriptedResponse::json(200, &body.to_string());
    let output = json!([{"type": "message", "content": long}]);
    let stats = json!({"input_tokens": 10, "total_output_tokens": 2500});
    let choices = json!([{"message": {"content": long}}]);
    let content = json!([{"type": "text", "text": long}]);
    let cases = [
        ("/v1/chat/completions", stream(delta("a"), delta("")), 2001),
        ("/v1/completions", stream(text("a"), text("")), 2001),
        ("/api/v1/chat", whole(json!({"output": output, "stats": stats})), 2500),
        ("/api/v0/chat/completions", whole(json!({"choices": choices, "stats": {}})), 2500),
        ("/v1/messages", whole(json!({"role": "assistant", "content": content})), 2500),
        ("/openai/v1/messages", whole(json!({"role": "assistant", "content": content})), 2500),
        ("/api/v1/messages", whole(json!({"role": "assistant", "content": content})), 2500),
    ];
    let ask = json!({"model": "m", "messages": [], "prompt": "a", "input": "a"}).to_string();
    let mut hidden: Vec<String> = Vec::new();
    for (path, response, least) in cases {
        let backend = Backend::start(move |_| response.clone());
        let [_, _, output] = charged(&backend, &[HttpRequest::post(path, ask.clone())]);
        if !(least..least + 10).contains(&output) {
            hidden.push(format!("{path}: {output}, not {least}"));
        }
    }
    assert!(hidden.is_empty(), "{hidden:#?}");
}
