//! The invariants that hold after every verb, checked from first principles.
//!
//! Property tests, simulation and debugging call it. It recounts the whole state, so it is not for
//! the request path.

use std::collections::{BTreeMap, BTreeSet};

use crate::ask::{BANDS, Band};
use crate::auto_watermark::Tally;
use crate::controller::Controller;
use crate::queue::asks::Phase;
use crate::queue::fair_queue::FairQueue;
use crate::queue::flow_queue::FlowQueue;
use crate::queue::session_order::IDLE_MAX;
use crate::queue::virtual_clock::HORIZON;
use crate::reserve::InFlight;
use crate::settings::{Bounds, Order};
use crate::time::Span;

/// The description of a broken invariant.
pub type Violation = String;

/// Checks counters, queues, heaps, limits and work conservation.
pub fn check(controller: &Controller) -> Result<(), Violation> {
    counters(controller)?;
    stock(controller)?;
    auto_counts(controller)?;
    waiting(controller)?;
    reserved_places(controller)?;
    heaps(controller)?;
    work_conservation(controller)
}

fn require(holds: bool, violation: impl FnOnce() -> Violation) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(violation()) }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, left: T, right: T) -> Result<(), Violation> {
    require(left == right, || format!("{what}: {left:?} against {right:?}"))
}

fn counters(c: &Controller) -> Result<(), Violation> {
    let n = &c.counters;
    let (waiting, flying) = (u64::from(c.depth()), u64::from(c.in_flight()));
    equal("offers", n.offered, n.refused + n.bypassed + n.queued)?;
    let ended = n.granted + n.cancelled_waiting + n.evictions();
    equal("waits", n.queued + n.requeued, ended + waiting)?;
    equal("grants", n.bypassed + n.granted, n.settled + n.requeued + flying)?;
    let has_preference: Vec<u32> =
        c.asks.slots().filter(|&slot| c.asks[slot].has_preference).collect();
    equal("preferences", c.preferences.keys().copied().collect::<Vec<_>>(), has_preference)?;
    let alive = |slot: &u32| c.asks[*slot].phase != Phase::Free;
    let requeued = c.first_arrivals.keys().filter(|slot| alive(slot)).count();
    equal("first arrivals", c.first_arrivals.len(), requeued)?;
    let known = c.asks.slots().filter(|&slot| c.asks[slot].workload != u32::MAX);
    equal("active workloads", c.registry.active_total(), known.count() as u64)
}

fn stock(c: &Controller) -> Result<(), Violation> {
    let mut stock = vec![0; c.supply.backends.len()];
    let mut in_flight = vec![[0; BANDS]; c.supply.backends.len()];
    let mut uncomputed = vec![0; c.supply.backends.len()];
    let mut by_flow: BTreeMap<u32, u32> = BTreeMap::new();
    for slot in c.asks.slots() {
        let record = &c.asks[slot];
        if record.phase == Phase::InFlight {
            stock[record.backend as usize] += record.stock(c.settings.stock);
            in_flight[record.backend as usize][record.band.index()] += 1;
            let prompt = c.prompts.get(slot as usize);
            uncomputed[record.backend as usize] +=
                prompt.map_or(0, |prompt| u64::from(prompt.uncomputed));
            *by_flow.entry(c.flow_queues[record.flow_queue].flow).or_default() += 1;
        }
    }
    for (at, backend) in c.supply.backends.iter().enumerate() {
        equal("stock at a backend", backend.stock, stock[at])?;
        equal("pending at a backend", backend.in_flight, in_flight[at])?;
        equal("tokens to compute at a backend", backend.uncomputed, uncomputed[at])?;
    }
    for slot in c.flows.slots() {
        let counted = by_flow.get(&slot).copied().unwrap_or(0);
        equal("in flight of a flow", c.flows[slot].in_flight, counted)?;
    }
    Ok(())
}

