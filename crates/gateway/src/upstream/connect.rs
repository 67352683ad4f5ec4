//! Makes every connection to a server: for the data path, for probes and for plain calls.
//!
//! A [`Connection`] is read and written; nothing above it knows whether TLS is below. [`connect`]
//! makes the TLS connection after the TCP connection and before anything else is sent.
//!
//! TLS tells an end from a cut: a server that ends a connection says so, and an end without that
//! word is an error of the read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::socket::{MaybeTls, Socket, TlsSession};
use crate::tls::{TlsClient, TlsError};

/// After this long without a packet the system probes whether the server is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The errors of the system for a process, and for a machine, without a free file.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// A server to connect to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerAddress<'a> {
    /// Host and port.
    pub(crate) place: (&'a str, u16),
    /// How TLS is spoken to it, if it is.
    pub(crate) tls: Option<&'a TlsClient>,
}

/// A connection to a server.
pub(crate) type Connection = MaybeTls<TlsStream<Socket>>;

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// The system could not connect.
    Io(io::Error),
    /// There was no connection within this time.
    TimedOut(Duration),
    /// There is no TLS connection.
    Tls(TlsError),
    /// The server does not speak HTTP/2.
    Handshake(hyper::Error),
    /// All files that connections may take were in use.
    NoFile,
}

/// Connects to a server within the limit.
pub(crate) async fn connect(
    server: ServerAddress<'_>,
    limit: Duration,
) -> Result<Connection, ConnectError> {
    let connecting = tokio::time::timeout(limit, open(server));
    connecting.await.unwrap_or(Err(ConnectError::TimedOut(limit)))
}

async fn open(server: ServerAddress<'_>) -> Result<Connection, ConnectError> {
    let stream = TcpStream::connect(server.place).await.map_err(ConnectError::Io)?;
    // A connection without it works; only a server that vanished is noticed later.
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    let socket = Socket::new(stream);
    let Some(tls) = server.tls else { return Ok(Connection::Plain(socket)) };
    let stream = Box::pin(tls.handshake(socket)).await.map_err(ConnectError::Tls)?;
    Ok(Connection::Tls(Box::new(stream)))
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

impl TlsSession for TlsStream<Socket> {
    /// Says the end of the connection, as far as the system takes it at once. A server would log
    /// an end without it as a cut.
    fn before_drop(&mut self) {
        let (socket, session) = self.get_mut();
        session.send_close_notify();
        let mut bytes = Vec::new();
        if session.write_tls(&mut bytes).is_ok() {
            let _ = socket.try_write(&bytes);
        }
    }
}

// === impl ConnectError ===

impl ConnectError {
    /// Whether no server listens at the address.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Whether the process, or the system, may open no further file. That says nothing about the
    /// server.
    pub(crate) fn is_without_file(&self) -> bool {
        let code = match self {
            Self::NoFile => return true,
            Self::Io(error) => error.raw_os_error(),
            _ => None,
        };
        matches!(code, Some(EMFILE | ENFILE))
    }

    /// Whether the name of the server has no address. The standard library has no kind for it.
    pub(crate) fn is_unresolved(&self) -> bool {
        let lookup = "failed to lookup address";
        matches!(self, Self::Io(error) if error.to_string().starts_with(lookup))
    }
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::TimedOut(limit) => write!(f, "no connection within {} s", limit.as_secs_f64()),
            Self::Tls(error) => error.fmt(f),
            Self::Handshake(error) => error.fmt(f),
            Self::NoFile => f.write_str("the gateway may open no further file"),
        }
    }
}

impl std::error::Error for ConnectError {
    /// The display is that of the cause, so the source is the cause's own.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => error.source(),
            Self::TimedOut(_) | Self::NoFile => None,
            Self::Tls(error) => error.source(),
            Self::Handshake(error) => error.source(),
        }
    }
}

#[cfg(test)]
mod tests;
