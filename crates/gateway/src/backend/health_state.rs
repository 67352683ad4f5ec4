//! The health of one backend: a state machine without a clock or a socket.
//!
//! Four reasons keep requests away from a backend. Each ends in its own way:
//!
//! | reason | begins with | ends with |
//! |---|---|---|
//! | down | a refused connection, a failed check, checks without a response | a successful check |
//! | ejected | failed or broken responses in a row, or none for long | its time; then a trial |
//! | full | a response 429 or 503 | its time |
//! | starting | the start | the first successful check |
//!
//! A successful check proves that the server responds, not that it serves requests. So it ends a
//! state that a check can detect, and does not end an ejection. After an ejection a backend is on
//! trial: it gets one request at a time until it has answered one, or until a check succeeds: a
//! response may take minutes. A silent backend passes its checks, so these do not end its trial.
//! The only backend of a model gets trials during its ejection as well, with growing pauses between
//! them. A backend that reports that it is full is healthy: it is never ejected for this, and the
//! pause is short.

mod blame;
mod down_reason;
mod slow_start;

pub(super) use blame::Suspicion;
pub(super) use down_reason::DownReason;
pub(crate) use down_reason::{NO_ADDRESS, OWN_GATEWAY};

use blame::FailedCallers;
use flow::{Span, Time};

use super::Attempt;

/// The first pause of a full backend that sends no `Retry-After`. Further pauses double.
const FULL_FIRST: Span = Span::from_millis(250);
const FULL_MOST: Span = Span::from_secs(2);
/// The longest pause that a backend can ask for with `Retry-After`.
const RETRY_AFTER_MAX: Span = Span::from_secs(5);
/// The pause before the first trial of an ejected backend that alone serves a model. Further pauses
/// double, up to the length of a first ejection.
const TRIAL_FIRST: Span = Span::from_millis(500);
/// Ejections double up to this many times the first one. They start again after the same time
/// without an ejection.
const EJECT_MOST_TIMES: u64 = 10;
/// The number of checks in a row without a response that make a backend down. A single one may be a
/// busy moment.
const SILENT_CHECKS: u32 = 2;
/// The first interval between checks while the health is in doubt.
const CHECK_SOON: Span = Span::from_millis(250);

/// Settings of the state machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct HealthSettings {
    pub(super) eject_after: u32,
    pub(super) eject_for: Span,
    pub(super) slow_start: Span,
    pub(super) check_every: Span,
}

/// The result of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckResult {
    Healthy,
    /// The response reports a failure; the text says which.
    Unhealthy(String),
    Refused,
    /// No complete response: a timeout or a reset.
    NoResponse,
    /// Its name has no address. The DNS may fail for a moment.
    NoAddress,
    /// The server is this gateway itself.
    OwnGateway,
    /// The gateway could not check it.
    NotDone,
}

/// The present health of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HealthStatus {
    Ready,
    Down(DownReason),
    /// Until this time.
    Ejected(Time),
    Full(Time),
    /// It has been ejected and has not answered a request since.
    OnTrial,
}

#[derive(Clone, Debug)]
pub(super) struct Health {
    down: Option<DownReason>,
    /// When it went down. A check that began earlier proves nothing.
    down_at: Time,
    ever_up: bool,
    /// Checks since it went down, and checks in a row without a response.
    checks_down: u32,
    checks_silent: u32,
    /// Failed requests in a row, and who sent them.
    failures: u32,
    failed_callers: FailedCallers,
    /// Responses in a row that broke off after they had begun.
    breaks: u32,
    /// The cause of the last failure.
    cause: String,
    ejections: u32,
    ejected_until: Time,
    /// When it was ejected, and whether that was because it was silent.
    ejected_at: Time,
    silent: bool,
    /// Whether it has answered no request since its last ejection, and how many trials failed.
    unproven: bool,
    trials: u32,
    /// When it may get a trial although it is ejected.
    trial_from: Time,
    /// Pauses in a row, and the response that began the last one.
    fulls: u32,
    full_cause: String,
    full_until: Time,
    /// When it last answered a request after a failure.
    answered_at: Time,
    /// When it last returned from being down.
    back_at: Option<Time>,
}

// === impl Health ===

