//! Errors that a model server reports with a good status: engines do so once they have begun a
//! response. The first or the last event of a stream, a line of Ollama's or a whole body is then an
//! error, in the form of one of the APIs; or a proxy before the server answers with a page.
//!
//! A good response costs one search in its first bytes, and of a stream only events without text
//! are looked at. What has the word `error` there is parsed.

use std::sync::LazyLock;

use memchr::memchr2;
use memchr::memmem::Finder;
use serde_json::{Deserializer, Map, Value};

/// What stands before the JSON: the length of a chunk, and the name of a field of the event.
const BEFORE_MAX: usize = 64;
/// Each error has the word so near to its beginning.
const WORD_WITHIN: usize = 4096;
/// The field of an event in which llama.cpp told errors until 2025.
pub(crate) const LINE: &[u8] = b"error:";
/// What an answer has. A server may write an error beside it that is none.
const ANSWER: [&str; 7] =
    ["choices", "output", "content", "data", "embeddings", "response", "results"];

/// How servers begin the event of a response that failed.
const FAILED: [&[u8]; 2] = [b"{\"type\":\"response.failed\"", b"{\"type\": \"response.failed\""];

static WORD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"error\""));

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InnerError {
    Server,
    /// No other server would answer the request better.
    Request,
}

/// Whether the beginning of a body, with the framing of its chunks, is an error of the server.
pub(crate) fn begins_with_error(body: &[u8]) -> bool {
    let before = &body[..body.len().min(BEFORE_MAX)];
    let Some(start) = memchr2(b'{', b'<', before) else { return false };
    let before = before[..start].trim_ascii_end();
    let start = if before.ends_with(LINE) { before.len() - LINE.len() } else { start };
    inner_error(&body[start..]) == Some(InnerError::Server)
}

/// The error that stands in a body, in an event or in a line of one, where an answer should.
pub(crate) fn inner_error(text: &[u8]) -> Option<InnerError> {
    if let Some(told) = text.strip_prefix(LINE) {
        return Some(object_in(told).map_or(InnerError::Server, |told| whose(&told)));
    }
    let text = text.trim_ascii_start();
    if text.starts_with(b"<") {
        return is_page(text).then_some(InnerError::Server);
    }
    // It may repeat long instructions, so that only its beginning is held.
    if FAILED.iter().any(|kind| text.starts_with(kind)) {
        return Some(object_in(text).map_or(InnerError::Server, |told| whose(&told)));
    }
    if !has_word(&text[..text.len().min(WORD_WITHIN)]) {
        return None;
    }
    let told = object_in(text)?;
    is_error(&told).then(|| whose(&told))
}

/// Whether a text may tell an error: it has the word as a name that is not null, or as a value.
fn has_word(text: &[u8]) -> bool {
    WORD.find_iter(text).any(|at| {
        let value = text[at + WORD.needle().len()..].trim_ascii_start().strip_prefix(b":");
        value.is_none_or(|value| !value.trim_ascii_start().starts_with(b"null"))
    })
}

/// The object with which a text begins, if it is whole.
fn object_in(text: &[u8]) -> Option<Map<String, Value>> {
    Deserializer::from_slice(text).into_iter().next()?.ok()
}

fn is_error(told: &Map<String, Value>) -> bool {
    let is = |name: &str, word: &str| told.get(name).is_some_and(|value| value == word);
    let has = |name: &str| told.get(name).is_some_and(says);
    let is_kind = is("type", "error")
        || is("type", "response.failed")
        || is("object", "error")
        || (is("object", "response") && is("status", "failed"));
    let has_answer =
        || ANSWER.into_iter().any(has) || told.get("message").is_some_and(Value::is_object);
    is_kind || (has("error") && !has_answer())
}

fn says(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(object) => !object.is_empty(),
        _ => false,
    }
}

/// An error whose code is 4xx, or whose kind says so, blames the request.
fn whose(told: &Map<String, Value>) -> InnerError {
    let inside = told.get("error").and_then(Value::as_object).unwrap_or(told);
    let of_request = match inside.get("code") {
        Some(Value::Number(code)) => code.as_u64().is_some_and(|code| (400..500).contains(&code)),
        Some(Value::String(code)) => matches!(code.as_bytes(), [b'4', b'0'..=b'9', b'0'..=b'9']),
        _ => inside.get("type").is_some_and(|kind| kind == "invalid_request_error"),
    };
    if of_request { InnerError::Request } else { InnerError::Server }
}

/// Whether this is the beginning of a page of HTML, such as that of a login.
fn is_page(text: &[u8]) -> bool {
    let begins = |tag: &[u8]| text.get(..tag.len()).is_some_and(|at| at.eq_ignore_ascii_case(tag));
    begins(b"<!doctype html") || begins(b"<html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n05_an_error_in_a_good_response_is_known_by_its_beginning() {
        let (server, request) = (Some(InnerError::Server), Some(InnerError::Request));
        let cases: [(&str, Option<InnerError>); 28] = [
            ("{\"error\":{\"message\":\"m\",\"code\":500}}", server),
            ("{ \"error\" : \"CUDA\" }\n", server),
            ("1f\r\ndata: {\"error\":{\"code\":null}}\n\n\r\n", server),
            ("event: error\ndata:{\"error\":{\"code\":\"model_busy\"}}", server),
            ("data: {\"error\":{\"message\":\"m\",\"code\": 400}}", request),
            ("{\"error\":{\"code\":\"404\"}}", request),
            // Anthropic's form, those of `/v1/responses`, vLLM's and llama.cpp's older ones.
            ("data: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"}}", server),
            ("{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\"}}", request),
            ("{\"type\":\"error\",\"code\":\"server_error\",\"message\":\"m\"}", server),
            ("{\"response\":{\"error\":{\"code\":\"x\"}},\"type\":\"response.failed\"}", server),
            (
                "{\"object\":\"response\",\"status\":\"failed\",\"error\":{\"code\":\"x\"},\
                 \"output\":[]}",
                server,
            ),
            ("{\"object\":\"error\",\"message\":\"m\",\"code\":500}", server),
            ("{\"object\":\"error\",\"message\":\"m\",\"code\":404}", request),
            ("1f\r\nerror: {\"code\":500}\n\n", server),
            ("error: {\"code\":400}\n\n", request),
            ("12\r\n\r\n<!DOCTYPE html><p>Log in", server),
            ("<HTML><body>", server),
            // No errors.
            ("{\"error\":null,\"choices\":[]}", None),
            ("{\"error\":{},\"choices\":[]}", None),
            ("{\"error\":\"\",\"output\":[]}", None),
            ("{\"error\":0}", None),
            ("{\"error\":{\"code\":1},\"choices\":[{\"text\":\"a\"}]}", None),
            ("{\"error\":\"late\",\"message\":{\"content\":\"a\"}}", None),
            ("{\"errors\":[]}", None),
            ("{\"choices\":[{\"delta\":{\"content\":\"{\\\"error\\\":1}\"}}]}", None),
            ("<v Speaker>hello", None),
            ("{", None),
            ("", None),
        ];
        for (body, wanted) in cases {
            assert_eq!(begins_with_error(body.as_bytes()), wanted == server, "{body}");
            let start = body.find("error:").or_else(|| body.find(['{', '<'])).unwrap_or(0);
            assert_eq!(inner_error(&body.as_bytes()[start..]), wanted, "{body}");
        }
    }
}
