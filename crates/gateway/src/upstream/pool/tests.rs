//! X01: connections are kept for who comes next, and not for ever.

use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::backend::Endpoint;
use crate::config::settings::{BackendKind, BackendSpec};
use crate::socket::Socket;
use crate::upstream::connect::Connection;

const BACKEND: BackendId = BackendId(1);

fn pool() -> Arc<Pool> {
    Pool::new(&BackendFiles::new(2))
}

async fn connection(listener: &TcpListener) -> (Box<Http1>, TcpStream) {
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (other, _) = listener.accept().await.unwrap();
    (Box::new(Http1::new(Connection::Plain(Socket::new(stream)))), other)
}

#[tokio::test]
async fn x01_a_connection_that_rests_for_long_is_let_go() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool = pool();
    let lease = Lease::new(&pool, BACKEND);
    let (resting, _other) = connection(&listener).await;
    lease.give_back(resting);
    for _ in 0..RESTS_MAX {
        pool.tidy(|_| true);
    }
    let taken = pool.idle(BACKEND).expect("it is still kept");
    lease.give_back(taken);
    for _ in 0..RESTS_MAX {
        pool.tidy(|_| true);
    }
    assert_eq!(pool.kept()[&BACKEND].idle.len(), 1, "it was used in between");
    pool.tidy(|_| true);
    assert!(pool.idle(BACKEND).is_none());
}

#[tokio::test]
async fn x01_connections_to_a_backend_that_is_gone_are_let_go() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pool = pool();
    let (idle, _other) = connection(&listener).await;
    Lease::new(&pool, BACKEND).give_back(idle);
    pool.tidy(|_| false);
    assert!(pool.kept().is_empty());
}

#[tokio::test]
async fn x01_a_backend_without_a_port_is_at_that_of_http() {
    let known = BackendSpec::new("a".into(), "http://127.0.0.1".into());
    let spec = BackendSpec { kind: BackendKind::Generic, ..known };
    let endpoint = Endpoint::new(BACKEND, &spec).unwrap();
    assert_eq!(endpoint.place(), ("127.0.0.1", 80));
    // Whether a server is there is not ours to say.
    let found = pool().fresh(endpoint.server(), Duration::from_secs(5), Band::Normal).await;
    assert!(matches!(found, Ok(_) | Err(ConnectError::Io(_))), "{found:?}");
}
