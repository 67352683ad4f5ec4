//! X01, X03: compressed request bodies, and a mark of UTF-8 in front of JSON.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use crate::support::gateway::{ONE, TWO};
use crate::support::{Backend, Gateway, HttpRequest, chat};

const BODY: &str = "{\"model\":\"m\",\"prompt\":\"the tide, the tide, the tide\"}";

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn zlib(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(body: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn encoded(encoding: &str, body: Vec<u8>) -> HttpRequest {
    HttpRequest::post("/v1/completions", body).header("Content-Encoding", encoding)
}

#[test]
fn x01_compressed_bodies_reach_the_backend_decoded() {
    let backend = Backend::quick();
    let alias = "[[models]]\nname = \"tide\"\ntargets = [{ model = \"m\" }]\n";
    let gateway = Gateway::before(&format!("{TWO}{alias}"), &backend);
    let rows = [
        ("gzip", gzip(BODY.as_bytes())),
        ("GZIP", [gzip(&BODY.as_bytes()[..20]), gzip(&BODY.as_bytes()[20..])].concat()),
        ("x-gzip", gzip(BODY.as_bytes())),
        ("deflate", zlib(BODY.as_bytes())),
        ("deflate", raw_deflate(BODY.as_bytes())),
        ("identity", BODY.as_bytes().to_vec()),
        ("gzip", gzip(BODY.replace("\"m\"", "\"tide\"").as_bytes())),
    ];
    for (encoding, body) in rows {
        let response = gateway.ask(&encoded(encoding, body));
        assert_eq!(response.status, 200, "{encoding}: {}", response.text());
        let seen = backend.seen().pop().unwrap();
        assert_eq!(String::from_utf8_lossy(&seen.body), BODY, "{encoding}");
        assert_eq!(seen.header("content-length"), Some(BODY.len().to_string().as_str()));
        let left = seen.header("content-encoding");
        assert!(left.is_none() || left == Some("identity"), "{left:?}");
    }
}

/// The body of a call that the gateway answers itself is decoded as well.
#[test]
fn x01_compressed_calls_of_the_batch_api_are_decoded_within_the_same_bounds() {
    let limits = "[server]\nbody_limit = \"1MiB\"\nbodies_limit = \"2MiB\"\n";
    let gateway = Gateway::launch(&format!("{limits}[batch]\nfolder = \"batches\"\n"));
    let body = b"{\"input_file_id\":\"file-0\",\"endpoint\":\"/v1/completions\",\
        \"completion_window\":\"24h\"}";
    let marked = [b"\xEF\xBB\xBF", &body[..]].concat();
    let large = [&body[..], " ".repeat(1 << 19).as_bytes()].concat();
    let ask = |encoding: &str, body: Vec<u8>| {
        let ask = HttpRequest::post("/v1/batches", body);
        gateway.ask(&ask.header("Content-Encoding", encoding))
    };
    for (encoding, body) in [
        ("identity", body.to_vec()),
        ("identity", marked.clone()),
        ("gzip", gzip(body)),
        ("gzip", gzip(&marked)),
        ("deflate", zlib(body)),
        ("deflate", raw_deflate(body)),
        ("gzip", gzip(&large)),
    ] {
        // The body was read: it names a file, which there is not.
        let response = ask(encoding, body).json();
        assert_eq!(response["error"]["param"], "input_file_id", "{encoding}: {response}");
    }
    let refused = |encoding: &str, body: Vec<u8>| {
        let response = ask(encoding, body);
        (response.status, response.code())
    };
    let bomb = gzip(&vec![b' '; 50 << 20]);
    assert_eq!(refused("gzip", bomb), (413, "body_too_large".into()));
    assert_eq!(refused("gzip", body.to_vec()), (400, "invalid_request".into()));
    assert_eq!(refused("br", body.to_vec()), (415, "unsupported_encoding".into()));
}

#[test]
fn x03_compressed_bodies_are_bounded_by_what_they_stand_for() {
    let backend = Backend::held();
    let limits = "[server]\nbody_limit = \"1MiB\"\nbodies_limit = \"2MiB\"\n";
    let (gateway, running) = Gateway::occupied(&format!("{limits}{ONE}"), &backend, &chat("m"));
    let bomb = |size: usize| {
        let body = format!("{{\"model\":\"m\",\"prompt\":\"{}\"}}", "a".repeat(size));
        encoded("gzip", gzip(body.as_bytes()))
    };
    assert!(bomb(50 << 20).body.len() < 100 << 10, "a small body");
    let refused = gateway.ask(&bomb(50 << 20));
    assert_eq!((refused.status, refused.code().as_str()), (413, "body_too_large"));
    // Together they hold at most what plain bodies may.
    let waiting = gateway.enqueue(&bomb(1_000_000), 0);
    gateway.ask(&bomb(1_000_000)).refused(503, "overloaded");
    backend.open();
    assert!([running, waiting].into_iter().all(|call| call.finish().status == 200));
    gateway.await_idle();
}

/// A member takes 20 bytes and some microseconds, and stands for nothing.
#[test]
fn x03_compressed_bodies_of_many_members_are_refused() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    let of_members = |count: usize| {
        let empty = gzip(b"").repeat(count - 1);
        gateway.ask(&encoded("gzip", [gzip(BODY.as_bytes()), empty].concat()))
    };
    assert_eq!(of_members(1024).status, 200);
    let refused = of_members(1025);
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_request"));
    assert!(refused.text().contains("more than 1024 gzip members"), "{}", refused.text());
}

#[test]
fn x03_bodies_that_cannot_be_decoded_are_refused_with_a_reason() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    let whole = gzip(BODY.as_bytes());
    let cut = whole[..whole.len() - 9].to_vec();
    for (encoding, body) in [("gzip", cut), ("gzip", BODY.into()), ("deflate", b"\xff".to_vec())] {
        let refused = gateway.ask(&encoded(encoding, body));
        assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_request"));
        assert!(refused.text().contains("cannot be decoded"), "{}", refused.text());
    }
    for unknown in ["br", "zstd", "gzip, gzip"] {
        let refused = gateway.ask(&encoded(unknown, BODY.into()));
        assert_eq!((refused.status, refused.code().as_str()), (415, "unsupported_encoding"));
        assert_eq!(refused.header("accept-encoding"), Some("gzip, deflate"));
    }
    let twice = encoded("gzip", gzip(BODY.as_bytes())).header("Content-Encoding", "br");
    let refused = gateway.ask(&twice);
    assert_eq!((refused.status, refused.code().as_str()), (415, "unsupported_encoding"));
    assert!(refused.text().contains("'gzip, br'"), "{}", refused.text());
    assert!(backend.seen().is_empty());
    // Where the gateway needs no model, a body that it does not know passes as it came.
    let other = HttpRequest::post("/v1/things", "??").header("Content-Encoding", "br");
    assert_eq!(gateway.ask(&other).status, 200);
    let seen = backend.seen().pop().unwrap();
    assert_eq!((seen.body.as_slice(), seen.header("content-encoding")), (&b"??"[..], Some("br")));
}

#[test]
fn x01_a_mark_of_utf_8_in_front_of_json_is_taken_away() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    let marked = |body: &str| [b"\xEF\xBB\xBF", body.as_bytes()].concat();
    let ask = HttpRequest::post("/v1/completions", marked(BODY));
    assert_eq!(gateway.ask(&ask).status, 200);
    assert_eq!(backend.seen().pop().unwrap().body, BODY.as_bytes());
    assert_eq!(gateway.ask(&encoded("gzip", gzip(&marked(BODY)))).status, 200);
    assert_eq!(backend.seen().pop().unwrap().body, BODY.as_bytes());
    // It belongs to any other body.
    let text = marked("plain");
    let mut other = HttpRequest::post("/v1/things", text.clone());
    other.headers = vec![("content-type".into(), "text/plain".into())];
    assert_eq!(gateway.ask(&other).status, 200);
    assert_eq!(backend.seen().pop().unwrap().body, text);
}
