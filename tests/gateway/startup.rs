//! Starting the gateway: flags, configuration files, listeners, the endpoints file.

use std::fs;

use crate::support::gateway::{TWO, config};
use crate::support::metrics::Metrics;
use crate::support::process::Process;
use crate::support::{Backend, Call, Engine, Gateway, HttpRequest, Nowhere, chat, eventually};

#[test]
fn serve_needs_no_file() {
    let (one, two) = (Backend::quick(), Backend::quick().lists(&["other"]));
    let named = format!("gpu=http://{}", one.address());
    let plain = format!("http://{}", two.address());
    let arguments = ["serve", "--backend", &named, "--backend", &plain, "--listen", "127.0.0.1:0"];
    let process = Process::start(&arguments);
    let ask = |model: &str| Call::open(process.address(), &chat(model).bytes()).finish();
    let answer = ask("m");
    assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("gpu")));
    assert_eq!(ask("other").status, 200);
    assert_eq!((one.seen().len(), two.seen().len()), (1, 1));
}

#[test]
fn x06_yaml_is_read_with_the_keys_of_the_source() {
    let backend = Backend::held();
    let file = Gateway::launch("").folder().join("tidegate.yaml");
    let scoring = "router:\n  queue_depth_penalty_per_request: 50.0\n  priority_scoring:\n\
        \x20   critical_boost: 1000.0\n";
    let rest = format!(
        "request_queue_controller:\n  watermark_per_backend: 1\n  lower_bound_per_backend: 1\n\
        \x20 upper_bound_per_backend: 1\nfair_request_queue:\n  total_capacity: 1\n\
        backends:\n  - id: one\n    url: http://{}\n    models: [m]\n",
        backend.address()
    );
    fs::write(&file, format!("{scoring}{rest}")).unwrap();
    let path = file.to_str().unwrap();
    let process = Process::start(&["serve", "--config", path, "--listen", "127.0.0.1:0"]);
    let send = |ask: &HttpRequest| Call::open(process.address(), &ask.bytes());
    let first = send(&chat("m").priority("critical"));
    backend.await_running(1);
    // By the rules of the file only a critical request may wait.
    let _second = send(&chat("m").priority("critical").header("x-n", "2"));
    eventually(
        "waiting",
        || match send(&HttpRequest::get("/health")).finish().json()["queue"]["depth"] {
            serde_json::Value::Number(ref depth) if depth.as_u64() == Some(1) => Ok(()),
            ref other => Err(other.to_string()),
        },
    );
    assert_eq!(send(&chat("m")).finish().status, 503);
    backend.open();
    assert_eq!(first.finish().header("x-priority-boost"), Some("1000"));
}

#[test]
fn x06_a_configuration_that_cannot_be_used_is_refused_by_its_keys() {
    let file = Gateway::launch("").folder().join("bad.toml");
    fs::write(&file, "[queue]\nqueue_tll = 3\n[controller]\nwatermark_per_backend = -1\n").unwrap();
    for verb in [["serve", "--config"].as_slice(), &["check"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.args(verb).arg(&file).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!output.status.success(), "{verb:?}: {said}");
        for part in ["queue_tll", "queue_ttl", "watermark_per_backend"] {
            assert!(said.contains(part), "{verb:?} does not speak of {part}: {said}");
        }
    }
}

#[test]
fn the_admin_pages_can_have_their_own_listener() {
    let backend = Backend::quick();
    let elsewhere = Nowhere::reserve().address();
    let admin = format!("[admin]\nlisten = \"{elsewhere}\"\n");
    let gateway = Gateway::launch(&config(&admin, &[("one", backend.address())]));
    let page = Call::open(elsewhere, &HttpRequest::get("/backends").bytes()).finish();
    assert_eq!(page.status, 200, "{}", page.text());
    assert_eq!(gateway.get("/backends").status, 404);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    let chat = Call::open(elsewhere, &chat("m").bytes()).finish();
    assert_eq!(chat.status, 404, "{}", chat.text());
}

