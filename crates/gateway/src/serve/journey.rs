//! The life of a request, from its head to the first byte of its answer.
//!
//! It asks for a place, waits, goes where it is sent, and comes back to wait when the backend
//! failed it. Each wait and each attempt is bounded; each way out tells the client and the core.

use std::sync::Arc;

use flow::{BackendId, Band, Controller, ModelId, Place, Span, Time, Usage};
use http::{HeaderMap, Response, Version};

use super::worker::Worker;
use crate::backend::{Attempt, Lookup, Upstream};
use crate::config::Settled;
use crate::ingress::{self, Intent};
use crate::keeper::{Grant, Seat, Target};
use crate::relay::{Answer, Errand, Failure, Flight, Limits, Outcome, Source, attempt};
use crate::reply::{Fault, Refused, headers};
use crate::trip::Trip;

/// When to try again while no backend is there: nothing that waits says when one will be.
const RETRY_WHEN_AWAY: Span = Span::from_secs(5);

/// A request under way.
#[derive(Debug)]
pub(super) struct Journey {
    pub(super) worker: Arc<Worker>,
    pub(super) settled: Arc<Settled>,
    pub(super) intent: Intent,
    pub(super) errand: Errand,
    pub(super) trip: Trip,
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
    Answer(Response<Source>),
    /// Wait for another one.
    Again(Place),
    /// Give up.
    Refuse(Fault),
}

// === impl Journey ===

impl Journey {
    /// Takes a place, in flight or in the queue.
    pub(super) async fn seat(&mut self) -> Result<Seat, Refused> {
        if let Lookup::Known(model) = self.lookup() {
            return self.offer(model);
        }
        let mut learnt = self.worker.gate.fleet.learnt();
        let usual = ingress::ttl_of(&self.settled, self.intent.class);
        let ttl = self.intent.ttl.unwrap_or(usual);
        loop {
            learnt.borrow_and_update();
            let model = match self.lookup() {
                Lookup::Known(model) => return self.offer(model),
                Lookup::NotYet(model) => model,
                Lookup::Unknown => return Err(self.unknown_model()),
            };
            // A backend's models are not known yet: it waits like others, and looks again.
            let mut seat = self.offer(model)?;
            tokio::select! {
                outcome = seat.grant() => {
                    outcome.map_err(|refused| self.waited_out(refused))?;
                }
                // The time that it has waited counts when it waits again.
                _ = learnt.changed() => self.intent.ttl = Some(less(ttl, self.age())),
            }
        }
    }

    /// Waits, goes, and comes back until there is an answer or none to be had.
    pub(super) async fn fly(
        mut self: Box<Self>,
        mut seat: Seat,
    ) -> Result<Response<Answer>, Refused> {
        self.trip.began(seat.ticket());
        self.worker.gate.retries.deposit(self.settled.fleet.retry_share);
        self.trip.record.bypassed = !seat.waits();
        loop {
            let grant = match seat.grant().await {
                Ok(grant) => grant,
                Err(refused) => {
                    let refused = self.waited_out(refused);
                    return Err(self.give_up(refused));
                }
            };
            self.granted(&grant);
            let upstream = self.worker.gate.fleet.roster().upstream(grant.backend).cloned();
            let Some(upstream) = upstream else {
                // It left between the grant and now.
                self.requeue(&mut seat, Place::Old);
                continue;
            };
            match self.attempt(&upstream, grant.at).await {
                Next::Answer(response) => {
                    return Ok(self.depart(response, seat, (&grant, &upstream)));
                }
                Next::Again(place) => self.requeue(&mut seat, place),
                Next::Refuse(fault) => {
                    // Nothing came of it.
                    seat.settle(Usage::Cost(0), self.trip.now());
                    return Err(self.give_up(fault.into()));
                }
            }
        }
    }

    /// Ends it without an answer of a backend.
    pub(super) fn give_up(self: Box<Self>, refused: Refused) -> Refused {
        self.trip.fail(&refused.fault);
        refused
    }

    fn age(&self) -> Span {
        self.worker.gate.clock.now().since(self.trip.arrived)
    }

    fn waited_out(&mut self, refused: Refused) -> Refused {
        let waited = self.age();
        self.trip.record.waited = Some(waited);
        let fault = refused.fault.after(waited);
        let away = matches!(fault, Fault::QueueTimeout(_)) && self.is_away();
        let retry_after = refused.retry_after.max(away.then_some(RETRY_WHEN_AWAY));
        Refused { fault, retry_after }
    }

    /// Whether no backend can take it now.
    fn is_away(&self) -> bool {
        match self.lookup() {
            Lookup::Known(model) => !self.worker.gate.fleet.roster().is_served(model),
            Lookup::NotYet(_) | Lookup::Unknown => true,
        }
    }

    fn lookup(&self) -> Lookup {
        let roster = self.worker.gate.fleet.roster();
        match &self.intent.target {
            Some(model) => roster.lookup(model),
            None => roster.anywhere(self.trip.arrived.nanos()),
        }
    }

