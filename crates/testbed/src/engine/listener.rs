//! The engine's socket: connections come in here, and are refused while the server is gone.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::connection::{Connection, ConnectionFault, Ending};
use super::handler::{Server, respond};

/// Connections that may wait to be taken.
const BACKLOG: u32 = 4096;

/// How long to wait when no further connection can be taken.
const BREATH: Duration = Duration::from_millis(10);

/// Until when the server is gone.
type Gone = watch::Receiver<Option<Instant>>;

/// Serves until it is dropped.
pub(super) async fn serve(server: Arc<Server>, mut listener: TcpListener) -> io::Result<()> {
    let address = listener.local_addr()?;
    let mut gone = server.control.door();
    loop {
        tokio::select! {
            connection = listener.accept() => match connection {
                Ok((stream, _)) => drop(tokio::spawn(talk(server.clone(), stream))),
                // Too many files are open; some will be closed.
                Err(_) => sleep(BREATH).await,
            },
            () = until_gone(&mut gone) => {
                drop(listener);
                listener = come_back(address, &mut gone).await?;
            }
        }
    }
}

/// A socket that can be bound again at once.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

pub(super) fn listen(socket: TcpSocket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)
}

/// Holds the port without listening, so that connections are refused and no other process takes it.
async fn come_back(address: SocketAddr, gone: &mut Gone) -> io::Result<TcpListener> {
    let placeholder = bind(address)?;
    loop {
        let until = *gone.borrow_and_update();
        let Some(until) = until.filter(|_| is_gone(&until)) else { break };
        tokio::select! {
            () = sleep_until(until) => {}
            changed = gone.changed() => if changed.is_err() { break },
        }
    }
    listen(placeholder)
}

async fn until_gone(gone: &mut Gone) {
    // It cannot fail while the server, which holds the other end, is here.
    let _ = gone.wait_for(is_gone).await;
}

fn is_gone(until: &Option<Instant>) -> bool {
    until.is_some_and(|until| until > Instant::now())
}

/// One connection, until it ends, is ended by a fault, or the server is gone.
async fn talk(server: Arc<Server>, stream: TcpStream) {
    server.control.connected();
    let mut gone = server.control.door();
    let fault_line = Arc::new(ConnectionFault::default());
    let killed = async {
        until_gone(&mut gone).await;
        fault_line.set(Ending::Reset);
    };
    // Without it the answer is only slower.
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Connection::new(stream, fault_line.clone()));
    let service = service_fn(|request| {
        let (server, fault_line) = (server.clone(), fault_line.clone());
        async move { Ok::<_, Infallible>(respond(server, fault_line, request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    tokio::select! {
        // How a client left is its own affair; its visits have ended with it.
        _ = builder.serve_connection(io, service) => {}
        () = fault_line.ended() => {}
        () = killed => {}
    }
}
