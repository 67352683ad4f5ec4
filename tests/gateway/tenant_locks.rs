//! X05: mistakes and tricks that must not open what keys lock.

use std::fs;

use serde_json::{Value, json};

use crate::support::gateway::config;
use crate::support::keys::Keys;
use crate::support::tools::run;
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat, eventually};

const TENANT: &str = "[[tenants]]\nname = \"alpha\"\n";

#[test]
fn x05_a_file_without_its_tenants_does_not_open_the_gateway() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    keys.tenant("alpha", "a");
    let open = config(&keys.section(), &[("one", backend.address())]);
    let gateway = Gateway::launch(&format!("{open}{TENANT}"));
    assert_eq!(gateway.ask(&chat("m")).status, 401);
    gateway.rewrite(&open);
    gateway.process.await_log("there are no tenants any more", 1);
    assert_eq!(gateway.ask(&chat("m")).status, 401);
}

#[test]
fn x05_withdrawing_the_last_admin_key_opens_no_page() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let admin = keys.make(&["--admin", "read", "--name", "grafana"]);
    let gateway = Gateway::launch(&config(&keys.section(), &[("one", backend.address())]));
    let status = |key: Option<&str>| {
        let page = HttpRequest::get("/flows");
        gateway.ask(&key.map_or(page.clone(), |key| page.clone().key(key))).status
    };
    assert_eq!((status(None), status(Some(&admin))), (401, 200));
    fs::write(keys.file(), "").unwrap();
    eventually("withdrawn", || match status(Some(&admin)) {
        401 => Ok(()),
        other => Err(other.to_string()),
    });
    assert_eq!(status(None), 401);
}

/// The same where the keys stand in the configuration.
#[test]
fn x05_removing_the_last_key_from_the_configuration_opens_no_page() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let admin = keys.make(&["--admin", "change", "--name", "operator"]);
    let file = fs::read_to_string(keys.file()).unwrap();
    let text = |keys: &[&str]| {
        config(&format!("[auth]\nkeys = {keys:?}\n"), &[("one", backend.address())])
    };
    let gateway = Gateway::launch(&text(&[file.lines().last().unwrap()]));
    let statuses = |key: &str| {
        let drain = HttpRequest::post("/backends/one/drain", "");
        [HttpRequest::get("/status"), drain].map(|ask| gateway.ask(&ask.key(key)).status)
    };
    assert_eq!(statuses(""), [401, 401]);
    assert_eq!(statuses(&admin), [200, 200]);
    gateway.rewrite(&text(&[]));
    eventually("withdrawn", || match statuses(&admin) {
        [401, 401] => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(statuses(""), [401, 401]);
}

#[test]
fn x05_open_pages_do_not_open_the_accounts_at_the_address_of_clients() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let file = keys.file().with_file_name("usage.db");
    let sections = format!(
        "{}{TENANT}[usage]\nfile = {file:?}\n\
         [admin]\nlisten = \"127.0.0.1:0\"\nwithout_key = \"all\"\n",
        keys.section()
    );
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    let usage = |query: &str| HttpRequest::get(&format!("/usage{query}"));
    assert_eq!(gateway.ask(&usage("")).status, 401);
    assert_eq!(gateway.ask(&usage("").key(&key)).status, 200);
    assert_eq!(gateway.ask(&usage("?tenant=beta").key(&key)).status, 403);
}

#[test]
fn x05_a_tenant_changes_no_models() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let sections = format!("{}{TENANT}", keys.section());
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    for (method, path) in [
        ("POST", "/api/copy"),
        ("POST", "/api/create"),
        ("DELETE", "/api/delete"),
        ("POST", "/api/delete"),
        ("POST", "/api/pull"),
        ("POST", "/api/push"),
        ("POST", "/api/blobs/sha256:1"),
        ("POST", "/v1/load_lora_adapter"),
        ("POST", "/v1/unload_lora_adapter"),
        ("POST", "/openai/v1/unload_lora_adapter"),
        ("POST", "/api/v1/models/unload"),
        ("DELETE", "/v1/models/m"),
    ] {
        let call = HttpRequest::post(path, "{\"model\":\"m\",\"source\":\"secret\"}").key(&key);
        let call = HttpRequest { method: method.into(), ..call };
        assert_eq!(gateway.ask(&call).code(), "admin_only", "{method} {path}");
    }
    // A backend decodes the path.
    for path in ["/api/%64elete", "/api/%2564elete", "/v1/unload%5Flora_adapter"] {
        let call = HttpRequest::post(path, "{\"model\":\"m\"}").key(&key);
        assert_eq!(gateway.ask(&call).code(), "invalid_request", "{path}");
    }
    assert!(backend.seen().iter().all(|seen| seen.method == "GET"));
}

