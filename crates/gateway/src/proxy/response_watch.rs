//! Notices a backend that accepts requests and begins no response to any of them.
//!
//! Such a backend passes its health checks, and `answer_timeout` is long. So a request that waits
//! far longer than any response of the backend took looks whether the backend has begun a response
//! to another request meanwhile. If not, the request goes elsewhere and the backend is ejected. If
//! it has, only this request is stuck: a stream is then taken back after four times as long. A
//! response that comes as a whole may simply be long, so it is left to `answer_timeout`.

use flow::{Span, Time};
use tokio::time::Instant;

use crate::backend::Endpoint;
use crate::clock::Clock;
use crate::request::Request;
use crate::upstream::ExchangeError;

/// The time that a prompt token may take, and a token of a response that comes as a whole.
const PROMPT_TOKEN: u64 = 1_000_000;
const OUTPUT_TOKEN: u64 = 50_000_000;

/// A stuck stream is taken back after this many times the patience.
const STUCK_AFTER: u64 = 4;

/// See the module's description.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseWatch<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) clock: Clock,
    /// When the request was sent, and the moment by which a response must have begun.
    pub(super) sent: Time,
    pub(super) response_by: Instant,
    /// The least silence that counts; zero switches the watch off.
    pub(super) least: Span,
    /// The time that this request may take longer than others.
    pub(super) allowance: Span,
    pub(super) streamed: bool,
}

/// The time that a request may take longer than others, by its size.
pub(super) fn allowance(request: &Request) -> Span {
    let intent = &request.intent;
    Span::from_nanos(match intent.streamed {
        true => intent.prompt.saturating_mul(PROMPT_TOKEN),
        false => intent.tokens.saturating_mul(OUTPUT_TOKEN),
    })
}

// === impl ResponseWatch ===

impl ResponseWatch<'_> {
    /// The moment of the first check.
    pub(super) fn first_check(&self) -> Instant {
        match self.patience() {
            Some(patience) => self.clock.instant(self.sent.after(patience)).min(self.response_by),
            None => self.response_by,
        }
    }

    /// Checks the backend. Returns the moment of the next check.
    pub(super) fn check(&self) -> Result<Instant, ExchangeError> {
        let now = self.clock.now();
        let silence = now.since(self.sent);
        let patience = self.patience().unwrap_or(silence);
        let longest = self.endpoint.longest_first_byte();
        if self.endpoint.has_responded_since(self.sent) {
            let stuck_after = patience.nanos().saturating_mul(STUCK_AFTER);
            if self.streamed && silence.nanos() >= stuck_after {
                return Err(ExchangeError::Stuck { silence, longest });
            }
        } else if silence >= patience {
            // So that the patience doubles, if this is how long the backend takes now.
            self.endpoint.allow_first_byte(Span::from_nanos(silence.nanos() / 4));
            return Err(ExchangeError::Silent { silence, longest });
        }
        Ok(self.clock.instant(now.after(patience)).min(self.response_by))
    }

    /// How long the backend may be silent; `None` if there is no measure for it.
    fn patience(&self) -> Option<Span> {
        if self.least == Span::ZERO {
            return None;
        }
        let patience = self.endpoint.patience()?.max(self.least);
        Some(Span::from_nanos(patience.nanos().saturating_add(self.allowance.nanos())))
    }
}
