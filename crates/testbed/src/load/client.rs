//! One request and its answer, over connections that are kept.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::Class;
use super::tally::{Ended, Tally};

/// Connections to all targets.
#[derive(Debug)]
pub(super) struct Client {
    targets: Vec<Target>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct Target {
    address: SocketAddr,
    host: HeaderValue,
    idle: Mutex<Vec<Connection>>,
}

type Connection = SendRequest<Full<Bytes>>;

/// What all requests of a class look like.
#[derive(Debug)]
pub(super) struct Template {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    timeout: Duration,
}

/// Where a request failed, as a code beside those that servers give.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Connect,
    Answer,
    Cut,
}

/// As much of an error's body as is looked at.
const ERROR_BYTES: usize = 8 << 10;

/// Connections kept for later.
const IDLE_MAX: usize = 4096;

// === impl Template ===

impl Template {
    pub(super) fn new(class: &Class) -> io::Result<Self> {
        let wrong = |what: &str| {
            let text = format!("class {}: {what} cannot be sent", class.name);
            io::Error::new(io::ErrorKind::InvalidInput, text)
        };
        let uri = class.path.parse().map_err(|_| wrong(&class.path))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &class.headers {
            let parsed: HeaderName = name.parse().map_err(|_| wrong(name))?;
            headers.append(parsed, value.parse().map_err(|_| wrong(value))?);
        }
        let json = HeaderValue::from_static("application/json");
        headers.entry(CONTENT_TYPE).or_insert(json);
        let method = if class.body.is_empty() { Method::GET } else { Method::POST };
        Ok(Self { method, uri, headers, body: class.body.clone(), timeout: class.timeout })
    }

    fn request(&self, host: &HeaderValue) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(HOST, host.clone());
        request
    }
}

// === impl Client ===

impl Client {
    pub(super) fn new(addresses: Vec<SocketAddr>) -> Self {
        let target = |address: SocketAddr| Target {
            address,
            host: HeaderValue::try_from(address.to_string())
                .unwrap_or(HeaderValue::from_static("localhost")),
            idle: Mutex::new(Vec::new()),
        };
        Self { targets: addresses.into_iter().map(target).collect(), next: AtomicUsize::new(0) }
    }

    /// Sends a request that is due at `due`, waits for its end and writes it down; whether it went
    /// well.
    pub(super) async fn send(&self, template: &Template, tally: &Tally, due: Instant) -> bool {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let target = &self.targets[turn % self.targets.len()];
        tally.sent();
        let ended = timeout(template.timeout, target.exchange(template, due)).await;
        let ended = ended.unwrap_or_else(|_| Ended::failed("timeout".to_owned()));
        tally.ended(ended, due.elapsed())
    }
}

// === impl Target ===

impl Target {
    async fn exchange(&self, template: &Template, due: Instant) -> Ended {
        match self.answered(template).await {
            Ok((connection, response)) => self.read(connection, response, due).await,
            Err(failure) => Ended::failed(failure.code().to_owned()),
        }
    }

    /// Sends over a connection that is kept, or a new one where the server has closed that.
    async fn answered(
        &self,
        template: &Template,
    ) -> Result<(Connection, Response<Incoming>), Failure> {
        let mut request = template.request(&self.host);
        loop {
            let kept = self.idle().pop();
            let fresh = kept.is_none();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.connect().await.map_err(|_| Failure::Connect)?,
            };
            if connection.ready().await.is_err() && !fresh {
                continue;
            }
            match connection.try_send_request(request).await {
                Ok(response) => return Ok((connection, response)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if !fresh => request = unsent,
                    _ => return Err(Failure::Answer),
                },
            }
        }
    }

    async fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn read(
        &self,
        connection: Connection,
        response: Response<Incoming>,
        due: Instant,
    ) -> Ended {
        let status = response.status();
        let mut body = response.into_body();
        let mut ended = Ended { code: None, first_byte: None, bytes: 0 };
        let mut error = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Ended { code: Some(Failure::Cut.code().to_owned()), ..ended };
            };
            let Some(data) = frame.data_ref().filter(|data| !data.is_empty()) else { continue };
            ended.first_byte.get_or_insert_with(|| due.elapsed());
            ended.bytes += data.len() as u64;
            if !status.is_success() && error.len() < ERROR_BYTES {
                error.extend_from_slice(data);
            }
        }
        self.keep(connection);
        if !status.is_success() {
            ended.code = Some(code(status.as_u16(), &error));
        }
        ended
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX && !connection.is_closed() {
            idle.push(connection);
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The code in an error's JSON, or its status.
fn code(status: u16, body: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let code = json["error"]["code"].as_str().map(|code| code.chars().take(40).collect());
    code.unwrap_or_else(|| status.to_string())
}

// === impl Failure ===

impl Failure {
    fn code(self) -> &'static str {
        match self {
            Self::Connect => "no_connection",
            Self::Answer => "no_answer",
            Self::Cut => "cut",
        }
    }
}
