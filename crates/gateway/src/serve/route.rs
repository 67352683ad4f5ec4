//! Routes a request to the code that responds to it.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request as HttpRequest, Response, Version};
use hyper::body::Incoming;

use super::connection::Serving;
use super::foreign_sites::{Arrival, Cors};
use super::local_api::Local;
use super::response_writer::{Content, Reply};
use super::worker::Worker;
use super::{
    drain_route, foreign_sites, head_check, local_api, models, queue_status, request_body,
    status_pages, status_stream, usage_page,
};
use crate::admin_access::{self, Asked, Visitor};
use crate::body_memory::{BodyHolder, Reservation};
use crate::config::Config;
use crate::ingress::path::{self, AdminPage, Api, RequestKind, Route};
use crate::ingress::{self, Caller, Intent, ReadContext};
use crate::proxy::{ProxiedRequest, UpstreamRequest};
use crate::reply::{ErrorFormat, Fault, Refused, error, headers};
use crate::request::{Request, RequestRecord, arrive};
use crate::{admin, large_bodies};

/// What responds to a request. Both are boxed: hyper keeps the room of the future for as long as
/// the connection lasts, and a request that waits is no longer being read.
enum Answer<P> {
    /// Reads a request for a backend and offers it to the scheduler.
    Proxied(Pin<Box<P>>),
    Own(Pin<Box<dyn Future<Output = Response<Content>> + Send>>),
}

/// Responds to a request.
pub(super) fn answer(
    worker: Arc<Worker>,
    request: HttpRequest<Incoming>,
    serving: Serving,
    arrival: Arrival,
) -> impl Future<Output = Result<Response<Reply>, Infallible>> {
    let config = worker.state.config.load_full();
    let head_only = request.method() == Method::HEAD;
    let cors = Cors::of(&config, &request);
    let classified = path::classify(request.method(), request.uri().path());
    let route = head_check::check(&request).and(classified).and_then(|route| match route {
        Route::Proxied { .. } => foreign_sites::check(&config, route, &request, arrival),
        _ => Ok(route),
    });
    let answer = match route {
        Ok(Route::Proxied { api, kind }) if worker.doors.api => {
            let peer = arrival.client.ip;
            Answer::Proxied(Box::pin(prepare(worker, config, request, (api, kind), peer)))
        }
        route => Answer::Own(Box::pin(answer_here(worker, config, request, route, arrival))),
    };
    async move {
        let response = match answer {
            Answer::Proxied(prepared) => proxy(prepared).await,
            Answer::Own(answer) => answer.await,
        };
        let mut response = if head_only { Content::head_only(response) } else { response };
        if let Some(cors) = cors {
            cors.write(response.headers_mut());
        }
        Ok(Reply::new(response, serving))
    }
}

/// Responds to a request that needs no backend.
async fn answer_here(
    worker: Arc<Worker>,
    config: Arc<Config>,
    mut request: HttpRequest<Incoming>,
    route: Result<Route, Fault>,
    arrival: Arrival,
) -> Response<Content> {
    let client = arrival.client;
    let (state, peer, doors) = (&worker.state, client.ip, worker.doors);
    let format = format_of(request.uri().path(), &config);
    let needs_right = doors.visibility && route.as_ref().is_ok_and(Route::needs_right);
    if needs_right && config.admin.kubernetes_tokens {
        review(&worker, (&config, peer), &mut request).await;
    }
    match route.and_then(|route| foreign_sites::check(&config, route, &request, arrival)) {
        Ok(Route::Models | Route::ModelCard | Route::Tags) if doors.api => {
            list(&worker, request, format)
        }
        Ok(Route::Version) if doors.api => Content::whole(admin::version()),
        Ok(Route::Root) if doors.api => Content::whole(models::root(request.method())),
        Ok(Route::Options) => {
            let (parts, body) = request.into_parts();
            let options = error::options(!path::is_api(parts.uri.path()));
            request_body::pass_over(&parts.headers, body).await;
            Content::whole(options)
        }
        Ok(Route::Batch(call)) if doors.batch => {
            local_api::answer(&worker, Local::Batch(call), request, client).await
        }
        Ok(Route::Visibility(AdminPage::Usage)) if doors.visibility || doors.api => {
            Content::whole(usage_page::answer(state, request, doors.visibility).await)
        }
        Ok(Route::Visibility(AdminPage::StatusStream)) if doors.visibility => {
            let visitor = Visitor::of(request.headers(), request.extensions());
            status_stream::answer(state, visitor, peer)
        }
        Ok(Route::Visibility(page)) if doors.visibility => {
            Content::whole(status_pages::answer(&worker, page, &request))
        }
        Ok(Route::Dispatch(call)) if doors.visibility => {
            local_api::answer(&worker, Local::Queues(call), request, client).await
        }
        Ok(Route::Drain(call)) if doors.visibility && !doors.is_dispatcher() => {
            Content::whole(drain_route::answer(state, call, request, client).await)
        }
        Ok(_) if doors.is_dispatcher() => refuse(request, format, Fault::NoSuchPage).await,
        Ok(_) => refuse_path(&worker, request, format).await,
        Err(fault) if foreign_sites::is_refusal(&fault) => {
            refuse_foreign(&worker, request, format, fault).await
        }
        Err(fault) => refuse(request, format, fault).await,
    }
}

