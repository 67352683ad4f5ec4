//! Queue status: a stream that begins before its response does, for clients that ask for it.
//!
//! The client has its status 200 already, so everything later comes as events: comments while the
//! request waits, then the backend's own stream, or an `error` event with the JSON of a refusal.

use std::time::Duration;

use bytes::Bytes;
use flow::WaitForecast;
use http::Response;
use http_body::Frame;
use http_body_util::BodyExt as _;

use super::response_writer::{Content, hand_over};
use super::unread_frames::{Frames, Reading};
use crate::body_memory::Reservation;
use crate::clock;
use crate::proxy::ProxiedRequest;
use crate::reply::{ErrorFormat, error, headers};
use crate::scheduler::QueueView;
use crate::task;

/// The pause between two comments, which grows with the queue: so does the cost of a forecast.
const EVERY: Duration = Duration::from_secs(1);
const SLOWER_PER: u32 = 500;
/// The largest error of a backend that is passed on in an event.
const ERROR_MAX: usize = 64 << 10;

/// Begins a stream that tells the request's place in the queue.
pub(super) fn stream(
    proxied: Box<ProxiedRequest>,
    format: ErrorFormat,
    unread: Reservation,
) -> Response<Content> {
    let (frames, handed) = Frames::new(unread);
    let mut response = Response::new(Content::Handed(handed));
    headers::event_stream(response.headers_mut(), &proxied.request.intent.request_id);
    task::spawn(drive(proxied, format, frames));
    response
}

async fn drive(proxied: Box<ProxiedRequest>, format: ErrorFormat, frames: Frames) {
    let view = proxied.request.queue_view();
    let write_limit = proxied.request.config.server.write_timeout;
    let mut forwarding = std::pin::pin!(proxied.forward());
    let outcome = loop {
        let (forecast, depth) = view.as_ref().map(QueueView::look).unwrap_or_default();
        if let Some(forecast) = forecast {
            frames.offer(comment(forecast, depth));
        }
        tokio::select! {
            outcome = forwarding.as_mut() => break outcome,
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
        Err(refused) => send_error(&error::body_in(format, &refused), frames, write_limit).await,
    }
}

async fn send_error(json: &[u8], frames: Frames, limit: Duration) {
    // An event's data is one line.
    let line: Vec<u8> = json.iter().copied().filter(|byte| !b"\r\n".contains(byte)).collect();
    let event = [b"event: error\ndata: ", &line[..], b"\n\n"].concat();
    if frames.send(Ok(Frame::data(event.into())), limit).await == Reading::Reads {
        frames.end(limit).await;
    }
}

fn comment(forecast: WaitForecast, depth: u32) -> Frame<Bytes> {
    let WaitForecast { position, wait, least, .. } = forecast;
    // Fresh requests that come later go before a late one, so it has no estimate.
    let named = wait.map(|wait| ("estimated_wait_ms", wait));
    let named = named.or_else(|| least.map(|least| ("least_wait_ms", least)));
    let wait = named.map(|(name, wait)| format!(" {name}={}", clock::duration(wait).as_millis()));
    let wait = wait.unwrap_or_default();
    Frame::data(format!(": queue position={position} waiting={depth}{wait}\n\n").into())
}
