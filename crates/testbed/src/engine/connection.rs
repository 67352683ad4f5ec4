//! A client's connection that can end badly.
//!
//! HTTP libraries take care that every answer is well formed; some faults need the opposite. What
//! must leave last is written when the connection is dropped, below HTTP.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// How a connection ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ending {
    /// As HTTP says.
    #[default]
    Clean,
    /// By a reset.
    Reset,
    /// After these bytes.
    After(&'static [u8]),
}

/// How requests on a connection end it.
#[derive(Debug, Default)]
pub(super) struct ConnectionFault {
    ending: Mutex<Ending>,
    cut: Notify,
}

/// A connection with its fault_line.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    fault_line: Arc<ConnectionFault>,
}

// === impl ConnectionFault ===

impl ConnectionFault {
    /// Ends the connection; nothing that awaits this goes on.
    pub(super) async fn end<T>(&self, ending: Ending) -> T {
        self.set(ending);
        self.cut.notify_one();
        std::future::pending().await
    }

    pub(super) fn set(&self, ending: Ending) {
        *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = ending;
    }

    /// Waits until a request ends the connection.
    pub(super) async fn ended(&self) {
        self.cut.notified().await;
    }
}

// === impl Connection ===

impl Connection {
    pub(super) fn new(stream: TcpStream, fault_line: Arc<ConnectionFault>) -> Self {
        Self { stream, fault_line }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let ending = *self.fault_line.ending.lock().unwrap_or_else(PoisonError::into_inner);
        // A client that is gone already cannot be told anything worse.
        let _ = match ending {
            Ending::Clean => Ok(()),
            Ending::Reset => self.stream.set_zero_linger(),
            Ending::After(bytes) => self.stream.try_write(bytes).map(|_| ()),
        };
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
