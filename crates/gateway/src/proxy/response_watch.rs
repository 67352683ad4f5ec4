//! Notices a backend that accepts requests and begins no response to any of them.
//!
//! Such a backend passes its health checks, and `answer_timeout` is long. So a request that waits
//! far longer than the responses of the backend took looks for a sign of life: a response that the
//! backend began, or a part of one. Without any for as long, the request goes elsewhere and the
//! backend is ejected. A backend that has not answered yet is measured by the others, if these
//! respond meanwhile.
//!
//! A response that comes as a whole may simply be long. So its request may wait for as many tokens
//! as its client allows. Without such a limit an estimate is enough if other backends respond
//! meanwhile, because the request can then go to one of them; otherwise it waits for minutes.
//!
//! While the backend lives, only this request may be stuck: a stream is then taken back after four
//! times as long. All else is left to `answer_timeout`.

use flow::{Span, Time};
use tokio::time::Instant;

use crate::backend::Endpoint;
use crate::clock::{self, Clock};
use crate::request::Request;
use crate::upstream::{ExchangeError, Silence};

/// A backend may be silent for this many times its longest time to a first byte.
const PATIENCE: u64 = 8;
/// The time that a prompt token may take, and a token of a response that comes as a whole.
const PROMPT_TOKEN: u64 = 1_000_000;
const OUTPUT_TOKEN: u64 = 50_000_000;
/// The time that a response may take that comes as a whole and has no limit.
const UNLIMITED: Span = Span::from_secs(200);
/// A stuck stream is taken back after this many times the patience.
const STUCK_AFTER: u64 = 4;
/// A request looks for a sign of life this many times within the patience.
const CHECKS: u64 = 4;

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

/// The measure of a backend.
#[derive(Clone, Copy, Debug)]
struct Measure {
    /// The longest time to a first byte, and whether it is that of another backend.
    longest: Span,
    of_others: bool,
    /// How long a backend may be silent, without the allowance for a request.
    patience: Span,
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
        let least = clock::span(request.config.fleet.silence_limit);
        Self { endpoint, request, clock, sent, response_by, least }
    }

    pub(super) fn streamed(&self) -> bool {
        self.request.intent.streamed
    }

    /// The moment of the first check.
    pub(super) fn first_check(&self) -> Instant {
        if self.least == Span::ZERO {
            return self.response_by;
        }
        let longest = self.endpoint.longest_first_byte(self.streamed());
        let patience = longest.map_or(self.least, |longest| self.patience(longest));
        self.next_check(self.sent, patience)
    }

    /// Checks the backend. Returns the moment of the next check.
    pub(super) fn check(&self) -> Result<Instant, ExchangeError> {
        let now = self.clock.now();
        let Some(measure) = self.measure(now) else { return Ok(self.next_check(now, self.least)) };
        let patience = measure.patience;
        let overdue = plus(patience, self.allowance(now));
        let silent_since = self.endpoint.last_alive(now).max(self.sent);
        let (waited, silence) = (now.since(self.sent), now.since(silent_since));
        if waited >= overdue && self.endpoint.found_silent_since(self.sent) {
            return Err(ExchangeError::Withdrawn);
        }
        if silence >= overdue {
            // So that it has time enough, if this is how long it takes now.
            self.endpoint.found_silent(now, times(patience, 2));
            return Err(ExchangeError::Silent(measure.silence(silence)));
        }
        if self.streamed() && waited >= times(overdue, STUCK_AFTER) {
            return Err(ExchangeError::Stuck(measure.silence(waited)));
        }
        Ok(self.next_check(now, patience))
    }

    fn next_check(&self, now: Time, patience: Span) -> Instant {
        let pause = Span::from_nanos(patience.nanos() / CHECKS);
        self.clock.instant(now.after(pause)).min(self.response_by)
    }

    /// The measure of the backend, or that of others while these respond.
    fn measure(&self, now: Time) -> Option<Measure> {
        let own = self.endpoint.longest_first_byte(self.streamed());
        let longest = own.or_else(|| self.longest_of_others(now))?;
        Some(Measure { longest, of_others: own.is_none(), patience: self.patience(longest) })
    }

    fn patience(&self, longest: Span) -> Span {
        let usual = times(longest, PATIENCE).max(self.least);
        // A request that was sent before the backend was found silent does not wait for longer.
        match self.endpoint.found_silent_since(self.sent) {
            true => usual,
            false => usual.max(self.endpoint.extended_patience()),
        }
    }

    /// The time that this request may take longer than others, by its size.
    fn allowance(&self, now: Time) -> Span {
        let intent = &self.request.intent;
        let prompt = Span::from_nanos(intent.prompt.saturating_mul(PROMPT_TOKEN));
        if self.streamed() {
            return prompt;
        }
        let whole = Span::from_nanos(intent.tokens.saturating_mul(OUTPUT_TOKEN));
        match intent.output_limited || self.longest_of_others(now).is_some() {
            true => whole,
            false => plus(prompt, UNLIMITED),
        }
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

// === impl Measure ===

impl Measure {
    fn silence(self, span: Span) -> Silence {
        Silence { span, longest: self.longest, of_others: self.of_others }
    }
}

fn plus(span: Span, more: Span) -> Span {
    Span::from_nanos(span.nanos().saturating_add(more.nanos()))
}

fn times(span: Span, factor: u64) -> Span {
    Span::from_nanos(span.nanos().saturating_mul(factor))
}
