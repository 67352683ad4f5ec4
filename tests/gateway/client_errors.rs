//! M03: failures by the doing of clients, as an operator sees them in the status.

use super::status::named;
use crate::support::gateway::{TWO, config};
use crate::support::keys::Keys;
use crate::support::scripted_response::Step;
use crate::support::{Backend, Call, Gateway, HttpRequest, ScriptedResponse, chat};

#[test]
fn m03_g02_a_wrong_model_name_is_named_with_the_one_that_was_meant() {
    let backend = Backend::quick();
    let settings = format!(
        "{TWO}[queue]\nflow_by = [\"header:x-team\"]\n[[backends]]\nid = \"gpu\"\n\
         url = \"http://{}\"\nmodels = [\"meta/llama3\"]\n",
        backend.address()
    );
    let gateway = Gateway::start(&settings);
    assert_eq!(gateway.ask(&chat("meta/llama3")).status, 200);
    for _ in 0..12 {
        assert_eq!(gateway.ask(&chat("llama-3").header("x-team", "a")).status, 404);
    }
    let found = named(&gateway, ("client_errors", "model_not_found"), "");
    assert_eq!(found["level"], "trouble");
    let text = found["text"].as_str().unwrap();
    assert!(
        text.starts_with("12 of 13 requests") && text.ends_with("of a for \"llama-3\""),
        "{text}"
    );
    let advice = found["advice"].as_str().unwrap();
    assert!(advice.starts_with("Did they mean \"meta/llama3\"?"), "{advice}");
    let page = gateway.get("/status").json();
    assert!(!page["sentence"].as_str().unwrap().starts_with("All is well"), "{page}");
}

#[test]
fn m03_g02_wrong_keys_are_never_a_green_verdict() {
    let (backend, keys) = (Backend::quick(), Keys::new());
    let _key = keys.tenant("lab", "laptop");
    let sections = format!(
        "{}[admin]\nwithout_key = \"all\"\n[[tenants]]\nname = \"lab\"\n{TWO}",
        keys.section()
    );
    let gateway = Gateway::start(&config(&sections, &[("one", backend.address())]));
    for _ in 0..10 {
        assert_eq!(gateway.ask(&chat("m").key("tg-wrong")).status, 401);
    }
    let found = named(&gateway, ("client_errors", "invalid_api_key"), "");
    assert_eq!(found["level"], "warning");
}

#[test]
fn m03_g02_requests_that_their_backend_refuses_are_not_served() {
    // A proxy before a model server redirects what comes without TLS, or without its cookie.
    for status in [422, 302] {
        let refuse = move |_: &_| ScriptedResponse::json(status, "{\"error\":\"too long\"}");
        let backend = Backend::start(refuse);
        let gateway = Gateway::start(&config(TWO, &[("one", backend.address())]));
        for _ in 0..10 {
            assert_eq!(gateway.ask(&chat("m")).status, status);
        }
        let found = named(&gateway, ("client_errors", "refused_by_backend"), "");
        assert_eq!(found["level"], "trouble");
    }
}

/// A path under `/v1/` goes to a backend, which has nothing there.
#[test]
fn m03_g02_a_path_that_no_backend_has_is_named_with_the_one_that_was_meant() {
    let backend = Backend::start(|request| match request.path.as_str() {
        "/v1/chat/completions" => ScriptedResponse::ok(),
        _ => ScriptedResponse::json(404, "{\"detail\":\"Not Found\"}"),
    });
    let gateway = Gateway::start(&config(TWO, &[("one", backend.address())]));
    let wrong = HttpRequest { path: "/v1/chat/completion".into(), ..chat("m") };
    for _ in 0..6 {
        assert_eq!(gateway.ask(&wrong).status, 404);
    }
    let found = named(&gateway, ("client_errors", "refused_by_backend"), "");
    assert_eq!(found["level"], "trouble");
    let text = found["text"].as_str().unwrap();
    assert!(text.ends_with("at /v1/chat/completion"), "{text}");
    let advice = found["advice"].as_str().unwrap();
    assert!(advice.starts_with("Did they mean /v1/chat/completions?"), "{advice}");
}

