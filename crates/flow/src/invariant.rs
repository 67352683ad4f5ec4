//! What must be true after every verb, checked from first principles.
//!
//! One function for properties, simulation and debugging. It counts everything again the slow way,
//! so it is not for the request path.

use std::collections::BTreeMap;

use crate::ask::BANDS;
use crate::auto::Tally;
use crate::controller::Controller;
use crate::queue::asks::Phase;
use crate::queue::fair::HORIZON;
use crate::settings::Bounds;

/// A broken promise, in words.
pub type Violation = String;

/// Checks counters, lines, heaps, limits and work conservation.
pub fn check(controller: &Controller) -> Result<(), Violation> {
    counters(controller)?;
    stock(controller)?;
    gauges(controller)?;
    waiting(controller)?;
    turns(controller)?;
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
    let wishful: Vec<u32> = c.asks.slots().filter(|&slot| c.asks[slot].wishful).collect();
    equal("wishes", c.wishes.keys().copied().collect::<Vec<_>>(), wishful)?;
    let known = c.asks.slots().filter(|&slot| c.asks[slot].workload != u32::MAX);
    equal("active workloads", c.registry.active_total(), known.count() as u64)
}

fn stock(c: &Controller) -> Result<(), Violation> {
    let mut stock = vec![0; c.supply.backends.len()];
    let mut in_flight = vec![[0; BANDS]; c.supply.backends.len()];
    let mut by_flow: BTreeMap<u32, u32> = BTreeMap::new();
    for record in c.asks.slots().map(|slot| &c.asks[slot]) {
        if record.phase == Phase::InFlight {
            stock[record.backend as usize] += record.stock(c.settings.stock);
            in_flight[record.backend as usize][record.band.index()] += 1;
            *by_flow.entry(c.claims[record.claim].flow).or_default() += 1;
        }
    }
    for (at, backend) in c.supply.backends.iter().enumerate() {
        equal("stock at a backend", backend.stock, stock[at])?;
        equal("pending at a backend", backend.in_flight, in_flight[at])?;
    }
    for slot in c.flows.slots() {
        let counted = by_flow.get(&slot).copied().unwrap_or(0);
        equal("in flight of a flow", c.flows[slot].in_flight, counted)?;
    }
    Ok(())
}

/// What `auto` counts is what is in flight, and no door is open or shut by mistake.
fn gauges(c: &Controller) -> Result<(), Violation> {
    let mut counted = vec![Tally::default(); c.supply.backends.len()];
    for slot in c.asks.slots().filter(|&slot| c.asks[slot].phase == Phase::InFlight) {
        if c.settings.bounds == Bounds::Auto {
            counted[c.asks[slot].backend as usize].add(&c.flights[slot as usize]);
        }
    }
    for (at, backend) in c.supply.backends.iter().enumerate() {
        equal("what auto counts", backend.gauge.tally(), counted[at])?;
    }
    c.supply.check_doors()
}

fn waiting(c: &Controller) -> Result<(), Violation> {
    let mut by_flow: BTreeMap<u32, [u32; BANDS]> = BTreeMap::new();
    let mut by_claim: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    let mut total = [0; BANDS];
    for record in c.asks.slots().map(|slot| &c.asks[slot]) {
        if record.phase == Phase::Waiting {
            let band = record.band.index();
            total[band] += 1;
            by_flow.entry(c.claims[record.claim].flow).or_default()[band] += 1;
            let entry = by_claim.entry(record.claim).or_default();
            *entry = (entry.0 + 1, entry.1 + u64::from(record.cost));
        }
    }
    equal("waiting by band", c.capacity.waiting, total)?;
    for slot in c.flows.slots() {
        let counted = by_flow.get(&slot).copied().unwrap_or_default();
        equal("waiting of a flow", c.flows[slot].waiting, counted)?;
    }
    for at in c.claims.ids() {
        let claim = &c.claims[at];
        let counted = by_claim.get(&at).copied().unwrap_or_default();
        equal("waiting of a claim", (claim.waiting, claim.cost_waiting), counted)?;
        require(claim.waiting > 0 || !claim.active, || format!("claim {at} waits for nothing"))?;
    }
    let domains: u32 = c.domains.iter().map(|domain| domain.waiting).sum();
    equal("waiting by domain", domains, c.depth())
}

/// Heaps hold exactly the claims that take part, under the tags those have.
fn turns(c: &Controller) -> Result<(), Violation> {
    for (pool, rounds) in c.rounds.iter().enumerate() {
        for (band, round) in rounds.iter().enumerate() {
            let of_round = |claim: &u32| {
                let claim = &c.claims[*claim];
                claim.active && (claim.pool as usize, claim.band.index()) == (pool, band)
            };
            let active: Vec<u32> = c.claims.ids().filter(of_round).collect();
            let mut turning: Vec<u32> = round.turns().map(|turn| turn.claim).collect();
            turning.sort_unstable();
            turning.dedup();
            equal("claims in a round", turning, active)?;
            for turn in round.turns() {
                let claim = &c.claims[turn.claim];
                equal("tag in a heap", (turn.tag, turn.turn), (claim.tag, claim.turn))?;
                let lead = claim.tag.abs_diff(round.clock.now());
                require(lead <= HORIZON, || format!("claim {} is {lead} off", turn.claim))?;
            }
        }
    }
    Ok(())
}

/// Nothing that could go is kept waiting: below the lower bound every open pool is drained.
fn work_conservation(c: &Controller) -> Result<(), Violation> {
    let room = c.settings.bounds.to_dequeue();
    for domain in 0..c.domains.len() as u32 {
        require(!c.any_could_go(domain, room), || format!("domain {domain} could go on"))?;
    }
    Ok(())
}
