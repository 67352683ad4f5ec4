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

/// Adds the backend, the wait and, where it is configured, the room in the queue.
pub(super) fn add(headers: &mut HeaderMap, request: &Request, admitted: &Admitted) {
    let server = &request.config.server;
    let room = room(request);
    let description = headers::RouteDescription {
        backend: &admitted.endpoint.name_header,
        choice: admitted.grant.choice.as_ref(),
        waited: request.record.waited.unwrap_or(Span::ZERO),
        request_id: &request.intent.request_id,
        headroom: room.filter(|_| server.headroom_headers).map(|room| room.headroom.into()),
    };
    headers::describe(headers, &description);
    if let Some(room) = room.filter(|_| server.orca) {
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