/// The counts of `auto` equal the asks in flight, and the open backends are counted correctly.
fn auto_counts(c: &Controller) -> Result<(), Violation> {
    let mut counted = vec![Tally::default(); c.supply.backends.len()];
    for slot in c.asks.slots().filter(|&slot| c.asks[slot].phase == Phase::InFlight) {
        if c.settings.bounds == Bounds::Auto {
            counted[c.asks[slot].backend as usize].add(&c.progress[slot as usize]);
        }
    }
    for (at, backend) in c.supply.backends.iter().enumerate() {
        equal("counts of auto", backend.auto.tally(), counted[at])?;
    }
    c.supply.check_open_counts()
}

/// The counts behind the reserved places equal the asks in flight, while places are kept.
fn reserved_places(c: &Controller) -> Result<(), Violation> {
    let mut by_flow_queue: BTreeMap<u32, u32> = BTreeMap::new();
    for record in c.asks.slots().map(|slot| &c.asks[slot]) {
        let flies = u32::from(record.phase == Phase::InFlight && c.is_reserving());
        *by_flow_queue.entry(record.flow_queue).or_default() += flies;
    }
    let mut by_band = vec![[InFlight::default(); BANDS]; c.reserves.len()];
    for at in c.flow_queues.ids() {
        let FlowQueue { pool, band, in_flight, over_share, .. } = c.flow_queues[at];
        let counted = by_flow_queue.get(&at).copied().unwrap_or(0);
        equal("in flight of a flow queue", in_flight, counted)?;
        require(in_flight > 0 || !over_share, || format!("flow queue {at} is over its share"))?;
        let sums = &mut by_band[pool as usize][band.index()];
        sums.all += in_flight;
        sums.over_share += if over_share { in_flight } else { 0 };
    }
    let counted: Vec<_> = c.reserves.iter().map(|reserve| reserve.in_flight).collect();
    equal("in flight by pool and band", counted, by_band)
}

fn waiting(c: &Controller) -> Result<(), Violation> {
    let mut by_flow: BTreeMap<u32, [u32; BANDS]> = BTreeMap::new();
    let mut by_flow_queue: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    let mut total = [0; BANDS];
    for record in c.asks.slots().map(|slot| &c.asks[slot]) {
        if record.phase == Phase::Waiting {
            let band = record.band.index();
            total[band] += 1;
            by_flow.entry(c.flow_queues[record.flow_queue].flow).or_default()[band] += 1;
            let entry = by_flow_queue.entry(record.flow_queue).or_default();
            *entry = (entry.0 + 1, entry.1 + u64::from(record.cost));
        }
    }
    equal("waiting by band", c.capacity.waiting, total)?;
    for slot in c.flows.slots() {
        let counted = by_flow.get(&slot).copied().unwrap_or_default();
        equal("waiting of a flow", c.flows[slot].waiting, counted)?;
    }
    for at in c.flow_queues.ids() {
        let flow_queue = &c.flow_queues[at];
        let counted = by_flow_queue.get(&at).copied().unwrap_or_default();
        equal("waiting of a flow queue", (flow_queue.waiting, flow_queue.cost_waiting), counted)?;
        require(flow_queue.waiting > 0 || !flow_queue.active, || {
            format!("flow_queue {at} waits for nothing")
        })?;
    }
    late(c)?;
    sessions(c)?;
    let domains: u32 = c.domains.iter().map(|domain| domain.waiting).sum();
    equal("waiting by domain", domains, c.depth())
}

/// The asks found late are counted, and all of them are late.
fn late(c: &Controller) -> Result<(), Violation> {
    let mut counted: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    let waiting = c.asks.slots().map(|slot| &c.asks[slot]);
    for record in waiting.filter(|record| record.phase == Phase::Waiting && record.late) {
        require(record.is_late(c.clock), || format!("ask {} is fresh", record.sequence))?;
        let entry = counted.entry(record.flow_queue).or_default();
        *entry = (entry.0 + 1, entry.1 + u64::from(record.cost));
    }
    for at in c.flow_queues.ids() {
        let late = c.flow_queues[at].ordered.late();
        let expected = counted.get(&at).copied().unwrap_or_default();
        equal("late asks of a flow queue", (late.count, late.cost), expected)?;
    }
    Ok(())
}

