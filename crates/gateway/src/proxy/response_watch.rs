//! Notices a backend that accepts requests and begins no response to any of them.
//!
//! Such a backend passes its health checks, and `answer_timeout` is long. So a request that waits
//! far longer than the responses of the backend took looks for a sign of life: a response that the
//! backend began, or a part of one. Without any for as long, the backend is silent. But it may also
//! load a model, which takes a minute. Two observations tell the cases apart:
//!
//! - Another backend of the model responds meanwhile. Then the request is better off there.
//! - The last response of the backend was for the same model and began a short time ago, so the
//!   model is loaded. One request alone may be special, so there must be a second one.
//!
//! In these cases the backend is ejected, and the request goes elsewhere or tries it again. A
//! request that was sent before, and is silent still when the backend has responded to a younger
//! one, was forgotten and is taken back too.
//!
//! Only text is judged that comes as a stream, or as a whole up to a limit of the client. All else
//! may simply take long. A request whose time to live is over stays where it is.

use flow::{Band, Span, Time};
use tokio::time::Instant;

use crate::backend::Endpoint;
use crate::clock::{self, Clock};
use crate::request::Request;
use crate::task;
use crate::upstream::{ExchangeError, Http1, Silence};

/// A backend may be silent for this many times its longest time to a first byte.
const PATIENCE: u64 = 8;
/// The time that a prompt token may take, and a token of a response that comes as a whole.
const PROMPT_TOKEN: u64 = 1_000_000;
const OUTPUT_TOKEN: u64 = 50_000_000;
/// A stuck stream is taken back after this many times the patience.
const STUCK_AFTER: u64 = 4;
/// A request looks for a sign of life this many times within the patience.
const CHECKS: u64 = 4;
/// A model counts as loaded for this long after a request for it.
const WARM: Span = Span::from_secs(60);
/// A request is taken back only if it can then wait for this long: for its turn at a backend that
/// responds, or for a trial.
const TURN: Span = Span::from_millis(200);
const TRIAL: Span = Span::from_secs(2);

/// See the module's description.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseWatch<'a> {
    pub(super) endpoint: &'a Endpoint,
    request: &'a Request,
    clock: Clock,
    /// When the request was sent, and the moment by which a response must have begun.
    sent: Time,
    pub(super) response_by: Instant,
    /// The least silence that counts; zero switches the watch off.
    least: Span,
}

/// How long a request has waited for a response, and what it is compared with.
#[derive(Clone, Copy, Debug)]
struct Wait {
    waited: Span,
    /// The time since the last sign of life.
    silence: Span,
    /// How long the backend may be silent, and the same with the allowance for the request.
    patience: Span,
    overdue: Span,
    /// The longest time to a first byte: its own, or that of other backends.
    longest: Span,
    of_others: bool,
    /// Whether other backends respond meanwhile.
    others_respond: bool,
}

// === impl ResponseWatch ===

impl<'a> ResponseWatch<'a> {
    pub(super) fn new(
        endpoint: &'a Endpoint,
        request: &'a Request,
        sent: Time,
        response_by: Instant,
    ) -> Self {
        let clock = request.state.clock;
        let judged = request.intent.measurable;
        let limit = clock::span(request.config.fleet.silence_limit);
        let least = if judged { limit } else { Span::ZERO };
        Self { endpoint, request, clock, sent, response_by, least }
    }

    pub(super) fn band(&self) -> Band {
        self.request.intent.band
    }

    pub(super) fn streamed(&self) -> bool {
        self.request.intent.streamed
    }

    pub(super) fn generates(&self) -> bool {
        self.request.intent.generates
    }

    /// The moment of the first check.
    pub(super) fn first_check(&self) -> Instant {
        if self.least == Span::ZERO {
            return self.response_by;
        }
        let longest = self.endpoint.longest_first_byte(self.streamed());
        self.next_check(self.sent, self.patience(longest.unwrap_or(Span::ZERO)))
    }

    /// Checks the backend. Returns the moment of the next check.
    pub(super) fn check(&self) -> Result<Instant, ExchangeError> {
        if self.least == Span::ZERO || !self.request.may_wait_for(TURN) {
            return Ok(self.response_by);
        }
        let now = self.clock.now();
        let Some(wait) = self.wait(now) else { return Ok(self.next_check(now, self.least)) };
        if wait.waited >= wait.overdue {
            self.judge(&wait, now)?;
        }
        Ok(self.next_check(now, wait.patience))
    }

