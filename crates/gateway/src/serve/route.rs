//! Routes a request to the code that responds to it.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request as HttpRequest, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Incoming;

use super::connection::Serving;
use super::local_api::Local;
use super::response_writer::{Content, Reply};
use super::worker::Worker;
use super::{dispatch_pages, local_api, models, queue_status, request_body};
use crate::body_memory::Reservation;
use crate::config::Config;
use crate::ingress::headers::is_preflight;
use crate::ingress::path::{self, Api, RequestKind, Route};
use crate::ingress::{self, Intent};
use crate::proxy::{ProxiedRequest, UpstreamRequest};
use crate::reply::{ErrorFormat, Fault, Refused, content, error, headers};
use crate::request::{Request, RequestRecord};
use crate::{admin, large_bodies};

/// Responds to a request.
pub(super) async fn answer(
    worker: Arc<Worker>,
    request: HttpRequest<Incoming>,
    serving: Serving,
) -> Result<Response<Reply>, Infallible> {
    let state = &worker.state;
    let path = request.uri().path();
    let format = ErrorFormat::of(path);
    let head_only = request.method() == Method::HEAD;
    let doors = worker.doors;
    let response = match path::classify(request.method(), path) {
        Ok(Route::Proxied { api, kind }) if doors.api => proxy(worker, request, (api, kind)).await,
        Ok(Route::Models) if doors.api => Content::whole(models::models(state)),
        Ok(Route::ModelCard) if doors.api => {
            let id = path::card_id(path).unwrap_or_default();
            Content::whole(models::model(state, &id))
        }
        Ok(Route::Tags) if doors.api => Content::whole(models::tags(state)),
        Ok(Route::Version) if doors.api => Content::whole(admin::version()),
        Ok(Route::Root) if doors.api => Content::whole(root(request.method())),
        // The response that follows a preflight has the backend's headers, so it must have, too.
        Ok(Route::Options)
            if doors.api && path::is_api(path) && is_preflight(request.headers()) =>
        {
            proxy(worker, request, (Api::OpenAi, RequestKind::Other)).await
        }
        Ok(Route::Options) => Content::whole(error::options(!path::is_api(path))),
        Ok(Route::Batch(call)) if doors.batch => {
            local_api::answer(&worker, Local::Batch(call), request).await
        }
        Ok(Route::Visibility(page)) if doors.visibility => {
            let alone = worker.durable_queues.as_deref().filter(|_| doors.is_dispatcher());
            Content::whole(match alone {
                Some(durable_queues) => dispatch_pages::alone(state, durable_queues, page),
                None => admin::respond(state, page, state.standing()),
            })
        }
        Ok(Route::Dispatch(call)) if doors.visibility => {
            local_api::answer(&worker, Local::Queues(call), request).await
        }
        Ok(_) if doors.is_dispatcher() => {
            Content::whole(error::response_in(format, &Fault::NoSuchPage.into()))
        }
        Ok(_) => Content::whole(error::response_in(format, &Fault::NoSuchPath.into())),
        Err(fault) => Content::whole(error::response_in(format, &fault.into())),
    };
    let response = if head_only { Content::head_only(response) } else { response };
    Ok(Reply::new(response, serving))
}

/// The page at `/`, in the form of Ollama's.
fn root(method: &Method) -> Response<Full<Bytes>> {
    if !path::is_read(method) {
        return error::response(&Fault::MethodNotAllowed(error::READ_METHODS).into());
    }
    let text = Bytes::from_static(b"Tidegate is running");
    content(StatusCode::OK, "text/plain; charset=utf-8", text)
}

/// Sends a request to a backend when the scheduler admits it.
async fn proxy(
    worker: Arc<Worker>,
    request: HttpRequest<Incoming>,
    work: (Api, RequestKind),
) -> Response<Content> {
    let config = worker.state.config.load_full();
    let (mut parts, body) = request.into_parts();
    let format = ErrorFormat::of(parts.uri.path());
    let shares_connection = parts.version == Version::HTTP_2;
    let write_limit = config.server.write_timeout;
    let observer = Arc::clone(&worker.state.observer);
    let mut record = RequestRecord::begin(&parts, worker.state.clock, observer);
    let read = match request_body::collect(body, &config.server, &worker.state).await {
        Ok(body) => {
            record.bytes_in = body.0.len() as u64;
            let draw = record.arrived.nanos();
            if large_bodies::is_large(&parts.headers, body.0.len()) {
                let config = Arc::clone(&config);
                let read = move |parts: &Parts| read(&config, (parts, work), body, draw);
                Box::pin(worker.state.large_bodies.read(&mut parts, read)).await
            } else {
                read(&config, (&parts, work), body, draw)
            }
        }
        Err(fault) => Err(fault),
    };
    let (intent, body, reservation) = match read {
        Ok(read) => read,
        Err(fault) => {
            let request_id = ingress::headers::request_id(&parts.headers);
            record.identify(&request_id);
            record.fail(&fault);
            return refusal(&fault.into(), format, &request_id);
        }
    };
    record.describe(&intent);
    let request_id = intent.request_id.clone();
    let outgoing = upstream_request(parts, (body, reservation), &intent);
    let mut request = Request::new(Arc::clone(&worker.state), config, intent, record);
    if let Err(refused) = request.enqueue().await {
        return refusal(&request.refuse(refused), format, &request_id);
    }
    let tells_status = request.intent.queue_status && request.is_queued();
    let proxied = ProxiedRequest::new(Arc::clone(&worker.pool), request, outgoing);
    if tells_status {
        return queue_status::stream(proxied);
    }
    match proxied.forward().await {
        Ok(response) if shares_connection => {
            response.map(|body| Content::handed(body, write_limit))
        }
        Ok(response) => response.map(Content::Relayed),
        Err(refused) => refusal(&refused, format, &request_id),
    }
}

/// Reads a request. Its body may hold more memory when it has been decoded.
fn read(
    config: &Config,
    (parts, work): (&Parts, (Api, RequestKind)),
    (body, mut reservation): (Bytes, Reservation),
    draw: u64,
) -> Result<(Box<Intent>, Bytes, Reservation), Fault> {
    let received = body.len();
    let (intent, body) = ingress::read(work, config, parts, body, draw)?;
    if intent.decoded {
        let more = body.len().saturating_sub(received);
        reservation.more(more, config.server.bodies_limit)?;
    }
    Ok((intent, body, reservation))
}

fn upstream_request(
    mut parts: Parts,
    (body, reservation): (Bytes, Reservation),
    intent: &Intent,
) -> UpstreamRequest {
    let root = || PathAndQuery::from_static("/");
    let other = path::upstream(parts.uri.path()).and_then(|path| path.parse().ok());
    let own = || parts.uri.path_and_query().cloned().unwrap_or_else(root);
    let path = other.unwrap_or_else(own);
    if intent.decoded {
        parts.headers.remove(ingress::headers::BODY_ENCODING);
    }
    let headers = ingress::headers::to_upstream(parts.headers, &intent.request_id);
    UpstreamRequest { method: parts.method, path, headers, body, _reservation: reservation }
}

fn refusal(refused: &Refused, format: ErrorFormat, request_id: &HeaderValue) -> Response<Content> {
    let mut response = error::response_in(format, refused);
    headers::identify(response.headers_mut(), request_id);
    Content::whole(response)
}
