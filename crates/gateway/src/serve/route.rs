//! Routes a request to the code that responds to it.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request as HttpRequest, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Incoming;

use super::connection::Serving;
use super::foreign_sites::{Arrival, Cors};
use super::local_api::Local;
use super::response_writer::{Content, Reply};
use super::worker::Worker;
use super::{
    dashboard, dispatch_pages, drain_route, foreign_sites, head_check, local_api, models,
    queue_status, request_body, status_stream, usage_page,
};
use crate::admin_access::{self, Asked, Visitor};
use crate::body_memory::{BodyHolder, Reservation};
use crate::config::Config;
use crate::ingress::path::{self, AdminPage, Api, RequestKind, Route};
use crate::ingress::{self, Caller, Intent, ReadContext};
use crate::observe::MetricsFormat;
use crate::proxy::{ProxiedRequest, UpstreamRequest};
use crate::reply::{ErrorFormat, Fault, Refused, content, error, headers, json, uncached};
use crate::request::{Request, RequestRecord, arrive};
use crate::{admin, large_bodies};

/// Responds to a request.
pub(super) async fn answer(
    worker: Arc<Worker>,
    mut request: HttpRequest<Incoming>,
    serving: Serving,
    arrival: Arrival,
) -> Result<Response<Reply>, Infallible> {
    let client = arrival.client;
    let (state, peer) = (&worker.state, client.ip);
    let config = state.config.load_full();
    let path = request.uri().path();
    let format = format_of(path, &config);
    let head_only = request.method() == Method::HEAD;
    let doors = worker.doors;
    let route = head_check::check(&request).and_then(|()| path::classify(request.method(), path));
    let needs_right = doors.visibility && route.as_ref().is_ok_and(Route::needs_right);
    if needs_right && config.admin.kubernetes_tokens {
        review(&worker, (&config, peer), &mut request).await;
    }
    let route = route.and_then(|route| foreign_sites::check(&config, route, &request, arrival));
    let cors = Cors::of(&config, &request);
    let response = match route {
        Ok(Route::Proxied { api, kind }) if doors.api => {
            proxy(worker, config, request, (api, kind), peer).await
        }
        Ok(Route::Models | Route::ModelCard | Route::Tags) if doors.api => {
            Content::whole(models::answer(state, request))
        }
        Ok(Route::Version) if doors.api => Content::whole(admin::version()),
        Ok(Route::Root) if doors.api => Content::whole(root(request.method())),
        Ok(Route::Options) => {
            let (parts, body) = request.into_parts();
            let options = error::options(!path::is_api(parts.uri.path()));
            request_body::pass_over(&parts.headers, body).await;
            Content::whole(options)
        }
        Ok(Route::Batch(call)) if doors.batch => {
            // The future of a proxied request is moved as often, and should be no larger for these.
            Box::pin(local_api::answer(&worker, Local::Batch(call), request, client)).await
        }
        Ok(Route::Visibility(AdminPage::Usage)) if doors.visibility || doors.api => {
            Content::whole(Box::pin(usage_page::answer(state, request, doors.visibility)).await)
        }
        Ok(Route::Visibility(AdminPage::StatusStream)) if doors.visibility => {
            let visitor = Visitor::of(request.headers(), request.extensions());
            status_stream::answer(state, visitor, peer)
        }
        Ok(Route::Visibility(page)) if doors.visibility => {
            Content::whole(page_of(&worker, page, &request))
        }
        Ok(Route::Dispatch(call)) if doors.visibility => {
            Box::pin(local_api::answer(&worker, Local::Queues(call), request, client)).await
        }
        Ok(Route::Drain(call)) if doors.visibility && !doors.is_dispatcher() => {
            Content::whole(Box::pin(drain_route::answer(state, call, request, client)).await)
        }
        Ok(_) if doors.is_dispatcher() => refuse(request, format, Fault::NoSuchPage).await,
        Ok(_) => refuse_path(&worker, request, format).await,
        Err(fault) if foreign_sites::is_refusal(&fault) => {
            refuse_foreign(&worker, request, format, fault).await
        }
        Err(fault) => refuse(request, format, fault).await,
    };
    let mut response = if head_only { Content::head_only(response) } else { response };
    if let Some(cors) = cors {
        cors.write(response.headers_mut());
    }
    Ok(Reply::new(response, serving))
}

