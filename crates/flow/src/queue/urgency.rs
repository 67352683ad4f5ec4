//! The `workload` order: most urgent first, exact at every dequeue.
//!
//! ```text
//! urgency = a·min(wait/wait_cap, 1) + b·criticality/5 − c·min(rate/rate_cap, 1)
//! ```
//!
//! Asks of the same workload and criticality differ only in their wait, and their order of arrival
//! never changes. So each such pair has a FIFO, and only the heads compete.
//!
//! Urgency is compared as the wait that it is worth, in whole nanoseconds: the wait, as far as it
//! counts, and the *bonus*, which is what criticality and rate are worth. All waits grow alike, so
//! while they grow the order of the heads does not change: the least `arrival − bonus` goes first.
//! A head that has waited for the cap stands still: among those the largest bonus goes first. So
//! there are two sorted sets, and a dequeue compares the first heads of both.
//!
//! A rank is true when it is made. Later it can only be too early: an offer of its workload lowers
//! the bonus, and at the cap a wait stops to grow. So the first rank of a set is looked at again
//! before it counts, and no other needs to be. Bonuses rise only when a bucket leaves the window,
//! or with new settings; then all heads are ranked anew.
//!
//! The number of FIFOs is bounded: beyond [`FIFOS_MAX`], asks share one FIFO per criticality, with
//! the common rate of all overflowing workloads.

use std::collections::{BTreeMap, BTreeSet};

use super::asks::{AskRecord, Asks};
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

/// What one point of urgency is worth where waits have no weight.
const WORTH_WITHOUT_WAIT: f64 = 1e12;
/// A smaller weight of the wait counts as none, so that a worth in nanoseconds always has a number.
const WAIT_WEIGHT_MIN: f64 = 1e-12;

/// A wait, or what is worth as much, in nanoseconds.
pub(crate) type Worth = i128;

/// The terms of the urgency of one ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UrgencyTerms {
    /// How long it has waited.
    pub wait: Span,
    /// From 1 to 5.
    pub criticality: u8,
    /// The requests of its workload per second, within the window.
    pub rate: f64,
    /// The three together, weighed.
    pub urgency: f64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct UrgencyOrder {
    heads: Vec<Head>,
    fifos: Vec<Fifo>,
    by_pair: BTreeMap<(u32, u8), u32>,
    free: Vec<u32>,
    /// The heads whose waits grow, by `arrival − bonus`.
    growing: BTreeSet<Rank>,
    /// The heads that have waited for the cap, by `−bonus`.
    capped: BTreeSet<Rank>,
    /// The time in which no rate can have fallen since the heads were ranked.
    epoch: Option<RateEpoch>,
    scale: Scale,
}

/// The first ask of a FIFO, which is all that a dequeue compares.
#[derive(Clone, Copy, Debug)]
struct Head {
    arrival: Time,
    sequence: u64,
    slot: u32,
    workload: u32,
    criticality: u8,
    is_capped: bool,
    bonus: Worth,
}

/// The place of a head in its set: the least goes first, then the one that arrived first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    key: Worth,
    sequence: u64,
    fifo: u32,
}

/// What criticality and rate are worth as a wait.
#[derive(Clone, Copy, Debug, Default)]
struct Scale {
    /// The longest wait that counts.
    cap: Worth,
    per_criticality: f64,
    per_rate: f64,
    rate_cap: f64,
}

/// The urgency of one ask, by the formula above.
pub(crate) fn urgency(weights: &UrgencyWeights, wait: Span, criticality: u8, rate: f64) -> f64 {
    let wait = (wait.secs_f64() / weights.wait_cap).min(1.0);
    let rate = (rate / weights.rate_cap).min(1.0);
    weights.wait * wait + weights.criticality * (f64::from(criticality) / 5.0) - weights.rate * rate
}

/// The terms of an ask's urgency at this time.
pub(crate) fn terms(ask: &AskRecord, mut context: OrderContext<'_>) -> UrgencyTerms {
    let (wait, criticality) = (context.now.since(ask.arrival), ask.criticality);
    let rate = rate(ask.workload, &mut context);
    let urgency = urgency(context.weights, wait, criticality, rate);
    UrgencyTerms { wait, criticality, rate, urgency }
}

/// The requests of a workload per second, within the window.
fn rate(workload: u32, context: &mut OrderContext<'_>) -> f64 {
    let epoch = context.registry.epoch(context.now);
    let offers = context.registry.offers(workload, epoch);
    context.registry.rate_of(offers)
}

