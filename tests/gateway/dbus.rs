//! R08: the queue and the backends on D-Bus, as `busctl` shows them.

use std::fs;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use crate::support::dbus::MessageBus;
use crate::support::gateway::{ONE, TWO, config};
use crate::support::tools::run;
use crate::support::{Backend, Gateway, chat, eventually};

const ON: &str = "[dbus]\nenabled = true\n";
const SHOWN: &str = "services are on the session bus";

/// A gateway that serves on this bus.
fn gateway_on(bus: &MessageBus, sections: &str, backends: &[(&str, &Backend)]) -> Gateway {
    let backends: Vec<_> = backends.iter().map(|(id, backend)| (*id, backend.address())).collect();
    let config = config(&format!("{ON}{sections}"), &backends);
    let gateway = Gateway::launch_in(&config, &[("DBUS_SESSION_BUS_ADDRESS", &bus.address())]);
    gateway.await_ready(backends.len());
    gateway
}

fn waiting_by_band(gateway: &Gateway) -> Value {
    gateway.get("/health").json()["queue"]["waiting"].clone()
}

#[test]
fn r08_the_bus_shows_the_values_of_the_pages_under_load() {
    let bus = MessageBus::start();
    let (one, two) = (Backend::held(), Backend::held());
    let gateway = gateway_on(&bus, TWO, &[("one", &one), ("two", &two)]);
    gateway.process.await_log(SHOWN, 1);
    let mut calls = Vec::new();
    for (count, band) in ["critical", "high", "normal", "best-effort"].into_iter().enumerate() {
        calls.push(gateway.send(&chat("m").priority(band)));
        eventually("running", || match one.running() + two.running() {
            running if running == count + 1 => Ok(()),
            running => Err(running.to_string()),
        });
    }
    for (others, band) in ["critical", "normal", "normal"].into_iter().enumerate() {
        calls.push(gateway.enqueue(&chat("m").priority(band), others));
    }
    let [queue, waiting, backends] = &bus.call("Routing", &["GetQueueStats"])[..] else {
        panic!("three results");
    };
    assert_eq!(*queue, json!({"depth": 3, "capacity": 1000, "in_flight": 4}));
    assert_eq!(*waiting, json!({"critical": 1, "high": 0, "normal": 2, "best_effort": 0}));
    assert_eq!(*waiting, waiting_by_band(&gateway));
    let mut expected = json!({});
    for page in gateway.backends() {
        let mut counts = page["priority_counts"].clone();
        counts["queue_depth"] = page["queue_depth"].clone();
        expected[page["id"].as_str().unwrap()] = counts;
    }
    assert_eq!(*backends, expected);
    assert_eq!(bus.call("Routing", &["GetQueueDepths"]), [json!({"one": 2, "two": 2})]);
    one.open();
    two.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    gateway.await_idle();
    assert_eq!(bus.call("Routing", &["GetQueueDepths"]), [json!({"one": 0, "two": 0})]);
}

#[test]
fn r08_a_backends_state_is_that_of_its_page() {
    let bus = MessageBus::start();
    let (one, two) = (Backend::quick(), Backend::quick());
    let traits = "[health]\ninterval = \"100ms\"\n";
    let gateway = gateway_on(&bus, traits, &[("one", &one), ("two", &two)]);
    gateway.process.await_log(SHOWN, 1);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    two.set_healthy(false);
    eventually("unready", || match gateway.backend("two")["ready"] == false {
        true => Ok(()),
        false => Err("ready".into()),
    });
    let page = gateway.backend("one");
    let latency = page["avg_latency_ms"].as_f64().map_or(-1.0, f64::round);
    let [list] = &bus.call("Backends", &["ListBackends"])[..] else { panic!("one result") };
    assert_eq!(list[0], json!(["one", "one", "ollama", "", true, 0.0, latency as i32]));
    assert_eq!((&list[1][0], &list[1][4]), (&json!("two"), &json!(false)));
    let [details] = &bus.call("Backends", &["GetBackendDetails", "s", "one"])[..] else {
        panic!("one result");
    };
    for field in ["id", "url", "kind", "state", "ready", "models", "stock", "power_watts"] {
        assert_eq!(details[field]["data"], page[field], "{field}");
    }
    assert!(details.get("metrics_error").is_none(), "what is null is not told: {details}");
    let ask = |method: &[&str]| bus.call("Backends", method);
    assert_eq!(ask(&["GetBackendHealth", "s", "one"]), [json!(true)]);
    assert_eq!(ask(&["GetBackendHealth", "s", "two"]), [json!(false)]);
    assert_eq!(ask(&["GetSupportedModels", "s", "one"]), [json!(["m"])]);
    let unknown = bus.try_call("Backends", &["GetBackendDetails", "s", "three"]).unwrap_err();
    assert!(unknown.contains("ListBackends lists them"), "{unknown}");
    let (name, path) = ("ie.fio.OllamaProxy.Backends", "/ie/fio/OllamaProxy/Backends");
    let counts = ["get-property", name, path, name, "BackendCount", "HealthyCount"];
    assert_eq!(run(bus.busctl().args(counts)), "i 2\ni 1\n");
}

