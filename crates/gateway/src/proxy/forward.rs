//! Forwards a request: attempts until a response begins, or until no further attempt is allowed.
//!
//! A request waits for a backend, is sent there, and waits again when that backend failed it before
//! the first byte of a response and `retry` allows another attempt. It then lives until its time to
//! live, its deadline or its client ends it.

use std::sync::Arc;
use std::time::Duration;

use flow::{BackendId, RequeuePosition, Time};
use http::{Response, Version};

use super::attempt::{AttemptFailure, AttemptOutcome, attempt};
use super::response_watch::ResponseWatch;
use super::retry::Next;
use super::{ResponseBody, UpstreamRequest, response_headers};
use crate::backend::{Attempt, Endpoint, FailedRequest};
use crate::hop_by_hop;
use crate::observe::TRACEPARENT;
use crate::reply::Refused;
use crate::request::{Admitted, Request, ResponseTimeout};
use crate::upstream::{Pool, UpstreamBody};

/// The cause of a failure without a response.
pub(crate) const NO_RESPONSE: &str = "no response began in time";
/// The longest wait for other backends than the one that failed a request.
const DETOUR_MOST: Duration = Duration::from_secs(1);
/// How often a request that has failed looks whether its backend has failed another one meanwhile.
/// The next trial is half a second after that.
const TRIAL_LOOK: Duration = Duration::from_millis(200);

/// A request on its way to a backend.
#[derive(Debug)]
pub(crate) struct ProxiedRequest {
    pub(crate) pool: Arc<Pool>,
    pub(crate) request: Box<Request>,
    pub(crate) outgoing: UpstreamRequest,
    /// The backends that have failed it, those of them against which that counts, and how often any
    /// of them did.
    pub(super) failed_at: Vec<BackendId>,
    pub(super) counted_at: Vec<BackendId>,
    pub(super) failures: u32,
    /// The failures of which it may be the cause, and when the last one was.
    pub(super) strikes: u32,
    pub(super) struck_at: Option<Time>,
    /// How often a full backend refused it.
    pub(super) refusals: u32,
    /// Why a backend failed it last, and which one.
    pub(super) last_failure: Option<String>,
    pub(super) failed_last: Option<Arc<Endpoint>>,
    /// For how long it waits without some of its backends.
    narrow_for: Option<Duration>,
}

// === impl ProxiedRequest ===

impl ProxiedRequest {
    pub(crate) fn new(
        pool: Arc<Pool>,
        request: Box<Request>,
        outgoing: UpstreamRequest,
    ) -> Box<Self> {
        Box::new(Self {
            pool,
            request,
            outgoing,
            failed_at: Vec::new(),
            counted_at: Vec::new(),
            failures: 0,
            strikes: 0,
            struck_at: None,
            refusals: 0,
            last_failure: None,
            failed_last: None,
            narrow_for: None,
        })
    }

    /// Sends a request that the scheduler has taken, until a response begins or it is refused.
    pub(crate) async fn forward(
        mut self: Box<Self>,
    ) -> Result<Response<Box<ResponseBody>>, Refused> {
        let share = self.request.config.fleet.retry_share;
        self.with_retries(|budget| budget.deposit(share));
        loop {
            let admitted = match self.admitted().await {
                Ok(admitted) => admitted,
                Err(refused) => {
                    let refused = self.explained(refused);
                    return Err(self.request.refuse(refused));
                }
            };
            // In a box: a request that waits has none yet.
            match Box::pin(self.attempt(&admitted.endpoint, admitted.grant.at)).await {
                Next::Respond(response) => return Ok(self.respond(*response, &admitted)),
                Next::Requeue(position, pause) => {
                    self.failed_last = Some(Arc::clone(&admitted.endpoint));
                    self.wait_again(position, pause);
                }
                Next::Refuse(fault) => return Err(self.request.refuse(fault.into())),
            }
        }
    }

    async fn attempt(&mut self, endpoint: &Endpoint, now: Time) -> Next {
        if let Some(traceparent) = self.request.record.traceparent() {
            self.outgoing.headers.set(TRACEPARENT, traceparent);
        }
        let (response_by, timeout) = self.request.response_deadline(now);
        let watch = ResponseWatch::new(endpoint, &self.request, now, response_by);
        let connect_timeout = self.request.config.fleet.connect_timeout;
        match attempt(&self.pool, &self.outgoing, watch, connect_timeout).await {
            AttemptOutcome::Answered(response) => {
                self.request.record.attempted(Attempt::Answered);
                self.request.state.fleet.answered(endpoint, self.request.begun());
                self.request.state.fleet.note_status(endpoint, response.status());
                endpoint.note_credential(response.status());
                if !response.status().is_success() {
                    self.request.attempt_failed(Attempt::Answered, true);
                }
                Next::Respond(response)
            }
            AttemptOutcome::Failed(failure) => {
                tracing::debug!(backend = endpoint.name, error = failure.text, "attempt failed");
                self.request.attempt_failed(failure.attempt, failure.reached);
                let blamed = self.report(endpoint, &failure);
                self.after(failure, blamed, endpoint)
            }
            AttemptOutcome::TimedOut => {
                if timeout != ResponseTimeout::Client {
                    self.request.record.attempted(Attempt::Failed);
                    let failed = self.failed_request(endpoint);
                    self.request.state.fleet.failed(endpoint, &failed, NO_RESPONSE);
                }
                Next::Refuse(timeout.fault())
            }
        }
    }

