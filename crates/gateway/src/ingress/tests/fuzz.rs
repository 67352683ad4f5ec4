//! X03: mutated bodies, heads, paths, forms and compressed bodies.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::super::content_encoding::ContentEncoding;
use super::super::{duration, form_model, paging::Paging, usage_query::UsageAsked};
use super::*;
use crate::fuzz::fuzz;

const BODIES: [&[u8]; 4] = [
    br#"{"model":"llama","messages":[{"role":"user","content":"hello"}],"stream":true}"#,
    br#"{"model":"m\u0061","prompt":["a","b"],"max_tokens":10,"n":2,"stream_options":{"x":null}}"#,
    br#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:"}}]}],"model":"v"}"#,
    br#"{"model":"m","input":[[1,2.5e3,-0],{"k":"\ud83d\ude00"}],"tools":[],"max_tokens":null}"#,
];
const BODY_WORDS: [&[u8]; 10] = [
    b"\"model\":\"x\",",
    b"\"stream\":true",
    b"\"max_tokens\":",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"[[[[[[[[[[[[[[[[",
    b"\"messages\":[",
    b"1e400",
    b"\"n\":99,",
];

#[test]
fn x03_fuzz_request_bodies() {
    fuzz("request-bodies", &BODIES, &BODY_WORDS, |input, _| {
        if let Ok(text) = std::str::from_utf8(input) {
            // The scanner and serde_json accept the same texts and measure them alike.
            json_scanner::check(text);
        }
        let result = posted(CHAT, input);
        if result.is_ok() {
            // The gateway removes a mark of UTF-8 in front of the text.
            let text = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
            let read: serde_json::Value = serde_json::from_slice(text).unwrap();
            assert!(read["model"].is_string());
        }
        posted("/api/chat", input).map_or_else(|fault| fault.code(), |_| code(result)).to_owned()
    });
}

const HEADS: [&[u8]; 3] = [
    b"/v1/chat/completions\nx-priority: critical\nx-request-id: a-1\nx-request-timeout-ms: 250",
    b"/v1/chat/completions?a=b\nx-workload-context: {\"workload_id\":\"w\",\"criticality\":4}\n\
      x-max-latency-ms: 40\nx-session-id: s\nx-queue-status: sse\nconnection: close, x-a",
    b"/openai/deployments/d/chat/completions\nx-llm-d-inference-objective: chat\n\
      x-llm-d-inference-ttl: 1m30s\nx-media-type: audio\nx-gateway-inference-fairness-id: f",
];
const HEAD_WORDS: [&[u8]; 8] = [
    b"\nx-priority: ",
    b"\ncontent-encoding: gzip",
    b"%2e%2e",
    b"/../",
    b"//",
    b"99999999999999ms",
    b"\ncontent-type: multipart/form-data; boundary=",
    b"\nte: trailers",
];

#[test]
fn x03_fuzz_request_heads() {
    let (config, body) = (Config::default(), Bytes::from_static(BODIES[0]));
    fuzz("request-heads", &HEADS, &HEAD_WORDS, |input, _| {
        let mut lines = input.split(|byte| *byte == b'\n');
        let target = lines.next().unwrap_or_default();
        let Ok(request) = Request::builder().method(Method::POST).uri(target).body(()) else {
            return "no target".to_owned();
        };
        let mut parts = request.into_parts().0;
        for line in lines {
            let at = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
            let (name, value) = line.split_at(at);
            let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii();
            let pair = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value));
            if let (Ok(name), Ok(value)) = pair {
                parts.headers.append(name, value);
            }
        }
        let path = parts.uri.path().to_owned();
        let result = read(&config, &parts, body.clone(), 0);
        if let Ok((intent, _)) = &result {
            assert!(!path.contains("/../") && !path.contains("//"), "{path}");
            let sent = headers::to_upstream(parts.headers, &intent.request_id);
            assert!(sent.iter().count() <= sent.most());
        }
        code(result).to_owned()
    });
}

const QUERIES: [&[u8]; 4] = [
    b"after=file-1&limit=20&order=asc&purpose=batch",
    b"tenant=team-a&since=2027-01-01&until=2027-02-01&format=csv",
    b"since=30d&tenant=%74eam",
    b"1m30s",
];

#[test]
fn x03_fuzz_queries_and_durations() {
    fuzz("queries", &QUERIES, &[b"&limit=", b"%", b"%00", b"=&=", b"9d", b"ms"], |input, _| {
        let Ok(text) = std::str::from_utf8(input) else { return "no text".to_owned() };
        let span = duration::parse(text).is_some();
        let paging = Paging::read(Some(text)).is_ok();
        let usage = UsageAsked::read(Some(text), 1_800_000_000).is_ok();
        format!("{span} {paging} {usage}")
    });
}

const FORMS: [&[u8]; 2] = [
    b"--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n\
      --B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nRIFF\r\n--B--",
    b"--B\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n\
      a\r\n--B\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nb\r\n--B--",
];

#[test]
fn x03_fuzz_forms() {
    let words: [&[u8]; 5] = [b"--B", b"--B--", b"\r\n\r\n", b" name=\"model\"", b"; boundary=B"];
    fuzz("forms", &FORMS, &words, |input, _| {
        let read = form_model::read("multipart/form-data; boundary=B", input);
        match read.map(|form| form.model) {
            Ok(Some(found)) => {
                assert_eq!(&input[found.place.clone()], found.name.as_bytes());
                "a model".to_owned()
            }
            Ok(None) => "no model".to_owned(),
            Err(fault) => fault.code().to_owned(),
        }
    });
}

#[test]
fn x03_fuzz_compressed_bodies() {
    const LIMIT: usize = 8 << 10;
    let text = BODIES[0].repeat(20);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&text).unwrap();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(&text).unwrap();
    let (gzip, zlib) = (gzip.finish().unwrap(), zlib.finish().unwrap());
    fuzz("compressed-bodies", &[&gzip, &zlib, &zlib[2..]], &[b"\x1f\x8b\x08"], |input, _| {
        let read = |encoding: ContentEncoding| match encoding.decode(input, LIMIT) {
            Ok(body) => {
                assert!(body.len() <= LIMIT);
                format!("{} KiB", body.len() >> 10)
            }
            Err(fault) => fault.code().to_owned(),
        };
        read(ContentEncoding::Gzip) + &read(ContentEncoding::Deflate)
    });
}
