//! One attempt at one backend.
//!
//! Until the first byte of a response has gone to the client, a request can be sent again, exactly
//! as it was. The status decides how: a full backend is no fault of the request, which keeps its
//! place in the queue; a failing backend sends it to the back of its flow.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use flow::RequeuePosition;
use http::Response;

use super::UpstreamRequest;
use super::response_watch::ResponseWatch;
use super::retry::judge;
use crate::backend::Attempt;
use crate::upstream::{
    ConnectError, ExchangeError, Framing, Http1, Http1Request, Lease, Pool, UpstreamBody,
};

/// The outcome of an attempt.
#[derive(Debug)]
pub(super) enum AttemptOutcome {
    /// A response to pass on. It is boxed because it changes hands several times.
    Answered(Box<Response<UpstreamBody>>),
    /// No response, or one that asks to try elsewhere.
    Failed(AttemptFailure),
    /// No response began in time.
    TimedOut,
}

/// An attempt that may be repeated.
#[derive(Debug)]
pub(super) struct AttemptFailure {
    /// The report for the fleet.
    pub(super) attempt: Attempt,
    /// Whether the backend may have had the request.
    pub(super) reached: bool,
    /// The place in the queue to which the request returns.
    pub(super) position: RequeuePosition,
    /// The backend's response, if it gave one.
    pub(super) response: Option<Box<Response<UpstreamBody>>>,
    /// The cause, for the client and the log.
    pub(super) text: String,
}

/// Why there is no response.
enum AttemptError {
    Connect(ConnectError),
    Exchange(ExchangeError),
}

/// Sends the request to a backend. The common case is an idle connection of the pool; everything
/// rare stands in a box, so that it takes no room in the future of every request.
pub(super) async fn attempt(
    pool: &Arc<Pool>,
    outgoing: &UpstreamRequest,
    watch: ResponseWatch<'_>,
    connect: Duration,
) -> AttemptOutcome {
    let endpoint = watch.endpoint;
    if !endpoint.http2
        && let Some(mut connection) = pool.idle(endpoint.id)
    {
        match exchange(&mut connection, &outgoing.http1(endpoint), &watch).await {
            Ok((head, framing)) => {
                let lease = Lease::new(pool, endpoint.id);
                let response = head.map(|()| UpstreamBody::http1(connection, framing, lease));
                return judge(response, watch.generates());
            }
            // A backend may close an idle connection at the moment of its next use. That says
            // nothing about the backend.
            Err(error) if error.is_broken() && connection.is_untouched() => {}
            Err(error) => {
                watch.left(connection, &error);
                return AttemptError::Exchange(error).into();
            }
        }
    }
    let generated = watch.generates();
    let fresh = Box::pin(tokio::time::timeout_at(
        watch.response_by,
        on_fresh_connection(pool, outgoing, watch, connect),
    ));
    match fresh.await {
        Ok(Ok(response)) => judge(response, generated),
        Ok(Err(error)) => error.into(),
        Err(_) => AttemptOutcome::TimedOut,
    }
}

async fn on_fresh_connection(
    pool: &Arc<Pool>,
    outgoing: &UpstreamRequest,
    watch: ResponseWatch<'_>,
    connect: Duration,
) -> Result<Response<UpstreamBody>, AttemptError> {
    let endpoint = watch.endpoint;
    if endpoint.http2 {
        let limits = (connect, watch.band());
        let mut sender = pool.shared(endpoint.id, endpoint.server(), limits).await?;
        let sent = sender.send_request(outgoing.http2(endpoint));
        return Ok(watched(sent, &watch).await?.map(UpstreamBody::Http2));
    }
    let mut connection = pool.fresh(endpoint.server(), connect, watch.band()).await?;
    let request = outgoing.http1(endpoint);
    match exchange(&mut connection, &request, &watch).await {
        Ok((head, framing)) => {
            let lease = Lease::new(pool, endpoint.id);
            Ok(head.map(|()| UpstreamBody::http1(connection, framing, lease)))
        }
        Err(error) => {
            watch.left(connection, &error);
            Err(error.into())
        }
    }
}

/// Sends a request over HTTP/1.1, and checks the backend while no response begins. Many engines
/// send the head of a stream before they have computed anything, so a stream begins with its body.
async fn exchange(
    connection: &mut Http1,
    request: &Http1Request<'_>,
    watch: &ResponseWatch<'_>,
) -> Result<(Response<()>, Framing), ExchangeError> {
    let mut due = watch.first_check();
    let mut watched = None;
    let mut outcome = connection.exchange(request, due).await;
    while matches!(outcome, Err(ExchangeError::TimedOut)) && due < watch.response_by {
        watched.get_or_insert_with(|| watch.endpoint.begin_watch());
        due = watch.check()?;
        outcome = connection.await_head(request, due).await;
    }
    let (head, mut framing) = outcome?;
    if watch.streamed() && head.status().is_success() {
        let mut begun = connection.await_body(&mut framing, due).await;
        while matches!(begun, Err(ExchangeError::TimedOut)) && due < watch.response_by {
            watched.get_or_insert_with(|| watch.endpoint.begin_watch());
            due = watch.check()?;
            begun = connection.await_body(&mut framing, due).await;
        }
        begun?;
    }
    Ok((head, framing))
}

/// Waits for a response over HTTP/2, and checks the backend while none begins. The caller has the
/// limit of the whole wait. Here a stream begins with its head.
async fn watched<T>(
    sent: impl Future<Output = Result<T, hyper::Error>>,
    watch: &ResponseWatch<'_>,
) -> Result<T, ExchangeError> {
    let mut sent = pin!(sent);
    let mut due = watch.first_check();
    let mut watched = None;
    loop {
        match tokio::time::timeout_at(due, sent.as_mut()).await {
            Ok(response) => return Ok(response?),
            Err(_) if due >= watch.response_by => return Err(ExchangeError::TimedOut),
            Err(_) => {
                watched.get_or_insert_with(|| watch.endpoint.begin_watch());
                due = watch.check()?;
            }
        }
    }
}

/// How an attempt ended whose exchange failed on a connection.
fn ended_as(error: &ExchangeError) -> Attempt {
    match error {
        ExchangeError::Silent { .. } => Attempt::Silent,
        ExchangeError::Withdrawn => Attempt::Withdrawn,
        _ => Attempt::Failed,
    }
}

// === impl AttemptError ===

impl From<ConnectError> for AttemptError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl From<ExchangeError> for AttemptError {
    fn from(error: ExchangeError) -> Self {
        Self::Exchange(error)
    }
}

impl From<AttemptError> for AttemptOutcome {
    fn from(error: AttemptError) -> Self {
        let reached = matches!(error, AttemptError::Exchange(_));
        let (attempt, text) = match error {
            AttemptError::Exchange(ExchangeError::TimedOut) => return Self::TimedOut,
            AttemptError::Exchange(error) => (ended_as(&error), error.to_string()),
            AttemptError::Connect(error) if error.is_refused() => {
                (Attempt::Refused, error.to_string())
            }
            AttemptError::Connect(error) if error.is_without_file() => {
                (Attempt::NotSent, error.to_string())
            }
            AttemptError::Connect(error) => (Attempt::Failed, error.to_string()),
        };
        let position = match attempt {
            // It has waited for long already, or the backend has nothing to do with it.
            Attempt::Silent | Attempt::Withdrawn | Attempt::NotSent => RequeuePosition::Original,
            _ => RequeuePosition::Back,
        };
        Self::Failed(AttemptFailure { attempt, reached, position, response: None, text })
    }
}
