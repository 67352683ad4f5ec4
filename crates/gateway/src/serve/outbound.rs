//! The body of an answer, whatever it comes from.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use tokio::sync::mpsc;

use super::connection::Serving;
use crate::relay::{Answer, Broken};

/// What a client is sent. As long as it is there, the connection is serving.
#[derive(Debug)]
pub(super) struct Reply {
    content: Content,
    _serving: Serving,
}

/// Where the bytes come from.
#[derive(Debug)]
pub(super) enum Content {
    /// From here.
    Whole(Full<Bytes>),
    /// From a backend.
    Relayed(Box<Answer>),
    /// From a task that tells the client's place until it can relay.
    Told(mpsc::Receiver<Result<Frame<Bytes>, Broken>>),
}

// === impl Reply ===

impl Reply {
    pub(super) fn new(response: Response<Content>, serving: Serving) -> Response<Self> {
        response.map(|content| Self { content, _serving: serving })
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.get_mut().content {
            Content::Whole(whole) => {
                Pin::new(whole).poll_frame(context).map_err(|never| match never {})
            }
            Content::Relayed(answer) => Pin::new(&mut **answer).poll_frame(context),
            Content::Told(frames) => frames.poll_recv(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(whole) => whole.is_end_stream(),
            Content::Relayed(answer) => answer.is_end_stream(),
            Content::Told(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(whole) => whole.size_hint(),
            Content::Relayed(answer) => answer.size_hint(),
            Content::Told(_) => SizeHint::default(),
        }
    }
}

// === impl Content ===

impl Content {
    pub(super) fn whole(response: Response<Full<Bytes>>) -> Response<Self> {
        response.map(Self::Whole)
    }
}
