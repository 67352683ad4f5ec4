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
use crate::hop_by_hop;
use crate::jitter;
use crate::reply::{Fault, Refused};
use crate::request::{Admitted, Request, ResponseTimeout};
use crate::upstream::{Pool, UpstreamBody};

/// The cause of a failure without a response.
pub(crate) const NO_RESPONSE: &str = "no response began in time";
/// The pause after a failure, if no other backend can take the request at once. Further pauses
/// double.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(1);
/// The bounds of the pause of a request that backends refuse repeatedly, because they are full.
const REFUSED_LEAST: Duration = Duration::from_millis(250);
const REFUSED_MOST: Duration = Duration::from_secs(5);
/// The longest wait for other backends than the one that failed a request.
const DETOUR_MOST: Duration = Duration::from_secs(1);
/// A trial begins this long before the requests that have failed return to the queue.
const AFTER_TRIAL: Duration = Duration::from_millis(20);

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
    /// How often a full backend refused it.
    refusals: u32,
    /// The backend that failed it last, and why.
    last_failure: Option<String>,
    /// For how long it waits without some of its backends.
    narrow_for: Option<Duration>,
}

/// The step after an attempt.
enum Next {
    Respond(Box<Response<UpstreamBody>>),
    /// Wait again at this position in the queue, after a pause.
    Requeue(RequeuePosition, Duration),
    Refuse(Fault),
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
            failures: 0,
            strikes: 0,
            refusals: 0,
            last_failure: None,
            narrow_for: None,
        })
    }

    /// Sends a request that the scheduler has taken, until a response begins or it is refused.
    pub(crate) async fn forward(
        mut self: Box<Self>,
    ) -> Result<Response<Box<ResponseBody>>, Refused> {
        self.request.state.retries.deposit(self.request.config.fleet.retry_share);
        loop {
            let admitted = match self.admitted().await {
                Ok(admitted) => admitted,
                Err(refused) => {
                    let refused = self.explained(refused);
                    return Err(self.request.refuse(refused));
                }
            };
            match self.attempt(&admitted.endpoint, admitted.grant.at).await {
                Next::Respond(response) => return Ok(self.respond(*response, &admitted)),
                Next::Requeue(position, pause) => self.wait_again(position, pause),
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
                self.request.state.fleet.answered(endpoint, now);
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
        // A backend that fails the same request twice is reported once, but each trial counts.
        if !repeated || fleet.next_trial(endpoint).is_some() {
            fleet.report(endpoint, failure.attempt, &failure.text);
        }
        if !repeated {
            self.failed_at.push(endpoint.id);
        }
        blamed
    }

    /// Lets the request wait again, unless it caused too many failures or must not wait.
    fn after(&mut self, failure: AttemptFailure, blamed: bool, endpoint: &Endpoint) -> Next {
        self.strikes += u32::from(blamed);
        let cause = format!("{}: {}", endpoint.name, failure.text);
        let Request { state, config, .. } = &*self.request;
        let left = self.strikes < config.fleet.attempts_max;
        if self.may_wait(endpoint, failure.attempt)
            && (!blamed || (left && state.retries.withdraw()))
        {
            let pause = self.pause(failure.attempt, endpoint);
            self.last_failure = Some(cause);
            return Next::Requeue(failure.position, pause);
        }
        if blamed {
            state.fleet.forgive(&self.failed_at);
        }
        match failure.response {
            Some(response) => Next::Respond(response),
            None => Next::Refuse(Fault::BackendError(cause)),
        }
    }

    /// Whether time is left, and there is a queue or another backend that takes the request now.
    /// After the refusal of a full backend the queue itself ends a wait without time, so that the
    /// client gets the queue's error and its `Retry-After`.
    fn may_wait(&self, failed: &Endpoint, attempt: Attempt) -> bool {
        let request = &self.request;
        // One that does not queue has a second attempt, at another backend.
        if request.intent.direct {
            return request.record.attempts < 2 && self.is_taken_elsewhere(failed);
        }
        let in_time = request.record.now() < request.waits_until();
        let is_full = matches!(attempt, Attempt::Full(_));
        (in_time || is_full) && (request.config.flow.enabled || self.is_taken_elsewhere(failed))
    }

    /// The pause before the request waits again. It keeps failing backends from being asked without
    /// end, and lets other requests pass one that a backend fails or refuses repeatedly.
    fn pause(&mut self, attempt: Attempt, failed: &Endpoint) -> Duration {
        match attempt {
            // A full backend has a pause of its own.
            Attempt::Full(retry_after) => {
                self.refusals += 1;
                let pause = retry_after.unwrap_or_default().clamp(REFUSED_LEAST, REFUSED_MOST);
                let pause = pause.mul_f64(1.05 + 0.2 * jitter::fraction());
                if self.refusals < 2 { Duration::ZERO } else { pause }
            }
            Attempt::Silent | Attempt::Withdrawn | Attempt::Answered => Duration::ZERO,
            Attempt::Failed | Attempt::Refused => self.pause_after_failure(failed),
        }
    }

    fn pause_after_failure(&self, failed: &Endpoint) -> Duration {
        let elsewhere = self.is_taken_elsewhere(failed);
        if self.failures < 2 && elsewhere {
            return Duration::ZERO;
        }
        let doublings = self.failures.saturating_sub(1).min(10);
        let pause = (PAUSE_FIRST * 2u32.pow(doublings)).min(PAUSE_MOST);
        let pause = pause.mul_f64(0.5 + jitter::fraction());
        let until_trial = self.until_trial(failed).filter(|_| !elsewhere);
        // Requests that have not failed are tried first: one of them may be answered.
        until_trial.map_or(pause, |until| pause.max(until + AFTER_TRIAL))
    }

    fn until_trial(&self, failed: &Endpoint) -> Option<Duration> {
        let trial = self.request.state.fleet.next_trial(failed)?;
        Some(Duration::from_nanos(trial.since(self.request.record.now()).nanos()))
    }

    fn is_taken_elsewhere(&self, failed: &Endpoint) -> bool {
        let roster = self.request.state.fleet.roster();
        self.request.model.is_some_and(|model| roster.is_taken_elsewhere(model, failed.id))
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

    /// Waits until the request may go to a backend; after a failure only to some at first.
    async fn admitted(&mut self) -> Result<Admitted, Refused> {
        if let Some(narrow) = self.narrow_for.take() {
            let admitted = Box::pin(self.request.admitted());
            match tokio::time::timeout(narrow, admitted).await {
                Ok(outcome) => return outcome,
                Err(_) => self.request.widen(),
            }
        }
        self.request.admitted().await
    }

    /// Names the last failure to a client that waited in vain after it.
    fn explained(&self, refused: Refused) -> Refused {
        let Refused { fault, retry_after } = refused;
        let fault = match &self.last_failure {
            Some(cause) => fault.after_failure(cause),
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
        admitted.endpoint.note(request.begun(), first_byte, request.intent.streamed);
        // The version of the backend's connection is not that of the client's.
        *response.version_mut() = Version::HTTP_11;
        hop_by_hop::strip(response.headers_mut());
        response_headers::add(response.headers_mut(), &request, admitted);
        ResponseBody::new(response, request)
    }
}
