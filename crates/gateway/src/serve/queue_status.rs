//! Queue status for those who ask: a stream that begins before its answer does.
//!
//! The client has had its 200, so what comes later comes as events: comments while it waits, then
//! the backend's own stream, or an `error` event with the same JSON that a refusal has.

use std::time::Duration;

use bytes::Bytes;
use flow::WaitForecast;
use http::Response;
use http_body::Frame;
use http_body_util::BodyExt as _;

use super::journey::Journey;
use super::response_writer::{Content, Frames, hand_over};
use crate::clock;
use crate::reply::{error, headers};
use crate::scheduler::Permit;
use crate::task;

/// How often a place is told, at least and per so many who wait: looking costs more then.
const EVERY: Duration = Duration::from_secs(1);
const SLOWER_PER: u32 = 500;
/// The most of a backend's error that is passed on in an event.
const ERROR_MAX: usize = 64 << 10;

/// Begins a stream that tells the request's place.
pub(super) fn tell(journey: Box<Journey>, permit: Permit) -> Response<Content> {
    let (frames, handed) = Frames::new();
    let mut response = Response::new(Content::Handed(handed));
    headers::event_stream(response.headers_mut(), &journey.passage.intent.request_id);
    task::spawn(drive(journey, permit, frames));
    response
}

async fn drive(journey: Box<Journey>, permit: Permit, frames: Frames) {
    let window = permit.window();
    let write_limit = journey.passage.config.server.write_timeout;
    let mut flight = std::pin::pin!(journey.fly(permit));
    let outcome = loop {
        let (outlook, depth) = window.look();
        if let Some(outlook) = outlook {
            frames.offer(comment(outlook, depth));
        }
        tokio::select! {
            outcome = flight.as_mut() => break outcome,
            () = tokio::time::sleep(EVERY * (1 + depth / SLOWER_PER)) => {}
            () = frames.closed() => return,
        }
    };
    match outcome {
        Ok(response) if response.status().is_success() => {
            hand_over(response.into_body(), frames, write_limit).await;
        }
        Ok(response) => {
            let body = http_body_util::Limited::new(response.into_body(), ERROR_MAX);
            let text = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            send_error(&text, frames, write_limit).await;
        }
        Err(refused) => send_error(&error::body(&refused), frames, write_limit).await,
    }
}

async fn send_error(json: &[u8], frames: Frames, limit: Duration) {
    // An event's data is one line.
    let line: Vec<u8> = json.iter().copied().filter(|byte| !b"\r\n".contains(byte)).collect();
    let event = [b"event: error\ndata: ", &line[..], b"\n\n"].concat();
    if frames.send(Ok(Frame::data(event.into())), limit).await {
        frames.end();
    }
}

fn comment(outlook: WaitForecast, depth: u32) -> Frame<Bytes> {
    let WaitForecast { position, wait } = outlook;
    let wait = wait.map(|wait| format!(" estimated_wait_ms={}", clock::duration(wait).as_millis()));
    let wait = wait.unwrap_or_default();
    Frame::data(format!(": queue position={position} waiting={depth}{wait}\n\n").into())
}
