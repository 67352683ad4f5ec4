//! When the client of an ask that was not served should retry: once a new ask would be served.

use super::Controller;
use super::eligibility::QueueKey;
use crate::time::{Span, Time};

/// The shortest `Retry-After` of a refused ask.
pub const RETRY_AFTER_MIN: Span = Span::from_secs(1);
/// The longest `Retry-After` of a refused ask. OpenAI's client for Node and the AI SDK ignore a
/// minute or more, and retry within a second or two.
pub const RETRY_AFTER_MAX: Span = Span::from_secs(59);
/// The time that an ask at a backend is assumed to take while none has ended yet.
const SERVICE_TIME: Span = Span::from_secs(1);

// === impl Controller ===

impl Controller {
    /// When the client of an ask that was not served should retry.
    pub(super) fn retry_after(&self, key: QueueKey, now: Time) -> Span {
        let wait = self.predicted_wait(key, now).unwrap_or_else(|| self.guessed_wait(key, now));
        wait.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX)
    }

    /// The wait of a new ask before a rate is known: the asks ahead of it, as many at a time as are
    /// in flight. Each takes as long as nothing has ended, at least the assumed time.
    fn guessed_wait(&self, key: QueueKey, now: Time) -> Span {
        let pool = &self.supply.pools[key.pool as usize];
        let members = pool.members.iter().map(|&at| &self.supply.backends[at as usize]);
        let in_flight: u32 = members.map(|backend| backend.in_flight_total()).sum();
        let domain = &self.domains[pool.domain as usize];
        if in_flight == 0 || domain.waiting == 0 {
            return Span::ZERO;
        }
        let own = self.fresh_cost(key);
        let waiting: f64 = (0..crate::BANDS).map(|band| self.band_cost(pool.domain, band)).sum();
        let mean_cost = (waiting / f64::from(domain.waiting)).max(1.0);
        let rounds = self.cost_ahead(key, own) / mean_cost / f64::from(in_flight);
        let service_time = domain.drain_rate.elapsed(now).max(SERVICE_TIME);
        Span::from_secs_f64(rounds.max(1.0) * service_time.secs_f64())
    }
}
