//! The body of every response that is sent to a client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};

use super::connection::Serving;
use super::file_download::RecordedDownload;
use super::unread_frames::{Frames, Handed};
use crate::body_memory::BodyMemory;
use crate::proxy::{BodyError, ResponseBody};
use crate::task;

/// A response body. While it exists, its connection counts as busy.
#[derive(Debug)]
pub(super) struct Reply {
    content: Content,
    _serving: Serving,
}

/// The source of a body.
#[derive(Debug)]
pub(super) enum Content {
    /// Built by the gateway.
    Whole(Full<Bytes>),
    /// A backend's response.
    Relayed(Box<ResponseBody>),
    /// A stored file.
    Stored(RecordedDownload),
    /// Written by a task.
    Handed(Handed),
}

// === impl Reply ===

impl Reply {
    pub(super) fn new(response: Response<Content>, serving: Serving) -> Response<Self> {
        if let Content::Handed(handed) = response.body() {
            handed.attach(serving.connection());
        }
        response.map(|content| Self { content, _serving: serving })
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
            Content::Stored(file) => Pin::new(file).poll_frame(context).map_err(BodyError::from),
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
    pub(super) fn handed<B>(answer: B, limit: Duration, unread: &Arc<BodyMemory>) -> Self
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
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

/// Sends a body, until its end or until the client leaves too much of it unread for the limit.
pub(super) async fn hand_over<B>(mut answer: B, frames: Frames, limit: Duration)
where
    B: Body<Data = Bytes> + Unpin,
    BodyError: From<B::Error>,
{
    loop {
        let frame = tokio::select! {
            frame = answer.frame() => frame.map(|frame| frame.map_err(BodyError::from)),
            () = frames.closed() => return,
        };
        let Some(frame) = frame else {
            drop(answer);
            return frames.end(limit).await;
        };
        if !frames.send(frame, limit).await {
            return;
        }
    }
}
