//! The flows: names, classes, and what each has waiting and in flight.
//!
//! A flow with nothing alive is kept for a while, because its tags may still be ahead of virtual
//! time; the number kept is bounded, the least recently used goes first, and what is lost with it is
//! at most one charge. So memory is bounded whatever ids clients invent.

use std::collections::{BTreeMap, HashMap};

use crate::ask::{BANDS, FlowId};
use crate::lru::Lru;
use crate::queue::NONE;

#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) class: u32,
    pub(crate) in_flight: u32,
    pub(crate) claim_first: u32,
    pub(crate) waiting: [u32; BANDS],
    /// What the eviction ranking of each band believes of `waiting` at most.
    pub(crate) rank_bound: [u32; BANDS],
    generation: u32,
    /// Whether it is among the idle ones.
    resting: bool,
    name: Box<str>,
}

/// Names are looked up by hash and never iterated in hash order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    by_name: HashMap<Box<str>, u32>,
    flows: Vec<Flow>,
    free: Vec<u32>,
    /// Flows with nothing alive.
    idle: Lru,
    /// Asks in flight by flow and backend, for flows that are limited there.
    held: BTreeMap<(u32, u32), u32>,
}

// === impl Flow ===

impl Flow {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn waiting_total(&self) -> u32 {
        self.waiting.iter().sum()
    }

    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.waiting_total() == 0
    }
}

// === impl Flows ===

impl Flows {
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// A new flow, with nothing alive.
    pub(crate) fn insert(&mut self, name: &str, class: u32) -> u32 {
        let slot = self.free.pop().unwrap_or(self.flows.len() as u32);
        let mut flow = Flow {
            class,
            in_flight: 0,
            claim_first: NONE,
            waiting: [0; BANDS],
            rank_bound: [0; BANDS],
            generation: 0,
            resting: true,
            name: name.into(),
        };
        match self.flows.get_mut(slot as usize) {
            Some(old) => {
                flow.generation = old.generation.wrapping_add(1);
                *old = flow;
            }
            None => self.flows.push(flow),
        }
        self.by_name.insert(name.into(), slot);
        self.idle.push(slot);
        slot
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        self.idle.remove(slot);
        let flow = &mut self.flows[slot as usize];
        flow.generation = flow.generation.wrapping_add(1);
        let name = std::mem::take(&mut flow.name);
        self.by_name.remove(&name);
        self.free.push(slot);
    }

    pub(crate) fn id(&self, slot: u32) -> FlowId {
        FlowId { slot, generation: self[slot].generation }
    }

    pub(crate) fn resolve(&self, id: FlowId) -> Option<u32> {
        let flow = self.flows.get(id.slot as usize)?;
        (flow.generation == id.generation && !flow.name.is_empty()).then_some(id.slot)
    }

    /// The least recently used idle flow, where more than `keep` are idle.
    pub(crate) fn surplus(&self, keep: u32) -> Option<u32> {
        if self.idle.count() > keep { self.idle.oldest() } else { None }
    }

    pub(crate) fn began_waiting(&mut self, slot: u32, band: usize) -> u32 {
        self.stop_resting(slot);
        let flow = &mut self[slot];
        flow.waiting[band] += 1;
        flow.waiting[band]
    }

    pub(crate) fn stopped_waiting(&mut self, slot: u32, band: usize) {
        self[slot].waiting[band] -= 1;
    }

    pub(crate) fn began_flight(&mut self, slot: u32) -> u32 {
        self.stop_resting(slot);
        let flow = &mut self[slot];
        flow.in_flight += 1;
        flow.in_flight
    }

    pub(crate) fn ended_flight(&mut self, slot: u32) {
        self[slot].in_flight -= 1;
    }

    /// Puts a flow that may have nothing alive any more among the idle ones.
    pub(crate) fn rest(&mut self, slot: u32) {
        let flow = &mut self[slot];
        if flow.is_idle() && !flow.resting {
            flow.resting = true;
            self.idle.push(slot);
        }
    }

    pub(crate) fn held(&self, flow: u32, backend: u32) -> u32 {
        self.held.get(&(flow, backend)).copied().unwrap_or(0)
    }

    pub(crate) fn hold(&mut self, flow: u32, backend: u32) {
        *self.held.entry((flow, backend)).or_default() += 1;
    }

    /// Undoes one `hold`; flows that were not limited at the time have none.
    pub(crate) fn release(&mut self, flow: u32, backend: u32) {
        if let Some(count) = self.held.get_mut(&(flow, backend)) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&(flow, backend));
            }
        }
    }

    pub(crate) fn release_all(&mut self, of: impl Fn(u32) -> bool) {
        self.held.retain(|&(flow, _), _| !of(flow));
    }

    /// The slots of all flows, in the order they were taken.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.flows.len() as u32).filter(|&slot| !self[slot].name.is_empty())
    }

    fn stop_resting(&mut self, slot: u32) {
        if std::mem::take(&mut self[slot].resting) {
            self.idle.remove(slot);
        }
    }
}

impl std::ops::Index<u32> for Flows {
    type Output = Flow;

    fn index(&self, slot: u32) -> &Flow {
        &self.flows[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Flows {
    fn index_mut(&mut self, slot: u32) -> &mut Flow {
        &mut self.flows[slot as usize]
    }
}
