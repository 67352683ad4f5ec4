//! X05: a tenant that tries to take the share of another one, with all that a client can write.

use crate::support::gateway::ONE;
use crate::support::keys::Keys;
use crate::support::{Backend, Gateway, HttpRequest, chat};

const TENANTS: &str = "[[tenants]]\nname = \"honest\"\n[[tenants]]\nname = \"attacker\"\n\
    [admin]\nwithout_key = \"all\"\n";

type Trick = fn(usize) -> HttpRequest;

/// The tricks, by name. Each gives the request of this number.
const TRICKS: [(&str, Trick); 9] = [
    ("plain flood", |_| chat("m")),
    ("fresh fairness ids", |number| {
        chat("m").header("x-llm-d-inference-fairness-id", &format!("fresh-{number}"))
    }),
    ("the older spelling of fairness ids", |number| {
        chat("m").header("x-gateway-inference-fairness-id", &format!("fresh-{number}"))
    }),
    ("variants of a name", |number| {
        let name: String = "honest"
            .chars()
            .enumerate()
            .map(|(at, letter)| match number >> at & 1 {
                1 => letter.to_ascii_uppercase(),
                _ => letter,
            })
            .collect();
        chat("m").header("x-llm-d-inference-fairness-id", &name)
    }),
    ("claims of critical", |_| chat("m").priority("critical")),
    ("an objective of 10", |_| chat("m").header("x-llm-d-inference-objective", "10")),
    ("a realtime media type", |_| chat("m").header("x-media-type", "realtime")),
    ("10 ms to the first token", |_| chat("m").header("x-slo-ttft-ms", "10")),
    ("fresh rewritten models", |number| {
        chat("m").header("x-gateway-model-name-rewrite", &format!("m-{number}"))
    }),
];

/// The share of the honest tenant among the first forty requests that the backend gets.
fn honest_share(trick: Trick) -> f64 {
    let (keys, backend) = (Keys::new(), Backend::held());
    let (honest, attacker) = (keys.tenant("honest", "a"), keys.tenant("attacker", "b"));
    let backends = format!(
        "[[backends]]\nid = \"one\"\nurl = \"http://{}\"\nmodels = [\"*\"]\n",
        backend.address()
    );
    let gateway = Gateway::start(&format!("{}{TENANTS}{ONE}{backends}", keys.section()));
    let mut calls = vec![gateway.send(&chat("m").key(&honest).tag("first"))];
    backend.await_running(1);
    for number in 0..40 {
        let attack = trick(number).key(&attacker).tag("attacker");
        calls.push(gateway.enqueue(&attack, 2 * number));
        calls.push(gateway.enqueue(&chat("m").key(&honest).tag("honest"), 2 * number + 1));
    }
    backend.open();
    for call in calls {
        assert_eq!(call.finish().status, 200);
    }
    let order = backend.tags();
    order[1..41].iter().filter(|tag| *tag == "honest").count() as f64 / 40.0
}

#[test]
fn x05_no_trick_of_one_tenant_takes_the_share_of_another() {
    for (name, trick) in TRICKS {
        let share = honest_share(trick);
        eprintln!("{name}: {:.0} %", 100.0 * share);
        assert!((0.4..=0.6).contains(&share), "{name}: {share}");
    }
}

/// Names that fill a queue must not refuse the requests of another tenant.
#[test]
fn x05_a_queue_full_of_one_tenants_names_refuses_no_other_tenant() {
    let (keys, backend) = (Keys::new(), Backend::held());
    let (honest, attacker) = (keys.tenant("honest", "a"), keys.tenant("attacker", "b"));
    let backends = format!(
        "[[backends]]\nid = \"one\"\nurl = \"http://{}\"\nmodels = [\"m\"]\n",
        backend.address()
    );
    let small = "[queue]\ntotal_capacity = 100\nflow_capacity = 60\n";
    let gateway = Gateway::start(&format!("{}{TENANTS}{ONE}{small}{backends}", keys.section()));
    let mut calls = vec![gateway.send(&chat("m").key(&attacker).tag("first"))];
    backend.await_running(1);
    for number in 0..60 {
        let fresh = format!("fresh-{number}");
        let flood = chat("m").header("x-llm-d-inference-fairness-id", &fresh);
        calls.push(gateway.enqueue(&flood.key(&attacker).tag("attacker"), number));
    }
    let more = chat("m").header("x-llm-d-inference-fairness-id", "more").key(&attacker);
    assert_eq!(gateway.ask(&more).code(), "flow_full", "one tenant is one flow");
    calls.extend((0..30).map(|number| gateway.enqueue(&chat("m").key(&honest), 60 + number)));
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}

/// Without keys, the address is a name that a client cannot invent.
#[test]
fn q01_clients_of_one_address_share_one_flow_whatever_they_write() {
    let backend = Backend::held();
    let sections = format!("[queue]\nflow_by = [\"address\"]\n{ONE}");
    let (gateway, running) = Gateway::occupied(&sections, &backend, &chat("m"));
    let mut calls = vec![running];
    for number in 0..3 {
        let fresh = format!("fresh-{number}");
        let ask = chat("m").header("x-llm-d-inference-fairness-id", &fresh);
        calls.push(gateway.enqueue(&ask.header("x-forwarded-for", &fresh), number));
    }
    let flows = gateway.get("/flows").json();
    let names: Vec<&str> = flows["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flow| flow["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["127.0.0.1"], "{flows}");
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}
