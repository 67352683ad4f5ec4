//! A stream of bytes whose writes leave together.
//!
//! The library for HTTP/2 writes each frame of a quarter of a kilobyte with a call of the system,
//! which costs more than all else about a small message. One poll of a connection writes the frames
//! of many calls. So writes are collected, and leave when that poll has ended.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that are collected. A larger write goes to the stream itself.
const COLLECTED_MAX: usize = 16 << 10;

/// See the module's description. The connection has one of two clones; the other one sends.
#[derive(Debug)]
pub(super) struct Gathered<S>(Arc<Mutex<Inner<S>>>);

#[derive(Debug)]
struct Inner<S> {
    stream: S,
    /// What was collected, and how much of it has been sent.
    unsent: Vec<u8>,
    sent: usize,
}

// === impl Gathered ===

impl<S> Gathered<S> {
    fn inner(&self) -> MutexGuard<'_, Inner<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(Inner { stream, unsent: Vec::new(), sent: 0 })))
    }

    /// Drives a connection over the other clone to its end, or until nothing can be sent any more.
    pub(super) async fn drive<F: Future>(&self, mut connection: Pin<&mut F>) {
        std::future::poll_fn(|context| {
            let ended = connection.as_mut().poll(context).is_ready();
            let broken = matches!(self.inner().poll_send(context), Poll::Ready(Err(_)));
            if ended || broken { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl<S> Clone for Gathered<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

// === impl Inner ===

impl<S: AsyncWrite + Unpin> Inner<S> {
    /// Sends what was collected.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest @ [_, ..]) = self.unsent.get(self.sent..) {
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        self.unsent.clear();
        self.sent = 0;
        Pin::new(&mut self.stream).poll_flush(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.inner();
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if inner.unsent.len() + length > COLLECTED_MAX {
            ready!(inner.poll_send(context))?;
        }
        if length > COLLECTED_MAX {
            return Pin::new(&mut inner.stream).poll_write_vectored(context, slices);
        }
        slices.iter().for_each(|slice| inner.unsent.extend_from_slice(slice));
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// [`Gathered::drive`] sends.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner();
        ready!(inner.poll_send(context))?;
        Pin::new(&mut inner.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// Takes so many writes of so many bytes, and notes them.
    #[derive(Debug, Default)]
    struct Stream {
        room: usize,
        most: usize,
        writes: Vec<Vec<u8>>,
    }

    impl AsyncWrite for Stream {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let Some(room) = self.room.checked_sub(1) else { return Poll::Pending };
            let taken = bytes.len().min(self.most);
            self.room = room;
            self.writes.push(bytes[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn gathered(room: usize, most: usize) -> Gathered<Stream> {
        Gathered::new(Stream { room, most, writes: Vec::new() })
    }

    /// What one poll of a connection that writes these pieces sends.
    fn sent(to: &Gathered<Stream>, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut stream = to.clone();
        let mut connection = pin!(async {
            for piece in pieces {
                stream.write_all(piece).await.unwrap();
                stream.flush().await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let mut driven = pin!(to.drive(connection.as_mut()));
        assert!(driven.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::mem::take(&mut to.inner().stream.writes)
    }

    #[test]
    fn x02_what_one_poll_writes_leaves_in_one_write() {
        let to = gathered(9, COLLECTED_MAX);
        assert_eq!(sent(&to, &[b"one ", b"two ", b"three"]), [b"one two three"]);
        assert!(sent(&to, &[]).is_empty());
    }

    #[test]
    fn x02_what_the_stream_does_not_take_leaves_later_and_in_order() {
        let to = gathered(1, 4);
        assert_eq!(sent(&to, &[b"one ", b"two "]), [b"one "]);
        to.inner().stream.room = 9;
        assert_eq!(sent(&to, &[b"three"]), [&b"two "[..], b"thre", b"e"]);
    }

    #[test]
    fn x02_a_large_piece_is_not_collected_and_does_not_overtake() {
        let large = [b'x'; COLLECTED_MAX + 1];
        let to = gathered(9, large.len());
        assert_eq!(sent(&to, &[b"first", &large, b"last"]), [&b"first"[..], &large, b"last"]);
    }

    #[test]
    fn x02_a_full_stream_holds_its_writers_back() {
        let to = gathered(0, 1);
        let half = [b'x'; COLLECTED_MAX / 2 + 1];
        assert!(sent(&to, &[&half, &half]).is_empty());
        assert_eq!(to.inner().unsent.len(), half.len());
    }

    #[test]
    fn x02_a_connection_that_ends_sends_what_it_wrote() {
        let to = gathered(9, 99);
        let mut stream = to.clone();
        let mut connection = pin!(async {
            stream.write_all(b"bye").await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let mut driven = pin!(to.drive(connection.as_mut()));
        assert!(driven.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(to.inner().stream.writes, [b"bye"]);
    }
}
