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
use crate::batch_runtime::BatchRuntime;
use crate::batch_runtime::dead_letters::{DeadLetterAction, DeadLetterSelection};
use crate::ingress;
use crate::ingress::path::{AdminPage, DeadLetterQuery, DispatchCall};
use crate::observe::METRICS_TYPE;
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

/// A page of a dispatcher without a gateway. It has no backends; only its stores can fail.
pub(super) fn alone(
    state: &State,
    batch_runtime: &BatchRuntime,
    page: AdminPage,
) -> Response<Full<Bytes>> {
    let standing = state.standing();
    let trouble = batch_runtime.store_errors();
    let fault = match page {
        AdminPage::Metrics => {
            let text = state.observer.metrics_alone().into();
            return uncached(content(StatusCode::OK, METRICS_TYPE, text));
        }
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
                queues: batch_runtime.queues(),
                trouble,
            });
        }
        AdminPage::Ready if standing.shutting_down => Fault::ShuttingDown,
        AdminPage::Ready if !trouble.is_empty() => Fault::StoreAway(trouble.join("; ")),
        AdminPage::Ready => return self::page(&Ready { ready: true }),
        AdminPage::Backends | AdminPage::Flows | AdminPage::Workloads => Fault::NoSuchPage,
    };
    error::response(&fault.into())
}

/// Responds to a call for the dispatcher, where there is one.
pub(super) async fn answer(
    state: &State,
    batch_runtime: Option<&BatchRuntime>,
    call: DispatchCall,
    (parts, body): (&Parts, Incoming),
) -> Result<Response<Full<Bytes>>, Fault> {
    let batch_runtime = batch_runtime.ok_or(match call {
        DispatchCall::OtherMethod => Fault::MethodNotAllowed,
        _ => Fault::BatchDisabled,
    })?;
    match call {
        DispatchCall::Overview => Ok(page(&batch_runtime.status().await)),
        DispatchCall::Text => {
            let text = batch_runtime.status().await.to_string().into();
            Ok(uncached(content(StatusCode::OK, "text/plain; charset=utf-8", text)))
        }
        DispatchCall::DeadLetters => dead(batch_runtime, parts.uri.query()).await,
        DispatchCall::Redrive => {
            act(state, batch_runtime, DeadLetterAction::Redrive, (parts, body)).await
        }
        DispatchCall::Purge => {
            act(state, batch_runtime, DeadLetterAction::Purge, (parts, body)).await
        }
        DispatchCall::OtherMethod => Err(Fault::MethodNotAllowed),
    }
}

async fn dead(
    batch_runtime: &BatchRuntime,
    query: Option<&str>,
) -> Result<Response<Full<Bytes>>, Fault> {
    let DeadLetterQuery { queue, after } = DeadLetterQuery::read(query)?;
    Ok(page(&batch_runtime.list_dead_letters(&queue, after).await.map_err(fault)?))
}

async fn act(
    state: &State,
    batch_runtime: &BatchRuntime,
    action: DeadLetterAction,
    (parts, body): (&Parts, Incoming),
) -> Result<Response<Full<Bytes>>, Fault> {
    // A website could make its visitor's browser post any other media type here.
    if !ingress::headers::is_json(&parts.headers) {
        let what = "Send it with the header Content-Type: application/json.";
        return Err(Fault::InvalidRequest(what.into()));
    }
    let config = state.config.load_full();
    let (body, _held) = request_body::collect(body, &config.server, state).await?;
    let selection: DeadLetterSelection = serde_json::from_slice(&body).map_err(|error| {
        let what = format!("Select dead letters with {{\"queue\": …}}: {error}.");
        Fault::InvalidRequest(what)
    })?;
    Ok(page(&batch_runtime.change_dead_letters(action, selection).await.map_err(fault)?))
}

/// A page with the present state as JSON.
fn page(value: &impl Serialize) -> Response<Full<Bytes>> {
    uncached(json(StatusCode::OK, value))
}

fn fault(error: StoreError) -> Fault {
    match error.kind {
        ErrorKind::Invalid => Fault::InvalidRequest(error.text),
        ErrorKind::Full => Fault::StorageFull(error.text),
        ErrorKind::Unavailable => Fault::StoreAway(error.text),
        ErrorKind::Broken => {
            tracing::error!(%error, "the queue is broken");
            Fault::Internal
        }
    }
}