/// Servers take the name of a model from more places than `model`.
#[test]
fn x05_no_other_place_that_names_a_model_passes_its_lock() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let sections = format!(
        "{}[[tenants]]\nname = \"alpha\"\nmodels = [\"m\"]\n[admin]\nwithout_key = \"all\"\n",
        keys.section()
    );
    let gateway = Gateway::before(&sections, &backend);
    let ask = |path: &str, adapter: Value| {
        let body = json!({"model": "m", "prompt": "a", "lora_path": adapter});
        gateway.ask(&HttpRequest::post(path, body.to_string()).key(&key))
    };
    let refused = |name: &str| {
        let paths = [
            format!("/v1/models/{name}:predict"),
            format!("/v1/models/{name}%3Agenerate"),
            format!("/v1/engines/{name}/completions"),
            format!("/v1/engines/{name}/chat/completions"),
            format!("/v1/chat/completions?model={name}"),
            format!("/v1/completions?a=1;Model={name}"),
        ];
        let mut statuses = paths.map(|path| ask(&path, Value::Null).status).to_vec();
        statuses.push(ask("/v1/chat/completions", json!(name)).status);
        let read = HttpRequest::get(&format!("/v1/anything?model={name}")).key(&key);
        statuses.push(gateway.ask(&read).status);
        statuses.into_iter().filter(|status| *status == 403).count()
    };
    assert_eq!(ask("/v1/chat/completions", json!(["m"])).code(), "model_not_allowed");
    assert_eq!(refused("secret"), 8);
    assert_eq!(backend.seen().len(), 0);
    assert_eq!(refused("m"), 0);
    assert_eq!(backend.seen().len(), 8);
}

/// To open a named pipe waits for a writer. The old keys stay, and the next file counts.
#[test]
fn x05_a_named_pipe_in_place_of_the_key_file_stops_no_reload() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let first = keys.tenant("alpha", "a");
    let sections = format!("{}{TENANT}", keys.section());
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    let (kept, pipe) = (keys.file().with_extension("kept"), keys.file().with_extension("pipe"));
    fs::copy(keys.file(), &kept).unwrap();
    run(std::process::Command::new("mkfifo").arg(&pipe));
    fs::rename(&pipe, keys.file()).unwrap();
    gateway.process.await_log("is not a regular file", 1);
    assert_eq!(gateway.ask(&chat("m").key(&first)).status, 200);
    fs::rename(&kept, keys.file()).unwrap();
    let second = keys.tenant("alpha", "b");
    eventually("reloaded", || match gateway.ask(&chat("m").key(&second)).status {
        200 => Ok(()),
        other => Err(other.to_string()),
    });
}

/// What the backend repeats of a request must not hide what it used. A compressed response would.
#[test]
fn x05_a_client_cannot_hide_the_tokens_that_it_used() {
    let body = "{\"usage\":{\"input_tokens\":1000,\"output_tokens\":500},\"user\":\"usage\"}";
    let backend = Backend::start(|_| ScriptedResponse::json(200, body));
    let keys = Keys::new();
    let key = keys.tenant("alpha", "a");
    let file = keys.file().with_file_name("usage.db");
    let sections = format!("{}{TENANT}[usage]\nfile = {file:?}\n", keys.section());
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    let ask = HttpRequest::post("/v1/responses", "{\"model\":\"m\",\"user\":\"usage\"}");
    let ask = ask.header("accept-encoding", "gzip").key(&key);
    assert_eq!(gateway.ask(&ask).status, 200);
    let served = backend.seen().into_iter().find(|seen| seen.path == "/v1/responses").unwrap();
    assert_eq!(served.header("accept-encoding"), None);
    eventually("counted", || {
        let rows = gateway.ask(&HttpRequest::get("/usage").key(&key)).json();
        let used = (&rows["data"][0]["prompt_tokens"], &rows["data"][0]["completion_tokens"]);
        if used == (&1000.into(), &500.into()) { Ok(()) } else { Err(rows.to_string()) }
    });
}

