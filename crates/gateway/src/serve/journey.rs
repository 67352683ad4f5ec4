//! The life of a request, from its head to the first byte of its answer.
//!
//! It asks for a place, waits, goes where it is sent, and comes back to wait when the backend
//! failed it. Each wait and each attempt is bounded; each way out tells the client and the core.

use std::sync::Arc;

use flow::{BackendId, Band, Controller, RequeuePosition, Time, Usage};
use http::{HeaderMap, Response, Version};

use super::worker::Worker;
use crate::backend::{Attempt, Upstream};
use crate::passage::{Hurry, Passage};
use crate::proxy::{Failure, Limits, Outcome, ResponseBody, UpstreamRequest, attempt};
use crate::reply::{Fault, Refused, headers};
use crate::scheduler::{Grant, Permit};
use crate::upstream::UpstreamBody;

/// A request under way.
#[derive(Debug)]
pub(super) struct Journey {
    pub(super) worker: Arc<Worker>,
    pub(super) passage: Passage,
    pub(super) outgoing: UpstreamRequest,
    /// The backends that have failed it.
    pub(super) failed_at: Vec<BackendId>,
}

/// How much more may wait in a band.
#[derive(Clone, Copy, Debug)]
struct Room {
    headroom: u32,
    capacity: u32,
}

/// What to do after an attempt.
enum Next {
    /// Pass this on.
    Answer(Response<UpstreamBody>),
    /// Wait for another one.
    Again(RequeuePosition),
    /// Give up.
    Refuse(Fault),
}

// === impl Journey ===

impl Journey {
    /// Waits, goes, and comes back until there is an answer or none to be had.
    pub(super) async fn fly(
        mut self: Box<Self>,
        mut permit: Permit,
    ) -> Result<Response<ResponseBody>, Refused> {
        self.passage.trip.began(permit.ticket());
        self.passage.state.retries.deposit(self.passage.config.fleet.retry_share);
        self.passage.trip.record.bypassed = !permit.waits();
        loop {
            let grant = match permit.grant().await {
                Ok(grant) => grant,
                Err(refused) => {
                    let refused = self.passage.waited_out(refused);
                    return Err(self.give_up(refused));
                }
            };
            self.passage.granted(&grant);
            let upstream = self.passage.state.fleet.roster().upstream(grant.backend).cloned();
            let Some(upstream) = upstream else {
                // It left between the grant and now.
                self.requeue(&mut permit, RequeuePosition::Original);
                continue;
            };
            match self.attempt(&upstream, grant.at).await {
                Next::Answer(response) => {
                    return Ok(self.depart(response, permit, (&grant, &upstream)));
                }
                Next::Again(place) => self.requeue(&mut permit, place),
                Next::Refuse(fault) => {
                    // Nothing came of it.
                    permit.settle(Usage::Cost(0), self.passage.trip.now());
                    return Err(self.give_up(fault.into()));
                }
            }
        }
    }

    /// Ends it without an answer of a backend.
    pub(super) fn give_up(self: Box<Self>, refused: Refused) -> Refused {
        self.passage.trip.fail(&refused.fault);
        refused
    }

    /// It waits again, so it has not passed the queue by.
    fn requeue(&mut self, permit: &mut Permit, place: RequeuePosition) {
        self.passage.trip.record.bypassed = false;
        permit.requeue(place);
    }

    async fn attempt(&mut self, upstream: &Upstream, now: Time) -> Next {
        self.passage.trip.record.backend.clone_from(&upstream.name);
        let (answer_by, hurry) = self.passage.hurry(now);
        let limits = Limits { connect: self.passage.config.fleet.connect_timeout, answer_by };
        let outcome = attempt(&self.worker.pool, upstream, &self.outgoing, limits).await;
        match outcome {
            Outcome::Answered(response) => {
                self.report(upstream, Attempt::Answered);
                Next::Answer(response)
            }
            Outcome::Failed(failure) => {
                tracing::debug!(backend = upstream.name, error = failure.text, "an attempt failed");
                self.report(upstream, failure.attempt);
                self.after(failure, upstream)
            }
            Outcome::TimedOut => {
                if hurry != Hurry::Client {
                    self.report(upstream, Attempt::Failed);
                }
                Next::Refuse(hurry.fault())
            }
        }
    }

    /// What fails the same request twice may be the request's fault: the fleet hears of it once.
    fn report(&mut self, upstream: &Upstream, attempt: Attempt) {
        self.passage.trip.attempted(attempt);
        if attempt == Attempt::Failed {
            if self.failed_at.contains(&upstream.id) {
                return;
            }
            self.failed_at.push(upstream.id);
        }
        self.passage.state.fleet.report(upstream, attempt);
    }

    /// A failed attempt is made again while attempts are left, for it and for all.
    fn after(&self, failure: Failure, upstream: &Upstream) -> Next {
        let left = self.passage.trip.record.attempts < self.passage.config.fleet.attempts_max;
        if left && self.passage.state.retries.withdraw() {
            return Next::Again(failure.place);
        }
        match failure.answer {
            Some(response) => Next::Answer(response),
            None => {
                Next::Refuse(Fault::BackendError(format!("{}: {}", upstream.name, failure.text)))
            }
        }
    }

    /// How much room there is, where answers are to tell it.
    fn room(&self) -> Option<Room> {
        let server = &self.passage.config.server;
        let wanted = server.headroom_headers || server.orca;
        let band = self.passage.intent.band;
        wanted.then(|| self.passage.state.scheduler.with(|core, _| Room::of(core, band)))
    }

    fn tell(&self, headers: &mut HeaderMap, grant: &Grant, upstream: &Upstream) {
        let server = &self.passage.config.server;
        let room = self.room();
        let told = headers::Told {
            backend: &upstream.name_header,
            choice: grant.choice,
            waited: grant.waited,
            request_id: &self.passage.intent.request_id,
            headroom: room.filter(|_| server.headroom_headers).map(|room| room.headroom.into()),
        };
        headers::describe(headers, &told);
        if let Some(room) = room.filter(|_| server.orca) {
            headers::report_load(headers, room.utilization());
        }
    }

    /// The answer begins: from here on nothing is tried again.
    fn depart(
        mut self: Box<Self>,
        mut response: Response<UpstreamBody>,
        permit: Permit,
        (grant, upstream): (&Grant, &Upstream),
    ) -> Response<ResponseBody> {
        self.passage.trip.answered(response.status());
        if let Some(first_byte) = self.passage.trip.record.first_byte {
            upstream.note(first_byte);
        }
        // What the backend speaks is its own affair.
        *response.version_mut() = Version::HTTP_11;
        let own = std::mem::take(response.headers_mut());
        *response.headers_mut() = headers::from_upstream(own);
        self.tell(response.headers_mut(), grant, upstream);
        let stall_limit = self.passage.config.fleet.stall_timeout;
        ResponseBody::new(response, self.passage.fly(permit), stall_limit)
    }
}

// === impl Room ===

impl Room {
    fn of(core: &Controller, band: Band) -> Self {
        Self { headroom: core.headroom(band), capacity: core.capacity() }
    }

    /// How full the queue is, from 0 to 1; where nothing may wait, nobody can say.
    fn utilization(self) -> f64 {
        let free = f64::from(self.headroom) / f64::from(self.capacity.max(1));
        (1.0 - free).clamp(0.0, 1.0)
    }
}
