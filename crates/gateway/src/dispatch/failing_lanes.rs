//! Whose messages fail, one after the other: a tenant of a queue, or all of a queue.
//!
//! A message can make its target fail, and then it occupies a worker for nothing, perhaps until the
//! request times out. While they are alone, nothing tells such messages from an outage of the
//! target, so each is tried with growing pauses. But others must not wait for them: while messages
//! of others wait, a tenant whose last attempts all failed has one request in flight at a time, and
//! all such tenants together have a quarter of the workers. Otherwise they have half of them, so
//! that a message that arrives finds a worker. One answer, and the tenant is as before.

use std::collections::BTreeMap;
use std::sync::Mutex;

use store::Lane;
use tokio::time::Instant;

use super::target::lock;
use super::{Dispatcher, ServedQueue};
use crate::clock::moment;

/// Failures without an answer in between, of a tenant and of a whole queue, until it is restrained.
const TENANT_FAILURES: u32 = 5;
const QUEUE_FAILURES: u32 = 20;
/// The most tenants that are remembered without a request in flight.
const TENANTS_MAX: usize = 1024;

/// The tenants of a queue with failures or requests in flight.
#[derive(Debug, Default)]
pub(super) struct FailingLanes(Mutex<Lanes>);

#[derive(Debug, Default)]
struct Lanes {
    /// Failures of the whole queue since its last answer.
    failures: u32,
    tenants: BTreeMap<String, Attempts>,
}

/// The attempts of a tenant.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    in_flight: usize,
    /// Failures since the last answer.
    failures: u32,
    /// When the last attempt began.
    last: Instant,
}

/// An attempt of a tenant, in flight until it is dropped.
#[derive(Debug)]
pub(super) struct LaneAttempt<'a> {
    lanes: &'a FailingLanes,
    tenant: String,
}

// === impl Dispatcher ===

impl Dispatcher {
    /// Reduces what counts as waiting of those whose messages fail. An expired message needs no
    /// request, so it is left.
    pub(super) fn restrain(&self, lanes: &mut [(usize, Vec<Lane>)]) {
        let now = moment();
        let (mut failing, mut others_wait) = (Vec::new(), false);
        for (at, lanes) in lanes {
            for lane in lanes.iter_mut().filter(|lane| lane.deadline > now) {
                match self.queues[*at].lanes.failing(&lane.tenant) {
                    Some(attempts) => failing.push((attempts, lane)),
                    None => others_wait |= lane.waiting > 0,
                }
            }
        }
        let in_flight: usize = self.queues.iter().map(ServedQueue::failing_in_flight).sum();
        let workers = self.settings.workers;
        let most = if others_wait { workers / 4 } else { workers / 2 };
        let mut left = most.max(1).saturating_sub(in_flight);
        // The one that was tried longest ago goes first: its messages may be answered again.
        failing.sort_by_key(|(attempts, _)| attempts.last);
        for (attempts, lane) in failing {
            let own = if others_wait { 1_usize.saturating_sub(attempts.in_flight) } else { left };
            lane.waiting = lane.waiting.min(own.min(left) as u64);
            left -= lane.waiting as usize;
        }
    }
}

// === impl ServedQueue ===

impl ServedQueue {
    /// The requests in flight of those whose messages fail.
    fn failing_in_flight(&self) -> usize {
        let lanes = lock(&self.lanes.0);
        let failing = lanes.tenants.values().filter(|attempts| lanes.are_failing(attempts));
        failing.map(|attempts| attempts.in_flight).sum()
    }
}

// === impl FailingLanes ===

