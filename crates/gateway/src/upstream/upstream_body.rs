//! The body of a backend's response, over either version of HTTP.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::http1::{ExchangeError, Framing, Http1};
use super::pool::Lease;

/// A body that is being read. Dropped before its end, it closes its connection or stream.
#[derive(Debug)]
pub(crate) enum UpstreamBody {
    Http1 {
        /// Taken when the connection went back to the pool or was closed.
        connection: Option<Box<Http1>>,
        framing: Framing,
        lease: Lease,
    },
    /// A stream of a shared connection.
    Http2(Incoming),
}

// === impl UpstreamBody ===

impl UpstreamBody {
    pub(crate) fn http1(connection: Box<Http1>, framing: Framing, lease: Lease) -> Self {
        Self::Http1 { connection: Some(connection), framing, lease }
    }

    /// What has come of it with the head, with the framing of its chunks; nothing over HTTP/2.
    pub(crate) fn begun(&self) -> &[u8] {
        match self {
            Self::Http1 { connection: Some(connection), .. } => connection.begun(),
            _ => &[],
        }
    }

    /// Returns the connection to the pool after the last byte, if it can serve again.
    pub(crate) fn give_back(&mut self) {
        if let Self::Http1 { connection, lease, .. } = self
            && let Some(mut connection) = connection.take()
            && connection.may_serve_again()
        {
            connection.shrink();
            lease.give_back(connection);
        }
    }

    /// Closes the connection.
    pub(crate) fn close(&mut self) {
        if let Self::Http1 { connection, .. } = self {
            *connection = None;
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = ExchangeError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        match self.get_mut() {
            Self::Http1 { connection: Some(connection), framing, .. } => {
                connection.poll_body(context, framing).map(Result::transpose)
            }
            Self::Http1 { connection: None, .. } => Poll::Ready(None),
            Self::Http2(incoming) => {
                Pin::new(incoming).poll_frame(context).map_err(ExchangeError::from)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1 { framing, .. } => framing.is_over(),
            Self::Http2(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1 { framing, .. } => framing.size_hint(),
            Self::Http2(incoming) => incoming.size_hint(),
        }
    }
}
