//! Errors that a model server reports with a good status: engines do so once they have begun a
//! response. The first event of a stream, Ollama's first line or a whole body is then an error.
//!
//! Only what has come with the head is looked at, and of it the first bytes: a good response costs
//! one short search.

use memchr::memchr;
use memchr::memmem;

/// What stands before the JSON: the length of a chunk, and the name of a field of the event.
const BEFORE_MAX: usize = 64;
/// The part of an error in which its code is looked for.
const LOOKED_AT: usize = 4096;

/// Whether the beginning of a body is an error of the server. One whose code is 4xx blames the
/// request: no other server would answer it better.
pub(super) fn begins_with_error(body: &[u8]) -> bool {
    let Some(start) = memchr(b'{', &body[..body.len().min(BEFORE_MAX)]) else { return false };
    let json = &body[start + 1..];
    let error = value_behind(b"\"error\"", json);
    error.is_some_and(|error| !error.starts_with(b"null") && !blames_the_request(error))
}

fn blames_the_request(error: &[u8]) -> bool {
    let error = &error[..error.len().min(LOOKED_AT)];
    let key = b"\"code\"";
    let code = memmem::find(error, key).and_then(|at| value_behind(key, &error[at..]));
    let code = code.map(|code| code.strip_prefix(b"\"").unwrap_or(code));
    matches!(code, Some([b'4', b'0'..=b'9', b'0'..=b'9', ..]))
}

/// The value of a key with which JSON begins.
fn value_behind<'a>(key: &[u8], json: &'a [u8]) -> Option<&'a [u8]> {
    let rest = json.trim_ascii_start().strip_prefix(key)?.trim_ascii_start();
    rest.strip_prefix(b":").map(<[u8]>::trim_ascii_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n05_an_error_in_a_good_response_is_known_by_its_beginning() {
        let cases: [(&[u8], bool); 11] = [
            (b"{\"error\":{\"message\":\"m\",\"code\":500}}", true),
            (b"{ \"error\" : \"CUDA\" }\n", true),
            (b"1f\r\ndata: {\"error\":{\"code\":null}}\n\n\r\n", true),
            (b"event: error\ndata:{\"error\":{\"code\":\"model_busy\"}}", true),
            (b"data: {\"error\":{\"message\":\"m\",\"code\": 400}}", false),
            (b"{\"error\":{\"code\":\"404\"}}", false),
            (b"{\"error\":null,\"choices\":[]}", false),
            (b"{\"errors\":[]}", false),
            (b"{\"choices\":[{\"delta\":{\"content\":\"{\\\"error\\\":1}\"}}]}", false),
            (b"{", false),
            (b"", false),
        ];
        for (body, wanted) in cases {
            assert_eq!(begins_with_error(body), wanted, "{}", String::from_utf8_lossy(body));
        }
    }
}