    /// Reports a failed attempt to the fleet. Returns whether the request may be its cause.
    fn report(&mut self, endpoint: &Endpoint, failure: &AttemptFailure) -> bool {
        self.request.record.attempted(failure.attempt);
        let fleet = &self.request.state.fleet;
        if failure.attempt != Attempt::Failed {
            fleet.report(endpoint, failure.attempt, &failure.text);
            return false;
        }
        self.failures += 1;
        let failed = self.failed_request(endpoint);
        let struck = fleet.failed_alone(endpoint, &failed, self.struck_at);
        self.struck_at = struck.or(self.struck_at);
        // A backend that fails the same request twice is reported once, but each trial counts.
        let counted = self.counted_at.contains(&endpoint.id);
        if !counted || fleet.next_trial(endpoint).is_some() {
            let counts = fleet.failed(endpoint, &failed, &failure.text);
            self.counted_at.extend(Some(endpoint.id).filter(|_| counts && !counted));
        }
        if !failed.repeated {
            self.failed_at.push(endpoint.id);
        }
        struck.is_some()
    }

    /// The request as one that this backend has failed.
    fn failed_request(&self, endpoint: &Endpoint) -> FailedRequest {
        FailedRequest {
            model: self.request.begun().model,
            caller: self.request.caller_hash(),
            repeated: self.failed_at.contains(&endpoint.id),
            failed_elsewhere: self.failed_at.iter().any(|&id| id != endpoint.id),
        }
    }

    /// Lets the request wait for another attempt: without any backend during a pause, or else
    /// without the one that failed it.
    fn wait_again(&mut self, position: RequeuePosition, pause: Duration) {
        self.request.returned();
        if pause == Duration::ZERO {
            self.request.requeue(position);
            self.narrow_for = (position == RequeuePosition::Back).then_some(DETOUR_MOST);
        } else {
            self.request.set_aside(position);
            self.narrow_for = Some(pause);
        }
    }

    /// Waits until the request may go to a backend; after a failure only to some at first. A trial
    /// of the one that failed it is for requests that have not failed, each time: one that waits in
    /// the queue steps aside before the next trial.
    async fn admitted(&mut self) -> Result<Admitted, Refused> {
        let Some(mut limit) = self.narrow_for.take() else { return self.request.admitted().await };
        loop {
            if let Some(outcome) = self.admitted_within(limit).await {
                return outcome;
            }
            // The backend may have been ejected meanwhile, or have failed another trial.
            if let Some(until) = self.until_trial_of_others() {
                self.request.step_aside();
                limit = until;
                continue;
            }
            self.request.widen();
            // A full backend has not failed it.
            if self.failures == 0 {
                return self.request.admitted().await;
            }
            limit = TRIAL_LOOK;
        }
    }

    /// The same for this long at most.
    async fn admitted_within(&mut self, limit: Duration) -> Option<Result<Admitted, Refused>> {
        Box::pin(tokio::time::timeout(limit, self.request.admitted())).await.ok()
    }

    /// Names the last failure to a client that waited in vain after it.
    fn explained(&self, refused: Refused) -> Refused {
        let Refused { fault, retry_after } = refused;
        let fault = match &self.last_failure {
            Some(cause) => fault.after_failure(cause, self.failures),
            None => fault,
        };
        Refused { fault, retry_after }
    }

    /// Begins the response. From here on nothing is sent again, so the request's body is freed.
    fn respond(
        self: Box<Self>,
        mut response: Response<UpstreamBody>,
        admitted: &Admitted,
    ) -> Response<Box<ResponseBody>> {
        let mut request = self.request;
        let first_byte = request.record.response_began(response.status());
        let (begun, endpoint) = (request.begun(), &admitted.endpoint);
        endpoint.note(begun, first_byte, request.intent.streamed);
        if !response.status().is_server_error() {
            endpoint.note_caller(request.caller_hash(), begun.sent.after(first_byte));
        }
        // The version of the backend's connection is not that of the client's.
        *response.version_mut() = Version::HTTP_11;
        // The gateway decides what websites may do; a backend takes no part in that.
        let is_cors = |name: &str| name.starts_with("access-control-");
        hop_by_hop::strip(response.headers_mut(), is_cors);
        response_headers::add(response.headers_mut(), &request, admitted);
        ResponseBody::new(response, request)
    }
}