/// The form of the errors at a path.
fn format_of(path: &str, config: &Config) -> ErrorFormat {
    ErrorFormat::of(path, config.conventions.nexus_errors)
}

/// Asks the cluster about the token of a request. The future of a proxied request should be no
/// larger for this.
fn review<'a>(
    worker: &'a Worker,
    (config, client): (&'a Config, Option<IpAddr>),
    request: &'a mut HttpRequest<Incoming>,
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    Box::pin(async move {
        let (headers, method, path) = (request.headers(), request.method(), request.uri().path());
        let asked = Asked { config, headers, method, path, client };
        if let Some(reviewed) = admin_access::review(&worker.state.cluster, asked).await {
            request.extensions_mut().insert(reviewed);
        }
    })
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
    let mut record = record_of(worker, &parts);
    record.band = None;
    unread(record, fault.into(), format, &parts)
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
    let mut record = record_of(worker, &parts);
    record.band = None;
    unread(record, fault.into(), format, &parts)
}

/// A status page, for a client that may see it.
fn page_of(
    worker: &Worker,
    page: AdminPage,
    request: &HttpRequest<Incoming>,
) -> Response<Full<Bytes>> {
    let state = &worker.state;
    let visitor = Visitor::of(request.headers(), request.extensions());
    if let Err(fault) = admin_access::may_see(&state.config.load(), page, visitor) {
        return error::response(&fault.into());
    }
    match page {
        AdminPage::Dashboard(file) => return dashboard::answer(file),
        AdminPage::Metrics => {
            let format = MetricsFormat::of(request.headers());
            return match worker.doors.is_dispatcher() {
                true => dispatch_pages::metrics(state, format),
                false => admin::metrics(state, format),
            };
        }
        AdminPage::Request if worker.doors.is_dispatcher() => {}
        AdminPage::Request => {
            let id = path::request_id(request.uri().path()).unwrap_or_default();
            return match admin::requests::page(state, &id) {
                Ok(page) => uncached(json(StatusCode::OK, &page)),
                Err(fault) => error::response(&fault.into()),
            };
        }
        _ => {}
    }
    let alone = worker.durable_queues.as_deref().filter(|_| worker.doors.is_dispatcher());
    match alone {
        Some(durable_queues) => dispatch_pages::alone(state, durable_queues, page),
        None => admin::respond(state, page, state.standing()),
    }
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
    config: Arc<Config>,
    request: HttpRequest<Incoming>,
    work: (Api, RequestKind),
    peer: Option<IpAddr>,
) -> Response<Content> {
    let (mut parts, body) = request.into_parts();
    let format = format_of(parts.uri.path(), &config);
    let shares_connection = parts.version == Version::HTTP_2;
    let write_limit = config.server.write_timeout;
    let mut record = record_of(&worker, &parts);
    let caller = match arrive(&worker.state, &config, &mut parts, &mut record) {
        Ok(caller) => caller,
        Err(refused) => {
            request_body::pass_over(&parts.headers, body).await;
            return unread(record, refused, format, &parts);
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
        Err(fault) => return unread(record, fault.into(), format, &parts),
    };
    record.describe(&intent);
    let request_id = intent.request_id.clone();
    let outgoing = upstream_request(parts, (body, reservation), &intent);
    let mut request = Request::new(Arc::clone(&worker.state), config, intent, record);
    request.peer = peer;
    if let Err(refused) = request.enqueue().await {
        return refusal(&request.refuse(refused), format, &request_id);
    }
    let tells_status = request.intent.queue_status && request.is_queued();
    if tells_status {
        let unread = unread_of(&request);
        let proxied = ProxiedRequest::new(Arc::clone(&worker.pool), request, outgoing);
        return queue_status::stream(proxied, format, unread);
    }
    let unread_memory = shares_connection.then(|| unread_of(&request));
    let proxied = ProxiedRequest::new(Arc::clone(&worker.pool), request, outgoing);
    match (proxied.forward().await, unread_memory) {
        (Ok(response), Some(unread)) => {
            response.map(|body| Content::handed(body, write_limit, unread))
        }
        (Ok(response), None) => response.map(Content::Relayed),
        (Err(refused), _) => refusal(&refused, format, &request_id),
    }
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