/// The form of the errors at a path.
fn format_of(path: &str, config: &Config) -> ErrorFormat {
    ErrorFormat::of(path, config.conventions.nexus_errors)
}

/// Asks the cluster about the token of a request.
async fn review(
    worker: &Worker,
    (config, client): (&Config, Option<IpAddr>),
    request: &mut HttpRequest<Incoming>,
) {
    let (headers, method, path) = (request.headers(), request.method(), request.uri().path());
    let asked = Asked { config, headers, method, path, client };
    if let Some(reviewed) = admin_access::review(&worker.state.cluster, asked).await {
        request.extensions_mut().insert(reviewed);
    }
}

/// Refuses a request that leads nowhere.
async fn refuse(
    request: HttpRequest<Incoming>,
    format: ErrorFormat,
    fault: Fault,
) -> Response<Content> {
    let (parts, body) = request.into_parts();
    let rest = request_body::pass_over(&parts.headers, body);
    // A head may have thousands of fields.
    drop(parts);
    rest.await;
    Content::whole(error::response_in(format, &fault.into()))
}

/// Refuses a request to a path that does not exist. An operator should see one that was meant as
/// work; browsers and scanners read such paths all day.
async fn refuse_path(
    worker: &Worker,
    request: HttpRequest<Incoming>,
    format: ErrorFormat,
) -> Response<Content> {
    let fault = Fault::NoSuchPath(path::meant(request.uri().path()));
    if path::is_read(request.method()) {
        return refuse(request, format, fault).await;
    }
    let (parts, body) = request.into_parts();
    request_body::pass_over(&parts.headers, body).await;
    worker.state.observer.unknown_path(parts.uri.path(), worker.state.clock.now());
    refuse_recorded(worker, &parts, format, fault)
}

/// Refuses a request of a website. An operator should see that one tried.
async fn refuse_foreign(
    worker: &Worker,
    request: HttpRequest<Incoming>,
    format: ErrorFormat,
    fault: Fault,
) -> Response<Content> {
    let (parts, body) = request.into_parts();
    request_body::pass_over(&parts.headers, body).await;
    refuse_recorded(worker, &parts, format, fault)
}

/// The models, or one of them. An operator should see that a client asks for one that nobody has.
fn list(worker: &Worker, request: HttpRequest<Incoming>, format: ErrorFormat) -> Response<Content> {
    let (mut parts, _) = request.into_parts();
    match models::answer(&worker.state, &mut parts) {
        Ok(answer) => Content::whole(answer),
        Err(fault) => refuse_recorded(worker, &parts, format, fault),
    }
}

/// Refuses a request that is no work for the queue, and records it.
fn refuse_recorded(
    worker: &Worker,
    parts: &Parts,
    format: ErrorFormat,
    fault: Fault,
) -> Response<Content> {
    let mut record = record_of(worker, parts);
    record.model = path::card_id(parts.uri.path()).map(|id| Arc::from(&*id));
    record.band = None;
    unread(record, fault.into(), format, parts)
}

/// A request that has its place in the queue, or a backend already.
struct Prepared {
    proxied: Box<ProxiedRequest>,
    format: ErrorFormat,
    request_id: HeaderValue,
    /// For what its client leaves unread, and for how long, where requests share a connection.
    unread: Option<(Reservation, Duration)>,
}

/// Sends a request to a backend when the scheduler admits it.
async fn proxy(
    prepared: Pin<Box<impl Future<Output = Result<Prepared, Response<Content>>>>>,
) -> Response<Content> {
    let Prepared { proxied, format, request_id, unread } = match prepared.await {
        Ok(prepared) => prepared,
        Err(answered) => return answered,
    };
    match (proxied.forward().await, unread) {
        (Ok(response), Some((unread, limit))) => {
            response.map(|body| Content::handed(body, limit, unread))
        }
        (Ok(response), None) => response.map(Content::Relayed),
        (Err(refused), _) => refusal(&refused, format, &request_id),
    }
}

