//! X04: TLS to backends.

use std::fs;
use std::path::PathBuf;

use rcgen::date_time_ymd;

use crate::support::gateway::{ONE, fresh_file};
use crate::support::scripted_response::{Step, delta};
use crate::support::tls::{Authority, FrontEnd, Hello, TlsFront};
use crate::support::{Backend, Engine, Gateway, ScriptedResponse, chat, eventually};

/// One pool and probes that come once, so that a test can count connections.
const RARE_PROBES: &str =
    "[server]\nworkers = 1\n[health]\ninterval = \"1h\"\n[metrics]\ninterval = \"1h\"\n";

/// A file with root certificates.
fn roots(pem: &str) -> PathBuf {
    let file = fresh_file().with_file_name("roots.pem");
    fs::write(&file, pem).unwrap();
    file
}

/// A configuration with one backend.
fn config(sections: &str, url: &str, entry: &str) -> String {
    let backend = format!("[[backends]]\nid = \"one\"\nurl = \"{url}\"\nmodels = [\"m\"]\n");
    format!("{sections}\n{backend}kind = \"generic\"\n{entry}\n")
}

fn trusting(file: &std::path::Path) -> String {
    format!("ca_file = \"{}\"", file.display())
}

#[test]
fn x04_a_backend_with_tls_is_served_and_its_connections_are_kept() {
    let authority = Authority::new("test");
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "stream" => ScriptedResponse::stream(&[&delta("a"), &delta("b")]),
        _ => ScriptedResponse::ok(),
    });
    let keyed = authority.issue(&["localhost"]);
    let front = TlsFront::before(backend.address(), &keyed, FrontEnd::Said);
    let url = format!("https://localhost:{}", front.port());
    let file = roots(&authority.pem());
    let gateway = Gateway::start(&config(&format!("{RARE_PROBES}{ONE}"), &url, &trusting(&file)));
    let before = front.hellos().len();
    for _ in 0..5 {
        assert_eq!(gateway.ask(&chat("m")).status, 200);
        let stream = gateway.ask(&chat("m").streamed().tag("stream"));
        assert_eq!(stream.text(), delta("a") + &delta("b"));
    }
    // Larger than any buffer on the way, so that parts of it wait in TLS.
    let large = "x".repeat(8 << 20);
    assert_eq!(gateway.ask(&chat("m").tag(&large)).status, 200);
    assert_eq!(backend.seen().last().unwrap().tag().len(), large.len());
    let hello = Hello { name: Some("localhost".into()), protocol: Some("http/1.1".into()) };
    assert_eq!(front.hellos()[before..], [hello], "one connection for all requests");
    assert_eq!(gateway.backend("one")["url"], url);
}

#[test]
fn x04_http2_over_tls_is_agreed_in_the_handshake() {
    let authority = Authority::new("test");
    let engine = Engine::start(&["--model", "m"]);
    let keyed = authority.issue(&["127.0.0.1"]);
    let front = TlsFront::speaking(&["h2"], engine.address(), &keyed, FrontEnd::Said);
    let url = format!("https://127.0.0.1:{}", front.port());
    let entry = format!("http2 = true\n{}", trusting(&roots(&authority.pem())));
    let gateway = Gateway::start(&config("", &url, &entry));
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    let hello = front.hellos().pop().unwrap();
    assert_eq!(hello, Hello { name: None, protocol: Some("h2".into()) }, "an address is no SNI");
}

/// The reason that the status page shows for a backend that is not ready.
fn reason(url: &str, entry: &str) -> String {
    let gateway = Gateway::launch(&config("", url, entry));
    eventually("told", || {
        let backend = gateway.backend("one");
        let reason = backend["reason"].as_str().filter(|reason| !reason.is_empty());
        reason.map(str::to_owned).ok_or(backend.to_string())
    })
}

