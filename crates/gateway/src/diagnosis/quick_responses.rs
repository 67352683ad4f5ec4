//! The quickest whole responses of each backend in the last hour, by their length.
//!
//! Without metrics and without streams, nothing shows how many requests wait inside a server. The
//! time of a whole response does, if it is compared with the time of a like response that did not
//! wait. A first burst has such responses too: those that went first.

use std::collections::BTreeMap;

use flow::{Span, Time};

use super::situation::BackendCondition;

/// A time counts for so long. Another model or another load may be usual after it.
const KEPT: Span = Span::from_secs(3600);
/// Responses are compared up to this factor of length: a short one is mostly its prompt.
const LIKE_LENGTH: f64 = 4.0;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct QuickResponses {
    /// By the binary logarithm of the number of tokens, so that there are few of each backend.
    by_backend: BTreeMap<String, BTreeMap<u32, QuickResponse>>,
}

#[derive(Clone, Copy, Debug)]
struct QuickResponse {
    at: Time,
    millis: f64,
    tokens: f64,
}

// === impl QuickResponses ===

impl QuickResponses {
    /// Takes note of the last responses, and adds what one of their length took at best.
    pub(super) fn watch(&mut self, backend: &mut BackendCondition, now: Time) {
        let millis = backend.latency_ms.filter(|_| !backend.latency_is_old);
        let tokens = backend.output_tokens.filter(|&tokens| tokens >= 1.0);
        let (Some(millis), Some(tokens)) = (millis, tokens) else { return };
        let known = self.by_backend.entry(backend.id.clone()).or_default();
        known.retain(|_, quick| now.since(quick.at) <= KEPT);
        let last = QuickResponse { at: now, millis, tokens };
        let least = known.entry((tokens as u64).ilog2()).or_insert(last);
        // Two lengths of one entry differ by a factor of up to two, and longer responses take
        // longer, so the quickest is the one with the least time for its length.
        if last.millis_for(least.tokens) <= least.millis {
            *least = last;
        }
        let alike = known.values().filter(|quick| quick.tokens * LIKE_LENGTH >= tokens);
        backend.quickest_ms = alike.map(|quick| quick.millis_for(tokens)).min_by(f64::total_cmp);
    }

    /// Forgets backends that have left.
    pub(super) fn retain(&mut self, known: &[BackendCondition]) {
        self.by_backend.retain(|id, _| known.iter().any(|backend| backend.id == *id));
    }
}

// === impl QuickResponse ===

impl QuickResponse {
    /// What a response of so many tokens takes at this speed. A shorter one counts as this one: it
    /// may be mostly its prompt.
    fn millis_for(&self, tokens: f64) -> f64 {
        self.millis * (tokens / self.tokens).max(1.0)
    }
}