#[cfg(test)]
thread_local! {
    static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many heads this thread has looked at.
#[cfg(test)]
pub(crate) fn looks() -> u64 {
    LOOKS.get()
}

// === impl Scale ===

impl Scale {
    fn of(weights: &UrgencyWeights) -> Self {
        let cap = weights.wait_cap * 1e9;
        let (cap, worth) = match weights.wait {
            weight if weight < WAIT_WEIGHT_MIN => (0.0, WORTH_WITHOUT_WAIT),
            weight => (cap, cap / weight),
        };
        Self {
            cap: cap.round() as Worth,
            per_criticality: worth * weights.criticality / 5.0,
            per_rate: worth * weights.rate / weights.rate_cap,
            rate_cap: weights.rate_cap,
        }
    }

    fn bonus(&self, criticality: u8, rate: f64) -> Worth {
        let lost = self.per_rate * rate.min(self.rate_cap);
        (self.per_criticality * f64::from(criticality) - lost).round() as Worth
    }

    fn wait(&self, arrival: Time, now: Time) -> Worth {
        Worth::from(now.since(arrival).nanos()).min(self.cap)
    }
}

// === impl Head ===

impl Head {
    /// Of a FIFO without an ask.
    const NONE: Self = Self {
        arrival: Time::ZERO,
        sequence: 0,
        slot: NONE,
        workload: NONE,
        criticality: 0,
        is_capped: false,
        bonus: 0,
    };

    /// The bonus by the rate of now, and whether its wait still counts.
    fn look(&mut self, scale: &Scale, context: &mut OrderContext<'_>) {
        self.bonus = scale.bonus(self.criticality, rate(self.workload, context));
        self.is_capped = scale.wait(self.arrival, context.now) >= scale.cap;
    }

    fn rank(&self, fifo: u32) -> Rank {
        let since = if self.is_capped { 0 } else { Worth::from(self.arrival.nanos()) };
        Rank { key: since - self.bonus, sequence: self.sequence, fifo }
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
        // The first may turn out to be capped.
        let growing = self.first_of(false, context);
        let capped = self.first_of(true, context);
        let (Some(one), Some(other)) = (growing, capped) else {
            return growing.or(capped).map(|head| head.slot);
        };
        let worth = self.scale.wait(one.arrival, context.now) + one.bonus;
        let goes = (other.bonus + self.scale.cap, one.sequence) < (worth, other.sequence);
        Some(if goes { one.slot } else { other.slot })
    }

    pub(crate) fn newest(&self, asks: &Asks) -> Option<u32> {
        self.fifos.iter().filter_map(Fifo::tail).max_by_key(|&slot| asks[slot].sequence)
    }

    /// What the urgency of a waiting ask is worth now.
    pub(crate) fn worth(&self, ask: &AskRecord, context: &mut OrderContext<'_>) -> Worth {
        let scale = Scale::of(context.weights);
        let rate = rate(self.heads[ask.urgency_fifo as usize].workload, context);
        scale.wait(ask.arrival, context.now) + scale.bonus(ask.criticality, rate)
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
        // Its rate is read when its rank comes first.
        let bonus = self.scale.bonus(criticality, 0.0);
        let head = &mut self.heads[at as usize];
        *head = Head { workload, criticality, bonus, ..Head::NONE };
        self.by_pair.insert(pair, at);
        at
    }

    fn grow(&mut self) -> u32 {
        self.heads.push(Head::NONE);
        self.fifos.push(Fifo::default());
        self.heads.len() as u32 - 1
    }

    /// Takes the first ask of a FIFO as its head, with the bonus that was known before.
    fn refresh(&mut self, at: u32, asks: &Asks) {
        let head = self.heads[at as usize];
        if head.slot != NONE {
            self.ranks(head.is_capped).remove(&head.rank(at));
        }
        let slot = self.fifos[at as usize].head().unwrap_or(NONE);
        let head = &mut self.heads[at as usize];
        (head.slot, head.is_capped) = (slot, false);
        if slot != NONE {
            (head.arrival, head.sequence) = (asks[slot].arrival, asks[slot].sequence);
            let rank = head.rank(at);
            self.growing.insert(rank);
        }
    }

    fn ranks(&mut self, capped: bool) -> &mut BTreeSet<Rank> {
        if capped { &mut self.capped } else { &mut self.growing }
    }

    /// The first head of a set, with the rank of now.
    fn first_of(&mut self, capped: bool, context: &mut OrderContext<'_>) -> Option<Head> {
        loop {
            #[cfg(test)]
            LOOKS.set(LOOKS.get() + 1);
            let rank = *self.ranks(capped).first()?;
            let mut head = self.heads[rank.fifo as usize];
            head.look(&self.scale, context);
            let now = head.rank(rank.fifo);
            if (now, head.is_capped) == (rank, capped) {
                return Some(head);
            }
            self.heads[rank.fifo as usize] = head;
            self.ranks(capped).remove(&rank);
            self.ranks(head.is_capped).insert(now);
        }
    }

    /// Ranks all heads if rates may have fallen.
    fn rank_anew(&mut self, context: &mut OrderContext<'_>) {
        let epoch = Some(context.registry.epoch(context.now));
        if self.epoch == epoch {
            return;
        }
        (self.epoch, self.scale) = (epoch, Scale::of(context.weights));
        let (mut growing, mut capped) = (Vec::new(), Vec::new());
        for (fifo, head) in (0..).zip(&mut self.heads).filter(|(_, head)| head.slot != NONE) {
            head.look(&self.scale, context);
            let ranks = if head.is_capped { &mut capped } else { &mut growing };
            ranks.push(head.rank(fifo));
        }
        self.growing = growing.into_iter().collect();
        self.capped = capped.into_iter().collect();
    }
}
