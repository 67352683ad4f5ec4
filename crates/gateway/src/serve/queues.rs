//! The dispatcher's pages.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Serialize;
use store::{StoreError, Trouble};

use super::inbound;
use crate::depot::Depot;
use crate::depot::page::{Deed, Meant};
use crate::gate::Gate;
use crate::ingress;
use crate::ingress::path::{Graves, QueueCall};
use crate::reply::{Fault, error};

/// Whether a dispatcher that stands alone can do its work.
pub(super) fn ready(depot: &Depot) -> Response<Full<Bytes>> {
    match depot.troubles().as_slice() {
        [] => content("application/json", Bytes::from_static(b"{\"ready\":true}")),
        whys => error::response(&Fault::StoreAway(whys.join("; ")).into()),
    }
}

/// Answers for the dispatcher, where there is one.
pub(super) async fn answer(
    gate: &Gate,
    depot: Option<&Depot>,
    call: QueueCall,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let Some(depot) = depot else { return error::response(&Fault::BatchDisabled.into()) };
    let done = match call {
        QueueCall::Overview => json(&depot.overview().await),
        QueueCall::Text => {
            let text = depot.overview().await.to_string();
            Ok(("text/plain; charset=utf-8", text.into()))
        }
        QueueCall::Dead => dead(depot, request.uri().query()).await,
        QueueCall::Redrive => act(gate, depot, Deed::Redrive, request).await,
        QueueCall::Purge => act(gate, depot, Deed::Purge, request).await,
    };
    match done {
        Ok((kind, body)) => content(kind, body),
        Err(fault) => error::response(&fault.into()),
    }
}

async fn dead(depot: &Depot, query: Option<&str>) -> Result<Page, Fault> {
    let Graves { queue, after } = Graves::read(query)?;
    json(&depot.dead(&queue, after).await.map_err(fault)?)
}

async fn act(
    gate: &Gate,
    depot: &Depot,
    deed: Deed,
    request: Request<Incoming>,
) -> Result<Page, Fault> {
    // A page of some website could post anything else here in its visitor's name.
    if !ingress::headers::is_json(request.headers()) {
        let what = "Send it with the header Content-Type: application/json.";
        return Err(Fault::InvalidRequest(what.into()));
    }
    let settled = gate.settled.load_full();
    let (body, _held) = inbound::collect(request.into_body(), &settled.server, gate).await?;
    let meant: Meant = serde_json::from_slice(&body).map_err(|error| {
        let what = format!("Say which of the dead are meant, as {{\"queue\": …}}: {error}.");
        Fault::InvalidRequest(what)
    })?;
    json(&depot.act(deed, meant).await.map_err(fault)?)
}

/// A media type and what is in it.
type Page = (&'static str, Bytes);

fn json(page: &impl Serialize) -> Result<Page, Fault> {
    let body = serde_json::to_vec(page).map_err(|_| Fault::Internal)?;
    Ok(("application/json", body.into()))
}

fn content(kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // What was true a moment ago must not be shown as what is.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn fault(error: StoreError) -> Fault {
    match error.trouble {
        Trouble::Asked => Fault::InvalidRequest(error.text),
        Trouble::Full => Fault::StorageFull(error.text),
        Trouble::Away => Fault::StoreAway(error.text),
        Trouble::Broken => {
            tracing::error!(%error, "the queue is broken");
            Fault::Internal
        }
    }
}
