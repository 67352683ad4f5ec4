//! An HTTP/2 client that never opens its flow-control window.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread;

use crate::support::gateway::ONE;
use crate::support::wait::BOUND;
use crate::support::{Backend, Gateway, ScriptedResponse, chat, eventually};

const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// A header whose name is in the static table, with a literal value.
pub(super) fn header(name: u8, value: &str) -> Vec<u8> {
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

/// Sends another request on a connection of [`ask`].
fn ask_also(mut stream: &TcpStream, number: u32, body: &[u8]) {
    let head = [&[0x83, 0x86], &header(0x04, "/v1/chat/completions")[..], &header(0x01, "x")];
    let frames = [frame(HEADERS, 4, number, &head.concat()), frame(DATA, 1, number, body)];
    stream.write_all(&frames.concat()).unwrap();
}

/// What a client sees of one of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Began(u32),
    Reset(u32),
}

/// Answers SETTINGS and PING, so that only the window stays closed. The end of the events means
/// that the gateway has closed the connection.
fn stay(mut stream: TcpStream) -> Receiver<Event> {
    let (began, begun) = mpsc::channel();
    thread::spawn(move || {
        let mut head = [0; 9];
        while stream.read_exact(&mut head).is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            if stream.read_exact(&mut payload).is_err() {
                return;
            }
            let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let answer = match (head[3], head[4] & 1) {
                (SETTINGS, 0) => frame(SETTINGS, 1, 0, &[]),
                (PING, 0) => frame(PING, 1, 0, &payload),
                (HEADERS, _) => {
                    let _ = began.send(Event::Began(number));
                    continue;
                }
                (RST_STREAM, _) => {
                    let _ = began.send(Event::Reset(number));
                    continue;
                }
                _ => continue,
            };
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    });
    begun
}

/// A response that is larger than what the gateway reads ahead.
fn long(_: &crate::support::backend::Seen) -> ScriptedResponse {
    let piece = "word ".repeat(1 << 12);
    ScriptedResponse::stream(&[piece.as_str(); 64])
}

const HASTY: &str = "[server]\nwrite_timeout = \"1s\"\n";

#[test]
fn x03_a_stream_without_a_window_holds_nothing_for_ever() {
    let backend = Backend::start(long);
    let gateway = Gateway::before(&format!("{HASTY}{ONE}"), &backend);
    let begun = stay(ask(&gateway, &[], &chat("m").streamed().body));
    backend.await_seen(1);
    gateway.await_idle();
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    assert_eq!(begun.recv_timeout(BOUND), Ok(Event::Began(1)));
    assert_eq!(begun.recv_timeout(BOUND), Ok(Event::Reset(1)), "it needs no window");
}

/// A response that its client leaves unread is cut, whether or not its backend has ended.
#[test]
fn x03_a_response_that_is_cut_unread_is_logged_as_such() {
    let short = |_: &crate::support::backend::Seen| ScriptedResponse::stream_held(&["a", "b"]);
    for backend in [Backend::start(short), Backend::start(long)] {
        backend.release(1);
        let gateway = Gateway::before(&format!("{HASTY}[log]\nformat = \"json\"\n"), &backend);
        let begun = stay(ask(&gateway, &[], &chat("m").streamed().body));
        assert_eq!(begun.recv_timeout(BOUND), Ok(Event::Began(1)));
        // What comes at once is one frame, and the first one needs no window to be taken.
        backend.open();
        assert_eq!(begun.recv_timeout(BOUND), Ok(Event::Reset(1)));
        gateway.await_metrics("counted", |metrics| {
            let counts = ["client_stalled", "ok", "client_closed"].map(|outcome| {
                let label = format!("outcome=\"{outcome}\"");
                metrics.sum_where("tidegate_requests_total", &label)
            });
            if counts == [1.0, 0.0, 0.0] { Ok(()) } else { Err(format!("{counts:?}")) }
        });
        let is_logged = |line: &serde_json::Value| line["outcome"] == "client_stalled";
        eventually("logged", || match gateway.log_lines() {
            lines if lines.iter().any(is_logged) => Ok(()),
            lines => Err(format!("{lines:?}")),
        });
        gateway.await_idle();
    }
}

