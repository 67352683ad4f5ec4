//! X01: paths and methods beside the work itself: probes, OPTIONS, reads, and other APIs' paths.

use serde_json::json;

use crate::support::call::{Response, value};
use crate::support::gateway::{ONE, TWO, config};
use crate::support::{
    Backend, Call, Gateway, HttpRequest, Nowhere, ScriptedResponse, chat, eventually,
};

/// A server that holds work back and answers every other request at once.
fn busy() -> Backend {
    Backend::start(|seen| match seen.method.as_str() {
        "POST" => ScriptedResponse::json(200, "{\"object\":\"work\"}").held(),
        "OPTIONS" => ScriptedResponse::raw(
            "HTTP/1.1 204 No Content\r\naccess-control-allow-origin: *\r\n\r\n",
        ),
        _ => ScriptedResponse::json(200, "{\"models\":[]}"),
    })
}

fn other(method: &str, path: &str) -> HttpRequest {
    HttpRequest { method: method.into(), ..HttpRequest::get(path) }
}

/// The status and the code of a refusal.
fn refusal(response: &Response) -> (u16, String) {
    (response.status, response.code())
}

/// The status, and the methods in `Allow`.
fn allowed(response: &Response) -> (u16, Vec<&str>) {
    let allow = response.header("allow").unwrap_or_default();
    (response.status, allow.split(", ").collect())
}

#[test]
fn x01_probes_and_the_version_have_their_usual_paths() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    assert_eq!(gateway.get("/healthz").json()["status"], "ok");
    assert_eq!(gateway.get("/readyz").json()["ready"], true);
    let version = gateway.get("/version");
    assert_eq!(version.json(), json!({"version": env!("CARGO_PKG_VERSION")}));
}

#[test]
fn x03_a_path_that_a_backend_could_read_as_another_does_not_reach_it() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    for path in ["/v1/../x", "/v1/%2e%2e/x", "/v1/%252e%252e/x", "/v1/..%2fx", "/v1/..;a=1/x"] {
        let refused = gateway.get(path);
        assert_eq!(refusal(&refused), (400, "invalid_request".to_owned()), "{path}");
    }
    assert!(backend.seen().is_empty(), "{:?}", backend.seen());
}

/// Ollama's command line asks for the root before each command.
#[test]
fn x01_the_root_says_that_the_gateway_runs() {
    let backend = busy();
    let gateway = Gateway::before(TWO, &backend);
    let response = gateway.get("/");
    assert_eq!((response.status, response.text().as_str()), (200, "Tidegate is running"));
    assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"));
    let head = gateway.send(&other("HEAD", "/")).head();
    assert_eq!((head.status, value(&head.headers, "content-length")), (200, Some("19")));
    let options = gateway.ask(&other("OPTIONS", "/"));
    assert_eq!(allowed(&options), (204, vec!["GET", "HEAD", "OPTIONS"]));
    let whole_server = gateway.ask(&other("OPTIONS", "*"));
    assert_eq!((whole_server.status, allowed(&whole_server).1.contains(&"POST")), (204, true));
    let work = gateway.ask(&other("POST", "/"));
    assert_eq!(allowed(&work), (405, vec!["GET", "HEAD", "OPTIONS"]));
    assert!(backend.seen().is_empty());
}

