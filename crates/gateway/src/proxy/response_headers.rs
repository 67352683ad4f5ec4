//! The headers that a proxied response carries besides the backend's own.

use flow::{Band, Controller, Span};
use http::HeaderMap;

use crate::reply::headers;
use crate::request::{Admitted, Request};

/// How much more may wait in a band.
#[derive(Clone, Copy, Debug)]
struct QueueRoom {
    headroom: u32,
    capacity: u32,
}

/// Adds the backend, the wait and the room in the queue.
pub(super) fn add(headers: &mut HeaderMap, request: &Request, admitted: &Admitted) {
    let description = headers::RouteDescription {
        backend: &admitted.endpoint.name_header,
        choice: admitted.grant.choice.as_ref(),
        waited: request.record.waited.unwrap_or(Span::ZERO),
        request_id: &request.intent.request_id,
    };
    headers::describe(headers, &description);
    add_room(headers, request);
}

/// Adds the room in the queue, where it is configured.
pub(crate) fn add_room(headers: &mut HeaderMap, request: &Request) {
    let (server, Some(room)) = (&request.config.server, room(request)) else { return };
    if server.headroom_headers {
        let waited = request.record.waited.unwrap_or(Span::ZERO);
        headers::report_room(headers, room.headroom.into(), waited);
    }
    if server.orca {
        headers::report_load(headers, room.utilization());
    }
}

/// The room in the request's band, where responses are to tell it.
fn room(request: &Request) -> Option<QueueRoom> {
    let server = &request.config.server;
    let band = request.intent.band;
    let wanted = server.headroom_headers || server.orca;
    wanted.then(|| request.state.scheduler.with(|core, _| QueueRoom::of(core, band)))
}

// === impl QueueRoom ===

impl QueueRoom {
    fn of(core: &Controller, band: Band) -> Self {
        Self { headroom: core.headroom(band), capacity: core.capacity() }
    }

    /// How full the queue is, from 0 to 1. A queue without capacity counts as full.
    fn utilization(self) -> f64 {
        let free = f64::from(self.headroom) / f64::from(self.capacity.max(1));
        (1.0 - free).clamp(0.0, 1.0)
    }
}
