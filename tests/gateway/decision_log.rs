//! R04, R05: the log, the pages and the metrics give the numbers of a decision.

use std::collections::BTreeMap;

use crate::support::gateway::{ONE, TWO, config};
use crate::support::{Backend, Engine, Gateway, chat, eventually};

const STATED: &str = "[router]\nmeasured_latency_share = 0\n";
const ROOM: &str = "[controller]\nwatermark_per_backend = 20\n";

/// The access log, once it has this many lines that contain `part`.
fn lines(gateway: &Gateway, part: &str, count: usize) -> Vec<String> {
    eventually("logged", || {
        let log = gateway.process.access();
        let found: Vec<_> = log.lines().filter(|line| line.contains(part)).collect();
        let found: Vec<_> = found.into_iter().map(str::to_owned).collect();
        if found.len() == count { Ok(found) } else { Err(log) }
    })
}

fn number(line: &str, key: &str) -> f64 {
    let value = line.split(' ').find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {key}: {line}")).parse().unwrap()
}

/// The penalties of three requests in the order of their grants, with a check that each score is
/// the same apart from its penalty.
fn penalties(sections: &str, backends: usize) -> Vec<f64> {
    let served: Vec<_> = (0..backends).map(|_| Backend::held()).collect();
    let names = ["one", "two"];
    let entries: Vec<_> = names.into_iter().zip(served.iter().map(Backend::address)).collect();
    let gateway = Gateway::start(&config(&format!("{STATED}{sections}"), &entries));
    let running = || served.iter().map(Backend::running).sum::<usize>();
    let mut calls = Vec::new();
    for sent in 1..=3 {
        calls.push(gateway.send(&chat("m").header("X-Request-ID", &format!("number-{sent}"))));
        eventually("running", || if running() == sent { Ok(()) } else { Err("not yet".into()) });
    }
    served.iter().for_each(Backend::open);
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    let mut log = lines(&gateway, "request_id=number-", 3);
    log.sort_by_key(|line| line.split_once("number-").map(|(_, after)| after.to_owned()));
    let found: Vec<_> = log.iter().map(|line| number(line, "queue_penalty")).collect();
    for (line, penalty) in log.iter().zip(&found) {
        let idle = number(&log[0], "score") + found[0];
        assert!((number(line, "score") + penalty - idle).abs() < 0.01, "{log:#?}");
    }
    found
}

#[test]
fn r05_the_logged_queue_penalty_is_that_of_the_score() {
    assert_eq!(penalties(ROOM, 1), [0.0, 50.0, 100.0]);
    assert_eq!(penalties(ROOM, 2), [0.0, 0.0, 50.0]);
    let automatic = penalties("", 1);
    assert_eq!(automatic[0], 0.0, "an idle backend has no queue");
    assert!(automatic.is_sorted() && automatic[2] > 0.0, "{automatic:?}");
}

#[test]
fn r04_the_only_backend_with_room_is_not_called_the_only_backend() {
    let (a, b) = (Backend::held(), Backend::held());
    let entries = [("a", a.address()), ("b", b.address())];
    let gateway = Gateway::start(&config(ONE, &entries));
    let first = gateway.send(&chat("m"));
    eventually("running", || match a.running() + b.running() {
        1 => Ok(()),
        other => Err(other.to_string()),
    });
    let second = gateway.send(&chat("m"));
    a.await_running(1);
    b.await_running(1);
    a.open();
    b.open();
    assert_eq!(first.finish().header("x-routing-reason"), Some("normal-balanced"));
    assert_eq!(second.finish().header("x-routing-reason"), Some("only-backend-with-room"));
    gateway.await_idle();
    gateway.rewrite(&config(ONE, &entries[..1]));
    eventually("removed", || match gateway.backends().len() {
        1 => Ok(()),
        other => Err(other.to_string()),
    });
    assert_eq!(gateway.ask(&chat("m")).header("x-routing-reason"), Some("only-backend"));
}

#[test]
fn x06_a_removed_backend_keeps_its_name_while_it_has_requests() {
    let (old, new) = (Backend::held(), Backend::held());
    let gateway = Gateway::start(&config(TWO, &[("old", old.address())]));
    let call = gateway.send(&chat("m"));
    old.await_running(1);
    gateway.rewrite(&config(TWO, &[("new", new.address())]));
    let page = eventually("leaving", || {
        let page = gateway.backends();
        let leaves = page.iter().any(|backend| backend["state"] == "leaving");
        if leaves { Ok(page) } else { Err(format!("{page:?}")) }
    });
    let urls: BTreeMap<_, _> =
        page.iter().map(|backend| (backend["id"].as_str(), backend["url"].as_str())).collect();
    let url = format!("http://{}", old.address());
    assert_eq!(urls.get(&Some("old")), Some(&Some(url.as_str())), "{page:?}");
    let text = gateway.get("/metrics").text();
    assert!(text.contains("backend_stock{backend=\"old\"} 1"), "{text}");
    old.open();
    assert_eq!(call.finish().status, 200);
}

