//! A backend that responds before it has read the whole request.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::support::gateway::{ONE, config};
use crate::support::{Gateway, chat};

/// Reads to the end of a head.
fn read_head(stream: &mut TcpStream) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
        seen.extend(byte);
    }
}

/// Responds to the first request of each connection after its head, and then sends nothing more.
fn hasty() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            read_head(&mut stream);
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            // A gateway that has ended reads no response.
            let _ = stream.write_all(answer.as_bytes());
            held.push(stream);
        }
    });
    address
}

#[test]
fn x03_a_connection_that_did_not_take_its_request_is_not_used_again() {
    let gateway = Gateway::start(&config(ONE, &[("a", hasty())]));
    let large = "x".repeat(20 << 20);
    for content in [large.as_str(), "short"] {
        let answer = gateway.ask(&chat("m").with("content", content));
        assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]));
    }
    gateway.await_idle();
}
