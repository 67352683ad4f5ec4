//! X05: tenants and keys behind Envoy.

use std::fs;

use crate::support::envoy::Recipe;
use crate::support::gateway::{ONE, TWO, config};
use crate::support::keys::Keys;
use crate::support::queueing::count;
use crate::support::tokens::Tokens;
use crate::support::{Backend, HttpRequest, Picker, chat};

#[test]
fn x05_x02_behind_envoy_a_request_needs_a_key_that_no_backend_sees() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let secret = keys.file().with_file_name("backend.key");
    fs::write(&secret, "upstream\n").unwrap();
    let tenants = "[[tenants]]\nname = \"alpha\"\nmodels = [\"m\"]\nrequests_per_minute = 4\n\
        [admin]\nwithout_key = \"all\"\n";
    let sections = format!("{}{tenants}{TWO}", keys.section());
    for (more, expected) in
        [(String::new(), None), (format!("api_key_file = {secret:?}\n"), Some("Bearer upstream"))]
    {
        let text = config(&sections, &[("one", backend.address())]) + &more;
        let picker = Picker::start(Recipe::original_dst(), &text);
        for (ask, status, code) in [
            (chat("m"), 401, "missing_api_key"),
            (chat("m").key("wrong"), 401, "invalid_api_key"),
            (chat("other").key(&key), 403, "model_not_allowed"),
            (HttpRequest::post("/api/pull", "{\"model\":\"m\"}").key(&key), 403, "admin_only"),
        ] {
            let answer = picker.ask(&ask);
            assert_eq!((answer.status, answer.code()), (status, code.to_owned()));
        }
        for ask in [chat("m").key(&key), chat("m").header("x-api-key", &key)] {
            assert_eq!(picker.ask(&ask).status, 200);
            let seen = backend.seen().pop().unwrap();
            assert_eq!(seen.header("authorization"), expected);
            assert_eq!(seen.header("x-api-key"), None);
        }
        let mut further = (0..10).map(|_| picker.ask(&chat("m").key(&key)).status);
        assert!(further.any(|status| status == 429), "four requests a minute");
    }
}

#[test]
fn x05_x02_behind_envoy_a_token_names_the_tenant_and_no_backend_sees_it() {
    let (tokens, backend) = (Tokens::new(), Backend::quick());
    let tenants = "[[tenants]]\nname = \"alpha\"\n[admin]\nwithout_key = \"all\"\n";
    let sections = format!("{}{tenants}{TWO}", tokens.section());
    let text = config(&sections, &[("one", backend.address())]);
    let picker = Picker::start(Recipe::original_dst(), &text);
    let expired = picker.ask(&chat("m").key(tokens.get("expired")));
    assert_eq!((expired.status, expired.code()), (401, "invalid_token".to_owned()));
    assert_eq!(picker.ask(&chat("m").key(tokens.get("rs256"))).status, 200);
    assert_eq!(backend.seen().pop().unwrap().header("authorization"), None);
}

#[test]
fn x05_x02_behind_envoy_fresh_names_take_no_share_of_another_tenant() {
    let (keys, backend) = (Keys::new(), Backend::held());
    let (honest, attacker) = (keys.tenant("honest", "a"), keys.tenant("attacker", "b"));
    let tenants = "[[tenants]]\nname = \"honest\"\n[[tenants]]\nname = \"attacker\"\n\
        [admin]\nwithout_key = \"all\"\n";
    let sections = format!("{}{tenants}{ONE}", keys.section());
    let plain = chat("m").key(&honest).tag("honest");
    let (picker, running) = Picker::occupied(&sections, &backend, &plain);
    let mut calls = vec![running];
    for number in 0..40 {
        let fresh = format!("fresh-{number}");
        let ask = chat("m").header("x-llm-d-inference-fairness-id", &fresh);
        calls.push(picker.enqueue(&ask.key(&attacker).tag("attacker"), number));
    }
    calls.extend((40..80).map(|others| picker.enqueue(&plain, others)));
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    let served = count(&backend.tags()[1..41], "honest");
    assert!((16..=24).contains(&served), "{served} of 40");
}

#[test]
fn x05_x02_behind_envoy_a_body_that_servers_read_differently_is_refused() {
    let (keys, backend) = (Keys::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let tenants = "[[tenants]]\nname = \"alpha\"\nmodels = [\"m\"]\n\
        [admin]\nwithout_key = \"all\"\n";
    let sections = format!("{}{tenants}{TWO}", keys.section());
    let text = config(&sections, &[("one", backend.address())]);
    let picker = Picker::start(Recipe::original_dst(), &text);
    let form = "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--B--\r\n";
    let bodies = [
        "{\"model\":\"m\",\"Model\":\"secret\"}",
        "{\"model\":\"m\",\"Max_Tokens\":9}",
        "{\"model\":\"m\"}{\"model\":\"secret\"}",
        &format!("{{\"model\":\"secret\"}}\r\n{form}"),
    ];
    for body in bodies {
        for path in ["/v1/chat/completions", "/api/chat", "/v1/messages"] {
            let mut ask = HttpRequest::post(path, body);
            let kind =
                if body.contains("--B") { "multipart/form-data; boundary=B" } else { "text/plain" };
            ask.headers.retain(|(name, _)| name != "content-type");
            let answer = picker.ask(&ask.header("content-type", kind).key(&key));
            assert_eq!(
                (answer.status, answer.code()),
                (400, "invalid_request".into()),
                "{path} {body}"
            );
        }
    }
    assert_eq!(picker.ask(&chat("m").key(&key)).status, 200);
    assert_eq!(backend.seen().len(), 1);
}
