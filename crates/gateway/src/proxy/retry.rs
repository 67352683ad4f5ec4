//! Whether a failed attempt is repeated, when, and what the client gets otherwise.
//!
//! Before its first byte goes to the client a response may be replaced: its status says whether the
//! backend answered, is full (429, 503) or failed. Only failures for which the request itself may
//! be the cause are limited in number: per request by `attempts_max`, for all requests together by
//! the retry budget. These are the failures at a backend that serves others: it has failed no other
//! request since it last answered one, and after the first such failure of a request it has
//! answered a later one for the same model. Without that proof the backend may be what fails, so
//! the request waits. A backend that is full or refuses the connection is never the fault of a
//! request.
//!
//! Waiting requests cause no storm. Each tries at most once a second or so, and a backend that has
//! failed some of them without an answer in between is ejected: then it gets one trial at a time.

use std::time::Duration;

use flow::{BackendId, RequeuePosition};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::ProxiedRequest;
use super::attempt::{AttemptFailure, AttemptOutcome};
use super::token_counter::StreamFormat;
use crate::backend::{Attempt, Endpoint};
use crate::reply::Fault;
use crate::request::Request;
use crate::upstream::{RetryBudget, UpstreamBody, begins_with_error, is_full, retry_after};
use crate::{clock, jitter};

/// The pause after a failure, if all other backends have failed the request too. Further pauses
/// double.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(1);
/// The bounds of the pause of a request that backends refuse repeatedly, because they are full.
const REFUSED_LEAST: Duration = Duration::from_millis(250);
const REFUSED_MOST: Duration = Duration::from_secs(5);
/// A trial begins this long before the requests that have failed return to the queue.
const AFTER_TRIAL: Duration = Duration::from_millis(20);

/// The step after an attempt.
pub(super) enum Next {
    Respond(Box<Response<UpstreamBody>>),
    /// Wait again at this position in the queue, after a pause.
    Requeue(RequeuePosition, Duration),
    Refuse(Fault),
}

/// Judges an attempt by the status of its response. A full backend may say `Retry-After`.
pub(crate) fn verdict<'a>(
    status: StatusCode,
    retry_after: impl FnOnce() -> Option<&'a HeaderValue>,
) -> Attempt {
    match status {
        _ if is_full(status) => full(retry_after()),
        // The gateway never asks to switch protocols.
        _ if status.is_informational() => Attempt::Failed,
        // These are about the request.
        StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => Attempt::Answered,
        // Others than the known ones come from tunnels and proxies before an engine.
        _ if status.is_server_error() => Attempt::Failed,
        _ => Attempt::Answered,
    }
}

fn full(value: Option<&HeaderValue>) -> Attempt {
    Attempt::Full(value.and_then(|value| retry_after(value, clock::since_epoch())))
}

/// The same for a response that a model may have written.
pub(super) fn judge(response: Response<UpstreamBody>, generated: bool) -> AttemptOutcome {
    let status = response.status();
    let mut attempt = verdict(status, || response.headers().get(header::RETRY_AFTER));
    let is_error = generated
        && status.is_success()
        && (is_page(response.headers()) || begins_with_error(response.body().begun()));
    if is_error {
        attempt = Attempt::Failed;
    }
    let position = match attempt {
        Attempt::Answered => return AttemptOutcome::Answered(Box::new(response)),
        Attempt::Full(_) => RequeuePosition::Original,
        _ => RequeuePosition::Back,
    };
    let inside = if is_error { " with an error inside" } else { "" };
    let text = format!("it answered {status}{inside}");
    let response = (!status.is_informational()).then(|| Box::new(response));
    AttemptOutcome::Failed(AttemptFailure { attempt, reached: true, position, response, text })
}

/// Whether a proxy or a login page answers in the place of the backend.
fn is_page(headers: &HeaderMap) -> bool {
    StreamFormat::of(headers.get(header::CONTENT_TYPE)) == StreamFormat::Page
}

// === impl ProxiedRequest ===