#[test]
fn x04_a_certificate_that_is_refused_tells_the_operator_what_to_do() {
    let (authority, other) = (Authority::new("test"), Authority::new("other"));
    let (backend, plain) = (Backend::quick(), Engine::start(&["--model", "m"]));
    let file = roots(&authority.pem());
    let trusted = trusting(&file);
    let told = |keyed, host: &str, entry: &str| {
        let front = TlsFront::before(backend.address(), &keyed, FrontEnd::Said);
        reason(&format!("https://{host}:{}", front.port()), entry)
    };
    let expired = authority.issue_with(&["localhost"], |params| {
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
    });
    let early = authority
        .issue_with(&["localhost"], |params| params.not_before = date_time_ymd(2090, 1, 1));
    let cases = [
        (told(expired, "localhost", &trusted), "expired on Wed, 01 Jan 2020 00:00:00 GMT: renew"),
        (told(early, "localhost", &trusted), "is valid from Sun, 01 Jan 2090 00:00:00 GMT"),
        (
            told(authority.issue(&["gpu.example"]), "localhost", &trusted),
            "is not for localhost, but for gpu.example: set tls_name",
        ),
        (told(other.issue(&["localhost"]), "localhost", &trusted), "name the issuer's certificate"),
        (told(authority.issue(&["localhost"]), "localhost", ""), "name the issuer's certificate"),
        (
            told(authority.issue(&["localhost"]), "localhost", "ca_file = \"/none.pem\""),
            "ca_file /none.pem cannot be read",
        ),
        (reason(&format!("https://{}", plain.address()), &trusted), "it does not speak TLS"),
    ];
    for (reason, expected) in cases {
        assert!(reason.contains(expected), "{reason:?} does not say {expected:?}");
    }
    let front =
        TlsFront::before(backend.address(), &authority.issue(&["localhost"]), FrontEnd::Said);
    let plain = reason(&format!("http://localhost:{}", front.port()), "");
    assert!(plain.contains("if it speaks TLS, write its URL with https://"), "{plain}");
}

#[test]
fn x04_another_name_is_sent_and_checked_where_it_is_configured() {
    let authority = Authority::new("test");
    let backend = Backend::quick();
    let keyed = authority.issue(&["gpu.example"]);
    let front = TlsFront::before(backend.address(), &keyed, FrontEnd::Said);
    let url = format!("https://127.0.0.1:{}", front.port());
    let entry = format!("tls_name = \"gpu.example\"\n{}", trusting(&roots(&authority.pem())));
    let gateway = Gateway::start(&config("", &url, &entry));
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    assert_eq!(front.hellos().pop().unwrap().name.as_deref(), Some("gpu.example"));
}

/// Without a length only the end of the connection ends a response, so a cut must not look like it.
#[test]
fn x04_a_cut_connection_is_never_a_clean_end() {
    let authority = Authority::new("test");
    let backend = Backend::start(|_| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nhalf";
        ScriptedResponse::raw(head).then(Step::Close)
    });
    let keyed = authority.issue(&["localhost"]);
    let file = roots(&authority.pem());
    for end in [FrontEnd::Said, FrontEnd::Cut] {
        let front = TlsFront::before(backend.address(), &keyed, end);
        let url = format!("https://localhost:{}", front.port());
        let gateway = Gateway::start(&config("", &url, &trusting(&file)));
        let mut call = gateway.send(&chat("m"));
        assert_eq!(call.head().status, 200);
        let mut text = Vec::new();
        let whole = loop {
            match call.try_chunk() {
                Ok(Some(chunk)) => text.extend(chunk),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        assert_eq!(text, b"half");
        assert_eq!(whole, end == FrontEnd::Said, "{end:?}");
    }
}

#[test]
fn x04_a_file_of_roots_that_changes_is_read_again() {
    let (authority, other) = (Authority::new("test"), Authority::new("other"));
    let backend = Backend::quick();
    let front =
        TlsFront::before(backend.address(), &authority.issue(&["localhost"]), FrontEnd::Said);
    let file = roots(&other.pem());
    let url = format!("https://localhost:{}", front.port());
    let often = "[health]\ninterval = \"100ms\"\n";
    let gateway = Gateway::launch(&config(often, &url, &trusting(&file)));
    eventually("refused", || {
        let backend = gateway.backend("one");
        let told = backend["reason"].as_str().is_some_and(|reason| reason.contains("issuer"));
        if told { Ok(()) } else { Err(backend.to_string()) }
    });
    let next = file.with_extension("next");
    fs::write(&next, authority.pem()).unwrap();
    fs::rename(next, &file).unwrap();
    gateway.await_ready(1);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
}
