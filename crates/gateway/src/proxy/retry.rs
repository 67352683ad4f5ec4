//! Attempts until a response begins, or none is to be had.
//!
//! A request waits for a backend, is sent there, and waits again when that backend failed it before
//! the first byte of a response. Each wait and each attempt is bounded, and so is their number: per
//! request by `attempts_max`, for all requests together by the retry budget.

use std::sync::Arc;

use flow::{BackendId, RequeuePosition, Time};
use http::{Response, Version};

use super::attempt::{AttemptFailure, AttemptLimits, AttemptOutcome, attempt};
use super::{ResponseBody, UpstreamRequest, response_headers};
use crate::backend::{Attempt, Endpoint};
use crate::reply::{Fault, Refused, headers};
use crate::request::{Admitted, Request, ResponseTimeout};
use crate::upstream::{Pool, UpstreamBody};

/// A request on its way to a backend.
#[derive(Debug)]
pub(crate) struct ProxiedRequest {
    pub(crate) pool: Arc<Pool>,
    pub(crate) request: Box<Request>,
    pub(crate) outgoing: UpstreamRequest,
    /// The backends that have failed it.
    failed_at: Vec<BackendId>,
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
        Box::new(Self { pool, request, outgoing, failed_at: Vec::new() })
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
                Next::Requeue(position) => self.request.requeue(position),
                Next::Refuse(fault) => return Err(self.request.refuse(fault.into())),
            }
        }
    }

    async fn attempt(&mut self, endpoint: &Endpoint, now: Time) -> Next {
        let (response_by, timeout) = self.request.response_deadline(now);
        let connect = self.request.config.fleet.connect_timeout;
        let limits = AttemptLimits { connect, response_by };
        match attempt(&self.pool, endpoint, &self.outgoing, limits).await {
            AttemptOutcome::Answered(response) => {
                self.report(endpoint, Attempt::Answered);
                Next::Respond(response)
            }
            AttemptOutcome::Failed(failure) => {
                tracing::debug!(backend = endpoint.name, error = failure.text, "attempt failed");
                self.report(endpoint, failure.attempt);
                self.after(failure, endpoint)
            }
            AttemptOutcome::TimedOut => {
                if timeout != ResponseTimeout::Client {
                    self.report(endpoint, Attempt::Failed);
                }
                Next::Refuse(timeout.fault())
            }
        }
    }

    /// Reports an attempt to the fleet. A backend that fails the same request twice is reported
    /// once: the request may be at fault.
    fn report(&mut self, endpoint: &Endpoint, attempt: Attempt) {
        self.request.record.attempted(attempt);
        if attempt == Attempt::Failed {
            if self.failed_at.contains(&endpoint.id) {
                return;
            }
            self.failed_at.push(endpoint.id);
        }
        self.request.state.fleet.report(endpoint, attempt);
    }

    /// Repeats a failed attempt while this request has attempts left and the budget allows one.
    fn after(&self, failure: AttemptFailure, endpoint: &Endpoint) -> Next {
        let left = self.request.record.attempts < self.request.config.fleet.attempts_max;
        if left && self.request.state.retries.withdraw() {
            return Next::Requeue(failure.position);
        }
        match failure.response {
            Some(response) => Next::Respond(response),
            None => {
                Next::Refuse(Fault::BackendError(format!("{}: {}", endpoint.name, failure.text)))
            }
        }
    }

    /// Begins the response. From here on nothing is sent again, so the request's body is freed.
    fn respond(
        self: Box<Self>,
        mut response: Response<UpstreamBody>,
        admitted: &Admitted,
    ) -> Response<ResponseBody> {
        let mut request = self.request;
        request.record.response_began(response.status());
        if let Some(first_byte) = request.record.first_byte {
            admitted.endpoint.note(first_byte);
        }
        // The version of the backend's connection is not that of the client's.
        *response.version_mut() = Version::HTTP_11;
        let own = std::mem::take(response.headers_mut());
        *response.headers_mut() = headers::from_upstream(own);
        response_headers::add(response.headers_mut(), &request, admitted);
        ResponseBody::new(response, request)
    }
}
