//! The one way out: connects to a server, for the data path, for probes and for plain calls.
//!
//! A [`Connection`] is read and written; nothing above it knows that a TCP socket is below. TLS to
//! backends belongs here: one more variant of [`Connection`], made by [`connect`] after the TCP
//! connection and before anything else is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, ToSocketAddrs};

use crate::socket::Socket;

/// After this long without a packet the system probes whether the server is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A connection to a server.
#[derive(Debug)]
pub(crate) enum Connection {
    /// Plain TCP.
    Plain(Socket),
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// The system could not connect.
    Io(io::Error),
    /// There was no connection within this time.
    TimedOut(Duration),
    /// The server does not speak HTTP/2.
    Handshake(hyper::Error),
}

/// Connects to a server within the limit.
pub(crate) async fn connect(
    address: impl ToSocketAddrs,
    limit: Duration,
) -> Result<Connection, ConnectError> {
    let connecting = TcpStream::connect(address);
    let stream = tokio::time::timeout(limit, connecting)
        .await
        .map_err(|_| ConnectError::TimedOut(limit))?
        .map_err(ConnectError::Io)?;
    // A connection without it works; only a server that vanished is noticed later.
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    Ok(Connection::Plain(Socket::new(stream)))
}

// === impl Connection ===

impl Connection {
    /// Whether the connection is open and the server has sent nothing on it that could be read.
    ///
    /// It polls a read instead of looking at the socket: below TLS, bytes on the socket may be a
    /// session ticket, which is no data. The poll wakes no task; the next user polls again.
    pub(crate) fn is_idle(&mut self) -> bool {
        let mut byte = [0];
        let mut context = Context::from_waker(Waker::noop());
        let read = Pin::new(self).poll_read(&mut context, &mut ReadBuf::new(&mut byte));
        read.is_pending()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
        }
    }
}

// === impl ConnectError ===

impl ConnectError {
    /// Whether no server listens at the address.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::TimedOut(limit) => write!(f, "no connection within {} s", limit.as_secs_f64()),
            Self::Handshake(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {
    /// The display is that of the cause, so the source is the cause's own.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => error.source(),
            Self::TimedOut(_) => None,
            Self::Handshake(error) => error.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    async fn pair() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connection = connect(listener.local_addr().unwrap(), LIMIT).await.unwrap();
        (connection, listener.accept().await.unwrap().0)
    }

    /// Waits until the connection has something to read, or its end.
    async fn readable(connection: &Connection) {
        let Connection::Plain(socket) = connection;
        std::future::poll_fn(|context| {
            socket.poll_peek(context, &mut ReadBuf::new(&mut [0])).map(drop)
        })
        .await;
    }

    #[tokio::test]
    async fn x01_an_open_connection_without_data_is_idle_and_still_usable() {
        let (mut connection, mut server) = pair().await;
        assert!(connection.is_idle());
        assert!(connection.is_idle(), "asking changes nothing");
        server.write_all(b"x").await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), b'x', "a read after it is woken");
        assert!(connection.is_idle());
    }

    #[tokio::test]
    async fn x01_a_connection_that_was_closed_or_has_data_is_not_idle() {
        let (mut connection, server) = pair().await;
        drop(server);
        readable(&connection).await;
        assert!(!connection.is_idle());
        let (mut connection, mut server) = pair().await;
        server.write_all(b"unasked").await.unwrap();
        readable(&connection).await;
        assert!(!connection.is_idle());
    }

    #[tokio::test]
    async fn x01_a_refused_connection_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let error = connect(address, LIMIT).await.unwrap_err();
        assert!(error.is_refused(), "{error}");
    }
}
