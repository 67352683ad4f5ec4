//! What is answered here and takes part in work: the Batch API and the dispatcher's pages. It is
//! counted and logged as what a backend answers is.

use std::sync::Arc;

use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;

use super::outbound::Content;
use super::worker::Worker;
use super::{batching, queues};
use crate::ingress;
use crate::ingress::path::{BatchCall, QueueCall};
use crate::reply::{error, headers};
use crate::trip::Trip;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Local {
    Batch(BatchCall),
    Queues(QueueCall),
}

/// Answers a call. A client that leaves before that is counted as one that left.
pub(super) async fn answer(
    worker: &Worker,
    call: Local,
    request: Request<Incoming>,
) -> Response<Content> {
    let (gate, depot) = (&worker.gate, worker.depot.as_deref());
    let (parts, body) = request.into_parts();
    let request_id = ingress::headers::request_id(&parts.headers);
    let mut trip = Trip::begin(&parts, gate.clock, Arc::clone(&gate.observer));
    trip.name(&request_id);
    trip.record.bytes_in = body.size_hint().exact().unwrap_or(0);
    let answered = match call {
        Local::Batch(call) => batching::answer(gate, depot, call, (&parts, body)).await,
        Local::Queues(call) => {
            queues::answer(gate, depot, call, (&parts, body)).await.map(Content::whole)
        }
    };
    let mut response = match answered {
        Ok(response) => {
            trip.answered(response.status());
            trip.record.bytes_out = response.body().size().exact().unwrap_or(0);
            let now = trip.now();
            trip.end(now);
            response
        }
        Err(fault) => {
            trip.fail(&fault);
            Content::whole(error::response(&fault.into()))
        }
    };
    headers::identify(response.headers_mut(), &request_id);
    response
}
