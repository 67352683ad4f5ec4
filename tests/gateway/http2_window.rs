//! An HTTP/2 client that never opens its flow-control window.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use crate::support::gateway::ONE;
use crate::support::{Backend, Gateway, ScriptedResponse, chat};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// A header whose name is in the static table, with a literal value.
fn header(name: u8, value: &str) -> Vec<u8> {
    [&[name, value.len() as u8], value.as_bytes()].concat()
}

/// Opens a connection with a closed window, and sends a request on its first stream.
fn ask(gateway: &Gateway, more: &[u8], body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    let method_and_scheme = [0x83, 0x86];
    let head = [&method_and_scheme, &header(0x04, "/v1/chat/completions")[..], &header(0x01, "x")];
    let head = [&head.concat(), more].concat();
    let no_window = [0, 4, 0, 0, 0, 0];
    let sent = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, &no_window),
        frame(HEADERS, 4, 1, &head),
        frame(DATA, 1, 1, body),
    ];
    stream.write_all(&sent.concat()).unwrap();
    stream
}

/// Answers SETTINGS and PING, so that only the window stays closed.
fn stay(mut stream: TcpStream) {
    thread::spawn(move || {
        let mut head = [0; 9];
        while stream.read_exact(&mut head).is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            if stream.read_exact(&mut payload).is_err() {
                return;
            }
            let answer = match (head[3], head[4] & 1) {
                (SETTINGS, 0) => frame(SETTINGS, 1, 0, &[]),
                (PING, 0) => frame(PING, 1, 0, &payload),
                _ => continue,
            };
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    });
}

const HASTY: &str = "[server]\nwrite_timeout = \"1s\"\n";

#[test]
fn x03_a_stream_without_a_window_holds_nothing_for_ever() {
    let piece = "word ".repeat(1 << 12);
    let backend = Backend::start(move |_| ScriptedResponse::stream(&[piece.as_str(); 64]));
    let gateway = Gateway::before(&format!("{HASTY}{ONE}"), &backend);
    stay(ask(&gateway, &[], &chat("m").streamed().body));
    backend.await_seen(1);
    gateway.await_idle();
    assert_eq!(gateway.ask(&chat("m")).status, 200);
}

#[test]
fn x03_queue_status_without_a_window_holds_nothing_for_ever() {
    let backend = Backend::held();
    let (gateway, first) = Gateway::occupied(&format!("{HASTY}{ONE}"), &backend, &chat("m"));
    let status = [&[0, 14], &b"x-queue-status"[..], &[3], b"sse"].concat();
    stay(ask(&gateway, &status, &chat("m").streamed().body));
    gateway.await_depth(1);
    // By then there are more bytes to send than the gateway buffers without a reader.
    gateway.await_metrics("told four times", |metrics| {
        let oldest = metrics.sum("tidegate_queue_oldest_seconds");
        if oldest > 3.5 { Ok(()) } else { Err(format!("{oldest}")) }
    });
    backend.open();
    assert_eq!(first.finish().status, 200);
    gateway.await_idle();
}