/// Whoever sends work to a path that the gateway does not have hears which one it may have meant,
/// and the operator sees it. What a browser reads beside the pages is no work.
#[test]
fn m03_g02_a_path_that_does_not_exist_is_named_with_the_one_that_was_meant() {
    let backend = Backend::quick();
    let gateway = Gateway::start(&config(TWO, &[("one", backend.address())]));
    for _ in 0..9 {
        assert_eq!(gateway.get("/favicon.ico").status, 404);
    }
    assert_eq!(gateway.get("/status").json()["level"], "ok");
    let wrong = HttpRequest { path: "/chat/completions".into(), ..chat("m") };
    for _ in 0..6 {
        let answer = gateway.ask(&wrong);
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
        assert!(answer.text().contains("did you mean /v1/chat/completions?"), "{}", answer.text());
    }
    let found = named(&gateway, ("client_errors", "not_found"), "");
    let text = found["text"].as_str().unwrap();
    assert!(
        text.starts_with("6 of 6 requests") && text.ends_with("at /chat/completions"),
        "{text}"
    );
    let advice = found["advice"].as_str().unwrap();
    assert!(advice.starts_with("Did they mean /v1/chat/completions?"), "{advice}");
}

/// A read or a call of Ollama's API that does not queue is a request as well, and so is one of a
/// website that may not send any. All of them may be those of one person.
#[test]
fn m03_g02_reads_that_fail_are_never_a_green_verdict() {
    let show = HttpRequest::post("/api/show", "{\"model\": \"none\"}");
    let foreign = chat("m").header("origin", "https://elsewhere.example");
    let preflight = HttpRequest { method: "OPTIONS".into(), ..HttpRequest::get(&foreign.path) }
        .header("origin", "https://elsewhere.example")
        .header("access-control-request-method", "POST");
    for (ask, status, reason) in [
        (show, 404, "model_not_found"),
        (HttpRequest::get("/v1/models/none"), 404, "model_not_found"),
        (HttpRequest::get("/v1/chat/completions"), 404, "refused_by_backend"),
        (foreign, 403, "host_not_allowed"),
        (preflight, 403, "host_not_allowed"),
    ] {
        let backend = Backend::start(|request| match request.method.as_str() {
            "GET" => ScriptedResponse::json(404, "{}"),
            _ => ScriptedResponse::ok(),
        });
        let gateway = Gateway::start(&config(TWO, &[("one", backend.address())]));
        assert_eq!(gateway.ask(&chat("m")).status, 200);
        for _ in 0..6 {
            assert_eq!(gateway.ask(&ask).status, status, "{}", ask.path);
        }
        let found = named(&gateway, ("client_errors", reason), "");
        assert_eq!(found["level"], "warning", "{found}");
        assert!(found["text"].as_str().unwrap().starts_with("6 of 7 requests"), "{found}");
    }
}

/// A server that has begun its response before it fails can only write the error into it. No other
/// server is tried then.
#[test]
fn m03_g02_responses_that_are_an_error_alone_are_failures_of_their_backend() {
    let greeting =
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let error = "data: {\"error\": {\"message\": \"out of memory\", \"code\": 500}}\n\n";
    let events = [greeting, error, "data: [DONE]\n\n"];
    let backend = Backend::start(move |_| ScriptedResponse::stream(&events));
    let gateway = Gateway::start(&config(TWO, &[("one", backend.address())]));
    for _ in 0..6 {
        let answer = gateway.ask(&chat("m").streamed());
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("out of memory"), "it is passed on");
    }
    let found = named(&gateway, ("requests_refused", "failed_by_backend"), "");
    assert_eq!(found["level"], "trouble", "{found}");
}

/// Anybody sends requests to paths that do not exist: one of a scanner does not hide the mistake of
/// a client.
#[test]
fn m03_g02_a_scanner_does_not_hide_the_path_that_a_client_meant() {
    let backend = Backend::quick();
    let gateway = Gateway::start(&config(TWO, &[("one", backend.address())]));
    let post = |path: &str| {
        let wrong = HttpRequest { path: path.into(), ..chat("m") };
        assert_eq!(gateway.ask(&wrong).status, 404);
    };
    (0..6).for_each(|_| post("/chat/completions"));
    post("/wp-login.php");
    let found = named(&gateway, ("client_errors", "not_found"), "");
    let text = found["text"].as_str().unwrap();
    assert!(text.ends_with("mostly at /chat/completions"), "{text}");
    let advice = found["advice"].as_str().unwrap();
    assert!(advice.starts_with("Did they mean /v1/chat/completions?"), "{advice}");
}

