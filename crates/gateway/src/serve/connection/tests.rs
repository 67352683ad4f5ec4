//! X03: a connection on which nothing is asked ends, whatever was asked before.
//!
//! The clock stands still while any task can run, and then jumps to the next timer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use super::{Activity, ClientSocket, IDLE};
use crate::serve::client_stream::ClientStream;
use crate::serve::response_writer::{Content, Reply};
use crate::socket::Socket;

const HEAD: Duration = Duration::from_secs(10);
/// Longer than an idle connection may last.
const LONG: Duration = Duration::from_secs(1000);

fn plain(stream: TcpStream) -> ClientStream {
    ClientStream::Plain(Socket::new(stream))
}

/// A server on which every request takes `work`, and a connection to it.
async fn connect(work: Duration) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let activity = Arc::new(Activity::default());
        let socket = ClientSocket::new(plain(stream), Arc::clone(&activity), HEAD, HEAD);
        let service = service_fn(|request: Request<Incoming>| {
            let serving = activity.serve();
            async move {
                request.into_body().collect().await.unwrap();
                sleep(work).await;
                let whole = Content::Whole(Full::new(Bytes::from_static(b"ok")));
                Ok::<_, Infallible>(Reply::new(Response::new(whole), serving))
            }
        });
        let Some((socket, is_http2)) = socket.first_bytes().await else { return };
        let socket = TokioIo::new(socket);
        if is_http2 {
            let builder = http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(socket, service).await;
        } else {
            let mut builder = http1::Builder::new();
            let _ = builder.half_close(true).serve_connection(socket, service).await;
        }
    });
    TcpStream::connect(address).await.unwrap()
}

async fn ask(stream: &mut TcpStream) {
    stream.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n").await.unwrap();
    // The body comes by itself.
    sleep(Duration::from_millis(1)).await;
    stream.write_all(b"{}").await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"ok") {
        assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0);
    }
}

/// The bytes until the connection ends, and how long that takes.
async fn rest(stream: &mut TcpStream) -> (Vec<u8>, Duration) {
    let (start, mut said) = (Instant::now(), Vec::new());
    let end = timeout(LONG, stream.read_to_end(&mut said)).await;
    assert!(end.is_ok(), "still there after {LONG:?}");
    (said, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn x03_a_connection_ends_when_nothing_more_is_asked() {
    for work in [Duration::ZERO, Duration::from_secs(7), IDLE - HEAD, IDLE * 3] {
        let mut stream = connect(work).await;
        for _ in 0..3 {
            ask(&mut stream).await;
        }
        let (said, took) = rest(&mut stream).await;
        assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
        // It may be seen late, and never early.
        assert!(took + HEAD >= IDLE && took <= IDLE * 2, "{work:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn x03_an_unfinished_head_is_refused_also_on_a_used_connection() {
    let mut stream = connect(Duration::ZERO).await;
    ask(&mut stream).await;
    stream.write_all(b"GET /").await.unwrap();
    let (said, took) = rest(&mut stream).await;
    assert!(said.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&said));
    assert!(took <= HEAD * 2, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_sends_while_it_waits_is_answered_next() {
    let mut stream = connect(Duration::from_secs(7)).await;
    let mut seen = Vec::new();
    for size in [2, 20 << 10, 2] {
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n");
        stream.write_all(&[head.into_bytes(), vec![b'x'; size]].concat()).await.unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    while seen.windows(6).filter(|&six| six == b"\r\n\r\nok").count() < 3 {
        assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn x03_a_frame_between_requests_of_http2_begins_no_head() {
    let mut stream = connect(Duration::ZERO).await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
    // GET http://x/, whole.
    stream.write_all(b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01x").await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"ok") {
        assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0);
    }
    let ping = b"\0\0\x08\x06\0\0\0\0\0pingpong";
    stream.write_all(ping).await.unwrap();
    let (_, took) = rest(&mut stream).await;
    assert!(took + HEAD >= IDLE && took <= IDLE * 2, "{took:?}");
}
