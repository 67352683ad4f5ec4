//! X03: mutated responses of backends, in pieces of any size and against hyper.

use super::oracle::{ANSWERS, by_hyper};
use super::*;
use crate::fuzz::fuzz;
use crate::upstream::backend_retry_after::retry_after;

const WORDS: [&[u8]; 12] = [
    b"HTTP/1.1 200 OK\r\n",
    b"transfer-encoding: chunked\r\n",
    b"content-length: 5\r\n",
    b"transfer-encoding: gzip, chunked\r\n",
    b"\r\n0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b";a=b\r\n",
    b"HTTP/1.1 103 Early Hints\r\n\r\n",
    b"connection: close\r\n",
    b"HTTP/1.0",
    b"\r\n ",
    b"+5",
];

#[test]
fn x03_fuzz_responses_of_backends() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    fuzz("backend-responses", &ANSWERS, &WORDS, |input, dice| {
        let whole = read(&Method::GET, [input]);
        let in_pieces = read(&Method::GET, dice.pieces(input));
        let both = (&whole, &in_pieces);
        match both {
            (Ok(one), Ok(other)) => {
                assert_eq!((&one.body, one.left), (&other.body, other.left));
                assert_eq!(one.trailers, other.trailers);
            }
            (one, other) => assert_eq!(one.is_ok(), other.is_ok(), "{both:?}"),
        }
        let Ok(ours) = whole else { return "refused".to_owned() };
        let status = ours.response.status().as_u16();
        let theirs = runtime.block_on(by_hyper(input));
        assert_eq!(Some((status, ours.body)), theirs, "hyper reads another response");
        format!("{status} {} {}", ours.lasts, ours.trailers.is_some())
    });
}

#[test]
fn x03_fuzz_retry_after() {
    let seeds: [&[u8]; 3] = [b"12", b"Sun, 06 Nov 1994 08:49:37 GMT", b"18446744073709551615"];
    let now = std::time::Duration::from_secs(784_111_770);
    fuzz("retry-after", &seeds, &[b" GMT", b"31 Dec 9999", b"-1"], |input, _| {
        let Ok(value) = HeaderValue::from_bytes(input) else { return "no value" };
        match retry_after(&value, now) {
            Some(after) => {
                assert!(after.as_secs() <= 86_400);
                "a time"
            }
            None => "nothing",
        }
    });
}
