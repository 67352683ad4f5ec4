//! Counters since the start, which must reconcile.

use crate::ask::BANDS;
use crate::outcome::{Eviction, Refusal};
use crate::time::Span;

/// Counts since the start. At every moment, with W waiting and F in flight:
///
/// ```text
/// offered           = refused + bypassed + queued
/// queued + requeued = granted + cancelled_waiting + evictions + W
/// bypassed + granted = settled + requeued + F
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Offers made.
    pub offered: u64,
    /// Offers refused.
    pub refused: u64,
    /// Offers granted at once.
    pub bypassed: u64,
    /// Offers that had to wait.
    pub queued: u64,
    /// Waits that ended in a grant.
    pub granted: u64,
    /// Waits that the client ended.
    pub cancelled_waiting: u64,
    /// Waits that ended because the time to live passed.
    pub expired: u64,
    /// Waits that ended because the client's deadline passed.
    pub deadline_exceeded: u64,
    /// Waits that ended because the ask was late in an overload that lasts.
    pub too_late: u64,
    /// Waits that ended for a higher band, from best-effort to critical.
    pub preempted: [u64; BANDS],
    /// Waits that ended because another session had its share of a full flow.
    pub displaced: u64,
    /// Waits that ended because the controller closed.
    pub shut_down: u64,
    /// Grants that were re-queued.
    pub requeued: u64,
    /// Grants that ended, in any way.
    pub settled: u64,
    /// Refusals because the flow was full.
    pub refused_flow_full: u64,
    /// Refusals because the queue was full, of a flow without waiting asks.
    pub refused_too_many_flows: u64,
    /// Refusals because the queue was full, of a flow with waiting asks.
    pub refused_queue_full: u64,
    /// What waits for cached prompts have saved beyond their own length.
    pub cache_wait_won: Span,
    /// How much longer waits for cached prompts were than what they saved.
    pub cache_wait_lost: Span,
}

// === impl Counters ===

impl Counters {
    /// Waits that ended in an eviction: neither in a grant nor by the client.
    pub fn evictions(&self) -> u64 {
        let preempted: u64 = self.preempted.iter().sum();
        let ended = self.expired + self.deadline_exceeded + self.too_late;
        ended + preempted + self.displaced + self.shut_down
    }

    pub(crate) fn count_refusal(&mut self, reason: Refusal) {
        self.refused += 1;
        match reason {
            Refusal::FlowFull => self.refused_flow_full += 1,
            Refusal::TooManyFlows => self.refused_too_many_flows += 1,
            Refusal::QueueFull => self.refused_queue_full += 1,
            _ => {}
        }
    }

    pub(crate) fn count_cache_wait(&mut self, waited: Span, saved: Span) {
        let [won, lost] = [(saved, waited), (waited, saved)]
            .map(|(more, less)| more.nanos().saturating_sub(less.nanos()));
        let plus = |sum: Span, nanos| Span::from_nanos(sum.nanos().saturating_add(nanos));
        self.cache_wait_won = plus(self.cache_wait_won, won);
        self.cache_wait_lost = plus(self.cache_wait_lost, lost);
    }

    pub(crate) fn count_eviction(&mut self, reason: Eviction, band: usize) {
        match reason {
            Eviction::Expired => self.expired += 1,
            Eviction::DeadlineExceeded => self.deadline_exceeded += 1,
            Eviction::TooLate => self.too_late += 1,
            Eviction::Preempted => self.preempted[band] += 1,
            Eviction::Displaced => self.displaced += 1,
            Eviction::ShuttingDown => self.shut_down += 1,
        }
    }
}