#[test]
fn m03_g02_bytes_that_are_no_http_are_never_a_green_verdict() {
    let backend = Backend::quick();
    let gateway = Gateway::start(&config(TWO, &[("one", backend.address())]));
    for _ in 0..6 {
        assert_eq!(Call::open(gateway.address(), b"GARBAGE\r\n\r\n").head().status, 400);
    }
    let found = named(&gateway, ("client_errors", "unreadable_request"), "");
    let text = found["text"].as_str().unwrap();
    assert!(text.contains("requests of the last minute were no requests of HTTP"), "{text}");
}

#[test]
fn m03_g02_clients_that_leave_before_an_answer_are_never_a_green_verdict() {
    let backend = Backend::held();
    let gateway = Gateway::start(&config(TWO, &[("one", backend.address())]));
    for left in 1..=3 {
        let call = gateway.send(&chat("m"));
        backend.await_running(1);
        drop(call);
        backend.await_left(left);
    }
    let found = named(&gateway, ("client_errors", "client_closed"), "");
    assert_eq!(found["level"], "warning");
    let text = found["text"].as_str().unwrap();
    assert!(text.starts_with("3 of 3 requests"), "{text}");
    backend.open();
    for _ in 0..4 {
        assert_eq!(gateway.ask(&chat("m")).status, 200);
    }
    gateway.await_metrics("over", |_| {
        let page = gateway.get("/status").json();
        if page["level"] == "ok" { Ok(()) } else { Err(page.to_string()) }
    });
}

/// A backend sends the first token of each stream and no more, and the clients give up.
#[test]
fn m03_g02_clients_that_leave_streams_that_stand_still_are_never_a_green_verdict() {
    let backend = Backend::start(|_| ScriptedResponse::stream_begun("tide").then(Step::Silence));
    let sections = format!("{TWO}[upstream]\nstall_timeout = \"10s\"\n");
    let gateway = Gateway::start(&config(&sections, &[("one", backend.address())]));
    let mut calls: Vec<_> = (0..2).map(|_| gateway.send(&chat("m").streamed())).collect();
    calls.iter_mut().for_each(|call| assert_eq!(call.head().status, 200));
    // That is longer than a look of the gateway at a stream.
    gateway.await_metrics("still", |_| {
        let page = gateway.get("/status").json();
        let silent = page["backends"][0]["silent_seconds"].as_f64().unwrap_or(0.0);
        if silent >= 3.0 { Ok(()) } else { Err(page["backends"].to_string()) }
    });
    drop(calls);
    backend.await_left(2);
    // Clients that stop streams which go on are served.
    for left in 3..=5 {
        let mut call = gateway.send(&chat("m").streamed());
        assert_eq!(call.head().status, 200);
        drop(call);
        backend.await_left(left);
    }
    let found = named(&gateway, ("client_errors", "client_closed"), "");
    let text = found["text"].as_str().unwrap();
    assert!(
        text.starts_with("2 of 2 requests") && text.ends_with("while it stood still"),
        "{text}"
    );
}

#[test]
fn m03_a_priority_that_does_not_exist_is_counted_and_told_once() {
    let backend = Backend::quick();
    let gateway = Gateway::start(&config(TWO, &[("one", backend.address())]));
    for _ in 0..3 {
        assert_eq!(gateway.ask(&chat("m").priority("urgent")).status, 200);
    }
    assert_eq!(gateway.metrics().sum("tidegate_unknown_priorities_total"), 3.0);
    gateway.await_metrics("told", |_| {
        let page = gateway.get("/status").json();
        let findings = page["findings"].as_array().unwrap();
        let note = findings.iter().find(|one| one["id"] == "unknown_priority");
        let text = note.and_then(|note| note["text"].as_str()).unwrap_or_default();
        if text.contains("\"urgent\"") { Ok(()) } else { Err(page.to_string()) }
    });
    let log = gateway.process.await_log("names no band", 1);
    assert_eq!(log.matches("names no band").count(), 1, "{log}");
}
