//! R06: the page `/backends`.

use serde_json::{Value, json};

use crate::support::gateway::TWO;
use crate::support::{Backend, Gateway, Nowhere, ScriptedResponse, chat, eventually};

/// A backend that alone serves a model, which has its name.
fn entry(id: &str, address: std::net::SocketAddr) -> String {
    format!("[[backends]]\nid = \"{id}\"\nurl = \"http://{address}\"\nmodels = [\"{id}\"]\n")
}

/// The state and the reason of a backend, once it has this state.
fn in_state(gateway: &Gateway, id: &str, state: &str) -> Value {
    eventually(state, || {
        let shown = gateway.backend(id);
        if shown["state"] == state { Ok(shown["reason"].clone()) } else { Err(shown.to_string()) }
    })
}

#[test]
fn r06_the_state_of_a_backend_is_a_word_with_a_reason() {
    let good = Backend::quick();
    let full = Backend::start(|_| ScriptedResponse::with_headers(429, &["retry-after: 5"], "{}"));
    let failing = Backend::start(|_| ScriptedResponse::json(500, "{}"));
    let (sick, nowhere) = (Backend::quick(), Nowhere::reserve());
    sick.set_healthy(false);
    let entries = [
        entry("good", good.address()),
        entry("full", full.address()),
        entry("failing", failing.address()),
        entry("sick", sick.address()),
        entry("nowhere", nowhere.address()),
    ];
    let health = "[health]\neject_after = 1\neject_for = \"1h\"\n";
    let gateway = Gateway::launch(&format!("{health}{TWO}{}", entries.concat()));
    gateway.await_ready(3);
    assert_eq!(in_state(&gateway, "good", "ready"), Value::Null);
    assert_eq!(gateway.backend("good")["returns_in_ms"], Value::Null);
    assert_eq!(in_state(&gateway, "nowhere", "unready"), "connection refused");
    let said = in_state(&gateway, "sick", "unready");
    assert!(said.as_str().unwrap().contains("503"), "{said}");
    let _calls = ["full", "failing"].map(|model| gateway.send(&chat(model)));
    assert_eq!(in_state(&gateway, "full", "full"), "it answered 429 Too Many Requests");
    let reason = in_state(&gateway, "failing", "ejected");
    assert_eq!(reason, "it answered 500 Internal Server Error");
    let returns = gateway.backend("failing")["returns_in_ms"].as_f64().unwrap();
    assert!((3_000_000.0..=3_600_000.0).contains(&returns), "{returns}");
}

/// One flow may use only a part of the queue, so the free places alone promise too much.
#[test]
fn c11_health_and_flows_state_how_many_places_one_flow_has() {
    let backend = Backend::held();
    let sections = "[queue]\ntotal_capacity = 9\nflow_capacity = 4\n\
        flow_by = [\"header:x-team\"]\n\
        [[flows]]\nmatch = { \"header:x-team\" = \"lab\" }\ncapacity = 2\n";
    let (gateway, _running) =
        Gateway::occupied(&format!("{sections}{TWO}"), &backend, &chat("m").header("x-team", "a"));
    let _second = gateway.send(&chat("m").header("x-team", "lab"));
    backend.await_running(2);
    let health = gateway.get("/health").json();
    assert_eq!(
        (&health["queue"]["capacity"], &health["queue"]["flow_capacity"]),
        (&json!(9), &json!(4))
    );
    let flows = gateway.get("/flows").json()["flows"].clone();
    let capacity = |name: &str| {
        let flows = flows.as_array().unwrap();
        flows.iter().find(|flow| flow["name"] == name).unwrap()["capacity"].clone()
    };
    assert_eq!((capacity("a"), capacity("lab")), (json!(4), json!(2)));
}
