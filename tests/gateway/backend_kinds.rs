//! R07: the software of a configured backend is asked, whatever its port.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::gateway::{TWO, config};
use crate::support::{
    Backend, Engine, Gateway, Nowhere, ScriptedResponse, Stopwatch, chat, eventually,
};

/// A gateway that must learn the models of this backend.
fn before(sections: &str, address: SocketAddr) -> Gateway {
    let health = "[health]\ninterval = \"100ms\"\n";
    let entry = format!("[[backends]]\nid = \"one\"\nurl = \"http://{address}\"\n");
    Gateway::launch(&format!("{sections}{health}{TWO}{entry}"))
}

fn await_kind(gateway: &Gateway, kind: &str) {
    eventually(kind, || match gateway.backend("one")["kind"].as_str() {
        Some(found) if found == kind => Ok(()),
        found => Err(format!("{found:?}")),
    });
}

#[test]
fn r07_an_engine_on_any_port_is_asked_for_its_kind() {
    let engine = Engine::start(&["--model", "m"]);
    let gateway = before("", engine.address());
    gateway.await_ready(1);
    await_kind(&gateway, "vllm");
    // Its metrics are read without being configured.
    eventually("read", || match &gateway.backend("one")["last_reading"] {
        serde_json::Value::Null => Err("no reading".into()),
        _ => Ok(()),
    });
}

/// The scripted backend has a version as Ollama has, and names the tag `latest`.
#[test]
fn r07_ollama_on_any_port_is_asked_for_its_kind() {
    let backend = Backend::quick().lists(&["m:latest"]);
    let gateway = before("", backend.address());
    gateway.await_ready(1);
    await_kind(&gateway, "ollama");
    assert_eq!(gateway.ask(&chat("m")).status, 200, "Ollama takes the name without its tag");
}

#[test]
fn r07_a_configured_kind_is_not_asked() {
    let backend = Backend::quick();
    let text = config(TWO, &[("one", backend.address())]) + "kind = \"generic\"\n";
    let gateway = Gateway::start(&text);
    assert_eq!(gateway.backend("one")["kind"], "generic");
}

/// Another program at the same address is asked anew.
#[test]
fn r07_a_backend_that_is_replaced_by_another_kind_is_asked_again() {
    let nowhere = Nowhere::reserve();
    let address = nowhere.address();
    let gateway = before("", address);
    assert_eq!(gateway.backend("one")["kind"], "auto");
    drop(nowhere);
    let first = Backend::start_at(address, |_| ScriptedResponse::ok());
    await_kind(&gateway, "ollama");
    gateway.await_ready(1);
    first.stop();
    gateway.await_ready(0);
    await_kind(&gateway, "auto");
    let _engine = Engine::start_at(&address.to_string(), &["--model", "m"]);
    await_kind(&gateway, "vllm");
    gateway.await_ready(1);
    assert_eq!(gateway.ask(&chat("m").with("max_tokens", 2)).status, 200);
}

/// It answers fastest, so it would get most of the requests until its list is fetched again, after
/// half a minute.
#[test]
fn x01_a_backend_that_begins_to_refuse_is_found_by_its_responses() {
    let backend = Backend::start(|_| ScriptedResponse::json(403, "{}"));
    let entry = "[[backends]]\nid = \"one\"\nkind = \"generic\"\nurl = \"http://";
    let gateway = Gateway::launch(&format!("{TWO}{entry}{}\"\n", backend.address()));
    gateway.await_ready(1);
    backend.set_forbidding(true);
    let watch = Stopwatch::start();
    assert_eq!(gateway.ask(&chat("m")).status, 403);
    eventually("without requests", || match gateway.backend("one")["state"].as_str() {
        Some("starting") => Ok(()),
        state => Err(format!("{state:?}")),
    });
    assert!(watch.elapsed() < Duration::from_secs(25), "{:?}", watch.elapsed());
}

/// Without its list an engine would get requests for any name.
#[test]
fn x01_x05_an_engine_with_an_unreadable_list_gets_no_request() {
    let backend = Backend::quick();
    backend.set_list_spoilt(true);
    let gateway = before("", backend.address());
    await_kind(&gateway, "ollama");
    eventually("asked for its models", || match gateway.backend("one")["reason"].as_str() {
        Some(reason) if reason.contains("model list is unknown") => Ok(()),
        _ => Err(gateway.backend("one").to_string()),
    });
    assert_ne!(gateway.ask(&chat("any")).status, 200);
    assert!(backend.seen().is_empty());
    backend.set_list_spoilt(false);
    gateway.await_ready(1);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
}