/// One call shows one moment: the parts add up to the whole under any load.
#[test]
fn r08_the_numbers_of_one_reply_belong_together() {
    let bus = MessageBus::start();
    let (one, two) = (Backend::quick(), Backend::quick());
    let gateway = gateway_on(&bus, ONE, &[("one", &one), ("two", &two)]);
    gateway.process.await_log(SHOWN, 1);
    let mut busy = 0;
    for _ in 0..40 {
        let calls: Vec<_> = (0..20).map(|_| gateway.send(&chat("m"))).collect();
        let [queue, waiting, backends] = &bus.call("Routing", &["GetQueueStats"])[..] else {
            panic!("three results");
        };
        let sum = |counts: &Value| -> u64 {
            counts.as_object().unwrap().values().filter_map(Value::as_u64).sum()
        };
        let at_backends = ["one", "two"].map(|id| backends[id]["queue_depth"].as_u64().unwrap());
        assert_eq!(queue["in_flight"], at_backends.iter().sum::<u64>(), "{queue} {backends}");
        assert_eq!(queue["depth"], sum(waiting), "{queue} {waiting}");
        busy += at_backends.iter().sum::<u64>() + sum(waiting);
        assert!(calls.into_iter().all(|call| call.finish().status == 200));
    }
    assert!(busy > 0, "something was seen");
    let [stats] = &bus.call("Routing", &["GetRoutingStats"])[..] else { panic!("one result") };
    let figures = ["total_requests", "total_success", "total_errors", "success_rate"];
    let figures = figures.map(|figure| stats[figure]["data"].as_f64().unwrap());
    assert_eq!(figures, [800.0, 800.0, 0.0, 100.0]);
    let [shares] = &bus.call("Routing", &["GetBackendDistribution"])[..] else { panic!("one") };
    let shares = ["one", "two"].map(|id| shares[id].as_f64().unwrap());
    let attempts = gateway.metrics().sum_where("tidegate_backend_attempts_total", "\"one\"");
    assert!((shares[0] - attempts / 8.0).abs() < 1e-9, "{shares:?}, {attempts} of 800");
    assert!((shares[0] + shares[1] - 100.0).abs() < 1e-9, "{shares:?}");
}

