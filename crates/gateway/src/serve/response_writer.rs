//! The body of every response that is sent to a client.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full};
use tokio::sync::mpsc;

use super::connection::Serving;
use super::file_download::RecordedDownload;
use crate::proxy::{BodyError, ResponseBody};
use crate::task;

/// The sending end of a body that a task writes. Dropped before [`Frames::end`], it cuts the
/// response.
#[derive(Debug)]
pub(super) struct Frames {
    sender: mpsc::Sender<Result<Frame<Bytes>, BodyError>>,
    ended: Arc<AtomicBool>,
}

/// The receiving end, which hyper polls.
#[derive(Debug)]
pub(super) struct Handed {
    receiver: mpsc::Receiver<Result<Frame<Bytes>, BodyError>>,
    ended: Arc<AtomicBool>,
}

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
    pub(super) fn handed<B>(answer: B, limit: Duration) -> Self
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        BodyError: From<B::Error>,
    {
        let (frames, handed) = Frames::new();
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

// === impl Frames ===

impl Frames {
    pub(super) fn new() -> (Self, Handed) {
        let (sender, receiver) = mpsc::channel(1);
        let ended = Arc::new(AtomicBool::new(false));
        (Self { sender, ended: Arc::clone(&ended) }, Handed { receiver, ended })
    }

    /// Sends a frame. Returns whether the client took the frame before it in time.
    pub(super) async fn send(
        &self,
        frame: Result<Frame<Bytes>, BodyError>,
        limit: Duration,
    ) -> bool {
        matches!(tokio::time::timeout(limit, self.sender.send(frame)).await, Ok(Ok(())))
    }

    /// Sends a frame that may be lost: a client that has not read the last one needs no other.
    pub(super) fn offer(&self, frame: Frame<Bytes>) {
        let _ = self.sender.try_send(Ok(frame));
    }

    /// Resolves when the client has left.
    pub(super) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Marks the end of the body.
    pub(super) fn end(self) {
        self.ended.store(true, Ordering::Release);
    }
}

// === impl Handed ===

impl Handed {
    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let next = ready!(self.receiver.poll_recv(context));
        let cut = next.is_none() && !self.ended.swap(true, Ordering::Acquire);
        Poll::Ready(if cut { Some(Err(BodyError::Client)) } else { next })
    }
}

/// Sends a body, until its end or until the client takes nothing for the limit.
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
        let Some(frame) = frame else { return frames.end() };
        if !frames.send(frame, limit).await {
            return;
        }
    }
}
