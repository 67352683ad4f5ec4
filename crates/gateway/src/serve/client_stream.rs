//! The stream of a client's connection, with TLS or without.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncBufRead as _, AsyncWrite as _, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::socket::{MaybeTls, Socket, TlsSession};

/// See the module's description.
pub(super) type ClientStream = MaybeTls<TlsStream<Socket>>;

/// What a client has sent that was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peeked {
    /// Some bytes.
    More,
    /// Nothing, and it has closed the connection, or the connection broke.
    End,
}

/// A response that is cut ends without a word, so that its client sees the cut.
impl TlsSession for TlsStream<Socket> {}

// === impl ClientStream ===

impl ClientStream {
    /// What comes next. Takes nothing away.
    pub(super) fn poll_peek(&mut self, context: &mut Context<'_>) -> Poll<Peeked> {
        let is_end = match self {
            Self::Plain(socket) => {
                let peeked = ready!(socket.poll_peek(context, &mut ReadBuf::new(&mut [0])));
                matches!(peeked, Ok(0) | Err(_))
            }
            Self::Tls(stream) => {
                let filled = ready!(Pin::new(stream.as_mut()).poll_fill_buf(context));
                matches!(filled, Ok([]) | Err(_))
            }
        };
        Poll::Ready(if is_end { Peeked::End } else { Peeked::More })
    }

    /// Writes as much as the system takes at once.
    pub(super) fn try_write(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(socket) => _ = socket.try_write(bytes),
            Self::Tls(stream) => {
                let mut context = Context::from_waker(Waker::noop());
                let _ = Pin::new(stream.as_mut()).poll_write(&mut context, bytes);
                let _ = Pin::new(stream.as_mut()).poll_flush(&mut context);
            }
        }
    }
}
