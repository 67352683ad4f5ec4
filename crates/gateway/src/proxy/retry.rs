//! Attempts until a response begins, or none is to be had.
//!
//! A request waits for a backend, is sent there, and waits again when that backend failed it before
//! the first byte of a response. It then lives until its time to live, its deadline or its client
//! ends it. Only failures for which the request itself may be the cause are limited in number: per
//! request by `attempts_max`, for all requests together by the retry budget. These are the failures
//! at a backend that has failed no other request since it last answered one. A backend that is full
//! or refuses the connection is never the fault of a request.

use std::sync::Arc;
use std::time::Duration;

use flow::{BackendId, RequeuePosition, Time};
use http::{Response, Version};

use super::attempt::{AttemptFailure, AttemptOutcome, attempt};
use super::response_watch::ResponseWatch;
use super::{ResponseBody, UpstreamRequest, response_headers};
use crate::backend::{Attempt, Endpoint};
use crate::jitter;
use crate::reply::{Fault, Refused, headers};
use crate::request::{Admitted, Request, ResponseTimeout};
use crate::upstream::{Pool, UpstreamBody};

/// The cause of a failure without a response.
pub(crate) const NO_RESPONSE: &str = "no response began in time";
/// The pause after a failure, if no other backend can take the request at once. Further pauses
/// double.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(1);

/// A request on its way to a backend.
#[derive(Debug)]
pub(crate) struct ProxiedRequest {
    pub(crate) pool: Arc<Pool>,
    pub(crate) request: Box<Request>,
    pub(crate) outgoing: UpstreamRequest,
    /// The backends that have failed it, and how often any of them did.
    failed_at: Vec<BackendId>,
    failures: u32,
    /// The failures of which it may be the cause.
    strikes: u32,
}

/// The step after an attempt.
enum Next {
    Respond(Response<UpstreamBody>),
    Requeue(RequeuePosition),
    Refuse(Fault),
}

// === impl ProxiedRequest ===

impl ProxiedRequest {
    pub(crate) fn new(
        pool: Arc<Pool>,
        request: Box<Request>,
        outgoing: UpstreamRequest,
    ) -> Box<Self> {
        Box::new(Self { pool, request, outgoing, failed_at: Vec::new(), failures: 0, strikes: 0 })
    }

    /// Sends a request that the scheduler has taken, until a response begins or it is refused.
    pub(crate) async fn forward(mut self: Box<Self>) -> Result<Response<ResponseBody>, Refused> {
        self.request.state.retries.deposit(self.request.config.fleet.retry_share);
        loop {
            let admitted = match self.request.admitted().await {
                Ok(admitted) => admitted,
                Err(refused) => return Err(self.request.refuse(refused)),
            };
            match self.attempt(&admitted.endpoint, admitted.grant.at).await {
                Next::Respond(response) => return Ok(self.respond(response, &admitted)),
                Next::Requeue(position) => {
                    Box::pin(self.wait_again(position, &admitted.endpoint)).await;
                }
                Next::Refuse(fault) => return Err(self.request.refuse(fault.into())),
            }
        }
    }

    async fn attempt(&mut self, endpoint: &Endpoint, now: Time) -> Next {
        let (response_by, timeout) = self.request.response_deadline(now);
        let watch = ResponseWatch::new(endpoint, &self.request, now, response_by);
        let connect_timeout = self.request.config.fleet.connect_timeout;
        match attempt(&self.pool, &self.outgoing, watch, connect_timeout).await {
            AttemptOutcome::Answered(response) => {
                self.request.record.attempted(Attempt::Answered);
                self.request.state.fleet.answered(endpoint);
                Next::Respond(response)
            }
            AttemptOutcome::Failed(failure) => {
                tracing::debug!(backend = endpoint.name, error = failure.text, "attempt failed");
                let blamed = self.report(endpoint, &failure);
                self.after(failure, blamed, endpoint)
            }
            AttemptOutcome::TimedOut => {
                if timeout != ResponseTimeout::Client {
                    self.request.record.attempted(Attempt::Failed);
                    let fleet = &self.request.state.fleet;
                    fleet.report(endpoint, Attempt::Failed, NO_RESPONSE);
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
        let repeated = self.failed_at.contains(&endpoint.id);
        let blamed = !fleet.fails_others(endpoint, u32::from(repeated));
        // A backend that fails the same request twice is reported once.
        if !repeated {
            self.failed_at.push(endpoint.id);
            fleet.report(endpoint, failure.attempt, &failure.text);
        }
        blamed
    }

    /// Lets the request wait again, unless it caused too many failures or nothing may wait.
    fn after(&mut self, failure: AttemptFailure, blamed: bool, endpoint: &Endpoint) -> Next {
        self.strikes += u32::from(blamed);
        let Request { state, config, .. } = &*self.request;
        // Without a queue a request does not wait for a full backend.
        let may_wait = config.flow.enabled
            || failure.attempt == Attempt::Failed
            || self.is_served_elsewhere(endpoint);
        let left = self.strikes < config.fleet.attempts_max;
        if may_wait && (!blamed || (left && state.retries.withdraw())) {
            return Next::Requeue(failure.position);
        }
        match failure.response {
            Some(response) => Next::Respond(response),
            None => {
                Next::Refuse(Fault::BackendError(format!("{}: {}", endpoint.name, failure.text)))
            }
        }
    }

    /// Lets the request wait for another attempt.
    async fn wait_again(&mut self, position: RequeuePosition, failed: &Endpoint) {
        self.request.returned();
        if position == RequeuePosition::Back {
            self.pause(failed).await;
        }
        self.request.requeue(position);
    }

    /// Waits after a failure, so that failing backends are not asked without end. A first failure
    /// needs no pause if another backend is ready. A full backend has a pause of its own.
    async fn pause(&self, failed: &Endpoint) {
        if self.failures < 2 && self.is_served_elsewhere(failed) {
            return;
        }
        let doublings = self.failures.saturating_sub(1).min(10);
        let pause = (PAUSE_FIRST * 2u32.pow(doublings)).min(PAUSE_MOST);
        tokio::time::sleep(pause.mul_f64(0.5 + jitter::fraction())).await;
    }

    fn is_served_elsewhere(&self, failed: &Endpoint) -> bool {
        let roster = self.request.state.fleet.roster();
        let served = |model| roster.serving(model).any(|id| id != failed.id);
        self.request.model.is_some_and(served)
    }

    /// Begins the response. From here on nothing is sent again, so the request's body is freed.
    fn respond(
        self: Box<Self>,
        mut response: Response<UpstreamBody>,
        admitted: &Admitted,
    ) -> Response<ResponseBody> {
        let mut request = self.request;
        let first_byte = request.record.response_began(response.status());
        admitted.endpoint.note(request.begun(), first_byte, request.intent.streamed);
        // The version of the backend's connection is not that of the client's.
        *response.version_mut() = Version::HTTP_11;
        let own = std::mem::take(response.headers_mut());
        *response.headers_mut() = headers::from_upstream(own);
        response_headers::add(response.headers_mut(), &request, admitted);
        ResponseBody::new(response, request)
    }
}
