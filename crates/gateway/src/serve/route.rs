//! Which request is answered by whom.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Version};
use hyper::body::Incoming;

use super::connection::Serving;
use super::journey::Journey;
use super::local::Local;
use super::outbound::{Content, Reply};
use super::worker::Worker;
use super::{inbound, listing, local, queues, status};
use crate::admin;
use crate::bodies::Held;
use crate::ingress::path::{self, Route};
use crate::ingress::{self, Intent};
use crate::passage::Passage;
use crate::relay::Errand;
use crate::reply::{Fault, Refused, error, headers};
use crate::trip::Trip;

/// Answers a request.
pub(super) async fn answer(
    worker: Arc<Worker>,
    request: Request<Incoming>,
    serving: Serving,
) -> Response<Reply> {
    let gate = &worker.gate;
    let path = request.uri().path();
    let doors = worker.doors;
    let response = match path::classify(request.method(), path) {
        Ok(Route::Proxied { .. }) if doors.api => proxy(worker, request).await,
        Ok(Route::Models) if doors.api => Content::whole(listing::models(gate)),
        Ok(Route::ModelCard) if doors.api => {
            let id = path::card_id(path).unwrap_or_default();
            Content::whole(listing::model(gate, &id))
        }
        Ok(Route::Tags) if doors.api => Content::whole(listing::tags(gate)),
        Ok(Route::Version) if doors.api => Content::whole(listing::version()),
        Ok(Route::Batch(call)) if doors.batch => {
            local::answer(&worker, Local::Batch(call), request).await
        }
        Ok(Route::Visibility(page)) if doors.visibility => {
            let alone = worker.depot.as_deref().filter(|_| doors.is_dispatcher());
            Content::whole(match alone {
                Some(depot) => queues::alone(gate, depot, page),
                None => admin::respond(gate, page, gate.standing()),
            })
        }
        Ok(Route::Dispatch(call)) if doors.visibility => {
            local::answer(&worker, Local::Queues(call), request).await
        }
        Ok(_) if doors.is_dispatcher() => {
            Content::whole(error::response(&Fault::NoSuchPage.into()))
        }
        Ok(_) => Content::whole(error::response(&Fault::NoSuchPath.into())),
        Err(fault) => Content::whole(error::response(&fault.into())),
    };
    Reply::new(response, serving)
}

/// Carries a request to a backend, in its turn.
async fn proxy(worker: Arc<Worker>, request: Request<Incoming>) -> Response<Content> {
    let config = worker.gate.config.load_full();
    let (parts, body) = request.into_parts();
    let shares_connection = parts.version == Version::HTTP_2;
    let write_limit = config.server.write_timeout;
    let mut trip = Trip::begin(&parts, worker.gate.clock, Arc::clone(&worker.gate.observer));
    let read = match inbound::collect(body, &config.server, &worker.gate).await {
        Ok((body, held)) => {
            trip.record.bytes_in = body.len() as u64;
            let read = ingress::read(&config, &parts, body, trip.arrived.nanos());
            read.map(|(intent, body)| (intent, body, held))
        }
        Err(fault) => Err(fault),
    };
    let (intent, body, held) = match read {
        Ok(read) => read,
        Err(fault) => {
            let request_id = ingress::headers::request_id(&parts.headers);
            trip.name(&request_id);
            trip.fail(&fault);
            return refusal(&fault.into(), &request_id);
        }
    };
    trip.read(&intent);
    let request_id = intent.request_id.clone();
    let errand = errand(parts, (body, held), &intent);
    // Moved from hand to hand on its way, so it has one place in memory.
    let gate = Arc::clone(&worker.gate);
    let passage = Passage { gate, config, intent, trip, within: None, model: None };
    let mut journey = Box::new(Journey { worker, passage, errand, failed_at: Vec::new() });
    let seat = match journey.passage.seat().await {
        Ok(seat) => seat,
        Err(refused) => return refusal(&journey.give_up(refused), &request_id),
    };
    if journey.passage.intent.queue_status && seat.waits() {
        return status::tell(journey, seat);
    }
    match journey.fly(seat).await {
        Ok(response) if shares_connection => {
            response.map(|answer| Content::handed(answer, write_limit))
        }
        Ok(response) => response.map(|answer| Content::Relayed(Box::new(answer))),
        Err(refused) => refusal(&refused, &request_id),
    }
}

fn errand(parts: Parts, (body, held): (Bytes, Held), intent: &Intent) -> Errand {
    let root = || PathAndQuery::from_static("/");
    let path = parts.uri.path_and_query().cloned().unwrap_or_else(root);
    let headers = ingress::headers::to_upstream(parts.headers, &intent.request_id);
    Errand { method: parts.method, path, headers, body, _held: held }
}

fn refusal(refused: &Refused, request_id: &HeaderValue) -> Response<Content> {
    let mut response = error::response(refused);
    headers::identify(response.headers_mut(), request_id);
    Content::whole(response)
}
