//! Tests of reading requests: paths, headers and bodies.

mod bands;
mod bodies;
mod flows;
mod forwarded_headers;
mod fuzz;
mod header_reference;
mod json_scanner;
mod malformed;
mod measure;
mod paths;
mod preferences;
mod prompt_blocks;
mod workloads;

use flow::identity::Attribute;
use http::{HeaderMap, HeaderName, Method, Request};
use proptest::prelude::*;

use super::path::Route;
use super::*;
use crate::config::settings::Identity;

const CHAT: &str = "/v1/chat/completions";

/// A request without a body.
fn parts(method: Method, path: &str, headers: &[(&str, &[u8])]) -> Parts {
    let mut parts = Request::builder().method(method).uri(path).body(()).unwrap().into_parts().0;
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        parts.headers.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    parts
}

/// Reads a request as its path says.
fn read(
    config: &Config,
    parts: &Parts,
    body: Bytes,
    draw: u64,
) -> Result<(Box<Intent>, Bytes), Fault> {
    let work = match path::classify(&parts.method, parts.uri.path())? {
        Route::Proxied { api, kind } => (api, kind),
        Route::Options => (Api::OpenAi, RequestKind::Other),
        _ => return Err(Fault::NoSuchPath(None)),
    };
    super::read(work, ReadContext { config, caller: None, address: None, draw }, parts, body)
}

fn posted(path: &str, body: &[u8]) -> Result<(Box<Intent>, Bytes), Fault> {
    let parts = parts(Method::POST, path, &[]);
    read(&Config::default(), &parts, Bytes::copy_from_slice(body), 0)
}

/// The intent of a chat request with these headers.
fn chat(config: &Config, headers: &[(&str, &str)]) -> Box<Intent> {
    let bytes: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let body = Bytes::from_static(br#"{"model":"llama","messages":[],"stream":true}"#);
    read(config, &parts(Method::POST, CHAT, &bytes), body, 0).unwrap().0
}

/// Arbitrary bytes of a header value.
fn header_bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![8 => 0x20..0x7fu8, 1 => 0x80..=0xffu8, 1 => Just(b'\t')];
    proptest::collection::vec(byte, 0..most)
}

fn code(result: Result<(Box<Intent>, Bytes), Fault>) -> &'static str {
    result.err().map_or("ok", |fault| fault.code())
}