    /// A connection whose response did not begin. It is kept until its first byte if the backend
    /// may be loading a model: some servers stop that when their client leaves.
    pub(super) fn left(&self, mut connection: Box<Http1>, error: &ExchangeError) {
        let taken_back = !error.is_broken() && !matches!(error, ExchangeError::TimedOut);
        if !taken_back || self.is_warm() {
            return;
        }
        let roster = self.request.state.fleet.roster();
        let Some(endpoint) = roster.endpoint(self.endpoint.id).cloned() else { return };
        let due = self.response_by;
        task::spawn(async move {
            if tokio::time::timeout_at(due, connection.await_byte()).await == Ok(true) {
                endpoint.note_progress();
            }
        });
    }

    fn judge(&self, wait: &Wait, now: Time) -> Result<(), ExchangeError> {
        let found_before = self.endpoint.found_silent_since(self.sent);
        let stuck = self.streamed() && wait.waited >= times(wait.overdue, STUCK_AFTER);
        if (found_before || stuck) && self.is_overtaken() {
            return Err(match found_before {
                true => ExchangeError::Withdrawn,
                false => ExchangeError::Stuck(wait.silence(wait.waited)),
            });
        }
        let may_be_tried = self.request.may_wait_for(TRIAL);
        let special = || !self.is_in_company() && !self.is_trial(now);
        let hangs = || may_be_tried && self.is_warm() && !special();
        if wait.silence >= wait.overdue && (wait.others_respond || hangs()) {
            self.endpoint.found_silent(now);
            return Err(ExchangeError::Silent(wait.silence(wait.silence)));
        }
        Ok(())
    }

    /// The wait so far; `None` without a measure.
    fn wait(&self, now: Time) -> Option<Wait> {
        let own = self.endpoint.longest_first_byte(self.streamed());
        let others = self.longest_of_others(now);
        let longest = own.or(others)?;
        let patience = self.patience(longest);
        let alive = self.endpoint.last_alive(now).max(self.sent);
        Some(Wait {
            waited: now.since(self.sent),
            silence: now.since(alive),
            patience,
            overdue: plus(patience, self.allowance()),
            longest,
            of_others: own.is_none(),
            others_respond: others.is_some(),
        })
    }

    fn patience(&self, longest: Span) -> Span {
        times(longest, PATIENCE).max(self.least)
    }

    /// The time that this request may take longer than others, by its size.
    fn allowance(&self) -> Span {
        let intent = &self.request.intent;
        Span::from_nanos(match intent.streamed {
            true => intent.prompt.saturating_mul(PROMPT_TOKEN),
            false => intent.claimed.saturating_mul(OUTPUT_TOKEN),
        })
    }

    fn next_check(&self, now: Time, patience: Span) -> Instant {
        let pause = Span::from_nanos(patience.nanos() / CHECKS);
        self.clock.instant(now.after(pause)).min(self.response_by)
    }

    /// Whether the last response of the backend was for the same model and began a short time
    /// before, so that it need not load the model.
    fn is_warm(&self) -> bool {
        let last = self.endpoint.last_begun();
        let same = last.filter(|last| last.model == self.request.begun().model);
        same.is_some_and(|last| self.sent.since(last.sent) <= WARM)
    }

    /// Whether the backend has begun a response to a younger request for the same model.
    fn is_overtaken(&self) -> bool {
        let last = self.endpoint.last_begun();
        last.is_some_and(|last| last.model == self.request.begun().model && last.sent > self.sent)
    }

    /// Whether the backend has another request.
    fn is_in_company(&self) -> bool {
        let here = |core: &flow::Controller| {
            let found = core.backends().find(|backend| backend.id == self.endpoint.id);
            found.is_some_and(|backend| backend.in_flight.iter().sum::<u32>() > 1)
        };
        self.request.state.scheduler.with(|core, _| here(core))
    }

    /// Whether the backend was found silent and has given no sign of life since.
    fn is_trial(&self, now: Time) -> bool {
        self.endpoint.found_silent_since(self.endpoint.last_alive(now))
    }

    /// The longest time to a first byte of the other backends that have given a sign of life since
    /// the request was sent; `None` if there are none.
    fn longest_of_others(&self, now: Time) -> Option<Span> {
        let model = self.request.model?;
        let roster = self.request.state.fleet.roster();
        let others = roster.serving(model).filter(|&id| id != self.endpoint.id);
        let alive = others
            .filter_map(|id| roster.endpoint(id))
            .filter(|endpoint| endpoint.last_alive(now) > self.sent);
        alive.filter_map(|endpoint| endpoint.longest_first_byte(self.streamed())).max()
    }
}

// === impl Wait ===

impl Wait {
    fn silence(&self, span: Span) -> Silence {
        Silence { span, longest: self.longest, of_others: self.of_others }
    }
}

fn plus(span: Span, more: Span) -> Span {
    Span::from_nanos(span.nanos().saturating_add(more.nanos()))
}

fn times(span: Span, factor: u64) -> Span {
    Span::from_nanos(span.nanos().saturating_mul(factor))
}