/// As long as the client may read nothing here, only the read-ahead frees the place.
const PATIENT: &str = "[server]\nwrite_timeout = \"10m\"\n";

#[test]
fn x03_streams_that_are_not_read_free_their_places_when_the_backend_has_ended() {
    let piece = "word ".repeat(1 << 11);
    let backend = Backend::start(move |_| ScriptedResponse::stream(&[piece.as_str(); 16]));
    let gateway = Gateway::before(&format!("{PATIENT}{ONE}"), &backend);
    let streams: Vec<_> =
        (0..4).map(|_| stay(ask(&gateway, &[], &chat("m").streamed().body))).collect();
    for stream in &streams {
        assert_eq!(stream.recv_timeout(BOUND), Ok(Event::Began(1)));
    }
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    gateway.await_idle();
    for stream in &streams {
        assert_eq!(stream.try_recv(), Err(TryRecvError::Empty), "its client may read later");
    }
}

#[test]
fn x03_clients_that_leave_with_unread_frames_stop_no_worker() {
    let piece = "word ".repeat(1 << 11);
    let backend = Backend::start(move |_| ScriptedResponse::stream(&[piece.as_str(); 16]));
    let gateway = Gateway::before(PATIENT, &backend);
    for number in 1..=8 {
        let stream = ask(&gateway, &[], &chat("m").streamed().body);
        let begun = stay(stream.try_clone().unwrap());
        assert_eq!(begun.recv_timeout(BOUND), Ok(Event::Began(1)));
        backend.await_seen(number);
        gateway.await_idle();
        // The response has ended, and its frames are unread.
        stream.shutdown(Shutdown::Both).unwrap();
        assert_eq!(begun.recv_timeout(BOUND), Err(RecvTimeoutError::Disconnected));
    }
    for _ in 0..16 {
        assert_eq!(gateway.ask(&chat("m")).status, 200);
    }
    gateway.await_idle();
}

#[test]
fn x03_an_unread_stream_does_not_end_the_other_streams_of_its_connection() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "held" => ScriptedResponse::ok().held(),
        _ => long(seen),
    });
    let gateway = Gateway::before(&format!("{HASTY}{ONE}"), &backend);
    let connection = ask(&gateway, &[], &chat("m").streamed().body);
    backend.await_seen(1);
    ask_also(&connection, 3, &chat("m").tag("held").body);
    let begun = stay(connection);
    assert_eq!(begun.recv_timeout(BOUND), Ok(Event::Began(1)));
    assert_eq!(begun.recv_timeout(BOUND), Ok(Event::Reset(1)));
    backend.await_held(1);
    backend.open();
    assert_eq!(begun.recv_timeout(BOUND), Ok(Event::Began(3)));
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

/// Unread streams of one client fill its share of the memory. The rest of its streams give their
/// places to others, long before the time of a stream that is alone.
#[test]
fn x03_many_unread_streams_of_one_client_keep_no_place_from_others() {
    let piece = "word ".repeat(1 << 12);
    let backend = Backend::start(move |_| ScriptedResponse::stream(&[piece.as_str(); 12]));
    let places = "[controller]\nlower_bound_per_backend = 32\n\
        watermark_per_backend = 32\nupper_bound_per_backend = 32\n\
        [queue]\nflow_capacity = 1000\n";
    let gateway = Gateway::before(&format!("{PATIENT}{places}"), &backend);
    let connection = ask(&gateway, &[], &chat("m").streamed().body);
    let streams = 320;
    let begun = stay(connection.try_clone().unwrap());
    for number in 1..streams {
        ask_also(&connection, 2 * number + 1, &chat("m").streamed().body);
    }
    backend.await_seen(streams as usize);
    assert_eq!(gateway.ask(&chat("m")).status, 200);
    gateway.await_idle();
    let events: Vec<_> = begun.try_iter().collect();
    assert!(events.iter().any(|event| matches!(event, Event::Reset(_))), "{events:?}");
}
