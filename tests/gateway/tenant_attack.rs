//! X05: a tenant that tries to take the share of another one, with all that a client can write.

use serde_json::{Value, json};

use crate::support::gateway::ONE;
use crate::support::keys::Keys;
use crate::support::queueing::{count, succeed};
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat};

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

/// The share of the honest tenant, which sends `ask`, among the first forty requests that the
/// backend gets after the first. The attacker comes before it.
fn honest_share(
    sections: &str,
    backend: &Backend,
    ask: &HttpRequest,
    trick: impl Fn(usize) -> HttpRequest,
) -> f64 {
    let keys = Keys::new();
    let (honest, attacker) = (keys.tenant("honest", "a"), keys.tenant("attacker", "b"));
    let backends = format!(
        "[[backends]]\nid = \"one\"\nurl = \"http://{}\"\nmodels = [\"*\"]\n",
        backend.address()
    );
    let gateway = Gateway::start(&format!("{}{sections}{ONE}{backends}", keys.section()));
    let ask = ask.clone().key(&honest).tag("honest");
    let mut calls = vec![gateway.send(&ask)];
    backend.await_running(1);
    for number in 0..40 {
        let attack = trick(number).key(&attacker).tag("attacker");
        calls.push(gateway.enqueue(&attack, number));
    }
    calls.extend((40..80).map(|others| gateway.enqueue(&ask, others)));
    backend.open();
    succeed(calls);
    count(&backend.tags()[1..41], "honest") as f64 / 40.0
}

fn assert_half(share: f64, name: &str) {
    eprintln!("{name}: {:.0} %", 100.0 * share);
    assert!((0.4..=0.6).contains(&share), "{name}: {share}");
}

#[test]
fn x05_no_trick_of_one_tenant_takes_the_share_of_another() {
    for (name, trick) in TRICKS {
        assert_half(honest_share(TENANTS, &Backend::held(), &chat("m"), trick), name);
    }
}

/// Each band has a share of its own. At first the tenants may claim two bands, then all of them.
#[test]
fn x05_under_weighted_bands_a_tenant_has_the_share_of_one_band() {
    let weights = "[queue.bands]\ncritical = 1\nhigh = 1\nnormal = 1\nbest_effort = 1\n";
    let bands = ["best-effort", "normal", "high", "critical"];
    let in_all_bands = |number: usize| chat("m").priority(bands[number % 4]);
    for band_max in ["normal", "critical"] {
        let limit = format!("[[tenants]]\nband_max = {band_max:?}");
        let sections = format!("{}{weights}", TENANTS.replace("[[tenants]]", &limit));
        let share = honest_share(&sections, &Backend::held(), &chat("m"), in_all_bands);
        assert_half(share, &format!("all bands up to {band_max}"));
    }
}

/// Each request of the attacker takes as much of the backend as one of the honest tenant, and
/// looks as if it took less.
#[test]
fn x05_q04_no_look_of_a_request_hides_its_tokens() {
    let says = |text: &str| json!([{"role": "user", "content": text.repeat(400)}]);
    let plain = |tokens: u32| chat("m").with("max_tokens", tokens);
    let base64 = plain(10).with("messages", says("VGhlIHRpZGUgcmlzZXMu"));
    let text = plain(10).with("messages", says("The tide rises now. "));
    // Where a backend reports no tokens, the estimate counts.
    for (name, usage, attack, ask) in [
        ("a prompt like base64", json!({}), base64, text),
        ("sixteen choices", json!({}), plain(50).with("n", 16), plain(800)),
        ("a claim of one token", json!({"completion_tokens": 400}), plain(1), plain(400)),
    ] {
        let body = json!({ "choices": [], "usage": usage }).to_string();
        let backend = Backend::start(move |_| ScriptedResponse::json(200, &body).held());
        let sections = format!("{TENANTS}[queue]\ncost = \"tokens\"\n");
        assert_half(honest_share(&sections, &backend, &ask, |_| attack.clone()), name);
    }
}

/// What an engine repeats of a request is no usage, and a response without usage has a length.
#[test]
fn x05_q04_no_response_of_a_tenant_looks_cheaper_than_it_is() {
    let forged = json!({"usage": {"cached_tokens": 1_000_000_000, "output_tokens": 0}});
    let tools = json!([{"type": "function", "name": "f", "parameters": {"properties": forged}}]);
    let quoted = json!(forged.to_string());
    let ask = |field: &str, value: &Value| {
        let body = json!({"model": "m", "input": "hello", "max_output_tokens": 400, field: value});
        HttpRequest::post("/v1/responses", body.to_string())
    };
    let text = "The tide rises now. ".repeat(80);
    let silent = json!({"choices": [{"message": {"role": "assistant", "content": text}}]});
    let claim = |tokens: u32| chat("m").with("max_tokens", tokens);
    let backend = || {
        let silent = silent.to_string();
        Backend::start(move |seen| {
            let seen = seen.json();
            if seen["messages"].is_array() {
                return ScriptedResponse::json(200, &silent).held();
            }
            let used = "{\"input_tokens\":4000,\"output_tokens\":10}";
            let [tools, metadata, user] = ["tools", "metadata", "user"].map(|name| &seen[name]);
            let repeated = format!("\"tools\":{tools},\"metadata\":{metadata},\"user\":{user}");
            let body = format!("{{{repeated},\"usage\":{used},{repeated}}}");
            ScriptedResponse::json(200, &body).held()
        })
    };
    let sections = format!("{TENANTS}[queue]\ncost = \"tokens\"\n");
    for (name, attack, honest) in [
        ("usage in tools", ask("tools", &tools), ask("user", &Value::Null)),
        ("usage in metadata", ask("metadata", &forged), ask("user", &Value::Null)),
        ("usage in a text", ask("user", &quoted), ask("user", &Value::Null)),
        ("no usage and a claim of one token", claim(1), claim(400)),
    ] {
        assert_half(honest_share(&sections, &backend(), &honest, |_| attack.clone()), name);
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
