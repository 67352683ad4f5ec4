//! X05: JSON Web Tokens in place of keys, made by PyJWT.

use std::fs;

use crate::support::gateway::config;
use crate::support::keys::Keys;
use crate::support::tokens::Tokens;
use crate::support::{Backend, Gateway, HttpRequest, chat, eventually};

const TENANTS: &str = "[[tenants]]\nname = \"alpha\"\n\
    [[tenants]]\nname = \"beta\"\nmodels = [\"small-*\"]\n[log]\nformat = \"json\"\n\
    [admin]\nwithout_key = \"all\"\n";

fn gateway(sections: &str, backend: &Backend) -> Gateway {
    let backend = format!(
        "[[backends]]\nid = \"one\"\nurl = \"http://{}\"\nmodels = [\"m\"]\n",
        backend.address()
    );
    Gateway::start(&format!("{sections}{TENANTS}{backend}"))
}

#[test]
fn x05_a_token_of_the_issuer_names_the_tenant_and_never_leaves_the_gateway() {
    let (keys, tokens, backend) = (Keys::new(), Tokens::new(), Backend::quick());
    let key = keys.tenant("alpha", "a");
    let gateway = gateway(&format!("{}{}", keys.section(), tokens.section()), &backend);
    for name in ["hs256", "rs256", "es256"] {
        let token = tokens.get(name);
        for ask in [chat("m").key(token), chat("m").header("x-api-key", token)] {
            assert_eq!(gateway.ask(&ask.header("x-request-id", name)).status, 200, "{name}");
        }
        let line = gateway.access_of(name);
        assert_eq!((&line["tenant"], &line["key"]), (&"alpha".into(), &"jwt".into()));
    }
    assert_eq!(gateway.ask(&chat("m").key(&key)).status, 200, "keys stay valid");
    let denied = gateway.ask(&chat("m").key(tokens.get("beta")));
    assert_eq!((denied.status, denied.code()), (403, "model_not_allowed".to_owned()));
    for seen in backend.seen() {
        let shown = format!("{:?}", seen.headers);
        assert!(!shown.contains("eyJ") && seen.header("authorization").is_none(), "{shown}");
    }
    let metrics = gateway.get("/metrics").text();
    for text in [metrics, gateway.process.access(), gateway.process.log()] {
        assert!(!text.contains("eyJ"), "{text}");
    }
}

#[test]
fn x05_a_token_that_is_not_accepted_gets_401_with_the_reason() {
    let (tokens, backend) = (Tokens::new(), Backend::quick());
    let gateway = gateway(&tokens.section(), &backend);
    for (name, part) in [
        ("expired", "has expired"),
        ("no_expiry", "has no expiry"),
        ("early", "not valid yet"),
        ("other_audience", "another audience"),
        ("other_issuer", "another issuer"),
        ("other_secret", "signature"),
        ("other_algorithm", "algorithm"),
        ("none", "algorithm"),
        ("unknown_tenant", "no tenant"),
        ("no_tenant", "no tenant"),
    ] {
        let answer = gateway.ask(&chat("m").key(tokens.get(name)));
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["code"]), (401, &"invalid_token".into()), "{name}");
        assert_eq!(error["type"], "invalid_request_error");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(part) && !message.contains("gamma"), "{name}: {message}");
    }
    // Not three parts: no token, and no known key.
    let twice = format!("{}.{}", tokens.get("hs256"), tokens.get("hs256"));
    assert_eq!(gateway.ask(&chat("m").key(&twice)).code(), "invalid_api_key");
    let long = format!("{}{}", "x".repeat(9000), tokens.get("hs256"));
    assert_eq!(gateway.ask(&chat("m").key(&long)).code(), "invalid_token");
    assert!(backend.seen().is_empty());
}

#[test]
fn x05_a_changed_file_of_signing_keys_takes_effect_without_a_restart() {
    let (tokens, other, backend) = (Tokens::new(), Tokens::new(), Backend::quick());
    let gateway = gateway(&tokens.section(), &backend);
    let status = |token: &str| gateway.ask(&chat("m").key(token)).status;
    let (old, new) = (tokens.get("es256"), other.get("es256"));
    assert_eq!((status(old), status(new)), (200, 401));
    // A file that cannot be used changes nothing.
    fs::write(tokens.file("jwks.json"), "{}").unwrap();
    gateway.process.await_log("was not reloaded", 1);
    assert_eq!(status(old), 200);
    fs::copy(other.file("ec.pem"), tokens.file("jwks.json")).unwrap();
    eventually("reloaded", || match (status(old), status(new)) {
        (401, 200) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(status(tokens.get("rs256")), 401, "its key is no longer in the file");
    assert_eq!(status(tokens.get("hs256")), 200);
}

#[test]
fn x05_a_token_opens_no_status_page() {
    let (tokens, backend) = (Tokens::new(), Backend::quick());
    let sections = format!("{}[[tenants]]\nname = \"alpha\"\n", tokens.section());
    let gateway = Gateway::launch(&config(&sections, &[("one", backend.address())]));
    let page = || HttpRequest::get("/status");
    for (name, status, code) in [("hs256", 403, "admin_only"), ("expired", 401, "invalid_token")] {
        let answer = gateway.ask(&page().key(tokens.get(name)));
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()));
    }
    assert_eq!(gateway.ask(&page()).status, 401);
}
