//! X01: connections to servers, and whether they are idle.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const LIMIT: Duration = Duration::from_secs(5);

async fn connected(address: SocketAddr) -> Result<Connection, ConnectError> {
    let place = (&*address.ip().to_string(), address.port());
    connect(ServerAddress { place, tls: None }, LIMIT).await
}

async fn pair() -> (Connection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connection = connected(listener.local_addr().unwrap()).await.unwrap();
    (connection, listener.accept().await.unwrap().0)
}

/// Waits until the connection has something to read, or its end.
async fn readable(connection: &Connection) {
    let Connection::Plain(socket) = connection else { panic!("there is no TLS here") };
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
    let error = connected(address).await.unwrap_err();
    assert!(error.is_refused(), "{error}");
}

/// A name with an empty part is no name, so no DNS server is asked.
#[tokio::test]
async fn m03_a_name_without_an_address_is_told_from_a_server_that_refuses() {
    let unnamed = ServerAddress { place: ("no..name", 80), tls: None };
    let error = connect(unnamed, Duration::from_secs(60)).await.unwrap_err();
    assert!(error.is_unresolved() && !error.is_refused(), "{error}");
    let closed = ServerAddress { place: ("127.0.0.1", 1), tls: None };
    let error = connect(closed, Duration::from_secs(60)).await.unwrap_err();
    assert!(error.is_refused() && !error.is_unresolved(), "{error}");
}
