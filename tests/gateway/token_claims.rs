//! What a client claims to need does not decide how much of a backend it gets.

use serde_json::json;

use crate::support::keys::Keys;
use crate::support::{Backend, Gateway, HttpRequest, ScriptedResponse, chat};

/// Bounds in tokens: each backend holds requests until their tokens reach this.
fn bounded(tokens: u32) -> String {
    format!(
        "[controller]\nstock = \"tokens\"\nlower_bound_per_backend = {tokens}\n\
         watermark_per_backend = {tokens}\nupper_bound_per_backend = {tokens}\n"
    )
}

/// A request that claims to need a billion tokens.
fn claiming() -> HttpRequest {
    chat("m").with("max_tokens", 1_000_000_000)
}

/// A backend that reports ten tokens, and holds the requests whose tag says so.
fn short_responses() -> Backend {
    let body = json!({"usage": {"prompt_tokens": 5, "completion_tokens": 10}}).to_string();
    Backend::start(move |seen| match seen.tag().as_str() {
        "held" => ScriptedResponse::json(200, &body).held(),
        _ => ScriptedResponse::json(200, &body),
    })
}

#[test]
fn x03_clients_that_claim_many_tokens_do_not_fill_a_backend_of_an_unknown_model() {
    let backend = short_responses();
    let gateway = Gateway::before(&bounded(10_000), &backend);
    two_claims_leave_room(&gateway, &backend);
}

#[test]
fn x03_claims_count_as_the_responses_of_the_model_were_before() {
    let backend = short_responses();
    let gateway = Gateway::before(&bounded(1000), &backend);
    assert_eq!(gateway.ask(&claiming()).status, 200);
    gateway.await_idle();
    two_claims_leave_room(&gateway, &backend);
}

/// A third request is served beside two that claim many tokens.
fn two_claims_leave_room(gateway: &Gateway, backend: &Backend) {
    let claims: Vec<_> = (0..2).map(|_| gateway.send(&claiming().tag("held"))).collect();
    backend.await_running(2);
    assert_eq!(gateway.ask(&chat("m").with("max_tokens", 10)).status, 200);
    backend.open();
    claims.into_iter().for_each(|claim| assert_eq!(claim.finish().status, 200));
}

/// Sixteen responses to one prompt are sixteen times the work.
#[test]
fn x03_all_choices_of_a_request_count() {
    let backend = short_responses();
    let gateway = Gateway::before(&bounded(1000), &backend);
    let many = chat("m").with("max_tokens", 100).with("n", 16).tag("held");
    let many = gateway.send(&many);
    backend.await_running(1);
    let waiting = gateway.enqueue(&chat("m").with("max_tokens", 10), 0);
    backend.open();
    assert_eq!((many.finish().status, waiting.finish().status), (200, 200));
}

#[test]
fn x05_a_small_limit_that_the_backend_ignores_does_not_hide_a_large_one() {
    let (keys, backend) = (Keys::new(), short_responses());
    let key = keys.tenant("alpha", "a");
    let sections = format!(
        "{}[[tenants]]\nname = \"alpha\"\ntokens_per_minute = 1000\n\
         [admin]\nwithout_key = \"all\"\n",
        keys.section()
    );
    let gateway = Gateway::before(&sections, &backend);
    let decoy = chat("m").with("max_tokens", 900).with("n_predict", 1).tag("held").key(&key);
    let claims: Vec<_> = (0..2).map(|_| gateway.send(&decoy)).collect();
    backend.await_running(2);
    let refused = gateway.ask(&decoy);
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (429, &json!("rate_limit_exceeded"))
    );
    backend.open();
    claims.into_iter().for_each(|claim| assert_eq!(claim.finish().status, 200));
}
