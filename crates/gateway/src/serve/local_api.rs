//! Calls that the process itself responds to: the Batch API and the dispatcher's pages. They are
//! counted and logged like proxied requests, but have no band, since they do not queue.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Request, Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;

use super::file_download::RecordedDownload;
use super::response_writer::Content;
use super::worker::Worker;
use super::{batch_routes, dispatch_pages, request_body};
use crate::admin_access::Peer;
use crate::batch_api::{BatchResponse, Download, Sent};
use crate::body_memory::{BodyHolder, Reservation};
use crate::ingress;
use crate::ingress::path::{BatchCall, DispatchCall};
use crate::reply::{ErrorFormat, error, headers};
use crate::request::RequestRecord;

/// A call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Local {
    Batch(BatchCall),
    Queues(DispatchCall),
}

/// Responds to a call. A client that leaves before is counted as such.
pub(super) async fn answer(
    worker: &Worker,
    call: Local,
    request: Request<Incoming>,
    client: Peer,
) -> Response<Content> {
    let (state, durable_queues) = (&worker.state, worker.durable_queues.as_deref());
    let peer = client.ip;
    let (mut parts, body) = request.into_parts();
    let request_id = ingress::headers::request_id(&parts.headers);
    let mut record = RequestRecord::begin(&parts, state.clock, Arc::clone(&state.observer));
    record.identify(&request_id);
    record.band = None;
    let config = state.config.load_full();
    let caller = match call {
        Local::Batch(_) => state.caller(&config, &mut parts),
        Local::Queues(_) => Ok(None),
    };
    record.attribute(caller.as_ref().ok().and_then(Option::as_ref));
    let answered = match call {
        Local::Batch(call) => {
            let received = &mut record.bytes_in;
            if call != BatchCall::Upload {
                *received = body.size_hint().exact().unwrap_or(0);
            }
            match &caller {
                Ok(caller) => {
                    let (parts, caller) = (&parts, caller.as_ref());
                    let sender = Sent { parts, config: &config, caller, peer };
                    let sent = (sender, body);
                    batch_routes::answer(state, durable_queues, call, sent, received).await
                }
                Err(fault) => {
                    request_body::pass_over(&parts.headers, body).await;
                    Err(fault.clone())
                }
            }
        }
        Local::Queues(call) => {
            record.bytes_in = body.size_hint().exact().unwrap_or(0);
            dispatch_pages::answer(state, durable_queues, call, (&parts, body, client))
                .await
                .map(BatchResponse::Whole)
        }
    };
    let mut response = match answered {
        Ok(BatchResponse::Whole(response)) => {
            record.response_began(response.status());
            if parts.method != Method::HEAD {
                record.bytes_out = response.body().size_hint().exact().unwrap_or(0);
            }
            let now = record.now();
            record.succeed(now);
            Content::whole(response)
        }
        Ok(BatchResponse::File(response)) => {
            record.response_began(response.status());
            let limit = state.config.load().server.write_timeout;
            let tenant = caller.as_ref().ok().and_then(Option::as_ref);
            let tenant = tenant.map(|caller| caller.tenant.name.as_str());
            let unread = state.unread_memory.hold_for(BodyHolder::of(tenant, peer));
            response.map(|file| send(file, record, (&parts, limit), unread))
        }
        Err(fault) => {
            record.fail(&fault);
            let format = ErrorFormat::of_openai(config.conventions.nexus_errors);
            Content::whole(error::response_in(format, &fault.into()))
        }
    };
    headers::identify(response.headers_mut(), &request_id);
    response
}

/// The body of a file, whose record ends with its last byte.
fn send(
    file: Download,
    record: RequestRecord,
    (parts, limit): (&Parts, Duration),
    unread: Reservation,
) -> Content {
    let download = RecordedDownload::new(file, record, parts.method == Method::HEAD);
    match parts.version {
        Version::HTTP_2 if parts.method != Method::HEAD => Content::handed(download, limit, unread),
        _ => Content::Stored(Box::new(download)),
    }
}
