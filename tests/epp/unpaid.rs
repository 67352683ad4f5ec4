//! X05: behind Envoy, too, a request whose backend has begun to work has its price, however it
//! ends.

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

#[test]
fn x05_x02_behind_envoy_however_a_request_ends_after_work_its_tenant_has_paid() {
    for (number, (script, (name, value), status)) in WAYS.into_iter().enumerate() {
        let keys = Keys::new();
        let key = keys.tenant("alpha", "a");
        let backend = Backend::start(move |_| script());
        let sections = format!(
            "{}[upstream]\nanswer_timeout = \"2s\"\n[admin]\nwithout_key = \"all\"\n\
             [[tenants]]\nname = \"alpha\"\ntokens_per_day = 900\non_quota = \"refuse\"\n",
            keys.section()
        );
        let text = config(&sections, &[("one", backend.address())]);
        let picker = Picker::start(Recipe::original_dst(), &text);
        let call = picker.send(&ask().header(name, value).key(&key));
        backend.await_running(1);
        match status {
            Some(status) => assert_eq!(call.finish().status, status, "way {number}"),
            None => drop(call),
        }
        eventually("used up", || {
            let answer = picker.ask(&chat("m").header("x-request-timeout-ms", "100").key(&key));
            let is_settled = answer.header("retry-after") != Some("5");
            match (answer.status, is_settled) {
                (429, true) => Ok(()),
                _ => Err(format!("way {number}: {}", answer.text())),
            }
        });
    }
}
