//! The body of every response that is sent to a client.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};

use super::connection::Serving;
use super::file_download::RecordedDownload;
use super::unread_frames::{Frames, Handed, Reading};
use crate::body_memory::Reservation;
use crate::proxy::{BodyError, ResponseBody};
use crate::request::DeliveryRecord;
use crate::task;

/// A response body. While it exists, its connection counts as busy.
#[derive(Debug)]
pub(super) struct Reply {
    content: Content,
    serving: Serving,
}

/// A body whose request is logged when its client has read it.
pub(super) trait Delivered {
    /// Lets the log wait until [`Self::take_record`].
    fn await_delivery(&mut self);

    /// The record of a body that has come to its end.
    fn take_record(&mut self) -> Option<DeliveryRecord>;

    /// The client left too much of the body unread.
    fn stalled(&mut self);
}

/// The source of a body.
#[derive(Debug)]
pub(super) enum Content {
    /// Built by the gateway.
    Whole(Full<Bytes>),
    /// A backend's response.
    Relayed(Box<ResponseBody>),
    /// A stored file. It is boxed because it is large and rare.
    Stored(Box<RecordedDownload>),
    /// Written by a task.
    Handed(Handed),
}

// === impl Reply ===

impl Reply {
    pub(super) fn new(response: Response<Content>, serving: Serving) -> Response<Self> {
        if let Content::Handed(handed) = response.body() {
            handed.attach();
        }
        response.map(|content| Self { content, serving })
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.get_mut().content {
            Content::Whole(whole) => {
                Pin::new(whole).poll_frame(context).map_err(|never| match never {})
            }
            Content::Relayed(answer) => Pin::new(&mut **answer).poll_frame(context),
            Content::Stored(file) => {
                Pin::new(&mut **file).poll_frame(context).map_err(BodyError::from)
            }
            Content::Handed(handed) => handed.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(whole) => whole.is_end_stream(),
            Content::Relayed(answer) => answer.is_end_stream(),
            Content::Stored(file) => file.is_end_stream(),
            Content::Handed(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size()
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        // Over HTTP/1 the socket notices that the client does not read.
        if self.serving.connection().is_stalled() {
            match &mut self.content {
                Content::Relayed(answer) => answer.stalled(),
                Content::Stored(file) => file.stalled(),
                Content::Whole(_) | Content::Handed(_) => {}
            }
        }
    }
}

// === impl Content ===

impl Content {
    /// The length, as far as it is known.
    pub(super) fn size(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Relayed(answer) => answer.size_hint(),
            Self::Stored(file) => file.size_hint(),
            Self::Handed(_) => SizeHint::default(),
        }
    }

    /// A body for one of many streams on a connection. hyper does not poll such a body while its
    /// client reads nothing, so no timer of the body would run. A task polls it and gives up in
    /// time.
    pub(super) fn handed<B>(answer: B, limit: Duration, unread: Reservation) -> Self
    where
        B: Body<Data = Bytes> + Delivered + Send + Unpin + 'static,
        BodyError: From<B::Error>,
    {
        let (frames, handed) = Frames::new(unread);
        task::spawn(hand_over(answer, frames, limit));
        Self::Handed(handed)
    }

    pub(super) fn whole(response: Response<Full<Bytes>>) -> Response<Self> {
        response.map(Self::Whole)
    }

    /// The response to HEAD: its length is told, its body is not sent. Over HTTP/2 hyper would send
    /// a body here. A backend's response to HEAD has no body, and its length is in its head.
    pub(super) fn head_only(mut response: Response<Self>) -> Response<Self> {
        if matches!(response.body(), Self::Relayed(_) | Self::Handed(_)) {
            return response;
        }
        if let Some(length) = response.body().size().exact() {
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        response.map(|_| Self::Whole(Full::default()))
    }
}

/// Logs a response by what its client did. The drop of a record says that the client left.
fn close(record: DeliveryRecord, reading: Reading) {
    match reading {
        Reading::Reads => record.succeed(),
        Reading::Stalled => record.stall(),
        Reading::Left => drop(record),
    }
}

/// Sends a body, until its end or until the client leaves too much of it unread for the limit.
pub(super) async fn hand_over<B>(mut answer: B, frames: Frames, limit: Duration)
where
    B: Body<Data = Bytes> + Delivered + Unpin,
    BodyError: From<B::Error>,
{
    answer.await_delivery();
    loop {
        let frame = tokio::select! {
            frame = answer.frame() => frame.map(|frame| frame.map_err(BodyError::from)),
            () = frames.closed() => return,
        };
        let Some(frame) = frame else {
            let record = answer.take_record();
            drop(answer);
            let reading = frames.end(limit).await;
            return record.map_or((), |record| close(record, reading));
        };
        match frames.send(frame, limit).await {
            Reading::Reads => {}
            Reading::Stalled => return answer.stalled(),
            Reading::Left => return,
        }
    }
}

// === impl ResponseBody ===

impl Delivered for Box<ResponseBody> {
    fn await_delivery(&mut self) {
        ResponseBody::await_delivery(self);
    }

    fn take_record(&mut self) -> Option<DeliveryRecord> {
        ResponseBody::take_record(self)
    }

    fn stalled(&mut self) {
        ResponseBody::stalled(self);
    }
}
