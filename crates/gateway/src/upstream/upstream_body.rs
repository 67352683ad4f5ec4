//! The body of a backend's answer, wherever it comes from.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::http1::{ExchangeError, Framing, Http1};
use super::pool::Lease;

/// See the module's description.
#[derive(Debug)]
pub(crate) enum UpstreamBody {
    /// A connection of its own.
    GatewayIdentity(Inflow),
    /// A stream of a shared one.
    Shared(Incoming),
}

/// A body that is being read. Dropped before its end it closes the connection.
#[derive(Debug)]
pub(crate) struct Inflow {
    link: Option<Box<Http1>>,
    framing: Framing,
    lease: Lease,
}

// === impl UpstreamBody ===

impl UpstreamBody {
    pub(crate) fn own(link: Box<Http1>, framing: Framing, lease: Lease) -> Self {
        Self::GatewayIdentity(Inflow { link: Some(link), framing, lease })
    }

    /// All has been read: the connection may serve again, if it can.
    pub(crate) fn give_back(&mut self) {
        let Self::GatewayIdentity(inflow) = self else { return };
        if let Some(mut link) = inflow.link.take()
            && link.may_serve_again()
        {
            link.shrink();
            inflow.lease.give_back(link);
        }
    }

    /// It is of no use any more.
    pub(crate) fn close(&mut self) {
        if let Self::GatewayIdentity(inflow) = self {
            inflow.link = None;
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
            Self::GatewayIdentity(inflow) => inflow.poll_frame(context),
            Self::Shared(incoming) => {
                Pin::new(incoming).poll_frame(context).map_err(ExchangeError::from)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::GatewayIdentity(inflow) => inflow.framing.is_over(),
            Self::Shared(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::GatewayIdentity(inflow) => inflow.framing.size_hint(),
            Self::Shared(incoming) => incoming.size_hint(),
        }
    }
}

// === impl Inflow ===

impl Inflow {
    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        let Some(link) = &mut self.link else { return Poll::Ready(None) };
        link.poll_body(context, &mut self.framing).map(Result::transpose)
    }
}
