//! The status pages, for clients that may see them.

use bytes::Bytes;
use http::{Request as HttpRequest, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;

use super::worker::Worker;
use super::{dashboard, dispatch_pages};
use crate::admin;
use crate::admin_access::{self, Visitor};
use crate::ingress::path::{self, AdminPage};
use crate::observe::MetricsFormat;
use crate::reply::{error, json, uncached};

/// A status page, for a client that may see it.
pub(super) fn answer(
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
