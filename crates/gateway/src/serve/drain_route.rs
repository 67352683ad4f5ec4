//! Drains a backend, and ends that: a change that an operator makes while the gateway runs.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Serialize;

use super::request_body;
use crate::admin_access::{self, Peer, Visitor};
use crate::ingress::path::{self, DrainCall};
use crate::reply::{Fault, error, json, uncached};
use crate::state::State;

/// The backend after the call.
#[derive(Debug, Serialize)]
struct Drained {
    id: String,
    state: &'static str,
    /// Requests that it still has.
    in_flight: u32,
}

pub(super) async fn answer(
    state: &State,
    call: DrainCall,
    request: Request<Incoming>,
    peer: Peer,
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    request_body::pass_over(&parts.headers, body).await;
    let visitor = Visitor::of(&parts.headers, &parts.extensions).from(peer);
    let allowed = admin_access::may_change(&state.config.load(), visitor);
    match allowed.and_then(|()| apply(state, call, parts.uri.path())) {
        Ok(drained) => uncached(json(StatusCode::OK, &drained)),
        Err(fault) => error::response(&fault.into()),
    }
}

fn apply(state: &State, call: DrainCall, path: &str) -> Result<Drained, Fault> {
    let drained = match call {
        DrainCall::Drain => true,
        DrainCall::Undrain => false,
        DrainCall::OtherMethod(methods) => return Err(Fault::MethodNotAllowed(methods)),
    };
    let id = path::backend_id(path).unwrap_or_default();
    let found = state.fleet.drain(&id, drained);
    let found = found.ok_or_else(|| Fault::BackendNotFound(id.into_owned()))?;
    let in_flight = state.scheduler.with(|core, _| {
        let view = core.backends().find(|view| view.id == found.backend);
        view.map_or(0, |view| view.in_flight.iter().sum())
    });
    Ok(Drained { id: found.id, state: found.state.label(), in_flight })
}
