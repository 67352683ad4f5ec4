//! `GET /status/stream`: the status each second, as events. An event is made once for all viewers.
//! If no event comes for five seconds, the page says that it has lost the gateway.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response};
use http_body::Frame;

use super::response_writer::Content;
use super::unread_frames::Frames;
use crate::admin::status;
use crate::admin_access::{self, Visitor};
use crate::body_memory::BodyHolder;
use crate::ingress::path::AdminPage;
use crate::reply::{Fault, error, forbid_sniffing};
use crate::state::State;
use crate::task;
use crate::viewers::Viewer;

/// The header by which nginx learns not to buffer.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");
/// How long a viewer may leave an event unread. The next ones come each second.
const READ_LIMIT: Duration = Duration::from_secs(10);

/// Begins a stream for a client that may see it.
pub(super) fn answer(
    state: &Arc<State>,
    visitor: Visitor<'_>,
    peer: Option<IpAddr>,
) -> Response<Content> {
    let refused = |fault: Fault| Content::whole(error::response(&fault.into()));
    if let Err(fault) =
        admin_access::may_see(&state.config.load(), AdminPage::StatusStream, visitor)
    {
        return refused(fault);
    }
    let Some(viewer) = state.status_viewers.join(peer) else {
        return refused(Fault::Overloaded);
    };
    let unread = state.unread_memory.hold_for(BodyHolder::Address(peer));
    let (frames, handed) = Frames::new(unread);
    let mut response = Response::new(Content::Handed(handed));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    forbid_sniffing(headers);
    // A proxy in front must pass each event on at once.
    headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
    task::spawn(send(Arc::clone(state), frames, viewer));
    response
}

/// Sends the present status, and each later one, until the viewer leaves or the process ends.
async fn send(state: Arc<State>, frames: Frames, viewer: Viewer) {
    let mut feed = state.status_feed.subscribe();
    let mut event: Bytes = status::event(&state);
    loop {
        // A viewer that does not read is cut off: its place is worth more to another.
        if !frames.deliver(Frame::data(event), READ_LIMIT).await {
            return;
        }
        tokio::select! {
            changed = feed.changed() => if changed.is_err() { return },
            () = frames.closed() => return,
            () = viewer.displaced() => return,
            () = state.closing() => {
                frames.end(READ_LIMIT).await;
                return;
            }
        }
        event = feed.borrow_and_update().clone();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::config::Config;

    /// Sends an event each second to a viewer for a minute; returns whether it was cut off.
    async fn is_cut_off(reads: bool) -> bool {
        let state = State::new(Config::default());
        let viewer = state.status_viewers.join(None).unwrap();
        let (frames, mut handed) = Frames::new(state.unread_memory.hold());
        let events = async {
            for _ in 0..60 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                state.status_feed.send_replace(Bytes::from_static(b"data: {}\n\n"));
            }
        };
        let reading = async {
            loop {
                match reads {
                    true => _ = poll_fn(|context| handed.poll_frame(context)).await,
                    false => std::future::pending::<()>().await,
                }
            }
        };
        tokio::select! {
            () = send(Arc::clone(&state), frames, viewer) => true,
            () = reading => false,
            () = events => false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn m03_a_viewer_that_does_not_read_is_cut_off() {
        assert!(is_cut_off(false).await, "it must give its place back");
        assert!(!is_cut_off(true).await);
    }
}
