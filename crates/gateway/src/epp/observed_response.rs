//! The way back: what Envoy shows of an answer, and how the request is settled by it.

use std::sync::Arc;

use envoy::ext_proc::{HttpBody, HttpHeaders};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::request;
use crate::backend::{Attempt, Upstream};
use crate::passage::Hurry;
use crate::proxy::{Flight, StreamFormat, TokenCounter, verdict};
use crate::reply::{Fault, headers};
use crate::state::State;

/// What Envoy adds to every answer that is not its own.
const FROM_UPSTREAM: &str = "x-envoy-upstream-service-time";

/// An answer on its way back.
pub(super) struct Answer {
    /// Gone when it has been settled.
    flight: Option<Flight>,
    counter: TokenCounter,
    upstream: Arc<Upstream>,
    pub(super) told: HeaderMap,
    /// Whether its body will be seen. If not, the end of the conversation is the end of the answer.
    sees_bodies: bool,
    began: bool,
    /// What went wrong, where Envoy answered in the place of a backend.
    fault: Option<Fault>,
}

/// What an answer's head says that matters here.
struct AnswerHead {
    status: StatusCode,
    content_type: Option<HeaderValue>,
    retry_after: Option<HeaderValue>,
    from_upstream: bool,
}

// === impl Answer ===

impl Answer {
    /// Nothing of it has come yet.
    pub(super) fn awaited(
        flight: Flight,
        upstream: Arc<Upstream>,
        told: HeaderMap,
        sees_bodies: bool,
    ) -> Self {
        let counter = TokenCounter::new(StreamFormat::Whole);
        Self {
            flight: Some(flight),
            counter,
            upstream,
            told,
            sees_bodies,
            began: false,
            fault: None,
        }
    }

    pub(super) fn begins(&mut self, state: &State, head: &HttpHeaders, served: Option<&str>) {
        self.began = true;
        self.follow_to(state, served);
        let head_of = AnswerHead::of(head);
        self.counter = TokenCounter::new(StreamFormat::of(head_of.content_type.as_ref()));
        let attempt = head_of.attempt();
        if head_of.is_envoys() {
            let text = format!("Envoy did not reach {}", self.upstream.name);
            self.fault = Some(Fault::BackendError(text));
        }
        state.fleet.report(&self.upstream, attempt);
        if let Some(flight) = &mut self.flight {
            flight.trip.attempted(attempt);
            flight.trip.answered(head_of.status);
            if let Some(first_byte) = flight.trip.record.first_byte {
                self.upstream.note(first_byte);
            }
        }
        if head.end_of_stream {
            self.complete();
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.began
    }

    /// Whether it goes on unseen.
    pub(super) fn is_unseen(&self) -> bool {
        !self.sees_bodies && self.flight.is_some()
    }

    /// It has not come in time. Says what is to be told to whom, if it had not ended already.
    pub(super) fn give_up(&mut self, state: &State, hurry: Hurry) -> Option<(Fault, HeaderValue)> {
        let mut flight = self.flight.take()?;
        if !self.began && hurry != Hurry::Client {
            state.fleet.report(&self.upstream, Attempt::Failed);
            flight.trip.attempted(Attempt::Failed);
        }
        let fault = hurry.fault();
        flight.land(&self.counter, Some(&fault));
        Some((fault, headers::request_id(&self.told)))
    }

    /// Envoy may have gone on to another backend than was meant, because that one failed.
    fn follow_to(&mut self, state: &State, served: Option<&str>) {
        let Some(socket) = served.and_then(|served| served.parse().ok()) else { return };
        if self.upstream.socket == Some(socket) {
            return;
        }
        let Some(other) = state.fleet.roster().at(socket).cloned() else { return };
        state.fleet.report(&self.upstream, Attempt::Failed);
        headers::served_elsewhere(&mut self.told, &other.name_header);
        if let Some(flight) = &mut self.flight {
            flight.trip.attempted(Attempt::Failed);
            flight.permit.moved(other.id);
            flight.trip.record.attempts += 1;
            flight.trip.record.backend.clone_from(&other.name);
        }
        self.upstream = other;
    }

    pub(super) fn passes(&mut self, piece: &HttpBody) {
        if let Some(flight) = &mut self.flight {
            flight.trip.record.bytes_out += piece.body.len() as u64;
            if self.counter.read(&piece.body) {
                flight.progressed(self.counter.tokens());
            }
        }
        if piece.end_of_stream {
            self.complete();
        }
    }

    /// The last byte has come.
    pub(super) fn complete(&mut self) {
        if let Some(flight) = self.flight.take() {
            flight.land(&self.counter, self.fault.as_ref());
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // The end of the conversation is that of an answer whose bytes are not shown. Envoy may
        // reset its stream then, before anybody has heard of the end.
        if self.began && !self.sees_bodies {
            self.complete();
        }
        if let Some(flight) = self.flight.take() {
            flight.abandoned(&self.counter);
        }
    }
}

// === impl AnswerHead ===

impl AnswerHead {
    fn of(head: &HttpHeaders) -> Self {
        let mut found = Self {
            status: StatusCode::OK,
            content_type: None,
            retry_after: None,
            from_upstream: false,
        };
        for (name, value) in request::pairs(head.headers.as_ref()) {
            match name {
                ":status" => {
                    found.status = StatusCode::from_bytes(value).unwrap_or(StatusCode::BAD_GATEWAY);
                }
                FROM_UPSTREAM => found.from_upstream = true,
                _ if name == CONTENT_TYPE => {
                    found.content_type = HeaderValue::from_bytes(value).ok();
                }
                _ if name == RETRY_AFTER => found.retry_after = HeaderValue::from_bytes(value).ok(),
                _ => {}
            }
        }
        found
    }

    /// How it went at the backend. What Envoy says in the place of a backend that it could not
    /// reach is the backend's failure.
    fn attempt(&self) -> Attempt {
        if self.is_envoys() {
            return Attempt::Failed;
        }
        verdict(self.status, self.retry_after.as_ref())
    }

    /// Whether Envoy says it itself.
    fn is_envoys(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE && !self.from_upstream
    }
}
