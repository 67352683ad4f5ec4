//! The `workload` order: most urgent first, exact at every dequeue.
//!
//! ```text
//! urgency = a·min(wait/wait_cap, 1) + b·criticality/5 − c·min(rate/rate_cap, 1)
//! ```
//!
//! Waits grow, caps take effect and rates change, so a heap that was ordered earlier is stale. But
//! asks of the same workload and criticality differ only in their wait, and their order of arrival
//! never changes. So each such pair has a FIFO, and a dequeue compares only the heads. The arrival
//! times of the heads are cached, so that the comparison reads one array.
//!
//! The number of FIFOs is bounded: beyond [`FIFOS_MAX`], asks share one FIFO per criticality, with
//! the common rate of all overflowing workloads.

use std::collections::BTreeMap;

use super::asks::Asks;
use super::fifo::Fifo;
use super::ordered_asks::{self, OrderContext};
use crate::ask::WorkloadId;
use crate::links::NONE;
use crate::outcome::RequeuePosition;
use crate::settings::UrgencyWeights;
use crate::time::{Span, Time};

/// The most (workload, criticality) pairs with a FIFO of their own in one flow queue.
pub(crate) const FIFOS_MAX: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct UrgencyOrder {
    heads: Vec<Head>,
    fifos: Vec<Fifo>,
    by_pair: BTreeMap<(u32, u8), u32>,
    free: Vec<u32>,
}

/// The first ask of a FIFO, which is all that a dequeue compares.
#[derive(Clone, Copy, Debug)]
struct Head {
    arrival: Time,
    sequence: u64,
    slot: u32,
    workload: u32,
    criticality: u8,
}

/// The urgency of one ask, by the formula above.
pub(crate) fn urgency(weights: &UrgencyWeights, wait: Span, criticality: u8, rate: f64) -> f64 {
    let wait = (wait.secs_f64() / weights.wait_cap).min(1.0);
    let rate = (rate / weights.rate_cap).min(1.0);
    weights.wait * wait + weights.criticality * (f64::from(criticality) / 5.0) - weights.rate * rate
}

// === impl UrgencyOrder ===

impl UrgencyOrder {
    pub(crate) fn insert(&mut self, slot: u32, place: RequeuePosition, asks: &mut Asks) {
        let at = self.fifo_for(slot, asks);
        asks[slot].urgency_fifo = at;
        ordered_asks::insert(&mut self.fifos[at as usize], slot, place, asks);
        self.refresh(at, asks);
    }

    pub(crate) fn remove(&mut self, slot: u32, asks: &mut Asks) {
        let at = asks[slot].urgency_fifo;
        self.fifos[at as usize].remove(slot, asks);
        if self.heads[at as usize].slot == slot {
            self.refresh(at, asks);
        }
        if self.fifos[at as usize].is_empty() {
            let head = self.heads[at as usize];
            self.by_pair.remove(&(head.workload, head.criticality));
            self.free.push(at);
        }
    }

    pub(crate) fn most_urgent(&self, context: &mut OrderContext<'_>) -> Option<u32> {
        let OrderContext { now, weights, registry } = context;
        let now = *now;
        let bucket = registry.bucket(now);
        let mut best: Option<(f64, &Head)> = None;
        for head in self.heads.iter().filter(|head| head.slot != NONE) {
            let rate = registry.rate(head.workload, bucket);
            let value = urgency(weights, now.since(head.arrival), head.criticality, rate);
            let better = best.is_none_or(|(most, leader)| {
                value > most || (value == most && head.sequence < leader.sequence)
            });
            if better {
                best = Some((value, head));
            }
        }
        best.map(|(_, head)| head.slot)
    }

    pub(crate) fn newest(&self, asks: &Asks) -> Option<u32> {
        self.fifos.iter().filter_map(Fifo::tail).max_by_key(|&slot| asks[slot].sequence)
    }

    fn fifo_for(&mut self, slot: u32, asks: &Asks) -> u32 {
        let mut pair = (asks[slot].workload, asks[slot].criticality);
        if !self.by_pair.contains_key(&pair) && self.by_pair.len() >= FIFOS_MAX {
            pair.0 = WorkloadId::OVERFLOW.slot;
        }
        if let Some(&at) = self.by_pair.get(&pair) {
            return at;
        }
        let at = self.free.pop().unwrap_or_else(|| self.grow());
        let (workload, criticality) = pair;
        self.heads[at as usize].workload = workload;
        self.heads[at as usize].criticality = criticality;
        self.by_pair.insert(pair, at);
        at
    }

    fn grow(&mut self) -> u32 {
        let empty =
            Head { arrival: Time::ZERO, sequence: 0, slot: NONE, workload: NONE, criticality: 0 };
        self.heads.push(empty);
        self.fifos.push(Fifo::default());
        self.heads.len() as u32 - 1
    }

    fn refresh(&mut self, at: u32, asks: &Asks) {
        let head = &mut self.heads[at as usize];
        head.slot = self.fifos[at as usize].head().unwrap_or(NONE);
        if head.slot != NONE {
            head.arrival = asks[head.slot].arrival;
            head.sequence = asks[head.slot].sequence;
        }
    }
}
