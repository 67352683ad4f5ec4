//! X03: mutated bytes on connections of clients. The model server must receive no request that the
//! gateway does not know of, and the gateway must go on.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use crate::support::fuzz::fuzz_inputs;
use crate::support::wait::BOUND;
use crate::support::{Backend, Gateway, chat};

const INPUTS_IN_CI: u64 = 150;
/// How an HTTP/2 connection begins.
const PREFACE: &[u8] = b"PRI ";
/// The kinds of HTTP/2 frames that answer a request: DATA, HEADERS, RST_STREAM and GOAWAY.
const ANSWERS: [u8; 4] = [0, 1, 3, 7];

const SEEDS: [&[u8]; 5] = [
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
      content-length: 28\r\n\r\n{\"model\":\"m\",\"messages\":[]}\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\
      trailer: x-a\r\n\r\n1\r\n{\r\n0011;a=b\r\n\"model\":\"m\",\"n\":1\r\n1\r\n}\r\n\
      0\r\nx-a: b\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n\r\n\
      POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}\
      GET /health HTTP/1.0\r\n\r\n",
    b"POST /api/chat HTTP/1.1\r\nhost: a\r\ncontent-encoding: gzip\r\nconnection: close, x-a\r\n\
      x-a: 1\r\ncontent-length: 2\r\n\r\n{}",
    // A request over HTTP/2: its preface, SETTINGS, HEADERS and DATA.
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x1b\x01\x04\0\0\0\x01\x83\x86\x04\
      \x14/v1/chat/completions\x01\x01a\0\0\x0d\0\x01\0\0\0\x01{\"model\":\"m\"}",
];

const WORDS: [&[u8]; 16] = [
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: identity, chunked\r\n",
    b"Transfer-Encoding : chunked\r\n",
    b"content-length: 5\r\n",
    b"content-length: +5\r\n",
    b"\r\n0\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nhost: b\r\n\r\n",
    b"\r\n\r\n",
    b"HTTP/1.0\r\n",
    b"upgrade: h2c\r\nconnection: upgrade\r\n",
    b"ffffffffffffffff\r\n",
    b"\0\0\0\x01\x04\0\0\0\x03",
    b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
    b"\0\0\x01\x09\0\0\0\0\x01\x82",
    b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\xff\xff",
    b"%2e%2e/",
];

/// Whether the gateway has answered something.
fn is_answered(came: &[u8], is_http2: bool) -> bool {
    if !is_http2 {
        return !came.is_empty();
    }
    let mut rest = came;
    while let Some((head, after)) = rest.split_at_checked(9) {
        if ANSWERS.contains(&head[3]) {
            return true;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((_, next)) = after.split_at_checked(length) else { return false };
        rest = next;
    }
    false
}

/// Sends an input and reads until the gateway answers or ends the connection, which its short
/// timeouts bring about for every input. Then it ends the sending direction and reads the rest.
fn send(gateway: &Gateway, input: &[u8]) -> String {
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    // The gateway may close the connection before it has read everything.
    let _ = stream.write_all(input);
    stream.set_read_timeout(Some(BOUND)).unwrap();
    let is_silent = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    let (mut came, mut piece) = (Vec::new(), [0; 4096]);
    while !is_answered(&came, input.starts_with(PREFACE)) {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => came.extend_from_slice(&piece[..read]),
            Err(error) => {
                assert!(!is_silent(&error), "no answer came");
                break;
            }
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let ended = stream.read_to_end(&mut came);
    assert!(!ended.is_err_and(|error| is_silent(&error)), "no end came");
    String::from_utf8_lossy(&came[..came.len().min(16)]).into_owned()
}

#[test]
fn x03_fuzz_raw_connections_of_clients() {
    let backend = Backend::quick();
    let times = "[server]\nheader_timeout = \"100ms\"\nbody_timeout = \"100ms\"\n\
                 [log]\nformat = \"json\"\n";
    let gateway = Gateway::before(times, &backend);
    fuzz_inputs(INPUTS_IN_CI, "raw-connections", &SEEDS, &WORDS, |input, _| send(&gateway, input));
    gateway.await_idle();
    assert_eq!(gateway.ask(&chat("m").header("x-request-id", "last")).status, 200);
    gateway.access_of("last");
    let lines = gateway.log_lines();
    let forwarded = lines.iter().filter(|line| line["backend"].is_string()).count();
    let seen = backend.seen().len();
    assert!(seen <= forwarded, "the backend received {seen} requests, {forwarded} are known");
    assert!(seen > 2, "only {seen} inputs were requests");
}
