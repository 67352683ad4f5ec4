//! X03: floods of HTTP/2 frames. Each ends or is answered within bounds, and other clients are
//! served as before.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use super::http2_window::{HEADERS, PING, RST_STREAM, SETTINGS, frame, header};
use crate::support::gateway::TWO;
use crate::support::wait::BOUND;
use crate::support::{Backend, Gateway, chat};

const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;

const FLOOD: u32 = 20_000;
/// The bytes of an endless head; far more than any limit of a head.
const ENDLESS_HEAD: usize = 8 << 20;
const GROWTH_MAX: u64 = 48 << 20;

/// The head of a request without a body.
fn head() -> Vec<u8> {
    [&[0x82, 0x86][..], &header(0x04, "/v1/models"), &header(0x01, "x")].concat()
}

/// The head of a request with a body.
fn post_head() -> Vec<u8> {
    [&[0x83, 0x86][..], &header(0x04, "/v1/chat/completions"), &header(0x01, "x")].concat()
}

/// Sends a flood on one connection while another thread reads. Returns how many frames were sent
/// before the gateway closed the connection.
fn flood(gateway: &Gateway, frames: impl Iterator<Item = Vec<u8>>) -> usize {
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    stream.set_write_timeout(Some(BOUND)).unwrap();
    let mut reading = stream.try_clone().unwrap();
    let reader = thread::spawn(move || {
        let mut buffer = [0; 1 << 16];
        while reading.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    let mut sent = 0;
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
    for frame in frames {
        match stream.write_all(&frame) {
            Ok(()) => sent += 1,
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::WouldBlock, "the gateway reads no more");
                break;
            }
        }
    }
    // Its connection may be closed already.
    let _ = stream.shutdown(std::net::Shutdown::Both);
    reader.join().unwrap();
    sent
}

#[test]
fn x03_floods_of_http2_frames_harm_no_other_client() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    let before = gateway.process.resident_bytes();
    let cancel = 8_u32.to_be_bytes();
    let streams = (0..FLOOD).map(|number| 2 * number + 1);
    // A request that is reset as soon as it is sent (CVE-2023-44487).
    let resets = streams.map(|stream| {
        let opened = frame(HEADERS, END_HEADERS | END_STREAM, stream, &head());
        [opened, frame(RST_STREAM, 0, stream, &cancel)].concat()
    });
    let resets = flood(&gateway, resets);
    // A head that never ends (CVE-2024-27316).
    let field = [&[0][..], &header(4, "x-a")[1..], &header(100, &"y".repeat(100))[1..]].concat();
    let piece = field.repeat(16_000 / field.len());
    let first = std::iter::once(frame(HEADERS, END_STREAM, 1, &head()));
    let pieces = (0..ENDLESS_HEAD / piece.len()).map(|_| frame(CONTINUATION, 0, 1, &piece));
    let continued = flood(&gateway, first.chain(pieces.collect::<Vec<_>>()));
    let pings = flood(&gateway, (0..FLOOD).map(|_| frame(PING, 0, 0, &[7; 8])));
    let setting = [0, 4, 0, 1, 0, 0];
    let settings = flood(&gateway, (0..FLOOD).map(|_| frame(SETTINGS, 0, 0, &setting)));
    let one = 1_u32.to_be_bytes();
    let updates = flood(&gateway, (0..FLOOD).map(|_| frame(WINDOW_UPDATE, 0, 0, &one)));
    eprintln!(
        "sent: {resets} resets, {continued} continuations, {pings} pings, {settings} settings"
    );
    assert!(continued < ENDLESS_HEAD / piece.len(), "an endless head is read");
    assert!(resets > 100 && pings + settings + updates > 100, "nothing was tried");
    gateway.await_idle();
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    let grown = gateway.process.resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes more");
}

/// Reads frames until the acknowledgement of a PING.
fn await_pong(stream: &mut TcpStream) {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        stream.read_exact(&mut vec![0; length]).unwrap();
        if head[3] == PING && head[4] == 1 {
            return;
        }
    }
}

/// A field of an HTTP/2 head may take one byte on the wire, and many times as much in memory.
#[test]
fn x03_heads_of_indexed_fields_take_little_memory() {
    let backend = Backend::quick();
    let gateway = Gateway::before(TWO, &backend);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    let before = gateway.process.resident_bytes();
    let entry = [&[0x40][..], &header(0, "x")[1..], &header(0, "y")[1..]].concat();
    let indexed = vec![0x80 | 62; 1_700];
    let clients: Vec<TcpStream> = (0..16)
        .map(|_| {
            let mut client = TcpStream::connect(gateway.address()).unwrap();
            client.set_read_timeout(Some(BOUND)).unwrap();
            client.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
            for number in 0..100 {
                // The bodies never come. The entry of the table is the same for all streams.
                let added = if number == 0 { &entry[..] } else { &[] };
                let fields = [&post_head(), added, &indexed].concat();
                client.write_all(&frame(HEADERS, END_HEADERS, 2 * number + 1, &fields)).unwrap();
            }
            client.write_all(&frame(PING, 0, 0, &[7; 8])).unwrap();
            await_pong(&mut client);
            client
        })
        .collect();
    let grown = gateway.process.resident_bytes().saturating_sub(before);
    eprintln!("{} heads: {grown} bytes more", clients.len() * 100);
    assert!(grown < GROWTH_MAX, "{grown} bytes more");
    drop(clients);
    gateway.await_idle();
    assert_eq!(gateway.ask(&chat("m")).status, 200);
}
