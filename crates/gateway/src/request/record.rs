//! The record of one request, written on the way and handed to the observer once, at the end.
//!
//! However a request ends, its record ends it: so the record also has what the tenant was charged
//! with. A request that ends without a response costs its prompt once a backend has worked for it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use flow::{BANDS, NO_WORK, RouteReason, Span, Ticket, Time};
use http::request::Parts;
use http::{HeaderValue, StatusCode};

use crate::backend::{Attempt, Endpoint, EndpointUse};
use crate::clock::{self, Clock};
use crate::ingress::headers::given_request_id;
use crate::ingress::{Caller, Intent, WorkloadName};
use crate::observe::{
    ChargedTokens, FAILED_BY_BACKEND, Observer, Record, RequestCounters, RequestTrace, UNSEEN,
};
use crate::reply::Fault;
use crate::tenants::Charge;
use crate::tls_listener::ClientCertificate;

/// Owns the [`Record`] of a request until the request ends. Dropped before, it records that the
/// client left, or that the shutdown cut it.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    /// Boxed: the record is large, and exists before the rest of the request is known.
    record: Box<Record>,
    /// Its ask in the scheduler.
    ticket: Option<Ticket>,
    pub(crate) arrived: Time,
    /// When the request went to its backend.
    pub(crate) sent: Time,
    /// Since when it waits, if it does.
    waits_since: Time,
    /// What it costs if nothing is reported: its prompt, while it is at a backend and after that if
    /// the backend has worked for it.
    owed: u64,
    has_worked: bool,
    /// What the limits of its tenant hold for it, until it is paid.
    charge: Option<Charge>,
    is_paid: bool,
    /// Its backend. The roster keeps a removed one, and so its name, while requests use it.
    endpoint: Option<EndpointUse>,
    clock: Clock,
    /// Taken when the record is handed over.
    observer: Option<Arc<Observer>>,
    counters: RequestCounters,
    /// Whether the client left its response unread.
    stalled: bool,
    /// Whether the log warns if the client leaves while it waits.
    pub(crate) warns_of_leaving: bool,
    /// Only for a request that is sampled.
    trace: Option<Box<RequestTrace>>,
}

// === impl RequestRecord ===

impl RequestRecord {
    pub(crate) fn begin(parts: &Parts, clock: Clock, observer: Arc<Observer>) -> Self {
        let now = clock.now();
        Self {
            trace: observer.begin_trace(&parts.headers, now),
            record: Box::new(blank(parts)),
            ticket: None,
            arrived: now,
            sent: now,
            waits_since: now,
            owed: 0,
            has_worked: false,
            charge: None,
            is_paid: false,
            endpoint: None,
            clock,
            observer: Some(observer),
            counters: RequestCounters::default(),
            stalled: false,
            warns_of_leaving: false,
        }
    }

    /// Sets the request's id.
    pub(crate) fn identify(&mut self, request_id: &HeaderValue) {
        self.record.request_id = request_id.clone();
    }

    /// Sets the tenant of the request, if it has one.
    pub(crate) fn attribute(&mut self, caller: Option<&Caller>) {
        if let Some(caller) = caller {
            self.record.tenant = Some(Arc::clone(&caller.tenant));
            self.record.key = Some(Arc::clone(&caller.key));
        }
    }