#[test]
fn x01_a_refused_method_is_told_the_methods_of_its_path() {
    let backend = busy();
    let gateway = Gateway::before("[batch]\nfolder = \"batches\"\n", &backend);
    for (method, path, expected) in [
        ("POST", "/metrics", "GET, HEAD, OPTIONS"),
        ("DELETE", "/health", "GET, HEAD, OPTIONS"),
        ("TRACE", "/health", "GET, HEAD, OPTIONS"),
        ("TRACE", "/v1/chat/completions", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"),
        ("DELETE", "/v1/files", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/v1/files/file-1", "DELETE, GET, HEAD, OPTIONS"),
        ("POST", "/v1/files/file-1/content", "GET, HEAD, OPTIONS"),
        ("PUT", "/v1/batches", "GET, HEAD, OPTIONS, POST"),
        ("DELETE", "/v1/batches/batch_0", "GET, HEAD, OPTIONS"),
        ("GET", "/v1/batches/batch_0/cancel", "OPTIONS, POST"),
        ("POST", "/dispatch", "GET, HEAD, OPTIONS"),
        ("GET", "/dispatch/dead/redrive", "OPTIONS, POST"),
    ] {
        let response = gateway.ask(&other(method, path));
        assert_eq!(refusal(&response), (405, "method_not_allowed".to_owned()), "{method} {path}");
        assert_eq!(response.header("allow"), Some(expected), "{method} {path}");
        assert!(response.text().contains(expected), "{}", response.text());
    }
}

#[test]
fn x01_options_is_answered_by_the_gateway_without_the_queue() {
    let backend = busy();
    let (gateway, running) = Gateway::occupied(ONE, &backend, &chat("m"));
    let work = gateway.ask(&other("OPTIONS", "/v1/chat/completions"));
    let (status, methods) = allowed(&work);
    assert_eq!(status, 204);
    assert!(methods.contains(&"POST") && methods.contains(&"OPTIONS"), "{methods:?}");
    let page = gateway.ask(&other("OPTIONS", "/health"));
    assert_eq!(allowed(&page), (204, vec!["GET", "HEAD", "OPTIONS"]));
    assert_eq!(gateway.ask(&other("OPTIONS", "/nowhere")).status, 404);
    assert_eq!(backend.seen().len(), 1, "only the work reached the backend");
    backend.open();
    assert_eq!(running.finish().status, 200);
}

/// What foreign pages may do is not for a backend to say.
#[test]
fn x01_a_preflight_gets_the_gateways_policy_without_the_queue() {
    let backend = busy();
    let (gateway, _running) = Gateway::occupied(ONE, &backend, &chat("m"));
    let preflight = other("OPTIONS", "/v1/chat/completions")
        .header("Origin", "https://chat.example")
        .header("Access-Control-Request-Method", "POST");
    let response = gateway.ask(&preflight);
    assert_eq!((response.status, response.header("access-control-allow-origin")), (403, None));
    assert_eq!((gateway.depth(), backend.seen().len()), (0, 1));
}

#[test]
fn x01_reads_reach_a_busy_backend_without_the_queue() {
    let backend = busy();
    let (gateway, running) = Gateway::occupied(ONE, &backend, &chat("m"));
    let waiting = gateway.enqueue(&chat("m"), 0);
    for path in ["/api/ps", "/v1/things/7?a=b"] {
        let response = gateway.ask(&HttpRequest::get(path));
        assert_eq!((response.status, response.text().as_str()), (200, "{\"models\":[]}"), "{path}");
        assert_eq!(response.header("x-backend-used"), Some("one"));
        assert_eq!(backend.seen().last().unwrap().path, path);
    }
    assert_eq!(gateway.send(&other("HEAD", "/v1/things")).head().status, 200);
    // They count as requests, and not among those of the queue.
    gateway.await_metrics("counted", |metrics| {
        let reads = metrics.sum_where("tidegate_requests_total", "band=\"-\"");
        if reads == 3.0 { Ok(()) } else { Err(format!("{reads} reads")) }
    });
    assert_eq!(gateway.metrics().sum("tidegate_offers_total"), 2.0);
    backend.open();
    assert!([running, waiting].into_iter().all(|call| call.finish().status == 200));
    gateway.await_idle();
}

/// One client has three quarters of them at most.
#[test]
fn x03_the_number_of_reads_at_one_time_is_bounded() {
    let backend = Backend::held();
    let gateway = Gateway::before(ONE, &backend);
    let read = HttpRequest::get("/api/ps").bytes();
    let from = |last: u8| Call::open_from([127, 0, 0, last], gateway.address(), &read);
    let mut reads: Vec<Call> = (0..192).map(|_| from(1)).collect();
    backend.await_running(192);
    from(1).finish().refused(503, "overloaded");
    // A few clients may share a part with that one.
    let other = (2..9).find(|&last| {
        let call = from(last);
        let decided = || match (call.has_begun(), backend.running()) {
            (true, _) => Ok(false),
            (_, 193) => Ok(true),
            (_, running) => Err(running.to_string()),
        };
        let taken = eventually("taken or refused", decided);
        if taken {
            reads.push(call)
        } else {
            call.finish().refused(503, "overloaded")
        }
        taken
    });
    let other = other.expect("others find places");
    reads.extend((0..63).map(|_| from(other)));
    backend.await_running(256);
    from(other).finish().refused(503, "overloaded");
    backend.open();
    assert!(reads.into_iter().all(|read| read.finish().status == 200));
    assert_eq!(gateway.ask(&HttpRequest::get("/api/ps")).status, 200);
}

/// Ollama's command line sends `model` as an empty text and the name in the older field.
#[test]
fn x01_the_description_of_a_model_does_not_wait() {
    let backend = || {
        Backend::start(|seen| match seen.path.as_str() {
            "/api/show" => ScriptedResponse::json(200, "{\"details\":{}}"),
            _ => ScriptedResponse::ok().held(),
        })
    };
    let (one, two) = (backend(), backend());
    let entry = |id: &str, backend: &Backend, model: &str| {
        let url = format!("url = \"http://{}\"", backend.address());
        format!("[[backends]]\nid = \"{id}\"\n{url}\nmodels = [\"{model}\"]\n")
    };
    let alias = "[[models]]\nname = \"alias\"\ntargets = [\"n\"]\n";
    let entries = entry("one", &one, "m") + &entry("two", &two, "n");
    let gateway = Gateway::start(&format!("{ONE}{alias}{entries}"));
    let running = [gateway.send(&chat("m")), gateway.send(&chat("n"))];
    one.await_running(1);
    two.await_running(1);
    let waiting = gateway.enqueue(&chat("n"), 0);
    let show =
        |body: serde_json::Value| gateway.ask(&HttpRequest::post("/api/show", body.to_string()));
    for (body, used, sent) in [
        (json!({"model": "m"}), "one", json!({"model": "m"})),
        (json!({"model": "n", "name": ""}), "two", json!({"model": "n", "name": ""})),
        (json!({"name": "n", "verbose": true}), "two", json!({"name": "n", "verbose": true})),
        (json!({"model": "", "name": "m"}), "one", json!({"model": "", "name": "m"})),
        (json!({"model": "", "name": "alias"}), "two", json!({"model": "", "name": "n"})),
        (json!({"model": "alias"}), "two", json!({"model": "n"})),
    ] {
        let response = show(body.clone());
        assert_eq!(response.status, 200, "{body}: {}", response.text());
        assert_eq!(response.header("x-backend-used"), Some(used), "{body}");
        let backend = if used == "one" { &one } else { &two };
        assert_eq!(backend.seen().last().unwrap().json(), sent);
    }
    assert_eq!(show(json!({"model": "x"})).json()["code"], "model_not_found");
    assert_eq!(show(json!({"model": "", "name": ""})).status, 400);
    assert_eq!(gateway.metrics().sum("tidegate_offers_total"), 3.0, "only the chats");
    [&one, &two].into_iter().for_each(Backend::open);
    assert!(running.into_iter().chain([waiting]).all(|call| call.finish().status == 200));
    gateway.await_idle();
}

#[test]
fn x01_a_read_takes_another_backend_or_fails_at_once() {
    let (broken, good) = (
        Backend::start(|_| ScriptedResponse::json(500, "{}")),
        Backend::start(|_| ScriptedResponse::json(200, "{}")),
    );
    let backends = [("broken", broken.address()), ("good", good.address())];
    let gateway = Gateway::start(&config(TWO, &backends));
    for _ in 0..10 {
        assert_eq!(gateway.ask(&HttpRequest::get("/api/ps")).status, 200);
    }
    let nowhere = Nowhere::reserve();
    let gateway = Gateway::launch(&config(TWO, &[("gone", nowhere.address())]));
    gateway.ask(&HttpRequest::get("/v1/things")).refused(503, "no_backend");
    // The only backend's own error is the response.
    let gateway = Gateway::before(TWO, &broken);
    assert_eq!(gateway.ask(&HttpRequest::get("/v1/things")).status, 500);
}

#[test]
fn x01_the_engines_own_paths_wait_like_other_work() {
    let backend = busy();
    let (gateway, running) = Gateway::occupied(ONE, &backend, &chat("m"));
    let paths = ["/tokenize", "/detokenize", "/rerank", "/v1/rerank", "/score", "/v1/score"];
    let ask = |path: &&str| HttpRequest::post(path, "{\"model\":\"m\",\"query\":\"tide\"}");
    let calls: Vec<Call> =
        paths.iter().enumerate().map(|(at, path)| gateway.enqueue(&ask(path), at)).collect();
    backend.open();
    assert_eq!(running.finish().status, 200);
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    let seen = backend.seen();
    let reached: Vec<&str> = seen[1..].iter().map(|seen| seen.path.as_str()).collect();
    assert_eq!(reached, paths);
    let unknown = gateway.ask(&HttpRequest::post("/tokenize", "{\"model\":\"x\"}"));
    assert_eq!(refusal(&unknown), (404, "model_not_found".into()));
    assert_eq!(gateway.ask(&HttpRequest::post("/tokenizer", "{}")).status, 404);
}

#[test]
fn x01_azures_paths_name_the_model_by_its_deployment() {
    let backend = Backend::start(|_| ScriptedResponse::json(200, "{\"model\":\"m\"}"));
    let alias = "[[models]]\nname = \"gpt 4\"\ntargets = [{ model = \"m\" }]\n";
    let gateway = Gateway::before(&format!("{TWO}{alias}"), &backend);
    let at = |path: &str, body: &str| {
        let path = format!("/openai/{path}?api-version=2024-10-21");
        gateway.ask(&HttpRequest::post(&path, body).header("api-key", "k"))
    };
    let sent = || {
        let seen = backend.seen().pop().unwrap();
        (seen.path.clone(), String::from_utf8(seen.body.clone()).unwrap())
    };
    let rows = [
        ("deployments/m/chat/completions", "{ \"n\":1}", "{\"model\":\"m\", \"n\":1}"),
        ("deployments/m/completions", " {}", " {\"model\":\"m\"}"),
        ("deployments/m/embeddings", "{\"model\":\"ada\"}", "{\"model\":\"m\"}"),
        ("deployments/gpt%204/chat/completions", "{\"a\":1}", "{\"model\":\"m\",\"a\":1}"),
        ("v1/chat/completions", "{\"model\":\"m\"}", "{\"model\":\"m\"}"),
    ];
    for (path, body, expected) in rows {
        assert_eq!(at(path, body).status, 200, "{path}");
        let operation = path.trim_start_matches("deployments/").split_once('/').unwrap().1;
        assert_eq!(sent(), (format!("/v1/{operation}"), expected.to_owned()));
    }
    // The client sees the name that it asked for, and the log the path that it used.
    let response = at("deployments/gpt%204/chat/completions", "{}");
    assert_eq!(response.json()["model"], "gpt 4");
    let unknown = at("deployments/none/chat/completions", "{}");
    assert_eq!(refusal(&unknown), (404, "model_not_found".into()));
    let array = at("deployments/m/chat/completions", "[]");
    assert_eq!(refusal(&array), (400, "invalid_request".into()));
    let unreadable = at("deployments/%ff/chat/completions", "{\"model\":\"m\"}");
    assert_eq!(refusal(&unreadable), (400, "invalid_request".into()));
    assert_eq!(at("deployments/m/things", "{}").status, 404);
    assert_eq!(at("deployments/../chat/completions", "{}").status, 400);
    let list = gateway.ask(&HttpRequest::get("/openai/v1/models"));
    assert_eq!(list.json()["object"], "list");
}

#[test]
fn x01_a_websocket_is_refused_with_its_reason() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    let upgrade = |protocol: &str| {
        let ask = HttpRequest::get("/v1/realtime?model=m").header("Upgrade", protocol);
        gateway.ask(&ask.header("Sec-WebSocket-Version", "13"))
    };
    let response = upgrade("websocket");
    assert!(response.text().contains("WebSocket"), "{}", response.text());
    assert_eq!(refusal(&response), (501, "upgrade_not_supported".into()));
    assert!(backend.seen().is_empty());
    // A client that offers HTTP/2 is served with HTTP/1.1.
    assert_eq!(upgrade("h2c").status, 200);
}
