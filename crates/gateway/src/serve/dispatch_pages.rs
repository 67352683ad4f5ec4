//! The dispatcher's pages: queues, dead letters, health.

use bytes::Bytes;
use flow::Time;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Serialize;
use store::{ErrorKind, StoreError};

use super::request_body;
use crate::admin;
use crate::admin_access::{self, Peer, Visitor};
use crate::body_memory::BodyHolder;
use crate::durable_queues::DurableQueues;
use crate::durable_queues::dead_letters::{DeadLetterAction, DeadLetterSelection};
use crate::ingress;
use crate::ingress::path::{AdminPage, DeadLetterQuery, DispatchCall};
use crate::observe::MetricsFormat;
use crate::reply::{Fault, content, error, json, uncached};
use crate::state::State;

/// The health of a dispatcher without a gateway.
#[derive(Debug, Serialize)]
struct Health<'a> {
    status: &'static str,
    /// A gateway recognises by this that it is not a model server.
    tidegate: &'a str,
    version: &'static str,
    uptime_seconds: f64,
    queues: Vec<String>,
    /// Why stores cannot be used.
    trouble: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Ready {
    ready: bool,
}

/// The metrics of a dispatcher without a gateway.
pub(super) fn metrics(state: &State, format: MetricsFormat) -> Response<Full<Bytes>> {
    let text = state.observer.metrics_alone(format).into();
    uncached(content(StatusCode::OK, format.media_type(), text))
}

/// A page of a dispatcher without a gateway. It has no backends; only its stores can fail.
pub(super) fn alone(
    state: &State,
    durable_queues: &DurableQueues,
    page: AdminPage,
) -> Response<Full<Bytes>> {
    let standing = state.standing();
    let trouble = durable_queues.store_errors();
    let fault = match page {
        AdminPage::Metrics => return metrics(state, MetricsFormat::default()),
        AdminPage::Health => {
            return self::page(&Health {
                status: match trouble.as_slice() {
                    _ if standing.shutting_down => "shutting_down",
                    [] => "ok",
                    _ => "store_unavailable",
                },
                tidegate: standing.instance,
                version: env!("CARGO_PKG_VERSION"),
                uptime_seconds: state.clock.now().since(Time::ZERO).secs_f64(),
                queues: durable_queues.queues(),
                trouble,
            });
        }
        AdminPage::Status | AdminPage::StatusHistory => {
            return admin::respond(state, page, standing);
        }
        AdminPage::Version => return admin::version(),
        AdminPage::Ready if standing.shutting_down => Fault::ShuttingDown,
        AdminPage::Ready if !trouble.is_empty() => Fault::StoreAway(trouble.join("; ")),
        AdminPage::Ready => return self::page(&Ready { ready: true }),
        AdminPage::Backends
        | AdminPage::Flows
        | AdminPage::Workloads
        | AdminPage::Usage
        | AdminPage::Request
        | AdminPage::Requests
        | AdminPage::StatusStream
        | AdminPage::Dashboard(_) => Fault::NoSuchPage,
    };
    error::response(&fault.into())
}

/// Responds to a call for the dispatcher, where there is one.
pub(super) async fn answer(
    state: &State,
    durable_queues: Option<&DurableQueues>,
    call: DispatchCall,
    (parts, body, peer): (&Parts, Incoming, Peer),
) -> Result<Response<Full<Bytes>>, Fault> {
    let visitor = Visitor::of(&parts.headers, &parts.extensions).from(peer);
    admin_access::may_call(&state.config.load(), call, visitor)?;
    let durable_queues = durable_queues.ok_or(match call {
        DispatchCall::OtherMethod(methods) => Fault::MethodNotAllowed(methods),
        _ => Fault::BatchDisabled,
    })?;
    match call {
        DispatchCall::Overview => Ok(page(&durable_queues.status().await)),
        DispatchCall::Text => {
            let text = durable_queues.status().await.to_string().into();
            Ok(uncached(content(StatusCode::OK, "text/plain; charset=utf-8", text)))
        }
        DispatchCall::DeadLetters => dead(durable_queues, parts.uri.query()).await,
        DispatchCall::Redrive => {
            act(state, durable_queues, DeadLetterAction::Redrive, (parts, body)).await
        }
        DispatchCall::Purge => {
            act(state, durable_queues, DeadLetterAction::Purge, (parts, body)).await
        }
        DispatchCall::OtherMethod(methods) => Err(Fault::MethodNotAllowed(methods)),
    }
}

async fn dead(
    durable_queues: &DurableQueues,
    query: Option<&str>,
) -> Result<Response<Full<Bytes>>, Fault> {
    let DeadLetterQuery { queue, after } = DeadLetterQuery::read(query)?;
    Ok(page(&durable_queues.list_dead_letters(&queue, after).await.map_err(fault)?))
}

async fn act(
    state: &State,
    durable_queues: &DurableQueues,
    action: DeadLetterAction,
    (parts, body): (&Parts, Incoming),
) -> Result<Response<Full<Bytes>>, Fault> {
    // A website could make its visitor's browser post any other media type here.
    if !ingress::headers::is_json(&parts.headers) {
        let what = "Send it with the header Content-Type: application/json.";
        return Err(Fault::InvalidRequest(what.into()));
    }
    let holder = (state, BodyHolder::Address(None));
    let (body, _held) = request_body::collect_decoded(&parts.headers, body, holder).await?;
    let selection: DeadLetterSelection = serde_json::from_slice(&body).map_err(|error| {
        let what = format!("Select dead letters with {{\"queue\": …}}: {error}.");
        Fault::InvalidRequest(what)
    })?;
    Ok(page(&durable_queues.change_dead_letters(action, selection).await.map_err(fault)?))
}

/// A page with the present state as JSON.
fn page(value: &impl Serialize) -> Response<Full<Bytes>> {
    uncached(json(StatusCode::OK, value))
}

fn fault(error: StoreError) -> Fault {
    match error.kind {
        ErrorKind::Invalid | ErrorKind::Unsupported => Fault::InvalidRequest(error.text),
        ErrorKind::Full => Fault::StorageFull(error.text),
        ErrorKind::Unavailable => Fault::StoreAway(error.text),
        ErrorKind::Broken => {
            tracing::error!(%error, "the queue is broken");
            Fault::Internal
        }
    }
}
