//! X05: behind Envoy, too, a request whose backend has begun to work has its price, however it
//! ends.

use std::net::SocketAddr;

use serde_json::json;

use crate::support::gateway::config;
use crate::support::keys::Keys;
use crate::support::{Backend, HttpRequest, Picker, Recipe, ScriptedResponse, chat, eventually};

/// A chat of 1,250 tokens, more than the quota.
fn ask() -> HttpRequest {
    let long = json!([{"role": "user", "content": "word ".repeat(1000)}]);
    chat("m").with("messages", long).with("max_tokens", 5)
}

/// What the backend does, the header of the request, and the status that its client reads; it
/// leaves if there is none.
type Way = (fn() -> ScriptedResponse, (&'static str, &'static str), Option<u16>);

const WAYS: [Way; 4] = [
    (ScriptedResponse::silence, ("x-none", "1"), None),
    (ScriptedResponse::silence, ("x-request-timeout-ms", "300"), Some(504)),
    (ScriptedResponse::silence, ("x-none", "1"), Some(502)),
    (|| ScriptedResponse::json(500, "{}").after_ms(400), ("x-none", "1"), Some(500)),
];

/// A picker with these sections and the tenant `alpha`, whose quota is less than one request.
fn text(keys: &Keys, sections: &str, backends: &[(&str, SocketAddr)]) -> String {
    let sections = format!(
        "{}{sections}[admin]\nwithout_key = \"all\"\n\
         [[tenants]]\nname = \"alpha\"\ntokens_per_day = 900\non_quota = \"refuse\"\n",
        keys.section()
    );
    config(&sections, backends)
}

fn refused(picker: &Picker, key: &str, name: &str) {
    eventually(name, || {
        let answer = picker.ask(&chat("m").header("x-request-timeout-ms", "100").key(key));
        let is_settled = answer.header("retry-after") != Some("5");
        if answer.status == 429 && is_settled { Ok(()) } else { Err(answer.text()) }
    });
}

#[test]
fn x05_x02_behind_envoy_however_a_request_ends_after_work_its_tenant_has_paid() {
    for (number, (script, (name, value), status)) in WAYS.into_iter().enumerate() {
        let (keys, backend) = (Keys::new(), Backend::start(move |_| script()));
        let key = keys.tenant("alpha", "a");
        let limit = "[upstream]\nanswer_timeout = \"2s\"\n";
        let text = text(&keys, limit, &[("one", backend.address())]);
        let picker = Picker::start(Recipe::original_dst(), &text);
        let call = picker.send(&ask().header(name, value).key(&key));
        backend.await_running(1);
        match status {
            Some(status) => assert_eq!(call.finish().status, status, "way {number}"),
            None => drop(call),
        }
        refused(&picker, &key, &format!("way {number}"));
    }
}

/// Envoy uses the fallback, whose stream the client leaves.
#[test]
fn x05_x02_a_request_that_envoy_moves_has_its_price() {
    let (one, keys) = (Backend::quick(), Keys::new());
    let two = Backend::start(|_| {
        ScriptedResponse::stream_begun("a").then_all(ScriptedResponse::silence())
    });
    let key = keys.tenant("alpha", "a");
    let addresses = [one.address(), two.address()];
    let sections = "[epp]\nfallbacks = 1\n[health]\ninterval = \"1h\"\n";
    let text = text(&keys, sections, &[("one", addresses[0]), ("two", addresses[1])]);
    let picker = Picker::start(Recipe::override_host(&addresses), &text);
    one.stop();
    let mut call = picker.send(&ask().streamed().key(&key));
    assert!(call.chunk().is_some());
    drop(call);
    refused(&picker, &key, "the moved request");
}
