//! The `workload` order: most urgent first, exact at every dequeue.
//!
//! ```text
//! urgency = a·min(wait/wait_cap, 1) + b·criticality/5 − c·min(rate/rate_cap, 1)
//! ```
//!
//! Waits grow, caps take effect and rates change, so a heap that was ordered earlier is stale. But
//! asks of the same workload and criticality differ only in their wait, and their order of arrival
//! never changes. So each such pair has a FIFO, and only the heads compete. The same is true of
//! heads with the same criticality and rate: the first of them to arrive is the most urgent. So the
//! heads are ranked by criticality, by offers in the window, and by arrival, and a dequeue compares
//! one head of each such group. Within a criticality the offers grow from group to group. Once the
//! longest wait of all could not make up for them, the remaining groups are left out.
//!
//! An offer changes the rate of its workload, but not the rank of the heads. A rank may therefore
//! have fewer offers than there were. Such a head is visited too early, never too late, and is then
//! ranked again. Rates fall only when a bucket leaves the window; then all heads are ranked again.
//!
//! The number of FIFOs is bounded: beyond [`FIFOS_MAX`], asks share one FIFO per criticality, with
//! the common rate of all overflowing workloads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::asks::Asks;
use super::fifo::Fifo;
use super::ordered_asks::{self, OrderContext};
use crate::ask::WorkloadId;
use crate::links::NONE;
use crate::outcome::RequeuePosition;
use crate::settings::UrgencyWeights;
use crate::time::{Span, Time};
use crate::workload::RateEpoch;

/// The most (workload, criticality) pairs with a FIFO of their own in one flow queue.
pub(crate) const FIFOS_MAX: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct UrgencyOrder {
    heads: Vec<Head>,
    fifos: Vec<Fifo>,
    by_pair: BTreeMap<(u32, u8), u32>,
    free: Vec<u32>,
    /// The rank of each head.
    ranks: BTreeSet<Rank>,
    /// The time in which no rate can have fallen since the heads were ranked.
    epoch: RateEpoch,
    /// No head arrived earlier.
    earliest: Time,
}

/// The first ask of a FIFO, which is all that a dequeue compares.
#[derive(Clone, Copy, Debug)]
struct Head {
    arrival: Time,
    sequence: u64,
    slot: u32,
    workload: u32,
    /// The offers in its rank.
    offers: u32,
    criticality: u8,
}

/// The place of a head among the others. Heads of one criticality with the same offers form a
/// group; the sequence is their order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    criticality: Reverse<u8>,
    /// The offers of its workload in the window, or fewer, as far as they make a difference.
    offers: u32,
    sequence: u64,
    fifo: u32,
}

/// The urgency of one ask, by the formula above.
pub(crate) fn urgency(weights: &UrgencyWeights, wait: Span, criticality: u8, rate: f64) -> f64 {
    let wait = (wait.secs_f64() / weights.wait_cap).min(1.0);
    let rate = (rate / weights.rate_cap).min(1.0);
    weights.wait * wait + weights.criticality * (f64::from(criticality) / 5.0) - weights.rate * rate
}

/// The offers of a workload within the window, as far as they change its urgency.
fn counted_offers(workload: u32, epoch: RateEpoch, context: &mut OrderContext<'_>) -> u32 {
    let OrderContext { weights, registry, .. } = context;
    if weights.rate == 0.0 {
        return 0;
    }
    // One more than the cap, because the rate is a rounded number.
    let most = (registry.offers_at(weights.rate_cap).ceil() as u32).saturating_add(1);
    registry.offers(workload, epoch).min(most)
}

// === impl Rank ===

impl Rank {
    /// The first rank of a group.
    fn first(criticality: Reverse<u8>, offers: u32) -> Self {
        Self { criticality, offers, sequence: 0, fifo: 0 }
    }
}

// === impl Head ===

impl Head {
    fn rank(&self, fifo: u32) -> Rank {
        let Self { criticality, offers, sequence, .. } = *self;
        Rank { criticality: Reverse(criticality), offers, sequence, fifo }
    }
}

