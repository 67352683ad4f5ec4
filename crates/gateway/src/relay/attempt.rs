//! One attempt at one backend.
//!
//! Until the first byte of an answer has gone to the client, a request can be sent again, exactly
//! as it was. What a backend says decides how: a full one is no fault of the request, which keeps
//! its place; a failing one sends it behind its flow.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flow::Place;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use tokio::time::Instant;

use super::pool::{ConnectError, Connection, Lease, Outgoing, Pool};
use crate::backend::{Attempt, Upstream};

/// The longest `Retry-After` of a backend that is believed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// What is to be sent, as often as it takes.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) method: Method,
    pub(crate) path: PathAndQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connect: Duration,
    /// When an answer must have begun.
    pub(crate) answer_by: Instant,
}

/// What came of an attempt.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// An answer to pass on.
    Answered(Response<Incoming>, Option<Lease>),
    /// No answer, or one that says to try elsewhere.
    Failed(Failure),
    /// No answer began in time.
    TimedOut,
}

/// An attempt that may be made again.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What the fleet is told.
    pub(crate) attempt: Attempt,
    /// Where the request goes to wait.
    pub(crate) place: Place,
    /// The backend's answer, if it gave one.
    pub(crate) answer: Option<(Response<Incoming>, Option<Lease>)>,
    /// What happened, for the client and the log.
    pub(crate) text: String,
}

/// An answer, and the way back of its connection.
type Answered = (Response<Incoming>, Option<Lease>);

/// Sends the errand to a backend.
pub(crate) async fn attempt(
    pool: &Arc<Pool>,
    upstream: &Upstream,
    errand: &Errand,
    limits: Limits,
) -> Outcome {
    // Pinned where it is: futures are large to move.
    let exchange = pin!(exchange(pool, upstream, errand, limits.connect));
    match tokio::time::timeout_at(limits.answer_by, exchange).await {
        Ok(Ok((response, lease))) => judge(response, lease),
        Ok(Err(failure)) => Outcome::Failed(failure),
        Err(_) => Outcome::TimedOut,
    }
}

/// The common case is a connection that is there; whatever is rare stands in a box, so that it
/// takes no room in the future of every request.
async fn exchange(
    pool: &Arc<Pool>,
    upstream: &Upstream,
    errand: &Errand,
    connect_timeout: Duration,
) -> Result<Answered, Failure> {
    let connection = pool.connection(upstream, connect_timeout).await?;
    let request = errand.request(upstream);
    let (mut sender, reused) = match connection {
        Connection::Own { sender, reused } => (sender, reused),
        Connection::Shared(sender) => return Box::pin(share(sender, request)).await,
    };
    match sender.send_request(request).await {
        Ok(response) => Ok((response, Some(Lease::new(pool, upstream.id, sender)))),
        // A backend may close a connection that it thinks idle just as it is used: that says
        // nothing about the backend.
        Err(_) if reused => Box::pin(send_anew(pool, upstream, errand, connect_timeout)).await,
        Err(error) => Err(Failure::broken(&error)),
    }
}

async fn share(
    mut sender: http2::SendRequest<Outgoing>,
    request: Request<Outgoing>,
) -> Result<Answered, Failure> {
    let answered = sender.send_request(request).await;
    answered.map(|response| (response, None)).map_err(|error| Failure::broken(&error))
}

async fn send_anew(
    pool: &Arc<Pool>,
    upstream: &Upstream,
    errand: &Errand,
    connect_timeout: Duration,
) -> Result<Answered, Failure> {
    let mut sender = pool.fresh(upstream, connect_timeout).await?;
    match sender.send_request(errand.request(upstream)).await {
        Ok(response) => Ok((response, Some(Lease::new(pool, upstream.id, sender)))),
        Err(error) => Err(Failure::broken(&error)),
    }
}

/// What an answer's status says of the attempt.
pub(crate) fn verdict(status: StatusCode, retry_after: Option<&HeaderValue>) -> Attempt {
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Attempt::Full(retry_after.and_then(span))
        }
        // This is what some services say when they are overloaded.
        _ if status.as_u16() == 529 => Attempt::Full(retry_after.and_then(span)),
        // Nobody asked to switch protocols.
        _ if status.is_informational() => Attempt::Failed,
        StatusCode::INTERNAL_SERVER_ERROR
        | StatusCode::BAD_GATEWAY
        | StatusCode::GATEWAY_TIMEOUT => Attempt::Failed,
        _ => Attempt::Answered,
    }
}

fn judge(response: Response<Incoming>, lease: Option<Lease>) -> Outcome {
    let status = response.status();
    let attempt = verdict(status, response.headers().get(header::RETRY_AFTER));
    let place = match attempt {
        Attempt::Answered => return Outcome::Answered(response, lease),
        Attempt::Full(_) => Place::Old,
        Attempt::Refused | Attempt::Failed => Place::Back,
    };
    let text = format!("it answered {status}");
    let answer = (!status.is_informational()).then_some((response, lease));
    Outcome::Failed(Failure { attempt, place, answer, text })
}

fn span(retry_after: &HeaderValue) -> Option<Duration> {
    let seconds = retry_after.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

// === impl Errand ===

impl Errand {
    fn request(&self, upstream: &Upstream) -> Request<Outgoing> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = self.headers.clone();
        let path = path(upstream, &self.path);
        if upstream.http2 {
            *request.version_mut() = Version::HTTP_2;
            request.headers_mut().remove(header::HOST);
            *request.uri_mut() = absolute(upstream, path);
        } else {
            *request.uri_mut() = Uri::from(path);
            request.headers_mut().insert(header::HOST, upstream.host_header.clone());
        }
        request
    }
}

/// The path at the backend, behind its own base.
fn path(upstream: &Upstream, path: &PathAndQuery) -> PathAndQuery {
    if upstream.base_path.is_empty() {
        return path.clone();
    }
    let whole = format!("{}{path}", upstream.base_path);
    // Both parts were accepted before, so their sum is.
    PathAndQuery::try_from(whole).unwrap_or_else(|_| path.clone())
}

fn absolute(upstream: &Upstream, path: PathAndQuery) -> Uri {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(upstream.authority.clone());
    parts.path_and_query = Some(path);
    // All three parts are there, so this cannot fail.
    Uri::from_parts(parts).unwrap_or_default()
}

// === impl Failure ===

impl Failure {
    fn broken(error: &hyper::Error) -> Self {
        let text = match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        Self { attempt: Attempt::Failed, place: Place::Back, answer: None, text }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let (attempt, text) = match error {
            ConnectError::Refused(error) => (Attempt::Refused, error.to_string()),
            ConnectError::Failed(text) => (Attempt::Failed, text),
        };
        Self { attempt, place: Place::Back, answer: None, text }
    }
}
