//! One attempt at one backend.
//!
//! Until the first byte of an answer has gone to the client, a request can be sent again, exactly
//! as it was. What a backend says decides how: a full one is no fault of the request, which keeps
//! its place; a failing one sends it behind its flow.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flow::RequeuePosition;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body_util::Full;
use tokio::time::Instant;

use crate::backend::{Attempt, Upstream};
use crate::body_memory::Reservation;
use crate::upstream::{
    ConnectError, ExchangeError, Http1Request, Lease, Outgoing, Pool, UpstreamBody,
};

/// The longest `Retry-After` of a backend that is believed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// What is to be sent, as often as it takes.
#[derive(Debug)]
pub(crate) struct UpstreamRequest {
    pub(crate) method: Method,
    pub(crate) path: PathAndQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// What the body holds, for as long as it may be sent again.
    pub(crate) _held: Reservation,
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
    Answered(Response<UpstreamBody>),
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
    pub(crate) place: RequeuePosition,
    /// The backend's answer, if it gave one.
    pub(crate) answer: Option<Response<UpstreamBody>>,
    /// What happened, for the client and the log.
    pub(crate) text: String,
}

/// Why there is no answer.
enum Unanswered {
    Unconnected(ConnectError),
    Lost(ExchangeError),
}

/// Sends the outgoing to a backend. The common case is a connection that is there; whatever is rare
/// stands in a box, so that it takes no room in the future of every request.
pub(crate) async fn attempt(
    pool: &Arc<Pool>,
    upstream: &Upstream,
    outgoing: &UpstreamRequest,
    limits: Limits,
) -> Outcome {
    if !upstream.http2
        && let Some(mut link) = pool.idle(upstream.id)
    {
        match link.ask(&outgoing.wanted(upstream), limits.answer_by).await {
            Ok((head, framing)) => {
                let lease = Lease::new(pool, upstream.id);
                return judge(head.map(|()| UpstreamBody::own(link, framing, lease)));
            }
            // A backend may close a connection that it thinks idle just as it is used: that says
            // nothing about the backend.
            Err(ExchangeError::Broken(_)) if link.is_untouched() => {}
            Err(lost) => return Unanswered::Lost(lost).into(),
        }
    }
    let anew =
        Box::pin(tokio::time::timeout_at(limits.answer_by, anew(pool, upstream, outgoing, limits)));
    match anew.await {
        Ok(Ok(response)) => judge(response),
        Ok(Err(unanswered)) => unanswered.into(),
        Err(_) => Outcome::TimedOut,
    }
}

async fn anew(
    pool: &Arc<Pool>,
    upstream: &Upstream,
    outgoing: &UpstreamRequest,
    limits: Limits,
) -> Result<Response<UpstreamBody>, Unanswered> {
    if upstream.http2 {
        let mut sender = pool.shared(upstream.id, upstream.place(), limits.connect).await?;
        let answered = sender.send_request(outgoing.request(upstream)).await;
        return Ok(answered.map_err(ExchangeError::from)?.map(UpstreamBody::Shared));
    }
    let mut link = pool.fresh(upstream.place(), limits.connect).await?;
    let (head, framing) = link.ask(&outgoing.wanted(upstream), limits.answer_by).await?;
    Ok(head.map(|()| UpstreamBody::own(link, framing, Lease::new(pool, upstream.id))))
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

fn judge(response: Response<UpstreamBody>) -> Outcome {
    let status = response.status();
    let attempt = verdict(status, response.headers().get(header::RETRY_AFTER));
    let place = match attempt {
        Attempt::Answered => return Outcome::Answered(response),
        Attempt::Full(_) => RequeuePosition::Original,
        Attempt::Refused | Attempt::Failed => RequeuePosition::Back,
    };
    let text = format!("it answered {status}");
    let answer = (!status.is_informational()).then_some(response);
    Outcome::Failed(Failure { attempt, place, answer, text })
}

fn span(retry_after: &HeaderValue) -> Option<Duration> {
    let seconds = retry_after.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

// === impl UpstreamRequest ===

impl UpstreamRequest {
    /// As it goes over a connection of its own.
    fn wanted<'a>(&'a self, upstream: &'a Upstream) -> Http1Request<'a> {
        let Self { method, path, headers, body, .. } = self;
        let (base, host) = (&upstream.base_path, &upstream.host_header);
        Http1Request { method, base, path, host, headers, body }
    }

    /// As it goes over a shared connection.
    fn request(&self, upstream: &Upstream) -> Request<Outgoing> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.headers.clone();
        // Both are told anew, the one in the address, the other by the body.
        request.headers_mut().remove(header::HOST);
        request.headers_mut().remove(header::CONTENT_LENGTH);
        *request.uri_mut() = absolute(upstream, path(upstream, &self.path));
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

// === impl Unanswered ===

impl From<ConnectError> for Unanswered {
    fn from(error: ConnectError) -> Self {
        Self::Unconnected(error)
    }
}

impl From<ExchangeError> for Unanswered {
    fn from(lost: ExchangeError) -> Self {
        Self::Lost(lost)
    }
}

impl From<Unanswered> for Outcome {
    fn from(unanswered: Unanswered) -> Self {
        let (attempt, text) = match unanswered {
            Unanswered::Lost(ExchangeError::Late) => return Self::TimedOut,
            Unanswered::Lost(ExchangeError::Broken(text)) => (Attempt::Failed, text),
            Unanswered::Unconnected(ConnectError::Failed(text)) => (Attempt::Failed, text),
            Unanswered::Unconnected(ConnectError::Refused(error)) => {
                (Attempt::Refused, error.to_string())
            }
        };
        Self::Failed(Failure { attempt, place: RequeuePosition::Back, answer: None, text })
    }
}