    /// Copies what the client asks for.
    pub(crate) fn describe(&mut self, intent: &Intent) {
        self.identify(&intent.request_id);
        if let (Some(observer), Some(unknown)) = (&self.observer, &intent.unknown_priority) {
            observer.unknown_priority(unknown.header, &unknown.text);
        }
        let record = &mut self.record;
        record.model.clone_from(&intent.model);
        record.target.clone_from(&intent.target);
        record.flow.clone_from(&intent.flow);
        record.band_clamped = intent.band_clamped;
        // A request that does not queue must not count in the figures of the queue.
        record.slo_ttft = intent.preferences.slo_ttft;
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
            self.counters = observer.began(ticket, (model, target), self.record.bytes_in);
            observer.identify(ticket, &self.record.request_id);
            self.ticket = Some(ticket);
        }
    }

    /// A backend has been chosen, for this reason.
    pub(crate) fn chose(&mut self, reason: RouteReason) {
        self.record.reason = reason.text();
        if let (Some(observer), Some(ticket)) = (&self.observer, self.ticket) {
            observer.chose(ticket, reason, self.record.attempts);
        }
    }

    /// A backend has been granted.
    pub(crate) fn granted(&mut self, endpoint: &Arc<Endpoint>) {
        self.record.waits = false;
        self.record.backend = endpoint.name.clone();
        self.endpoint = Some(endpoint.begin_use());
        if let Some(trace) = &mut self.trace {
            trace.granted(endpoint, self.sent);
        }
    }

    /// The limits of its tenant hold an estimate for it.
    pub(super) fn hold(&mut self, charge: Charge) {
        self.charge = Some(charge);
    }

    /// It goes to a backend with a prompt of so many tokens.
    pub(super) fn owe(&mut self, prompt: u64) {
        self.owed = prompt;
    }

    /// An attempt has failed. That the backend was full or never had the request is no work.
    pub(super) fn attempt_failed(&mut self, attempt: Attempt, reached: bool) {
        let is_refused = matches!(attempt, Attempt::Full(_) | Attempt::Refused);
        let has_worked = reached && !is_refused && self.now().since(self.sent) >= NO_WORK;
        self.has_worked |= has_worked;
        if !self.has_worked {
            self.owed = 0;
        }
    }

    /// What it costs if nothing is reported.
    pub(super) fn owed(&self) -> u64 {
        self.owed
    }

    /// Charges it to its tenant, in the accounts and in the quotas alike. `None` keeps what the
    /// limits hold, which is the same if all of it is an estimate.
    pub(super) fn pay(&mut self, tokens: ChargedTokens, total: Option<u64>) {
        self.is_paid = true;
        self.record.charged = tokens;
        if let Some(charge) = self.charge.take() {
            charge.settle(total, clock::date_secs());
        }
    }

    /// Charges a request that ends without a response.
    fn pay_owed(&mut self) {
        let prompt = self.owed;
        if prompt > 0 {
            self.record.prompt_tokens = Some(prompt);
            self.record.usage_estimated = true;
        }
        self.pay(ChargedTokens { prompt, ..ChargedTokens::default() }, Some(prompt));
    }

    /// The request has to wait.
    pub(crate) fn began_waiting(&mut self) {
        self.leave_backend();
        let now = self.now();
        if !self.record.waits {
            (self.record.waits, self.waits_since) = (true, now);
        }
        if let Some(trace) = &mut self.trace {
            trace.began_waiting(now);
        }
    }

    /// Its client has left while it waited. What it has waited counts as any other wait: without
    /// those that became too long for their clients, waits would look short.
    fn left_the_queue(&mut self) {
        let before = self.record.waited.unwrap_or(Span::ZERO).nanos();
        let latest = self.now().since(self.waits_since).nanos();
        self.record.waited = Some(Span::from_nanos(before.saturating_add(latest)));
        if self.warns_of_leaving {
            let request_id = self.record.request_id.to_str().unwrap_or_default();
            tracing::warn!(request_id, "a client left while its request waited in the queue");
        }
    }

    /// The header by which its backend continues the trace, if there is one.
    pub(crate) fn traceparent(&self) -> Option<HeaderValue> {
        self.trace.as_ref()?.header()
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
        if let Some(trace) = &mut self.trace {
            trace.attempted(attempt, self.clock);
        }
    }

    /// The response begins. Returns the time that its backend took, without any wait.
    pub(crate) fn response_began(&mut self, status: StatusCode) -> Span {
        let now = self.clock.now();
        self.record.status = status.as_u16();
        self.record.first_byte = Some(now.since(self.arrived));
        if let Some(trace) = &mut self.trace {
            trace.response_began(now);
        }
        let at_backend = now.since(self.sent);
        self.record.backend_first_byte = Some(at_backend);
        at_backend
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

    /// The response has a good status and is an error.
    pub(super) fn failed_inside(&mut self) {
        self.record.outcome = FAILED_BY_BACKEND;
    }

    /// Ends the record of a request whose response has come to its end.
    pub(crate) fn succeed(mut self, now: Time) {
        let outcome = if self.record.outcome.is_empty() { "ok" } else { self.record.outcome };
        self.hand_over(outcome, now);
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

    /// The client left its response unread, which is then cut.
    pub(crate) fn stalled(&mut self) {
        self.stalled = true;
    }

    /// The request is no longer at its backend. Its client may read for longer.
    pub(crate) fn leave_backend(&mut self) {
        if let (Some(_), Some(observer)) = (self.endpoint.take(), &self.observer) {
            observer.left_backend(&self.record);
        }
    }

    fn hand_over(&mut self, outcome: &'static str, now: Time) {
        self.leave_backend();
        let Some(observer) = self.observer.take() else { return };
        if !self.is_paid {
            self.pay_owed();
        }
        self.record.outcome = outcome;
        self.record.total = now.since(self.arrived);
        self.record.at_backend = now.since(self.sent);
        observer.ended(&self.record, &self.counters);
        self.counters.responded(&self.record, now);
        if let Some(trace) = self.trace.take() {
            observer.trace_ended((&self.record, &self.counters), trace, now);
        }
        observer.keep(&mut self.record, now);
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
        if self.record.waits {
            self.left_the_queue();
        }
        let is_cut = self.observer.as_ref().is_some_and(|observer| observer.cuts());
        let fault = match () {
            () if self.stalled => Fault::ClientStalled,
            () if is_cut => Fault::ShuttingDown,
            () => Fault::ClientClosed,
        };
        if !is_cut || self.record.first_byte.is_none() {
            self.record.status = fault.status().as_u16();
        }
        self.hand_over(fault.code(), self.now());
    }
}

fn blank(parts: &Parts) -> Record {
    let client = parts.extensions.get::<ClientCertificate>();
    Record {
        // A client may leave before the rest of its request is read.
        request_id: given_request_id(&parts.headers).unwrap_or(HeaderValue::from_static("")),
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        client: client.and_then(ClientCertificate::name).unwrap_or_default().to_owned(),
        ..Record::empty()
    }
}