impl ProxiedRequest {
    /// Lets the request wait again, unless it caused too many failures or must not wait.
    pub(super) fn after(
        &mut self,
        failure: AttemptFailure,
        blamed: bool,
        endpoint: &Endpoint,
    ) -> Next {
        self.strikes += u32::from(blamed);
        let cause = format!("{}: {}", endpoint.name, failure.text);
        let Request { state, config, .. } = &*self.request;
        let left = self.strikes < config.fleet.attempts_max;
        if self.may_wait(endpoint, failure.attempt)
            && (!blamed || (left && self.with_retries(RetryBudget::withdraw)))
        {
            let position = match config.conventions.failed_goes_back {
                true => RequeuePosition::Back,
                false => failure.position,
            };
            let pause = self.pause(failure.attempt, endpoint);
            self.last_failure = Some(cause);
            return Next::Requeue(position, pause);
        }
        if blamed {
            state.fleet.forgive(&self.counted_at, self.request.begun().model);
        }
        match failure.response {
            Some(response) => Next::Respond(response),
            None if failure.attempt == Attempt::NotSent => Next::Refuse(Fault::Overloaded),
            None => Next::Refuse(Fault::BackendError(cause)),
        }
    }

    /// Uses the budget of its repeated attempts: that of its tenant, or of its flow.
    pub(super) fn with_retries<T>(&self, act: impl FnOnce(&RetryBudget) -> T) -> T {
        let Request { state, intent, .. } = &*self.request;
        let caller = intent.caller.as_ref();
        match caller.and_then(|caller| state.tenants.of(&caller.tenant.name)) {
            Some(used) => act(used.retries()),
            None => act(state.retries.of(&intent.flow)),
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
            Attempt::NotSent => PAUSE_FIRST.mul_f64(1.0 + jitter::fraction()),
            Attempt::Failed | Attempt::Refused => self.pause_after_failure(failed),
        }
    }

    fn pause_after_failure(&self, failed: &Endpoint) -> Duration {
        // One that has not failed it serves it as soon as there is room.
        if self.is_taken_besides(&self.failed_at) {
            return Duration::ZERO;
        }
        // Nexus looks at its queue as often.
        if self.keeps_its_turn() {
            return PAUSE_FIRST;
        }
        let doublings = self.failures.saturating_sub(1).min(10);
        let pause = (PAUSE_FIRST * 2u32.pow(doublings)).min(PAUSE_MOST);
        let pause = pause.mul_f64(0.5 + jitter::fraction());
        let until_trial = self.until_trial(failed).filter(|_| !self.is_taken_elsewhere(failed));
        until_trial.map_or(pause, |until| pause.max(until))
    }

    /// Whether it goes before requests of lower bands although it has failed and they have not.
    fn keeps_its_turn(&self) -> bool {
        self.request.config.conventions.failed_goes_back
    }

    /// How long the request leaves the next trial of a backend to requests that have not failed:
    /// one of them may be answered.
    fn until_trial(&self, failed: &Endpoint) -> Option<Duration> {
        let trial = self.request.state.fleet.next_trial(failed);
        let trial = trial.filter(|_| !self.keeps_its_turn())?;
        let until = Duration::from_nanos(trial.since(self.request.record.now()).nanos());
        Some(until + AFTER_TRIAL)
    }

    /// The same after a pause, if the trial is yet to come and no other backend takes the request.
    pub(super) fn until_trial_of_others(&self) -> Option<Duration> {
        let failed = self.failed_last.as_ref()?;
        let until = self.until_trial(failed).filter(|until| *until > AFTER_TRIAL)?;
        (!self.is_taken_elsewhere(failed)).then_some(until)
    }

    fn is_taken_elsewhere(&self, failed: &Endpoint) -> bool {
        self.is_taken_besides(&[failed.id])
    }

    fn is_taken_besides(&self, backends: &[BackendId]) -> bool {
        let roster = self.request.state.fleet.roster();
        self.request.model.is_some_and(|model| roster.is_taken_elsewhere(model, backends))
    }
}
