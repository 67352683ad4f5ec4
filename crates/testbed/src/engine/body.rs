//! The body of an answer: there at once, or piece by piece as the tokens come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// See the module's description.
#[derive(Debug)]
pub(super) enum Body {
    /// All of it.
    Whole(Option<Bytes>),
    /// The pieces of a channel; its sender notices when the client is gone.
    Pieces(mpsc::Receiver<Bytes>),
}

/// Pieces that may wait for a slow client before the sender waits.
const AHEAD: usize = 16;

// === impl Body ===

impl Body {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    pub(super) fn pieces() -> (mpsc::Sender<Bytes>, Self) {
        let (sender, receiver) = mpsc::channel(AHEAD);
        (sender, Self::Pieces(receiver))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut *self {
            Self::Whole(bytes) => bytes.take(),
            Self::Pieces(receiver) => match receiver.poll_recv(context) {
                Poll::Ready(bytes) => bytes,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Pieces(_) => SizeHint::default(),
        }
    }
}