#[test]
fn x05_a_form_cannot_name_one_model_to_the_gateway_and_another_to_the_backend() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let sections = format!(
        "{}[[tenants]]\nname = \"alpha\"\nmodels = [\"m\"]\n[admin]\nwithout_key = \"all\"\n",
        keys.section()
    );
    let gateway = Gateway::before(&sections, &backend);
    let part = |named: &str, value: &str| {
        format!("--B\r\nContent-Disposition: form-data;{named}\r\n\r\n{value}\r\n")
    };
    let send = |parts: &[String]| {
        let form = format!("{}--B--\r\n", parts.concat());
        let mut ask = HttpRequest::post("/v1/audio/transcriptions", form);
        ask.headers = vec![("content-type".into(), "multipart/form-data; boundary=B".into())];
        gateway.ask(&ask.key(&key)).status
    };
    let allowed = part(" name=\"model\"", "m");
    let audio = part(" name=\"file\"; filename=\"a.wav\"", &"x".repeat(100_000));
    assert_eq!(send(&[audio.clone(), allowed.clone()]), 200);
    for named in ["name=\"model\"", " name=model", "\tname=\"model\"", " name=\"model\""] {
        let secret = part(named, "secret");
        assert_eq!(send(&[allowed.clone(), secret.clone()]), 400, "{named}");
        assert_eq!(send(&[allowed.clone(), audio.clone(), secret.clone()]), 400, "{named}");
        assert_eq!(send(&[secret]), 403, "{named}");
    }
    // Names that some programs strip, and what others find behind a quote that we take for text.
    for named in [
        " name=<model>",
        " name=\"<model>\"",
        " name=\" model\"",
        " name='model'",
        " name=\"x\"; name\u{b}=model",
        " name=\"x\"; z=\"\\\\\"; y=\"; name=\"model\"",
        " name=\"x\"; z=\\\"; name=\"model\"; y=\"",
        " name=\"x\" name=\"model\"",
        " name=\"x\"; z=a\"b; y=c\"",
        " name=\"x\"; z=\"open",
    ] {
        assert_eq!(send(&[allowed.clone(), part(named, "secret")]), 400, "{named}");
    }
    let paths =
        part(" name=file; filename=\"a (1); b=c \u{fc}.wav\"; filename*=UTF-8''%C3%BC", "x");
    assert_eq!(send(&[allowed, paths]), 200);
    assert_eq!(backend.seen().len(), 2);
}

/// Some servers take the method from a header, so a read could be work or a change there.
#[test]
fn x05_no_header_makes_another_method_of_a_read() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let sections = format!(
        "{}[[tenants]]\nname = \"alpha\"\n[admin]\nwithout_key = \"all\"\n",
        keys.section()
    );
    let gateway = Gateway::before(&sections, &backend);
    let names = ["x-http-method-override", "x-method-override", "x-http-method"];
    let read = HttpRequest::get("/api/delete").key(&key);
    let ask = names.into_iter().fold(read, |ask, name| ask.header(name, "DELETE"));
    assert_eq!(gateway.ask(&ask).status, 200);
    let seen = backend.seen().pop().unwrap();
    assert!(names.into_iter().all(|name| seen.header(name).is_none()), "{:?}", seen.headers);
}

/// No client can mend that, so the operator is told, and not with each request.
#[test]
fn x05_a_backend_that_refuses_the_key_of_the_gateway_is_told_to_the_operator_once() {
    let backend = Backend::start(|seen| match seen.header("authorization") {
        Some("Bearer old-secret") => ScriptedResponse::json(401, "{\"error\":{}}"),
        _ => ScriptedResponse::json(403, "{\"error\":{}}"),
    });
    let key = "api_key_env = \"TEST_BACKEND_KEY\"\n";
    let text = config("", &[("one", backend.address())]) + key;
    let secret = [("TEST_BACKEND_KEY", "old-secret")];
    let gateway = Gateway::launch_in(&text, &secret);
    gateway.await_ready(1);
    for _ in 0..3 {
        assert_eq!(gateway.ask(&chat("m").key("of-the-client")).status, 401);
    }
    let told = "answered 401 Unauthorized to the key that the gateway sends";
    let log = gateway.process.await_log(told, 1);
    assert_eq!(log.matches(told).count(), 1, "{log}");
    assert!(!log.contains("old-secret"), "{log}");
    // Without a key of the gateway, the key is that of the client.
    let gateway = Gateway::before("", &backend);
    assert_eq!(gateway.ask(&chat("m").key("of-the-client")).status, 403);
    assert!(!gateway.process.log().contains("to the key"));
}
