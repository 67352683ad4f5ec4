//! One request's record, written as it goes and handed over once, whatever way it ends.

use std::sync::Arc;

use flow::{Band, Span, Ticket, Time};
use http::request::Parts;
use http::{HeaderValue, StatusCode};

use crate::backend::Attempt;
use crate::clock::Clock;
use crate::ingress::Intent;
use crate::observe::{Observer, Record, RequestCounters};
use crate::reply::Fault;

/// What is known of a request so far. Dropped before it has ended, it tells that the client left.
#[derive(Debug)]
pub(crate) struct Trip {
    /// Large, and handed on with the trip: so it has one place in memory.
    pub(crate) record: Box<Record>,
    pub(crate) arrived: Time,
    clock: Clock,
    observer: Option<Arc<Observer>>,
    account: RequestCounters,
}

// === impl Trip ===

impl Trip {
    pub(crate) fn begin(parts: &Parts, clock: Clock, observer: Arc<Observer>) -> Self {
        Self {
            record: Box::new(blank(parts)),
            arrived: clock.now(),
            clock,
            observer: Some(observer),
            account: RequestCounters::default(),
        }
    }

    /// What it is called is known.
    pub(crate) fn name(&mut self, request_id: &HeaderValue) {
        self.record.request_id = request_id.to_str().unwrap_or_default().to_owned();
    }

    /// What it asks for is known.
    pub(crate) fn read(&mut self, intent: &Intent) {
        self.name(&intent.request_id);
        let record = &mut self.record;
        record.model = intent.model.clone().unwrap_or_default();
        record.target = intent.target.clone().unwrap_or_default();
        record.flow.clone_from(&intent.flow);
        record.band = Some(intent.band);
    }

    /// It has a place in the core.
    pub(crate) fn began(&mut self, ticket: Ticket) {
        let (model, target) = (&self.record.model, &self.record.target);
        if let Some(observer) = &self.observer {
            self.account = observer.began(ticket, model, target);
        }
    }

    /// An attempt at its backend has ended in one way or another.
    pub(crate) fn attempted(&mut self, attempt: Attempt) {
        if let Some(observer) = &self.observer {
            observer.attempt(&self.record.backend, attempt, &mut self.account);
        }
    }

    /// The answer begins.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.record.status = status.as_u16();
        self.record.first_byte = Some(self.clock.now().since(self.arrived));
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// It has ended well.
    pub(crate) fn end(mut self, now: Time) {
        self.write("ok", now);
    }

    /// It has ended by a fault.
    pub(crate) fn fail(mut self, fault: &Fault) {
        // After the first byte the client has seen another status.
        if self.record.first_byte.is_none() {
            self.record.status = fault.status().as_u16();
        }
        self.write(fault.code(), self.now());
    }

    /// Hands the record over, once.
    fn write(&mut self, outcome: &'static str, now: Time) {
        let Some(observer) = self.observer.take() else { return };
        self.record.outcome = outcome;
        self.record.total = now.since(self.arrived);
        observer.ended(&self.record, &self.account);
    }
}

impl Drop for Trip {
    fn drop(&mut self) {
        if self.observer.is_none() {
            return;
        }
        let fault = Fault::ClientClosed;
        self.record.status = fault.status().as_u16();
        self.write(fault.code(), self.now());
    }
}

fn blank(parts: &Parts) -> Record {
    Record {
        request_id: String::new(),
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        model: String::new(),
        target: String::new(),
        flow: String::new(),
        band: Some(Band::Normal),
        backend: String::new(),
        reason: "",
        boost: 0.0,
        score: 0.0,
        queue_penalty: 0.0,
        attempts: 0,
        status: 0,
        outcome: "",
        bypassed: false,
        waited: None,
        first_byte: None,
        total: Span::ZERO,
        prompt_tokens: None,
        output_tokens: None,
        bytes_in: 0,
        bytes_out: 0,
    }
}