impl Health {
    pub(super) fn new() -> Self {
        Self {
            down: Some(DownReason::Starting),
            down_at: Time::ZERO,
            ever_up: false,
            checks_down: 0,
            checks_silent: 0,
            failures: 0,
            failed_callers: FailedCallers::None,
            breaks: 0,
            cause: String::new(),
            ejections: 0,
            ejected_until: Time::ZERO,
            ejected_at: Time::ZERO,
            silent: false,
            unproven: false,
            trials: 0,
            trial_from: Time::ZERO,
            fulls: 0,
            full_cause: String::new(),
            full_until: Time::ZERO,
            answered_at: Time::ZERO,
            back_at: None,
        }
    }

    pub(super) fn status(&self, now: Time) -> HealthStatus {
        if let Some(down) = &self.down {
            HealthStatus::Down(down.clone())
        } else if now < self.ejected_until {
            HealthStatus::Ejected(self.ejected_until)
        } else if now < self.full_until {
            HealthStatus::Full(self.full_until)
        } else if self.unproven {
            HealthStatus::OnTrial
        } else {
            HealthStatus::Ready
        }
    }

    pub(super) fn is_down(&self) -> bool {
        self.down.is_some()
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// The cause of the last failure; empty if there was none.
    pub(super) fn cause(&self) -> &str {
        &self.cause
    }

    /// The response that reported that it is full; empty if there was none.
    pub(super) fn full_cause(&self) -> &str {
        &self.full_cause
    }

    /// Whether it has answered nothing between its last two pauses.
    pub(super) fn is_full_again(&self) -> bool {
        self.fulls > 1
    }

    /// Whether a successful response would change the state.
    pub(super) fn has_failures(&self) -> bool {
        let failed = self.failures > 0 || self.failed_callers != FailedCallers::None;
        failed || self.fulls > 0 || self.unproven
    }

    /// When the next trial may begin, while the backend has not proven itself.
    pub(super) fn next_trial(&self) -> Option<Time> {
        self.unproven.then(|| self.trial_from.min(self.ejected_until))
    }

    /// Whether it may get a trial although it is ejected.
    pub(super) fn may_be_tried(&self, now: Time) -> bool {
        now >= self.trial_from
    }

    /// Records the outcome of a request. The cause says why it failed.
    pub(super) fn report(
        &mut self,
        attempt: Attempt,
        cause: &str,
        settings: &HealthSettings,
        now: Time,
    ) {
        match attempt {
            Attempt::Answered => self.answered(now, now),
            Attempt::Refused => self.fall(DownReason::Refused, now),
            Attempt::Failed => {
                cause.clone_into(&mut self.cause);
                self.silent = false;
                self.failed(settings.eject_after, settings, now);
            }
            // Many requests have waited for long.
            Attempt::Silent => {
                cause.clone_into(&mut self.cause);
                self.silent = true;
                self.failed(1, settings, now);
            }
            // It is ejected already, or has nothing to do with it.
            Attempt::Withdrawn | Attempt::NotSent => {}
            Attempt::Full(retry_after) => {
                cause.clone_into(&mut self.full_cause);
                self.pause(retry_after.map(crate::clock::span), now);
            }
        }
    }

    /// Whether the end of a whole response would change the state.
    pub(super) fn has_breaks(&self) -> bool {
        self.breaks > 0
    }

    /// Records a response that broke off after it had begun. The beginnings of other responses
    /// prove nothing against that. After an ejection one more broken response is enough.
    pub(super) fn broke_off(&mut self, cause: String, settings: &HealthSettings, now: Time) {
        (self.cause, self.silent) = (cause, false);
        let most = settings.eject_after.max(1);
        self.breaks = self.breaks.saturating_add(1);
        if self.breaks >= most {
            self.breaks = most - 1;
            self.failed(1, settings, now);
        }
    }

    /// Records the end of a whole response.
    pub(super) fn completed(&mut self) {
        self.breaks = 0;
    }

    /// Records the result of a health check that began at `began`.
    pub(super) fn checked(&mut self, check: CheckResult, began: Time, now: Time) {
        self.checks_down = self.checks_down.saturating_add(1);
        match check {
            CheckResult::Healthy => {
                self.checks_silent = 0;
                if began >= self.down_at {
                    self.rise(now);
                }
                if began >= self.ejected_until && !self.silent {
                    self.prove();
                }
            }
            CheckResult::Unhealthy(said) => self.fall(DownReason::Unhealthy(said), now),
            CheckResult::Refused => self.fall(DownReason::Refused, now),
            CheckResult::OwnGateway => self.fall(DownReason::OwnGateway, now),
            CheckResult::NoResponse => self.fall_if_silent(DownReason::NoResponse, now),
            CheckResult::NoAddress => self.fall_if_silent(DownReason::NoAddress, now),
            CheckResult::NotDone => {}
        }
    }

    fn fall_if_silent(&mut self, reason: DownReason, now: Time) {
        self.checks_silent += 1;
        if self.checks_silent >= SILENT_CHECKS {
            self.fall(reason, now);
        }
    }

    /// The interval until the next check.
    pub(super) fn next_check(&self, settings: &HealthSettings) -> Span {
        let doubt = self.checks_silent > 0 || self.down.is_some();
        if !doubt {
            return settings.check_every;
        }
        doubled(CHECK_SOON, self.checks_down.max(1), settings.check_every.max(CHECK_SOON))
    }

    /// When the state changes next by time alone.
    pub(super) fn next_change(&self, settings: &HealthSettings, now: Time) -> Option<Time> {
        let ends = [self.ejected_until, self.full_until, self.trial_from];
        let ends = ends.into_iter().filter(|&end| end > now);
        ends.chain(self.next_warm_step(settings, now)).min()
    }

    fn fall(&mut self, why: DownReason, now: Time) {
        if self.down.is_none() {
            self.checks_down = 0;
        }
        self.down = Some(why);
        self.down_at = now;
    }

    fn rise(&mut self, now: Time) {
        if self.down.take().is_some() && self.ever_up {
            self.back_at = Some(now);
        }
        self.ever_up = true;
        self.checks_down = 0;
    }

    /// Records a response to a request that was sent at `sent`.
    pub(super) fn answered(&mut self, sent: Time, now: Time) {
        (self.failures, self.fulls) = (0, 0);
        self.failed_callers = FailedCallers::None;
        self.answered_at = now;
        // The response to a request from before the ejection proves nothing.
        if self.unproven && sent > self.ejected_at {
            self.prove();
            self.ejected_until = self.ejected_until.min(now);
        }
    }

    /// Ends the trial.
    fn prove(&mut self) {
        (self.unproven, self.trials) = (false, 0);
    }

    fn failed(&mut self, eject_after: u32, settings: &HealthSettings, now: Time) {
        if now < self.ejected_until {
            // Requests that were in flight when the backend was ejected fail as well and prove
            // nothing new. After them only trials fail.
            if now >= self.trial_from {
                self.await_trial(settings, now);
            }
            return;
        }
        self.failures += 1;
        if self.failures < eject_after.max(1) && !self.unproven {
            return;
        }
        let most = Span::from_nanos(settings.eject_for.nanos().saturating_mul(EJECT_MOST_TIMES));
        if now.since(self.ejected_until) > most {
            self.ejections = 0;
        }
        self.ejections = self.ejections.saturating_add(1);
        self.failures = 0;
        self.ejected_at = now;
        self.ejected_until = now.after(doubled(settings.eject_for, self.ejections, most));
        self.unproven = true;
        self.await_trial(settings, now);
    }

    fn await_trial(&mut self, settings: &HealthSettings, now: Time) {
        self.trials = self.trials.saturating_add(1);
        self.trial_from = now.after(doubled(TRIAL_FIRST, self.trials, settings.eject_for));
    }

    fn pause(&mut self, retry_after: Option<Span>, now: Time) {
        // A shorter time than the first pause would let requests storm the backend.
        let retry_after = retry_after.filter(|&span| span >= FULL_FIRST);
        // A backend that has answered a request since its last pause may refuse only some of them.
        let most = if self.answered_at > self.full_until { FULL_FIRST } else { RETRY_AFTER_MAX };
        let retry_after = retry_after.map(|span| span.min(most));
        // Many requests may get the same 429 at once; they count as one.
        if now >= self.full_until {
            self.fulls = self.fulls.saturating_add(1);
            let span = retry_after.unwrap_or_else(|| doubled(FULL_FIRST, self.fulls, FULL_MOST));
            self.full_until = now.after(span);
        } else if let Some(retry_after) = retry_after {
            self.full_until = self.full_until.max(now.after(retry_after));
        }
    }
}

/// `first`, doubled for each repetition, up to `most`.
fn doubled(first: Span, times: u32, most: Span) -> Span {
    let factor = 1u64 << times.saturating_sub(1).min(32);
    Span::from_nanos(first.nanos().saturating_mul(factor)).min(most)
}