impl FailingLanes {
    /// Records the begin of an attempt.
    pub(super) fn started(&self, tenant: &str) -> LaneAttempt<'_> {
        let mut lanes = lock(&self.0);
        let new = Attempts { in_flight: 0, failures: 0, last: Instant::now() };
        let attempts = lanes.tenants.entry(tenant.to_owned()).or_insert(new);
        (attempts.in_flight, attempts.last) = (attempts.in_flight + 1, Instant::now());
        LaneAttempt { lanes: self, tenant: tenant.to_owned() }
    }

    /// The attempts of a tenant whose messages fail.
    fn failing(&self, tenant: &str) -> Option<Attempts> {
        let lanes = lock(&self.0);
        lanes.tenants.get(tenant).copied().filter(|attempts| lanes.are_failing(attempts))
    }
}

// === impl Lanes ===

impl Lanes {
    fn are_failing(&self, attempts: &Attempts) -> bool {
        attempts.failures >= TENANT_FAILURES
            || (attempts.failures > 0 && self.failures >= QUEUE_FAILURES)
    }

    /// Forgets tenants without a request in flight that need not be known.
    fn forget(&mut self) {
        self.tenants.retain(|_, attempts| attempts.in_flight > 0 || attempts.failures > 0);
        if self.tenants.len() > TENANTS_MAX {
            let idle = self.tenants.iter().filter(|(_, attempts)| attempts.in_flight == 0);
            let oldest = idle.min_by_key(|(_, attempts)| attempts.last);
            if let Some(oldest) = oldest.map(|(tenant, _)| tenant.clone()) {
                self.tenants.remove(&oldest);
            }
        }
    }
}

// === impl LaneAttempt ===

impl LaneAttempt<'_> {
    /// Records the end of the attempt: whether it was answered or failed, if it was one of these.
    pub(super) fn ended(self, answered: Option<bool>) {
        let mut lanes = lock(&self.lanes.0);
        let lanes = &mut *lanes;
        let Some(attempts) = lanes.tenants.get_mut(&self.tenant) else { return };
        match answered {
            Some(true) => (attempts.failures, lanes.failures) = (0, 0),
            Some(false) => {
                attempts.failures = attempts.failures.saturating_add(1);
                lanes.failures = lanes.failures.saturating_add(1);
            }
            None => {}
        }
    }
}

impl Drop for LaneAttempt<'_> {
    fn drop(&mut self) {
        let mut lanes = lock(&self.lanes.0);
        if let Some(attempts) = lanes.tenants.get_mut(&self.tenant) {
            attempts.in_flight = attempts.in_flight.saturating_sub(1);
        }
        lanes.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(lanes: &FailingLanes, tenant: &str, answered: Option<bool>, times: u32) {
        (0..times).for_each(|_| lanes.started(tenant).ended(answered));
    }

    #[test]
    fn d08_a_tenant_fails_until_its_next_answer() {
        let lanes = FailingLanes::default();
        end(&lanes, "bad", Some(false), TENANT_FAILURES - 1);
        end(&lanes, "bad", None, 1);
        assert!(lanes.failing("bad").is_none());
        end(&lanes, "bad", Some(false), 1);
        let attempt = lanes.started("bad");
        assert_eq!(lanes.failing("bad").map(|attempts| attempts.in_flight), Some(1));
        assert!(lanes.failing("good").is_none());
        drop(attempt);
        end(&lanes, "bad", Some(true), 1);
        assert!(lanes.failing("bad").is_none() && lock(&lanes.0).tenants.is_empty());
    }

    /// Each message may name another tenant.
    #[test]
    fn d08_the_failures_of_many_tenants_are_those_of_their_queue() {
        let lanes = FailingLanes::default();
        for number in 0..2 * TENANTS_MAX {
            end(&lanes, &number.to_string(), Some(false), 1);
        }
        let last = (2 * TENANTS_MAX - 1).to_string();
        assert!(lanes.failing(&last).is_some() && lanes.failing("new").is_none());
        assert!(lock(&lanes.0).tenants.len() <= TENANTS_MAX + 1);
        end(&lanes, "new", Some(true), 1);
        assert!(lanes.failing(&last).is_none());
    }
}
