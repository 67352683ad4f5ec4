//! As much of a gRPC client as measuring a decision needs: one connection, a stream for each
//! request, messages that were made before.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use envoy::base::{HeaderMap, HeaderValue};
use envoy::ext_proc::processing_request::Request as Say;
use envoy::ext_proc::processing_response::Response as Said;
use envoy::ext_proc::{
    HttpBody, HttpHeaders, ProcessingRequest, ProcessingResponse, ProtocolConfiguration,
};
use envoy::mode::processing_mode::BodySendMode::FullDuplexStreamed;
use http::Request;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

const METHOD: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
/// One byte that tells compression and four that tell the length stand before each message.
const PREFIX: usize = 5;

/// A connection to a picker, as each worker of Envoy has one.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    sender: SendRequest<Outgoing>,
    authority: String,
    script: Script,
}

/// What Envoy says of a request and of its answer.
#[derive(Clone, Debug)]
struct Script {
    head: Bytes,
    body: Bytes,
    answer_head: Bytes,
    answer_body: Bytes,
}

/// Messages on their way to the picker.
#[derive(Debug)]
struct Outgoing(UnboundedReceiver<Bytes>);

// === impl Caller ===

impl Caller {
    /// Connects, ready to ask about a chat of so many bytes.
    pub(crate) async fn connect(picker: SocketAddr, body: Bytes) -> Result<Self> {
        let stream = TcpStream::connect(picker).await.with_context(|| format!("to {picker}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        // It ends with its last stream, or in an error that every stream hears of.
        tokio::spawn(async move { _ = connection.await });
        Ok(Self { sender, authority: picker.to_string(), script: Script::of(body) })
    }

    /// Plays one request through; how long it took from its last byte to the decision.
    pub(crate) async fn ask(&self) -> Result<Duration> {
        let (say, said) = unbounded_channel();
        say.send(self.script.head.clone())?;
        let request = Request::post(format!("http://{}{METHOD}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Outgoing(said))?;
        let mut sender = self.sender.clone();
        sender.ready().await?;
        let answering = sender.send_request(request);
        say.send(self.script.body.clone())?;
        let began = Instant::now();
        let mut answers = answering.await?.into_body();
        let first = answers.frame().await.context("the picker says nothing")??;
        let decided = began.elapsed();
        chosen(first.data_ref().context("no decision")?)?;
        say.send(self.script.answer_head.clone())?;
        say.send(self.script.answer_body.clone())?;
        drop(say);
        while let Some(frame) = answers.frame().await {
            frame?;
        }
        Ok(decided)
    }
}

/// Checks that the first message is a choice and no refusal.
fn chosen(bytes: &Bytes) -> Result<()> {
    let length = bytes.get(1..PREFIX).and_then(|four| four.try_into().ok());
    let length = u32::from_be_bytes(length.context("half a message")?) as usize;
    let message = bytes.get(PREFIX..PREFIX + length).context("half a message")?;
    match ProcessingResponse::decode(message)?.response {
        Some(Said::RequestHeaders(_)) => Ok(()),
        other => bail!("no choice, but {other:?}"),
    }
}

// === impl Script ===

impl Script {
    fn of(body: Bytes) -> Self {
        let length = body.len().to_string();
        let head = [
            (":method", "POST"),
            (":path", "/v1/chat/completions"),
            (":scheme", "http"),
            (":authority", "localhost"),
            ("content-type", "application/json"),
            ("content-length", &length),
            ("x-request-id", "0123456789abcdef"),
        ];
        let answer = [
            (":status", "200"),
            ("content-type", "application/json"),
            ("x-envoy-upstream-service-time", "1"),
        ];
        let modes = FullDuplexStreamed.into();
        let config = ProtocolConfiguration {
            request_body_mode: modes,
            response_body_mode: modes,
            ..ProtocolConfiguration::default()
        };
        let opening = ProcessingRequest {
            protocol_config: Some(config),
            ..said(Say::RequestHeaders(headers(&head)))
        };
        Self {
            head: framed(&opening),
            body: framed(&said(Say::RequestBody(whole(body)))),
            answer_head: framed(&said(Say::ResponseHeaders(headers(&answer)))),
            answer_body: framed(&said(Say::ResponseBody(whole(Bytes::from_static(b"{}"))))),
        }
    }
}

fn said(request: Say) -> ProcessingRequest {
    ProcessingRequest { request: Some(request), ..ProcessingRequest::default() }
}

fn headers(pairs: &[(&str, &str)]) -> HttpHeaders {
    let header = |(name, value): &(&str, &str)| HeaderValue {
        key: (*name).to_owned(),
        raw_value: Bytes::copy_from_slice(value.as_bytes()),
        ..HeaderValue::default()
    };
    let headers = HeaderMap { headers: pairs.iter().map(header).collect() };
    HttpHeaders { headers: Some(headers), ..HttpHeaders::default() }
}

fn whole(body: Bytes) -> HttpBody {
    HttpBody { body, end_of_stream: true, ..HttpBody::default() }
}

fn framed(message: &ProcessingRequest) -> Bytes {
    let message = message.encode_to_vec();
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    framed.into()
}

// === impl Outgoing ===

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|message| message.map(|message| Ok(Frame::data(message))))
    }
}
