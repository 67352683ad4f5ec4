//! `GET /status/stream`: the status each second, as events. An event is made once for all viewers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::Frame;

use super::admin_access;
use super::response_writer::Content;
use super::unread_frames::Frames;
use crate::admin::status;
use crate::ingress::path::AdminPage;
use crate::places::Place;
use crate::reply::{Fault, error};
use crate::state::State;
use crate::task;

/// The header by which nginx learns not to buffer.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");
/// The most viewers at once.
const VIEWERS_MAX: usize = 64;
/// How long a viewer may accept nothing.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// Begins a stream for a client that may see it.
pub(super) fn answer(state: &Arc<State>, head: &HeaderMap) -> Response<Content> {
    let refused = |fault: Fault| Content::whole(error::response(&fault.into()));
    if let Err(fault) = admin_access::may_see(&state.config.load(), AdminPage::StatusStream, head) {
        return refused(fault);
    }
    let Some(place) = state.status_viewers.take(VIEWERS_MAX) else {
        return refused(Fault::Overloaded);
    };
    let (frames, handed) = Frames::new(&state.unread_memory);
    let mut response = Response::new(Content::Handed(handed));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A proxy in front must pass each event on at once.
    headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
    task::spawn(send(Arc::clone(state), frames, place));
    response
}

/// Sends the present status, and each later one, until the viewer leaves or the process ends.
async fn send(state: Arc<State>, frames: Frames, _place: Place) {
    let mut feed = state.status_feed.subscribe();
    let mut event: Bytes = status::event(&state);
    loop {
        if !frames.send(Ok(Frame::data(event)), WRITE_LIMIT).await {
            return;
        }
        tokio::select! {
            changed = feed.changed() => if changed.is_err() { return },
            () = frames.closed() => return,
            () = state.closing() => return frames.end(WRITE_LIMIT).await,
        }
        event = feed.borrow_and_update().clone();
    }
}