    fn offer(&mut self, model: ModelId) -> Result<Seat, Refused> {
        let gate = &self.worker.gate;
        let target = Target { model, adapter: gate.fleet.roster().adapter(model) };
        let seat = gate.keeper.offer(&self.intent, target, self.trip.arrived);
        seat.map_err(|refused| {
            let model = self.intent.model.as_deref().unwrap_or_default();
            Refused { fault: refused.fault.about(model), ..refused }
        })
    }

    fn unknown_model(&self) -> Refused {
        if self.worker.gate.fleet.roster().is_empty() {
            return Refused { fault: Fault::NoBackend, retry_after: Some(RETRY_WHEN_AWAY) };
        }
        match &self.intent.model {
            Some(model) => Fault::ModelNotFound(model.clone()).into(),
            None => Fault::BackendError("none lists any model".into()).into(),
        }
    }

    /// It waits again, so it has not passed the queue by.
    fn requeue(&mut self, seat: &mut Seat, place: Place) {
        self.trip.record.bypassed = false;
        seat.requeue(place);
    }

    fn granted(&mut self, grant: &Grant) {
        let record = &mut self.trip.record;
        record.waited = Some(grant.waited);
        record.attempts += 1;
        if let Some(choice) = &grant.choice {
            record.reason = choice.reason.text();
            record.boost = choice.score.boost;
            record.score = choice.score.total;
            record.queue_penalty = choice.score.queue_penalty;
        }
    }

    async fn attempt(&mut self, upstream: &Upstream, now: Time) -> Next {
        self.trip.record.backend.clone_from(&upstream.name);
        let limits = self.limits(now);
        let outcome = attempt(&self.worker.pool, upstream, &self.errand, limits).await;
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
            Outcome::TimedOut if self.is_overdue() => Next::Refuse(Fault::DeadlineExceeded),
            Outcome::TimedOut => {
                self.report(upstream, Attempt::Failed);
                let limit = self.settled.fleet.answer_timeout.as_secs();
                Next::Refuse(Fault::BackendError(format!("no answer began within {limit} s")))
            }
        }
    }

    /// What fails the same request twice may be the request's fault: the fleet hears of it once.
    fn report(&mut self, upstream: &Upstream, attempt: Attempt) {
        self.trip.attempted(attempt);
        if attempt == Attempt::Failed {
            if self.failed_at.contains(&upstream.id) {
                return;
            }
            self.failed_at.push(upstream.id);
        }
        self.worker.gate.fleet.report(upstream, attempt);
    }

    /// A failed attempt is made again while attempts are left, for it and for all.
    fn after(&self, failure: Failure, upstream: &Upstream) -> Next {
        let left = self.trip.record.attempts < self.settled.fleet.attempts_max;
        if left && self.worker.gate.retries.withdraw() {
            return Next::Again(failure.place);
        }
        match failure.answer {
            Some(response) => Next::Answer(response),
            None => {
                Next::Refuse(Fault::BackendError(format!("{}: {}", upstream.name, failure.text)))
            }
        }
    }

    fn limits(&self, now: Time) -> Limits {
        let (fleet, clock) = (&self.settled.fleet, self.worker.gate.clock);
        let answer_by = clock.instant(now) + fleet.answer_timeout;
        let deadline = self.deadline().map(|deadline| clock.instant(deadline));
        let answer_by = deadline.map_or(answer_by, |deadline| deadline.min(answer_by));
        Limits { connect: fleet.connect_timeout, answer_by }
    }

    fn deadline(&self) -> Option<Time> {
        self.intent.deadline.map(|span| self.trip.arrived.after(span))
    }

    fn is_overdue(&self) -> bool {
        self.deadline().is_some_and(|deadline| self.worker.gate.clock.now() >= deadline)
    }

    /// How much room there is, where answers are to tell it.
    fn room(&self) -> Option<Room> {
        let server = &self.settled.server;
        let wanted = server.headroom_headers || server.orca;
        let band = self.intent.band;
        wanted.then(|| self.worker.gate.keeper.with(|core, _| Room::of(core, band)))
    }

    fn tell(&self, headers: &mut HeaderMap, grant: &Grant, upstream: &Upstream) {
        let server = &self.settled.server;
        let room = self.room();
        let told = headers::Told {
            backend: &upstream.name_header,
            choice: grant.choice,
            waited: grant.waited,
            request_id: &self.intent.request_id,
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
        mut response: Response<Source>,
        seat: Seat,
        (grant, upstream): (&Grant, &Upstream),
    ) -> Response<Answer> {
        self.trip.answered(response.status());
        if let Some(first_byte) = self.trip.record.first_byte {
            upstream.note(first_byte);
        }
        // What the backend speaks is its own affair.
        *response.version_mut() = Version::HTTP_11;
        let own = std::mem::take(response.headers_mut());
        *response.headers_mut() = headers::from_upstream(own);
        self.tell(response.headers_mut(), grant, upstream);
        let flight = Flight {
            seat,
            trip: self.trip,
            cost: self.settled.cost,
            prompt_estimate: self.intent.prompt,
            streamed: self.intent.streamed,
        };
        Answer::new(response, flight, self.settled.fleet.stall_timeout)
    }
}

/// What is left of a time.
fn less(whole: Span, gone: Span) -> Span {
    Span::from_nanos(whole.nanos().saturating_sub(gone.nanos()))
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
