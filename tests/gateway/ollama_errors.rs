//! X01: errors on Ollama's paths have the form that its clients read.

use serde_json::{Value, json};

use crate::support::gateway::ONE;
use crate::support::{Backend, Gateway, HttpRequest, chat};

fn ollama(path: &str, model: &str) -> HttpRequest {
    HttpRequest::post(path, json!({"model": model, "prompt": "hello"}).to_string())
}

/// The text and the code of an error in Ollama's form.
fn told(body: &Value) -> (&str, &str) {
    let text = body["error"].as_str().unwrap_or_else(|| panic!("{body}"));
    assert!(!text.is_empty(), "{body}");
    (text, body["code"].as_str().unwrap_or_default())
}

#[test]
fn x01_errors_on_ollamas_paths_have_its_form() {
    let backend = Backend::held();
    let gateway = Gateway::before(&format!("[queue]\nmax_size = 1\n{ONE}"), &backend);
    let missing = gateway.ask(&ollama("/api/chat", "nobody-has-it"));
    let body = missing.json();
    let (text, code) = told(&body);
    assert_eq!((missing.status, code), (404, "model_not_found"));
    assert!(text.contains("nobody-has-it"), "{text}");
    let cases = [
        (HttpRequest::post("/api/generate", "no JSON"), 400, "invalid_request"),
        (HttpRequest::get("/api/a//b"), 400, "invalid_request"),
    ];
    for (ask, status, wanted) in cases {
        let answer = gateway.ask(&ask);
        assert_eq!((answer.status, told(&answer.json()).1), (status, wanted), "{}", answer.text());
    }
    let calls = [gateway.send(&chat("m")), gateway.enqueue(&chat("m"), 0)];
    let full = gateway.ask(&ollama("/api/generate", "m"));
    assert_eq!((full.status, told(&full.json()).1), (503, "flow_full"));
    assert!(full.retry_after() >= 1);
    assert_eq!(full.header("content-type"), Some("application/json"));
    gateway.ask(&chat("m")).refused(503, "flow_full");
    assert_eq!(
        gateway.ask(&HttpRequest::post("/v1/completions", "no JSON")).code(),
        "invalid_request"
    );
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}
