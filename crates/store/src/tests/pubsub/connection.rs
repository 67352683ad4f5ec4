//! gRPC without TLS to the fake server, with as much of the protocol as the calls need.

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::{CallError, CallFuture, PubSubCalls};

/// A connection, made with the first call.
#[derive(Debug)]
pub(super) struct Connection {
    address: String,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

/// A connection where one call fails about one topic or subscription.
#[derive(Debug)]
pub(super) struct Refusing {
    pub(super) connection: Connection,
    pub(super) method: &'static str,
    pub(super) about: &'static str,
    pub(super) code: u32,
}

// === impl Connection ===

impl Connection {
    pub(super) fn to(address: &str) -> Self {
        Self { address: address.to_owned(), sender: Mutex::default() }
    }

    async fn sender(&self) -> SendRequest<Full<Bytes>> {
        let mut sender = self.sender.lock().await;
        if let Some(open) = &*sender {
            return open.clone();
        }
        let stream = TokioIo::new(TcpStream::connect(&self.address).await.unwrap());
        let (open, connection) = handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender.insert(open).clone()
    }
}

impl PubSubCalls for Connection {
    fn call(&self, method: &'static str, message: Bytes, _limit: Duration) -> CallFuture<'_> {
        Box::pin(async move {
            let mut framed = BytesMut::new();
            framed.put_u8(0);
            framed.put_u32(u32::try_from(message.len()).unwrap());
            framed.extend_from_slice(&message);
            let request = Request::post(format!("http://{}{method}", self.address))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(Full::new(framed.freeze()))
                .unwrap();
            let response = self.sender().await.send_request(request).await.unwrap();
            let (head, body) = response.into_parts();
            let body = body.collect().await.unwrap();
            outcome(body.trailers().unwrap_or(&head.headers))?;
            Ok(body.to_bytes().slice(5..))
        })
    }
}

// === impl Refusing ===

impl PubSubCalls for Refusing {
    fn call(&self, method: &'static str, message: Bytes, limit: Duration) -> CallFuture<'_> {
        let about = self.about.as_bytes();
        let is_about = message.windows(about.len()).any(|part| part == about);
        if is_about && method.ends_with(self.method) {
            let text = format!("the test refuses {}", self.about);
            return Box::pin(async { Err(CallError { code: self.code, text }) });
        }
        self.connection.call(method, message, limit)
    }
}

fn outcome(trailers: &HeaderMap) -> Result<(), CallError> {
    let code = trailers["grpc-status"].to_str().unwrap().parse().unwrap();
    let text = trailers.get("grpc-message").map(|text| text.to_str().unwrap().to_owned());
    match code {
        0 => Ok(()),
        code => Err(CallError { code, text: text.unwrap_or_default() }),
    }
}