/// Every waiting ask has a session in its flow queue, and few others are remembered.
fn sessions(c: &Controller) -> Result<(), Violation> {
    let waiting = c.asks.slots().map(|slot| &c.asks[slot]);
    let waiting = waiting.filter(|record| record.phase == Phase::Waiting);
    let keys: BTreeSet<_> = waiting.map(|record| (record.flow_queue, record.session)).collect();
    for at in c.flow_queues.ids() {
        let Some(order) = c.flow_queues[at].ordered.sessions() else { continue };
        let (remembered, waiting) = order.counts();
        equal("sessions that wait", waiting, keys.range((at, 0)..=(at, u32::MAX)).count())?;
        require(remembered - waiting <= IDLE_MAX, || format!("{remembered} sessions at {at}"))?;
    }
    let mut counted: BTreeMap<_, BTreeMap<u32, u32>> = BTreeMap::new();
    for record in c.asks.slots().map(|slot| &c.asks[slot]) {
        if record.phase == Phase::Waiting && c.settings.order == Order::Session {
            let key = (c.flow_queues[record.flow_queue].flow, record.band.index());
            *counted.entry(key).or_default().entry(record.session).or_default() += 1;
        }
    }
    let sessions = c.capacity.sessions.iter();
    let sessions = sessions.map(|(&key, counts)| (key, counts.iter().collect()));
    equal("waiting by session", sessions.collect::<BTreeMap<_, BTreeMap<_, _>>>(), counted)
}

/// The heaps have exactly the active flow queues, with their current tags.
fn heaps(c: &Controller) -> Result<(), Violation> {
    for (pool, fair_queues) in c.fair_queues.iter().enumerate() {
        for (band, fair_queue) in fair_queues.iter().enumerate() {
            let here = |at: &u32| {
                let FlowQueue { active, pool: of, band: level, .. } = c.flow_queues[*at];
                active && (of as usize, level.index()) == (pool, band)
            };
            let active: Vec<u32> = c.flow_queues.ids().filter(here).collect();
            heap(c, fair_queue, active)?;
        }
    }
    Ok(())
}

fn heap(c: &Controller, fair_queue: &FairQueue, active: Vec<u32>) -> Result<(), Violation> {
    let mut queued: Vec<u32> = fair_queue.service_orders().map(|order| order.flow_queue).collect();
    queued.sort_unstable();
    queued.dedup();
    equal("active flow queues", queued, active)?;
    for order in fair_queue.service_orders() {
        let FlowQueue { tag, tie_break, .. } = c.flow_queues[order.flow_queue];
        equal("tag in a heap", (order.tag, order.tie_break), (tag, tie_break))?;
        let lead = tag.abs_diff(fair_queue.clock.now());
        require(lead <= HORIZON, || format!("flow queue {} is {lead} off", order.flow_queue))?;
    }
    Ok(())
}

/// No ask waits that could go: below the lower bound, every open pool is drained. An ask may wait
/// for a loaded model or, unless it is critical, for a cached prompt, until a moment that is noted.
fn work_conservation(c: &Controller) -> Result<(), Violation> {
    let room = c.settings.bounds.to_dequeue();
    if c.settings.model_stay == Span::ZERO {
        let critical = Band::Critical.index();
        let mut domains = 0..c.domains.len() as u32;
        let held = domains.find(|&domain| c.band_could_go(domain, critical, room, &[]));
        require(held.is_none(), || format!("a critical ask is held in domain {held:?}"))?;
    }
    if c.look_again.is_some() {
        return Ok(());
    }
    for domain in 0..c.domains.len() as u32 {
        require(!c.any_could_go(domain, room), || format!("domain {domain} could go on"))?;
    }
    Ok(())
}
