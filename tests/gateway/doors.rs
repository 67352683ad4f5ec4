//! The ways in and out that are not everyday: flags, YAML, other listeners, watched files, queue
//! status, and connections that are used in unusual ways.

use std::fs;

use crate::support::gateway::{ONE, TWO, config};
use crate::support::metrics::Metrics;
use crate::support::process::Process;
use crate::support::{Answer, Ask, Backend, Call, Engine, Gateway, Nowhere, chat, eventually};

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
fn x06_yaml_is_read_and_the_words_of_the_source_mean_what_they_mean() {
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
    let send = |ask: &Ask| Call::open(process.address(), &ask.bytes());
    let first = send(&chat("m").priority("critical"));
    backend.await_running(1);
    let _second = send(&chat("m").header("x-n", "2"));
    eventually("waiting", || match send(&Ask::get("/health")).finish().json()["queue"]["depth"] {
        serde_json::Value::Number(ref depth) if depth.as_u64() == Some(1) => Ok(()),
        ref other => Err(other.to_string()),
    });
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
fn the_visibility_part_can_be_moved_elsewhere() {
    let backend = Backend::quick();
    let elsewhere = Nowhere::reserve().address();
    let admin = format!("[admin]\nlisten = \"{elsewhere}\"\n");
    let gateway = Gateway::launch(&config(&admin, &[("one", backend.address())]));
    let page = Call::open(elsewhere, &Ask::get("/backends").bytes()).finish();
    assert_eq!(page.status, 200, "{}", page.text());
    assert_eq!(gateway.get("/backends").status, 404);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    let chat = Call::open(elsewhere, &chat("m").bytes()).finish();
    assert_eq!(chat.status, 404, "{}", chat.text());
}

#[test]
fn a_watched_file_brings_backends_and_takes_them() {
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
fn who_asks_is_told_the_place_while_waiting() {
    let backend = Backend::start(|seen| match seen.number {
        0 => Answer::ok().held(),
        _ => super::streams(&["the ", "tide"]),
    });
    let gateway = Gateway::before(&format!("[queue]\nqueue_ttl = \"3s\"\n{ONE}"), &backend);
    let running = gateway.send(&chat("m"));
    backend.await_running(1);
    let status = |ask: Ask| ask.streamed().header("X-Queue-Status", "sse");
    let mut told = gateway.enqueue(&status(chat("m")), 0);
    let head = told.head();
    assert_eq!(head.status, 200);
    let comment = String::from_utf8(told.chunk().unwrap()).unwrap();
    assert!(comment.starts_with(": ") || comment.starts_with(":"), "{comment}");
    backend.open();
    assert_eq!(running.finish().status, 200);
    let text = told.finish().text();
    assert!(text.contains("tide") && text.ends_with("data: [DONE]\n\n"), "{text}");
    gateway.await_idle();
}

#[test]
fn a_refusal_after_queue_status_began_is_an_event() {
    let backend = Backend::held();
    let gateway = Gateway::before(&format!("[queue]\nqueue_ttl = \"1s\"\n{ONE}"), &backend);
    let _running = gateway.send(&chat("m"));
    backend.await_running(1);
    let ask = chat("m").streamed().header("X-Queue-Status", "sse");
    let answer = gateway.ask(&ask);
    assert_eq!(answer.status, 200);
    let text = answer.text();
    let (_, event) = text.split_once("event: error\ndata: ").unwrap();
    let error: serde_json::Value = serde_json::from_str(event.trim()).unwrap();
    assert_eq!(error["error"]["code"], "queue_timeout");
    let leaver = gateway.enqueue(&ask, 0);
    drop(leaver);
    gateway.await_depth(0);
}

#[test]
fn q09_a_client_that_sent_more_than_a_request_is_missed_as_well() {
    let backend = Backend::held();
    let gateway = Gateway::before(&format!("[queue]\nqueue_ttl = \"10m\"\n{ONE}"), &backend);
    let running = gateway.send(&chat("m").tag("running"));
    backend.await_running(1);
    let bytes = [chat("m").bytes_kept(), chat("m").bytes_kept()].concat();
    let eager = Call::open(gateway.address(), &bytes);
    gateway.await_depth(1);
    drop(eager);
    gateway.await_depth(0);
    backend.open();
    assert_eq!(running.finish().status, 200);
    gateway.await_idle();
}

#[test]
fn n05_a_backend_that_closes_idle_connections_is_not_at_fault() {
    let backend = Backend::start(|_| Answer::ok().then(crate::support::answer::Step::Close));
    let gateway = Gateway::before(TWO, &backend);
    for _ in 0..100 {
        assert_eq!(gateway.ask(&chat("m")).status, 200);
    }
    assert_eq!(backend.seen().len(), 100);
    assert_eq!(gateway.backend("one")["failures"], 0);
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("tidegate_requeues_total"), 0.0);
}

#[test]
fn requests_in_a_row_on_one_connection_are_answered_in_their_order() {
    let backend =
        Backend::start(|seen| Answer::json(200, &format!("{{\"n\":\"{}\"}}", seen.tag())));
    let gateway = Gateway::before(TWO, &backend);
    let ask = |tag: &str| chat("m").tag(tag).bytes_kept();
    let health = Ask::get("/health").bytes_kept();
    let all = [ask("one"), health, ask("two"), ask("three")].concat();
    let mut call = Call::open(gateway.address(), &all);
    let answers: Vec<_> = (0..4).map(|_| call.answer().unwrap().text()).collect();
    assert_eq!(answers[0], "{\"n\":\"one\"}");
    assert!(answers[1].contains("\"queue\""));
    assert_eq!(answers[2..], ["{\"n\":\"two\"}", "{\"n\":\"three\"}"]);
}

#[test]
fn a_client_that_expects_to_be_told_is_told_to_go_on() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    let body = chat("m").body;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n\
        content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut call = Call::open(gateway.address(), head.as_bytes());
    assert_eq!(call.status_line(), "HTTP/1.1 100 Continue");
    call.send(&body).unwrap();
    assert_eq!(call.finish().status, 200);
    assert_eq!(backend.seen()[0].header("expect"), None);
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
    let ask = |ask: &Ask| Call::open(process.address(), &ask.bytes()).finish();
    let states = eventually("checked", || {
        let states: Vec<_> = ask(&Ask::get("/backends"))
            .json()
            .as_array()
            .unwrap()
            .iter()
            .map(|backend| backend["state"].as_str().unwrap().to_owned())
            .collect();
        let checked = states.iter().all(|state| state != "starting");
        if checked { Ok(states) } else { Err(format!("{states:?}")) }
    });
    assert_eq!(states, ["unready: it is this gateway itself"; 3]);
    ask(&chat("m")).refused(503, "queue_timeout");
    let metrics = Metrics::read(&ask(&Ask::get("/metrics")).text());
    assert_eq!(metrics.sum("tidegate_offers_total"), 1.0);
    assert_eq!(process.log().matches("is this gateway").count(), 3, "{}", process.log());
}