// === impl UrgencyOrder ===

impl UrgencyOrder {
    pub(crate) fn insert(&mut self, slot: u32, place: RequeuePosition, asks: &mut Asks) {
        let at = self.fifo_for(slot, asks);
        asks[slot].urgency_fifo = at;
        ordered_asks::insert(&mut self.fifos[at as usize], slot, place, asks);
        if self.fifos[at as usize].head() == Some(slot) {
            self.refresh(at, asks);
        }
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

    pub(crate) fn most_urgent(&mut self, context: &mut OrderContext<'_>) -> Option<u32> {
        self.rank_anew(context);
        let (now, weights) = (context.now, context.weights);
        let longest = now.since(self.earliest);
        let mut best: Option<(f64, Head)> = None;
        let mut next = Rank::first(Reverse(u8::MAX), 0);
        while let Some((rank, head)) = self.true_rank(next, context) {
            let rate = context.registry.rate_of(rank.offers);
            let score = |wait| urgency(weights, wait, head.criticality, rate);
            if best.is_some_and(|(most, _)| score(longest) < most) {
                // Behind all groups of this criticality.
                next = Rank::first(rank.criticality, u32::MAX);
                continue;
            }
            let value = score(now.since(head.arrival));
            let better = best.is_none_or(|(most, leader)| {
                value > most || (value == most && head.sequence < leader.sequence)
            });
            if better {
                best = Some((value, head));
            }
            next = Rank::first(rank.criticality, rank.offers + 1);
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
        let head = &mut self.heads[at as usize];
        (head.workload, head.criticality, head.offers) = (workload, criticality, 0);
        self.by_pair.insert(pair, at);
        at
    }

    fn grow(&mut self) -> u32 {
        self.heads.push(Head {
            arrival: Time::ZERO,
            sequence: 0,
            slot: NONE,
            workload: NONE,
            offers: 0,
            criticality: 0,
        });
        self.fifos.push(Fifo::default());
        self.heads.len() as u32 - 1
    }

    /// Takes the first ask of a FIFO as its head, with the offers that were known before.
    fn refresh(&mut self, at: u32, asks: &Asks) {
        if self.heads[at as usize].slot != NONE {
            self.ranks.remove(&self.heads[at as usize].rank(at));
        }
        let head = &mut self.heads[at as usize];
        head.slot = self.fifos[at as usize].head().unwrap_or(NONE);
        if head.slot != NONE {
            head.arrival = asks[head.slot].arrival;
            head.sequence = asks[head.slot].sequence;
            self.earliest = self.earliest.min(head.arrival);
            self.ranks.insert(self.heads[at as usize].rank(at));
        }
    }

    /// The first rank from `next` on, with the offers of now.
    fn true_rank(&mut self, next: Rank, context: &mut OrderContext<'_>) -> Option<(Rank, Head)> {
        loop {
            let rank = *self.ranks.range(next..).next()?;
            let head = self.heads[rank.fifo as usize];
            let offers = counted_offers(head.workload, self.epoch, context);
            if offers == rank.offers {
                return Some((rank, head));
            }
            self.ranks.remove(&rank);
            self.ranks.insert(Rank { offers, ..rank });
            self.heads[rank.fifo as usize].offers = offers;
        }
    }

    /// Ranks all heads if rates may have fallen.
    fn rank_anew(&mut self, context: &mut OrderContext<'_>) {
        let epoch = context.registry.epoch(context.now);
        if self.epoch == epoch {
            return;
        }
        self.epoch = epoch;
        self.earliest = context.now;
        self.ranks.clear();
        for (fifo, head) in (0..).zip(&mut self.heads).filter(|(_, head)| head.slot != NONE) {
            head.offers = counted_offers(head.workload, epoch, context);
            self.earliest = self.earliest.min(head.arrival);
            self.ranks.insert(head.rank(fifo));
        }
    }
}