#[test]
fn the_endpoints_file_adds_and_removes_backends() {
    let (one, two) = (Backend::quick(), Backend::quick().lists(&["later"]));
    let file = Gateway::launch("").folder().join("endpoints.yaml");
    let write = |backends: &[&Backend]| {
        let entry = |backend: &&Backend| {
            let (ip, port) = (backend.address().ip(), backend.address().port());
            format!("  - {{ name: e{port}, address: {ip}, port: \"{port}\" }}\n")
        };
        let entries: String = backends.iter().map(entry).collect();
        let next = file.with_extension("next");
        fs::write(&next, format!("endpoints:\n{entries}")).unwrap();
        fs::rename(next, &file).unwrap();
    };
    write(&[&one]);
    let section = format!("[discovery]\nendpoints_file = {:?}\n{TWO}", file.to_str().unwrap());
    let gateway = Gateway::launch(&section);
    gateway.await_ready(1);
    assert_eq!(gateway.ask(&chat("later")).status, 404);
    write(&[&one, &two]);
    gateway.await_ready(2);
    assert_eq!(gateway.ask(&chat("later")).status, 200);
    write(&[&two]);
    gateway.await_ready(1);
    assert_eq!(gateway.ask(&chat("later")).status, 200);
}

#[test]
fn the_stand_in_engine_keeps_its_limit_behind_the_gateway() {
    let engine = Engine::start(&[]);
    let entry = format!("url = \"http://{}\"", engine.address());
    let gateway = Gateway::start(&format!("{TWO}[[backends]]\nid = \"one\"\n{entry}\n"));
    let model = gateway.get("/v1/models").json()["data"][0]["id"].as_str().unwrap().to_owned();
    let ask = chat(&model).with("max_tokens", 2);
    let calls: Vec<_> = (0..10).map(|_| gateway.send(&ask.clone().streamed())).collect();
    for call in calls {
        let text = call.finish().text();
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    }
    let control = engine.control();
    assert_eq!((&control["received"], &control["running"]), (&10.into(), &0.into()), "{control}");
    assert!(control["max_running_seen"].as_u64().unwrap() <= 2, "{control}");
    gateway.await_idle();
}

#[test]
fn a_gateway_that_is_its_own_backend_sends_itself_nothing() {
    let own = Nowhere::reserve().address();
    let sections = format!("[queue]\nqueue_ttl = \"1s\"\n[server]\nlisten = \"{own}\"\n");
    let by_name = format!("localhost:{}", own.port());
    let others = [format!("{own}/v1"), by_name, format!("0.0.0.0:{}", own.port())];
    let entry = |(number, address): (usize, &String)| {
        format!("[[backends]]\nid = \"b{number}\"\nurl = \"http://{address}\"\nmodels = [\"m\"]\n")
    };
    let backends: String = others.iter().enumerate().map(entry).collect();
    let file = Gateway::launch("").folder().join("itself.toml");
    fs::write(&file, format!("{sections}{backends}")).unwrap();
    let process = Process::start(&["serve", "--config", file.to_str().unwrap()]);
    let ask = |ask: &HttpRequest| Call::open(process.address(), &ask.bytes()).finish();
    let states = eventually("checked", || {
        let states: Vec<_> = ask(&HttpRequest::get("/backends"))
            .json()
            .as_array()
            .unwrap()
            .iter()
            .map(|backend| format!("{}: {}", backend["state"], backend["reason"]))
            .collect();
        let checked = states.iter().all(|state| !state.contains("starting"));
        if checked { Ok(states) } else { Err(format!("{states:?}")) }
    });
    assert_eq!(states, ["\"unready\": \"it is this gateway itself\""; 3]);
    ask(&chat("m")).refused(503, "queue_timeout");
    let metrics = Metrics::read(&ask(&HttpRequest::get("/metrics")).text());
    assert_eq!(metrics.sum("tidegate_offers_total"), 1.0);
    let log = process.await_log("is this gateway", 3);
    assert_eq!(log.matches("is this gateway").count(), 3, "{log}");
}
