//! From a request to its answer, faults included.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use sim::random::Random;
use tokio::time::{Instant, sleep};

use super::Settings;
use super::api::{Api, ApiResponse};
use super::api_request::ApiRequest;
use super::body::Body;
use super::connection::{ConnectionFault, Ending};
use super::control::{Control, RequestGuard};
use super::fault::Fault;
use super::stream::ResponseStream;
use super::{generated_text, status_pages};

/// What all connections of an engine share.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) settings: Settings,
    pub(super) control: Control,
    serial: AtomicU64,
}

/// The largest body that is read.
const BODY_MAX: usize = 64 << 20;

const FAULT: HeaderName = HeaderName::from_static("x-fault");
const JSON: &str = "application/json";

/// Not HTTP in any version.
const GARBAGE: &[u8] = b"\x00\xff\x13 what is this? \r\n\r\n\xfe\xed";

const BAD_LENGTH: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
    content-length: 1000\r\n\r\n{\"choices\": [";

/// The pace of an answer that never ends.
const ENDLESS_EVERY: Duration = Duration::from_millis(5);

// === impl Server ===

impl Server {
    pub(super) fn new(settings: Settings, control: Control) -> Self {
        Self { settings, control, serial: AtomicU64::new(0) }
    }

    fn answer(&self, request: ApiRequest) -> ApiResponse {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::new(self.settings.seed.wrapping_add(serial)).fork("words");
        let pieces = generated_text::pieces(&request, self.settings.text, &mut random);
        let (first, total) = (Duration::ZERO, Duration::ZERO);
        ApiResponse { request, serial, pieces, first, total }
    }
}

/// Answers a request.
pub(super) async fn respond(
    server: Arc<Server>,
    fault_line: Arc<ConnectionFault>,
    request: Request<Incoming>,
) -> Response<Body> {
    let path = request.uri().path();
    if path == "/control" {
        return control(&server.control, request).await;
    }
    let api = Api::of(path).filter(|_| request.method() == Method::POST);
    let asked = match fault_asked(&request) {
        Ok(asked) => asked,
        Err(wrong) => return refusal(api, 400, &wrong),
    };
    match api {
        Some(api) => work(server, fault_line, request, (api, asked)).await,
        None => match server.control.fault(asked, false) {
            Some(Fault::Slow(time)) => {
                sleep(time).await;
                status_pages::respond(&server, &request)
            }
            Some(fault) => fail(&server, &fault_line, api, fault).await,
            None => status_pages::respond(&server, &request),
        },
    }
}

fn fault_asked(request: &Request<Incoming>) -> Result<Option<Fault>, String> {
    let Some(value) = request.headers().get(FAULT) else { return Ok(None) };
    let text = value.to_str().map_err(|_| "x-fault must be text".to_owned())?;
    text.parse().map(Some).map_err(|unknown: super::UnknownFault| unknown.to_string())
}

/// A request for work.
async fn work(
    server: Arc<Server>,
    fault_line: Arc<ConnectionFault>,
    request: Request<Incoming>,
    (api, asked): (Api, Option<Fault>),
) -> Response<Body> {
    let began = Instant::now();
    let mut guard = server.control.guard();
    let (head, body) = request.into_parts();
    server.control.note_request(format!("{} {}", head.method, head.uri), &head.headers);
    let body = match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return refuse(guard, api, 400, &error.to_string()),
    };
    server.control.note_body(&body);
    let mut reset_after = None;
    match server.control.fault(asked, true) {
        Some(Fault::Slow(time)) => sleep(time).await,
        Some(Fault::ResetAfter(tokens)) => reset_after = Some(tokens),
        // It stays as long as its client does.
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::NeverEnd) => return endless(guard, api),
        Some(fault) => {
            guard.fail();
            return fail(&server, &fault_line, Some(api), fault).await;
        }
        None => {}
    }
    let request = match ApiRequest::read(api, &body) {
        Ok(request) => request,
        Err(error) => return refuse(guard, api, 400, &error.to_string()),
    };
    if !server.settings.models.contains(&request.model) {
        let text = format!("the model {:?} does not exist", request.model);
        return refuse(guard, api, 404, &text);
    }
    let answer = server.answer(request);
    let work = answer.request.work(answer.pieces.len() as u32);
    match server.control.machine.enter(work) {
        Ok(job) => {
            ResponseStream { answer, job, guard, fault_line, began, reset_after }.respond().await
        }
        Err(rejected) => refuse(guard, api, 400, &rejected.to_string()),
    }
}

/// A fault that comes in place of an answer.
async fn fail(
    server: &Server,
    fault_line: &ConnectionFault,
    api: Option<Api>,
    fault: Fault,
) -> Response<Body> {
    match fault {
        Fault::Refuse(time) => {
            server.control.shut(time);
            fault_line.end(Ending::Reset).await
        }
        Fault::Reset | Fault::ResetAfter(_) => fault_line.end(Ending::Reset).await,
        Fault::Garbage => fault_line.end(Ending::After(GARBAGE)).await,
        Fault::BadLength => fault_line.end(Ending::After(BAD_LENGTH)).await,
        Fault::Hang | Fault::NeverEnd | Fault::Slow(_) => std::future::pending().await,
        Fault::Status(status, retry_after) => refuse_with(api, status, retry_after),
    }
}

/// A refusal with a status that was asked for.
fn refuse_with(api: Option<Api>, status: u16, retry_after: Option<u32>) -> Response<Body> {
    let mut response = refusal(api, status, "this was asked for");
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn refuse(mut guard: RequestGuard, api: Api, status: u16, text: &str) -> Response<Body> {
    guard.fail();
    refusal(Some(api), status, text)
}

fn refusal(api: Option<Api>, status: u16, text: &str) -> Response<Body> {
    document(status, &api.unwrap_or(Api::Chat).error(status, text))
}

pub(super) fn document(status: u16, value: &Value) -> Response<Body> {
    let mut response = typed(JSON, Body::whole(value.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response
}

pub(super) fn typed(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Goes on until the client leaves.
fn endless(guard: RequestGuard, api: Api) -> Response<Body> {
    let (sender, body) = Body::pieces();
    tokio::spawn(async move {
        let chunk = Bytes::from_static(b": and on\n\n");
        while sender.send(chunk.clone()).await.is_ok() {
            sleep(ENDLESS_EVERY).await;
        }
        drop(guard);
    });
    typed(api.stream_type(), body)
}

async fn control(control: &Control, request: Request<Incoming>) -> Response<Body> {
    if request.method() == Method::GET {
        return document(200, &json!(control.counters()));
    }
    let body = match Limited::new(request.into_body(), BODY_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return refusal(None, 400, &error.to_string()),
    };
    let demand = serde_json::from_slice(&body).map_err(|error| error.to_string());
    let done = demand.and_then(|demand| control.demand(&demand).map_err(|error| error.to_string()));
    match done {
        Ok(()) => document(200, &json!({"ok": true})),
        Err(wrong) => refusal(None, 400, &wrong),
    }
}
