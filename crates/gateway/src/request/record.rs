//! The record of one request, written on the way and handed to the observer once, at the end.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use flow::{BANDS, Band, Span, Ticket, Time};
use http::request::Parts;
use http::{HeaderValue, StatusCode};

use crate::backend::{Attempt, Endpoint, EndpointUse};
use crate::clock::Clock;
use crate::ingress::{Intent, WorkloadName};
use crate::observe::{Observer, Record, RequestCounters, UNSEEN};
use crate::reply::Fault;

/// Owns the [`Record`] of a request until the request ends. Dropped before, it records that the
/// client left.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    /// Boxed: the record is large, and exists before the rest of the request is known.
    record: Box<Record>,
    pub(crate) arrived: Time,
    /// When the request went to its backend.
    pub(crate) sent: Time,
    /// Its backend. The roster keeps a removed one, and so its name, while requests use it.
    endpoint: Option<EndpointUse>,
    clock: Clock,
    /// Taken when the record is handed over.
    observer: Option<Arc<Observer>>,
    counters: RequestCounters,
}

// === impl RequestRecord ===

impl RequestRecord {
    pub(crate) fn begin(parts: &Parts, clock: Clock, observer: Arc<Observer>) -> Self {
        let now = clock.now();
        Self {
            record: Box::new(blank(parts)),
            arrived: now,
            sent: now,
            endpoint: None,
            clock,
            observer: Some(observer),
            counters: RequestCounters::default(),
        }
    }

    /// Sets the request's id.
    pub(crate) fn identify(&mut self, request_id: &HeaderValue) {
        self.record.request_id = request_id.clone();
    }

    /// Copies what the client asks for.
    pub(crate) fn describe(&mut self, intent: &Intent) {
        self.identify(&intent.request_id);
        let record = &mut self.record;
        record.model.clone_from(&intent.model);
        record.target.clone_from(&intent.target);
        record.flow.clone_from(&intent.flow);
        // A request that does not queue must not count in the figures of the queue.
        record.slo_ttft = intent.slo_ttft;
        record.band = (!intent.direct).then_some(intent.band);
        record.criticality = intent.criticality;
        match &intent.workload {
            WorkloadName::Given(id) => record.workload.clone_from(id),
            WorkloadName::Generated(prefix) => record.workload_prefix = prefix,
        }
    }

    /// The scheduler has taken the request.
    pub(crate) fn admitted(&mut self, ticket: Ticket) {
        if let Some(observer) = &self.observer {
            let (model, target) = self.record.models();
            self.counters = observer.began(ticket, model, target);
        }
    }

    /// A backend has been granted.
    pub(crate) fn granted(&mut self, endpoint: &Arc<Endpoint>) {
        self.record.backend = endpoint.name.clone();
        self.endpoint = Some(endpoint.begin_use());
    }

    /// Logs the choice of the backend, where `pending` requests of each band were.
    pub(crate) fn routed(&self, pending: [u32; BANDS]) {
        if let Some(observer) = &self.observer {
            observer.routed(&self.record, pending);
        }
    }

    /// Counts an attempt at the backend that the record names.
    pub(crate) fn attempted(&mut self, attempt: Attempt) {
        if let Some(observer) = &self.observer {
            observer.attempt(&self.record.backend, attempt, &mut self.counters);
        }
    }

    /// The response begins. Returns the time that its backend took, without any wait.
    pub(crate) fn response_began(&mut self, status: StatusCode) -> Span {
        let now = self.clock.now();
        self.record.status = status.as_u16();
        self.record.first_byte = Some(now.since(self.arrived));
        now.since(self.sent)
    }

    /// A part of the response has come.
    pub(crate) fn progressed(&self) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.note_progress();
        }
    }

    /// The backend that was granted last.
    pub(crate) fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_deref()
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Ends the record of a request that went well.
    pub(crate) fn succeed(mut self, now: Time) {
        self.hand_over("ok", now);
    }

    /// Ends the record of a request whose response is not shown.
    pub(crate) fn end_unseen(mut self, now: Time) {
        self.hand_over(UNSEEN, now);
    }

    /// Ends the record of a request that failed.
    pub(crate) fn fail(mut self, fault: &Fault) {
        // After the first byte the client has seen another status.
        if self.record.first_byte.is_none() {
            self.record.status = fault.status().as_u16();
        }
        self.hand_over(fault.code(), self.now());
    }

    fn hand_over(&mut self, outcome: &'static str, now: Time) {
        let Some(observer) = self.observer.take() else { return };
        self.record.outcome = outcome;
        self.record.total = now.since(self.arrived);
        self.record.at_backend = now.since(self.sent);
        observer.ended(&self.record, &self.counters);
    }
}

impl Deref for RequestRecord {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}

impl DerefMut for RequestRecord {
    fn deref_mut(&mut self) -> &mut Record {
        &mut self.record
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        if self.observer.is_none() {
            return;
        }
        let fault = Fault::ClientClosed;
        self.record.status = fault.status().as_u16();
        self.hand_over(fault.code(), self.now());
    }
}

fn blank(parts: &Parts) -> Record {
    Record {
        request_id: HeaderValue::from_static(""),
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        model: None,
        target: None,
        flow: String::new(),
        band: Some(Band::Normal),
        workload: String::new(),
        workload_prefix: "",
        criticality: 0,
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
        slo_ttft: None,
        first_byte: None,
        total: Span::ZERO,
        at_backend: Span::ZERO,
        prompt_tokens: None,
        output_tokens: None,
        usage_estimated: false,
        bytes_in: 0,
        bytes_out: 0,
    }
}
