//! Callers that are slow or too many. Time is virtual, and the connection is in memory.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::task::JoinHandle;

use super::*;
use crate::config::Config;

const HOUR: Duration = Duration::from_secs(3600);
/// A message without content: no metadata.
const EMPTY: Bytes = Bytes::from_static(&[0; 5]);

type Body = BoxBody<Bytes, Infallible>;

/// The client's end of a connection. A deaf client reads no byte of it.
struct ClientEnd {
    stream: DuplexStream,
    deaf: Arc<AtomicBool>,
}

/// The body of a call that never says its message.
struct Silence;

/// A client, and the task of the server.
struct Pair {
    state: Arc<State>,
    sender: SendRequest<Body>,
    deaf: Arc<AtomicBool>,
    served: JoinHandle<()>,
}

// === impl ClientEnd ===

impl AsyncRead for ClientEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.deaf.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientEnd {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

// === impl Pair ===

impl Pair {
    async fn connect() -> Self {
        let state = State::new(Config::default());
        let (stream, theirs) = tokio::io::duplex(1 << 20);
        let served = Arc::clone(&state);
        let served = tokio::spawn(async move { CALLS.serve(&served, theirs).await });
        let deaf = Arc::new(AtomicBool::new(false));
        let end = TokioIo::new(ClientEnd { stream, deaf: Arc::clone(&deaf) });
        let (sender, connection) = Builder::new(TokioExecutor::new()).handshake(end).await.unwrap();
        tokio::spawn(connection);
        Self { state, sender, deaf, served }
    }

    async fn call(&mut self, method: &str, body: Body) -> Response<RawBody> {
        let request =
            Request::post(format!("http://scaler/externalscaler.ExternalScaler/{method}"))
                .header(http::header::CONTENT_TYPE, "application/grpc");
        self.sender.ready().await.unwrap();
        self.sender.send_request(request.body(body).unwrap()).await.unwrap()
    }

    /// The status of a call that says its message at once.
    async fn status(&mut self) -> (String, String) {
        status(self.call("IsActive", Full::new(EMPTY).boxed()).await).await
    }
}

async fn status(response: Response<RawBody>) -> (String, String) {
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().unwrap();
    let text = |name: &str| {
        trailers.get(name).map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
    };
    (text("grpc-status"), text("grpc-message"))
}

// === impl Silence ===

impl http_body::Body for Silence {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn o06_a_stream_that_is_not_read_ends_and_gives_its_place_back() {
    let mut pair = Pair::connect().await;
    let mut stream = pair.call("StreamIsActive", Full::new(EMPTY).boxed()).await.into_body();
    let first = stream.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first[..], [0, 0, 0, 0, 0], "not active");
    assert!(tokio::time::timeout(HOUR, stream.frame()).await.is_err(), "nothing new for an hour");
    assert_eq!(pair.state.scaler_places.taken(), 1, "a reader keeps its stream");
    pair.deaf.store(true, Ordering::Relaxed);
    tokio::time::timeout(HOUR, pair.served).await.expect("the connection ends").unwrap();
    assert_eq!(pair.state.scaler_places.taken(), 0);
}

#[tokio::test(start_paused = true)]
async fn o06_calls_that_say_nothing_are_bounded_and_end() {
    let mut pair = Pair::connect().await;
    let mut silent = Vec::new();
    for _ in 0..CALLS_MAX {
        silent.push(pair.call("IsActive", Silence.boxed()).await);
    }
    // Their work begins when the connection asks for their bodies.
    while pair.state.scaler_calls.taken() < CALLS_MAX {
        tokio::task::yield_now().await;
    }
    let refused = ("8".to_owned(), "256 calls have not sent their message yet".to_owned());
    assert_eq!(pair.status().await, refused);
    for call in silent {
        assert_eq!(status(call).await.0, "4", "the deadline is exceeded");
    }
    assert_eq!(pair.status().await, ("0".to_owned(), String::new()));
    assert_eq!(pair.state.scaler_calls.taken(), 0);
}