#[test]
fn m01_the_watermark_under_auto_is_the_bound_in_force() {
    let backend = Backend::held();
    let gateway = Gateway::start(&config("", &[("one", backend.address())]));
    let bound = || gateway.backend("one")["limits"]["unstarted"]["most"].as_f64().unwrap();
    assert_eq!(gateway.metrics().sum("tidegate_watermark"), bound(), "before any load");
    let calls: Vec<_> = (0..4).map(|_| gateway.send(&chat("m"))).collect();
    backend.await_running(bound() as usize);
    assert_eq!(gateway.metrics().sum("tidegate_watermark"), bound(), "no request has started");
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}

/// The engine takes 16 requests at once, and its cache would hold many more.
#[test]
fn m01_the_watermark_under_auto_is_where_an_engine_with_known_slots_closes() {
    const SLOTS: f64 = 16.0;
    let pace = ["--time-to-first-token", "200ms", "--inter-token-latency", "20ms"];
    let engine = Engine::start(&[pace, ["--model", "m", "--max-num-seqs", "16"]].concat());
    let gateway = Gateway::start(&config("", &[("one", engine.address())]));
    let limits = || gateway.backend("one")["limits"].clone();
    eventually("scraped", || match limits() {
        limits if limits["by_metrics"] == true && !limits["tokens"]["most"].is_null() => Ok(()),
        limits => Err(limits.to_string()),
    });
    let watermark = gateway.metrics().sum("tidegate_watermark");
    let shown = &limits()["watermark"];
    assert_eq!((Some(watermark), watermark), (shown.as_f64(), 2.0), "before any load");
    let ask = chat("m").streamed().with("max_tokens", 1500);
    let calls: Vec<_> = (0..40).map(|_| gateway.send(&ask)).collect();
    gateway.await_metrics("full", |metrics| {
        let [in_flight, watermark, saturation] = ["requests_in_flight", "watermark", "saturation"]
            .map(|name| metrics.sum(&format!("tidegate_{name}")));
        let told = format!("{in_flight} of {watermark}, {saturation}");
        assert_eq!(saturation == 1.0, in_flight >= watermark, "{told}");
        // Some requests may wait inside the engine since before its slots were known.
        let found = limits()["binding"] == "slots" && in_flight >= watermark;
        if found && (SLOTS..=SLOTS + 2.0).contains(&watermark) { Ok(()) } else { Err(told) }
    });
    assert_eq!(engine.control()["running"], SLOTS);
    drop(calls);
    gateway.await_idle();
}

#[test]
fn r05_decisions_are_logged_in_the_form_of_the_source_if_configured() {
    let backend = Backend::held();
    let sections = format!("{STATED}[log]\ndecisions = true\n{ROOM}");
    let gateway = Gateway::start(&config(&sections, &[("ollama-npu", backend.address())]));
    let mut calls = Vec::new();
    for (sent, band) in ["best-effort", "normal", "critical"].into_iter().enumerate() {
        calls.push(gateway.send(&chat("m").priority(band)));
        backend.await_running(sent + 1);
    }
    let [priority, queue, routing] =
        ["[Priority]", "[Queue]", "[Routing]"].map(|word| lines(&gateway, word, 3).remove(2));
    let told = "[Priority] Request routed: priority=critical backend=ollama-npu boost=+500";
    assert_eq!(priority, told);
    assert_eq!(queue, "[Queue] Backend ollama-npu: depth=2 (best_effort=1, normal=1)");
    // A best-effort request counts a quarter for a critical one, a normal one half.
    let told = "[Routing] Selected ollama-npu: score=1462 (priority_boost=500, queue_penalty=38)";
    assert_eq!(routing, told);
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    let silent = Gateway::start(&config(ROOM, &[("one", backend.address())]));
    assert_eq!(silent.ask(&chat("m")).status, 200);
    assert_eq!(lines(&silent, "backend=one", 1).len(), 1);
    assert!(!silent.process.access().contains("[Routing]"));
}

#[test]
fn c11_saturation_is_how_full_the_backends_are() {
    let backend = Backend::held();
    let gateway = Gateway::start(&config(TWO, &[("one", backend.address())]));
    let saturation = || gateway.metrics().sum("tidegate_saturation");
    assert_eq!(saturation(), 0.0);
    let mut calls = vec![gateway.send(&chat("m"))];
    backend.await_running(1);
    assert_eq!(saturation(), 0.5);
    calls.push(gateway.send(&chat("m")));
    backend.await_running(2);
    assert_eq!(saturation(), 1.0, "an empty queue behind full backends");
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}