#[test]
fn r08_asking_a_thousand_times_changes_no_number() {
    let bus = MessageBus::start();
    let backend = Backend::held();
    let patient = format!("[queue]\nqueue_ttl = \"1h\"\n{ONE}");
    let gateway = gateway_on(&bus, &patient, &[("one", &backend)]);
    gateway.process.await_log(SHOWN, 1);
    let mut calls = vec![gateway.send(&chat("m"))];
    backend.await_running(1);
    calls.push(gateway.enqueue(&chat("m"), 0));
    let numbers = || {
        let text = gateway.get("/metrics").text();
        let moves = ["process_", "uptime", "oldest", "backlog_seconds", "arrival_rate", "#"];
        let stays = |line: &&str| !moves.iter().any(|word| line.contains(word));
        text.lines().filter(stays).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = (numbers(), bus.call("Routing", &["GetQueueStats"]));
    let methods: [(&str, &[&str]); 8] = [
        ("Routing", &["GetQueueStats"]),
        ("Routing", &["GetQueueDepths"]),
        ("Routing", &["GetRoutingStats"]),
        ("Routing", &["GetBackendDistribution"]),
        ("Backends", &["ListBackends"]),
        ("Backends", &["GetBackendDetails", "s", "one"]),
        ("Backends", &["GetBackendHealth", "s", "one"]),
        ("Backends", &["GetSupportedModels", "s", "one"]),
    ];
    for (service, method) in methods.into_iter().cycle().take(1000) {
        bus.call(service, method);
    }
    assert_eq!(before, (numbers(), bus.call("Routing", &["GetQueueStats"])));
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}

#[test]
fn r08_without_a_bus_the_gateway_logs_it_once_and_serves() {
    let mut bus = MessageBus::absent();
    let backend = Backend::quick();
    let gateway = gateway_on(&bus, "", &[("one", &backend)]);
    gateway.process.await_log("DBUS_SESSION_BUS_ADDRESS", 1);
    gateway.process.await_log("dbus.enabled = false", 1);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    // A socket that closes each connection at once, so that attempts can be counted.
    let rude = UnixListener::bind(bus.socket()).unwrap();
    rude.set_nonblocking(true).unwrap();
    for _ in 0..5 {
        eventually("tried", || rude.accept().map_err(|error| error.to_string()));
    }
    drop(rude);
    bus.appear();
    let log = gateway.process.await_log(SHOWN, 1);
    let told = log.matches("services are not on the session bus").count();
    assert!(told <= 3, "absent, rude, perhaps absent again: {log}");
}

#[test]
fn r08_a_bus_that_dies_and_comes_back_is_found_again() {
    let mut bus = MessageBus::start();
    let backend = Backend::quick();
    let gateway = gateway_on(&bus, "", &[("one", &backend)]);
    for round in 1..=2 {
        gateway.process.await_log(SHOWN, round);
        assert_eq!(bus.call("Routing", &["GetQueueDepths"]), [json!({"one": 0})]);
        bus.vanish();
        gateway.process.await_log("the session bus has gone", round);
        assert_eq!(gateway.ask(&chat("m")).status, 200);
        bus.appear();
    }
    gateway.process.await_log(SHOWN, 3);
}

#[test]
fn r08_a_taken_name_is_logged_and_acquired_when_it_is_free() {
    let bus = MessageBus::start();
    let (one, two) = (Backend::quick(), Backend::quick());
    let first = gateway_on(&bus, "", &[("one", &one)]);
    first.process.await_log(SHOWN, 1);
    let second = gateway_on(&bus, "", &[("two", &two)]);
    second.process.await_log(SHOWN, 1);
    second.process.await_log("ie.fio.OllamaProxy.Routing is taken on the session bus", 1);
    assert_eq!(second.ask(&chat("m")).status, 200);
    assert_eq!(bus.call("Routing", &["GetQueueDepths"]), [json!({"one": 0})]);
    drop(first);
    let depths = || bus.try_call("Routing", &["GetQueueDepths"]);
    let handed_on = json!({"type": "a{si}", "data": [{"two": 0}]});
    eventually("handed on", || match depths() {
        Ok(depths) if depths == handed_on => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

#[test]
fn r08_a_silent_bus_delays_no_request() {
    let bus = MessageBus::absent();
    let _silent = UnixListener::bind(bus.socket()).unwrap();
    let backend = Backend::quick();
    let mut gateway = gateway_on(&bus, "", &[("one", &backend)]);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    gateway.process.await_log("no response within 5 s", 1);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    gateway.process.signal("TERM");
    assert!(gateway.process.exit().success());
}

#[test]
fn r08_nothing_is_shown_unless_it_is_wanted() {
    let bus = MessageBus::start();
    let backend = Backend::quick();
    let config = config("", &[("one", backend.address())]);
    let gateway = Gateway::launch_in(&config, &[("DBUS_SESSION_BUS_ADDRESS", &bus.address())]);
    gateway.await_ready(1);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    let names = run(bus.busctl().arg("list"));
    assert!(names.contains("org.freedesktop.DBus") && !names.contains("OllamaProxy"), "{names}");
    assert!(!gateway.process.log().contains(" bus"), "{}", gateway.process.log());
}

/// The rules of Debian's system bus, at the address that the daemon gets.
fn system_rules(policy: &str) -> String {
    let rules = fs::read_to_string("/usr/share/dbus-1/system.conf").unwrap();
    let elsewhere = ["<user>", "<fork/>", "<includedir>", "<include "];
    let ours = |line: &&str| !elsewhere.iter().any(|tag| line.contains(tag));
    let rules: Vec<&str> = rules.lines().filter(ours).collect();
    rules.join("\n").replace("</busconfig>", &format!("{policy}\n</busconfig>"))
}

#[test]
fn r08_the_system_bus_needs_the_policy_in_the_document() {
    let mut bus = MessageBus::absent();
    bus.appear_as(&system_rules(""));
    let backend = Backend::quick();
    let config = config(&format!("{ON}bus = \"system\"\n"), &[("one", backend.address())]);
    let gateway = Gateway::launch_in(&config, &[("DBUS_SYSTEM_BUS_ADDRESS", &bus.address())]);
    gateway.await_ready(1);
    gateway
        .process
        .await_log("does not let this user have the name ie.fio.OllamaProxy.Backends", 1);
    bus.vanish();
    let document = include_str!("../../docs/GATEWAY.md");
    let (_, policy) = document.split_once("```xml\n<busconfig>\n").unwrap();
    let (policy, _) = policy.split_once("</busconfig>").unwrap();
    let user = run(std::process::Command::new("id").arg("-un"));
    bus.appear_as(&system_rules(&policy.replace("tidegate", user.trim())));
    gateway.process.await_log("services are on the system bus", 1);
    assert_eq!(bus.call("Routing", &["GetQueueDepths"]), [json!({"one": 0})]);
}

/// Every command of the document works and returns the types that it shows.
#[test]
fn r08_the_commands_in_the_document_work() {
    let bus = MessageBus::start();
    let backend = Backend::quick();
    let gateway = gateway_on(&bus, "", &[("gpu-a", &backend)]);
    gateway.process.await_log(SHOWN, 1);
    let document = include_str!("../../docs/GATEWAY.md").replace("\\\n", "");
    let mut count = 0;
    for (command, shown) in document.lines().zip(document.lines().skip(1)) {
        let Some(arguments) = command.strip_prefix("$ busctl --user ") else { continue };
        let answer = run(bus.busctl().args(arguments.split_whitespace()));
        let kind = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
        assert_eq!(kind(&answer), kind(shown), "{command}");
        count += 1;
    }
    assert!(count >= 5, "{count} commands");
}