/// Reads a request and offers it to the scheduler, or answers it.
async fn prepare(
    worker: Arc<Worker>,
    config: Arc<Config>,
    request: HttpRequest<Incoming>,
    work: (Api, RequestKind),
    peer: Option<IpAddr>,
) -> Result<Prepared, Response<Content>> {
    let (mut parts, body) = request.into_parts();
    let format = format_of(parts.uri.path(), &config);
    let shares_connection = parts.version == Version::HTTP_2;
    let write_limit = config.server.write_timeout;
    let mut record = record_of(&worker, &parts);
    let caller = match arrive(&worker.state, &config, &mut parts, &mut record) {
        Ok(caller) => caller,
        Err(refused) => {
            request_body::pass_over(&parts.headers, body).await;
            return Err(unread(record, refused, format, &parts));
        }
    };
    let address = ingress::address::named(&config, peer);
    let tenant = caller.as_ref().map(|caller| caller.tenant.name.as_str());
    let holder = (&*worker.state, BodyHolder::of(tenant, peer));
    let band = || ingress::band_before_body(&parts.headers, &config, caller.as_ref());
    let read = match request_body::collect(body, &config.server, holder, band).await {
        Ok(body) => {
            record.bytes_in = body.0.len() as u64;
            let draw = record.arrived.nanos();
            if large_bodies::is_large(&parts.headers, body.0.len()) {
                let config = Arc::clone(&config);
                let read = move |parts: &Parts| {
                    let context = context_of(&config, (caller.as_ref(), address.as_deref()), draw);
                    read(context, (parts, work), body)
                };
                Box::pin(worker.state.large_bodies.read(&mut parts, read)).await
            } else {
                let context = context_of(&config, (caller.as_ref(), address.as_deref()), draw);
                read(context, (&parts, work), body)
            }
        }
        Err(fault) => Err(fault),
    };
    let (intent, body, reservation) = match read {
        Ok(read) => read,
        Err(fault) => return Err(unread(record, fault.into(), format, &parts)),
    };
    record.describe(&intent);
    let request_id = intent.request_id.clone();
    let outgoing = upstream_request(parts, (body, reservation), &intent);
    let mut request = Request::new(Arc::clone(&worker.state), config, intent, record);
    request.peer = peer;
    if let Err(refused) = request.enqueue().await {
        return Err(refusal(&request.refuse(refused), format, &request_id));
    }
    let tells_status = request.intent.queue_status && request.is_queued();
    if tells_status {
        let unread = unread_of(&request);
        let proxied = ProxiedRequest::new(Arc::clone(&worker.pool), request, outgoing);
        return Err(queue_status::stream(proxied, format, unread));
    }
    let unread = shares_connection.then(|| (unread_of(&request), write_limit));
    let proxied = ProxiedRequest::new(Arc::clone(&worker.pool), request, outgoing);
    Ok(Prepared { proxied, format, request_id, unread })
}

/// The memory for what the client of a request leaves unread.
fn unread_of(request: &Request) -> Reservation {
    let tenant = request.intent.caller.as_ref().map(|caller| caller.tenant.name.as_str());
    request.state.unread_memory.hold_for(BodyHolder::of(tenant, request.peer))
}

fn context_of<'a>(
    config: &'a Config,
    (caller, address): (Option<&'a Caller>, Option<&'a str>),
    draw: u64,
) -> ReadContext<'a> {
    ReadContext { config, caller, address, draw }
}

fn record_of(worker: &Worker, parts: &Parts) -> RequestRecord {
    RequestRecord::begin(parts, worker.state.clock, Arc::clone(&worker.state.observer))
}

/// Refuses a request that was not read.
fn unread(
    mut record: RequestRecord,
    refused: Refused,
    format: ErrorFormat,
    parts: &Parts,
) -> Response<Content> {
    let request_id = ingress::headers::request_id(&parts.headers);
    record.identify(&request_id);
    record.fail(&refused.fault);
    refusal(&refused, format, &request_id)
}

/// Reads a request. Its body may hold more memory when it has been decoded.
fn read(
    context: ReadContext<'_>,
    (parts, work): (&Parts, (Api, RequestKind)),
    (body, mut reservation): (Bytes, Reservation),
) -> Result<(Box<Intent>, Bytes, Reservation), Fault> {
    let received = body.len();
    let (intent, body) = ingress::read(work, context, parts, body)?;
    let more = if intent.decoded { body.len().saturating_sub(received) } else { 0 };
    let lowered = reservation.set_band(intent.band);
    if lowered || more > 0 {
        reservation.more(more, context.config.server.bodies_limit)?;
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
    if intent.mislabelled {
        parts.headers.insert(CONTENT_TYPE, ingress::headers::JSON);
    }
    let headers = ingress::headers::to_upstream(parts.headers, &intent.request_id);
    UpstreamRequest { method: parts.method, path, headers, body, _reservation: reservation }
}

fn refusal(refused: &Refused, format: ErrorFormat, request_id: &HeaderValue) -> Response<Content> {
    let mut response = error::response_in(format, refused);
    headers::identify(response.headers_mut(), request_id);
    Content::whole(response)
}
