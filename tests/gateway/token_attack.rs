//! X05: tokens that were forged in many ways, and files of keys that were spoilt.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::gateway::config;
use crate::support::tokens::Tokens;
use crate::support::{Backend, Gateway, HttpRequest, chat, eventually};

const TENANTS: &str = "[[tenants]]\nname = \"alpha\"\n[[tenants]]\nname = \"beta\"\n\
    [admin]\nwithout_key = \"all\"\n";

fn gateway(tokens: &Tokens, backend: &Backend) -> Gateway {
    let sections = format!("{}{TENANTS}", tokens.section());
    Gateway::start(&config(&sections, &[("one", backend.address())]))
}

#[test]
fn x05_no_forged_token_is_accepted() {
    let (tokens, backend) = (Tokens::new(), Backend::quick());
    let gateway = gateway(&tokens, &backend);
    let forged = tokens.list("forged");
    assert!(forged.len() > 100, "{}", forged.len());
    for (what, token) in &forged {
        let ways: [fn(HttpRequest, &str) -> HttpRequest; 3] = [
            |ask, token| ask.key(token),
            |ask, token| ask.header("x-api-key", token),
            |ask, token| ask.header("api-key", token),
        ];
        for way in ways {
            let answer = gateway.ask(&way(chat("m"), token));
            assert_eq!(answer.status, 401, "{what}: {}", answer.text());
            let is_named = ["invalid_token", "invalid_api_key"].contains(&&*answer.code());
            assert!(is_named && !answer.text().contains("eyJ"), "{what}: {}", answer.text());
        }
    }
    assert!(backend.seen().is_empty());
    // What looks odd and is allowed.
    for (what, token) in tokens.list("odd") {
        assert_eq!(gateway.ask(&chat("m").key(token)).status, 200, "{what}");
    }
    let spaced = format!("Bearer   {} ", tokens.get("hs256"));
    assert_eq!(gateway.ask(&chat("m").header("authorization", &spaced)).status, 200);
    gateway.await_idle();
    assert!(!gateway.process.log().contains("panicked"));
}

#[test]
fn x05_a_spoilt_file_of_signing_keys_changes_nothing() {
    let (tokens, other, backend) = (Tokens::new(), Tokens::new(), Backend::quick());
    let (file, good) = (tokens.file("jwks.json"), tokens.file("good.json"));
    fs::rename(&file, &good).unwrap();
    symlink(&good, &file).unwrap();
    let gateway = gateway(&tokens, &backend);
    let status = |token: &str| gateway.ask(&chat("m").key(token)).status;
    let replace = |content: &dyn Fn()| {
        fs::remove_file(&file).unwrap();
        content();
    };
    let mut refusals = 0;
    let mut refused = |what: &str| {
        refusals += 1;
        let log = gateway.process.await_log("was not reloaded", refusals);
        refusals = log.matches("was not reloaded").count();
        assert_eq!(status(tokens.get("es256")), 200, "{what}: the old keys stay");
        assert_eq!(status(tokens.get("expired")), 401, "{what}");
    };
    // A file that cannot be read at all is no change from another one, so they take turns.
    replace(&|| fs::write(&file, "").unwrap());
    refused("empty");
    replace(&|| fs::write(&file, [0xff; 4096]).unwrap());
    refused("garbage");
    replace(&|| fs::write(&file, "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AQAB\"}]}").unwrap());
    refused("no usable key");
    replace(&|| symlink(&file, &file).unwrap());
    refused("a link to itself");
    replace(&|| fs::write(&file, "{\"keys\":[").unwrap());
    refused("cut");
    replace(&|| symlink(tokens.file("nothing"), &file).unwrap());
    refused("a link to nothing");
    replace(&|| fs::write(&file, "[]").unwrap());
    refused("no key set");
    replace(&|| fs::write(&file, vec![b' '; 64 << 20]).unwrap());
    refused("too large");
    replace(&|| symlink(other.file("jwks.json"), &file).unwrap());
    eventually("the link counts", || match status(other.get("es256")) {
        200 => Ok(()),
        status => Err(status.to_string()),
    });
    assert_eq!(status(tokens.get("es256")), 401, "its key is gone");
    assert_eq!(status(tokens.get("hs256")), 200);
}
