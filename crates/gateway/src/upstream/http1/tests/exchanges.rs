//! Whole exchanges with a backend that does as it likes.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::*;
use crate::socket::Socket;
use crate::upstream::connect::Connection;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A connection, and the backend at its other end.
async fn connect() -> (Http1, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (Http1::new(Connection::Plain(Socket::new(stream))), listener.accept().await.unwrap().0)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// Reads to the end of a head and as many bytes behind it.
async fn take(backend: &mut TcpStream, body: usize) -> Vec<u8> {
    let mut taken = Vec::new();
    while !taken.ends_with(b"\r\n\r\n") {
        taken.push(backend.read_u8().await.unwrap());
    }
    let mut rest = vec![0; body];
    backend.read_exact(&mut rest).await.unwrap();
    rest
}

async fn whole(link: &mut Http1, mut framing: Framing) -> Result<Vec<u8>, ExchangeError> {
    let mut body = Vec::new();
    loop {
        let frame = std::future::poll_fn(|context| link.poll_body(context, &mut framing)).await?;
        match frame {
            Some(frame) => body.extend_from_slice(&frame.into_data().unwrap()),
            None => return Ok(body),
        }
    }
}

async fn exchange(link: &mut Http1, body: &[u8]) -> Result<Vec<u8>, ExchangeError> {
    let errand = Errand::new(Method::POST, body);
    let (_, framing) = link.exchange(&errand.wanted(), soon()).await?;
    whole(link, framing).await
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let (mut link, mut backend) = connect().await;
    for body in ["", "short", &"long ".repeat(1 << 20), "short again"] {
        let body = body.as_bytes();
        let serve = async {
            assert!(take(&mut backend, body.len()).await == body);
            backend.write_all(OK).await.unwrap();
        };
        let (answer, ()) = tokio::join!(exchange(&mut link, body), serve);
        assert_eq!(answer.unwrap(), b"ok");
        assert!(link.may_serve_again() && link.is_idle());
    }
}

#[tokio::test]
async fn a_large_response_passes_whole() {
    let (mut link, mut backend) = connect().await;
    let sent: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
    let serve = async {
        take(&mut backend, 0).await;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", sent.len());
        backend.write_all(head.as_bytes()).await.unwrap();
        backend.write_all(&sent).await.unwrap();
    };
    let (answer, ()) = tokio::join!(exchange(&mut link, b""), serve);
    assert!(answer.unwrap() == sent && link.may_serve_again());
    assert!(link.read_most > 64 << 10, "it was read in large pieces");
    link.shrink();
    assert_eq!((link.came.capacity(), link.read_size), (0, 8 << 10), "which are given back");
}

#[tokio::test]
async fn an_early_response_is_read_and_the_rest_of_the_request_is_still_sent() {
    let (mut link, mut backend) = connect().await;
    let body = vec![b'x'; 20 << 20];
    let serve = async {
        backend.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nok").await.unwrap();
        assert!(take(&mut backend, body.len()).await == body);
        backend.write_all(b"ok").await.unwrap();
    };
    let (answer, ()) = tokio::join!(exchange(&mut link, &body), serve);
    assert_eq!(answer.unwrap(), b"okok");
    assert!(link.may_serve_again());
}

#[tokio::test]
async fn a_response_of_a_backend_that_does_not_read_the_request_is_final() {
    let (mut link, mut backend) = connect().await;
    let body = vec![b'x'; 20 << 20];
    let serve = async { backend.write_all(OK).await.unwrap() };
    let (answer, ()) = tokio::join!(exchange(&mut link, &body), serve);
    assert_eq!(answer.unwrap(), b"ok");
    assert!(!link.may_serve_again());
}

#[tokio::test]
async fn a_connection_with_bytes_after_its_response_is_not_used_again() {
    let (mut link, mut backend) = connect().await;
    let serve = async {
        take(&mut backend, 0).await;
        backend.write_all(&[OK, b"HTTP/1.1 200 OK\r\n"].concat()).await.unwrap();
    };
    let (answer, ()) = tokio::join!(exchange(&mut link, b""), serve);
    assert_eq!(answer.unwrap(), b"ok");
    assert!(!link.may_serve_again());
}

#[tokio::test]
async fn an_idle_connection_is_not_quiet_when_it_is_closed_or_spoken_on() {
    for last in [&b""[..], b"HTTP/1.1 408 Request Timeout\r\n\r\n"] {
        let (mut link, mut backend) = connect().await;
        assert!(link.is_idle());
        backend.write_all(last).await.unwrap();
        drop(backend);
        while link.is_idle() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_broken_exchange_knows_whether_any_byte_came() {
    for (sent, untouched) in [(&b""[..], true), (b"HTTP/1.1 200 OK\r\n", false)] {
        let (mut link, mut backend) = connect().await;
        let serve = async move {
            take(&mut backend, 0).await;
            backend.write_all(sent).await.unwrap();
        };
        let (answer, ()) = tokio::join!(exchange(&mut link, b""), serve);
        assert_eq!(answer.unwrap_err().to_string(), "it closed the connection");
        assert_eq!(link.is_untouched(), untouched);
    }
}

#[tokio::test]
async fn a_head_without_an_end_is_refused() {
    let (mut link, mut backend) = connect().await;
    let serve = async move {
        let line = [b"x: ", &[b'y'; 10_000][..], b"\r\n"].concat();
        backend.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        while backend.write_all(&line).await.is_ok() {}
    };
    let ask = async move { exchange(&mut link, b"").await };
    let (answer, ()) = tokio::join!(ask, serve);
    assert_eq!(answer.unwrap_err().to_string(), "its head is larger than 256 KiB");
}

/// Waits in vain, and says for how long.
async fn late(link: &mut Http1, backend: &mut TcpStream, patience: u64) -> Duration {
    let began = Instant::now();
    let errand = Errand::new(Method::GET, b"");
    let asked = link.exchange(&errand.wanted(), began + Duration::from_secs(patience)).await;
    assert!(matches!(asked, Err(ExchangeError::TimedOut)));
    let waited = began.elapsed();
    take(backend, 0).await;
    waited
}

#[tokio::test(start_paused = true)]
async fn each_exchange_has_its_own_time_though_there_is_one_timer() {
    let (mut link, mut backend) = connect().await;
    for patience in [10, 60, 5, 600] {
        let waited = late(&mut link, &mut backend, patience).await;
        assert_eq!(waited.as_secs(), patience);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_of_an_exchange_that_is_over_does_not_end_the_next() {
    let (mut link, mut backend) = connect().await;
    let due = Instant::now() + Duration::from_secs(10);
    let errand = Errand::new(Method::GET, b"");
    let wanted = errand.wanted();
    let sooner = due - Duration::from_secs(1);
    assert!(tokio::time::timeout_at(sooner, link.exchange(&wanted, due)).await.is_err());
    take(&mut backend, 0).await;
    assert_eq!(late(&mut link, &mut backend, 60).await.as_secs(), 60);
}
