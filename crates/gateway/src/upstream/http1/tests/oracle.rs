//! The same answers, whole and damaged, read by hyper and by us. Whatever we take, hyper takes the
//! same way; the other way round we may refuse more.

use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

pub(super) const ANSWERS: [&[u8]; 6] = [
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 11\r\n\r\nhello world",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
      5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx-sum: 1\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not ResponseHead\r\ncontent-length: 2\r\n\r\nno",
    b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nto the end",
    b"HTTP/1.0 503 Full\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n",
];

/// One damage: at a place some bytes are replaced by others.
#[derive(Clone, Debug)]
struct Damage {
    at: prop::sample::Index,
    length: usize,
    by: Vec<u8>,
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = prop::sample::select(&b"\r\n\0 \t:;,0159afFx+-\xff"[..]);
    let by = prop::collection::vec(bytes, 0..3);
    (any::<prop::sample::Index>(), 0..3_usize, by).prop_map(|(at, length, by)| Damage {
        at,
        length,
        by,
    })
}

fn damaged(answer: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut bytes = answer.to_vec();
    for Damage { at, length, by } in damages {
        let start = at.index(bytes.len() + 1);
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, by.iter().copied());
    }
    bytes
}

/// Status and body as hyper reads them.
pub(super) async fn by_hyper(bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
    let (ours, mut theirs) = tokio::io::duplex(1 << 16);
    let (mut sender, socket) = http1::handshake(TokioIo::new(ours)).await.unwrap();
    tokio::spawn(socket);
    let request = http::Request::get("/").body(Empty::<Bytes>::new()).unwrap();
    let answered = tokio::spawn(async move {
        let response = sender.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        Some((status, response.into_body().collect().await.ok()?.to_bytes().to_vec()))
    });
    theirs.read_buf(&mut Vec::with_capacity(1 << 10)).await.unwrap();
    theirs.write_all(bytes).await.unwrap();
    drop(theirs);
    answered.await.unwrap()
}

proptest! {
    #[test]
    fn every_accepted_response_is_read_the_same_way_by_hyper(
        answer in prop::sample::select(&ANSWERS[..]),
        damages in prop::collection::vec(damage(), 0..4),
        size in 1..40_usize,
    ) {
        let bytes = damaged(answer, &damages);
        let Ok(ours) = read(&Method::GET, bytes.chunks(size)) else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let theirs = runtime.block_on(by_hyper(&bytes));
        prop_assert_eq!(Some((ours.response.status().as_u16(), ours.body)), theirs);
    }

    #[test]
    fn no_bytes_do_any_harm(bytes: Vec<u8>, size in 1..40_usize) {
        let _ = read(&Method::GET, bytes.chunks(size));
        let chunked = [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", &bytes[..]];
        let _ = read(&Method::GET, chunked.concat().chunks(size));
    }
}
