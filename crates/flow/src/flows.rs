//! The flows: names, classes, and the numbers of their waiting asks and asks in flight.
//!
//! An idle flow is remembered for a while, because its tags may still be ahead of virtual time. The
//! number of idle flows is bounded, and forgetting one loses at most one charge. So memory is
//! bounded, whatever names clients invent. The clock algorithm chooses the flow to forget: a hand
//! moves over the flows and spares those that were used since its last visit. That approximates
//! least recently used at the price of one flag, instead of a list that every ask would have to
//! update.

use std::collections::{BTreeMap, HashMap};

use crate::ask::{BANDS, FlowId};
use crate::links::NONE;
use crate::settings::FlowClass;

/// One flow. It fits a cache line; its name, which the request path does not need, is stored apart.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Flow {
    pub(crate) waiting: [u32; BANDS],
    /// The upper bound of `waiting` in the eviction ranking of each band.
    pub(crate) rank_bound: [u32; BANDS],
    pub(crate) in_flight: u32,
    pub(crate) first_flow_queue: u32,
    pub(crate) class: u32,
    /// Asks that were refused or evicted since the flow is remembered.
    pub(crate) refused: u32,
    generation: u32,
    /// Whether its class limits the asks in flight.
    pub(crate) limited: bool,
    named: bool,
    used: bool,
}

/// Names are looked up by hash and never iterated in hash order.
#[derive(Clone, Debug)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
    names: Vec<Box<str>>,
    by_name: HashMap<Box<str>, u32>,
    free: Vec<u32>,
    hand: usize,
    /// By class, the default one first.
    policies: Vec<FlowClass>,
    /// Asks in flight by flow and backend, for flows that are limited per backend.
    held: BTreeMap<(u32, u32), u32>,
}

// === impl Flow ===

impl Flow {
    pub(crate) fn waiting_total(&self) -> u32 {
        self.waiting.iter().sum()
    }

    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.waiting_total() == 0
    }
}

// === impl Flows ===

impl Flows {
    pub(crate) fn new(policies: Vec<FlowClass>) -> Self {
        Self {
            flows: Vec::new(),
            names: Vec::new(),
            by_name: HashMap::new(),
            free: Vec::new(),
            hand: 0,
            policies,
            held: BTreeMap::new(),
        }
    }

    pub(crate) fn configure(&mut self, policies: Vec<FlowClass>) {
        self.policies = policies;
        for slot in 0..self.flows.len() as u32 {
            self.reclassify(slot, self[slot].class);
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn name(&self, slot: u32) -> &str {
        &self.names[slot as usize]
    }

    /// The class of a flow; a class that does not exist is the default one.
    pub(crate) fn policy(&self, slot: u32) -> &FlowClass {
        self.policies.get(self[slot].class as usize).unwrap_or(&self.policies[0])
    }

    /// Adds an idle flow.
    pub(crate) fn insert(&mut self, name: &str, class: u32) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        let generation = self[slot].generation.wrapping_add(1);
        self[slot] = Flow { generation, named: true, ..Flow::default() };
        self.names[slot as usize] = name.into();
        self.by_name.insert(name.into(), slot);
        self.reclassify(slot, class);
        slot
    }

    pub(crate) fn reclassify(&mut self, slot: u32, class: u32) {
        self[slot].class = class;
        let policy = self.policy(slot);
        let limited = policy.in_flight_max.is_some() || policy.in_flight_per_backend_max.is_some();
        self[slot].limited = limited;
    }

    fn grow(&mut self) -> u32 {
        self.flows.push(Flow::default());
        self.names.push(Box::default());
        self.flows.len() as u32 - 1
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        self[slot].named = false;
        let name = std::mem::take(&mut self.names[slot as usize]);
        self.by_name.remove(&name);
        self.free.push(slot);
    }

    pub(crate) fn id(&self, slot: u32) -> FlowId {
        FlowId { slot, generation: self[slot].generation }
    }

    /// The flow with this id, unless it was forgotten.
    pub(crate) fn resolve(&mut self, id: FlowId) -> Option<u32> {
        let flow = self.flows.get_mut(id.slot as usize)?;
        let known = flow.generation == id.generation && flow.named;
        flow.used |= known;
        known.then_some(id.slot)
    }

    /// A flow to forget, if more than `keep` are remembered.
    pub(crate) fn surplus(&mut self, keep: usize) -> Option<u32> {
        if self.by_name.len() <= keep {
            return None;
        }
        // Two rounds find every idle flow: the first may only clear its flag.
        for _ in 0..2 * self.flows.len() {
            self.hand = (self.hand + 1) % self.flows.len();
            let flow = &mut self.flows[self.hand];
            if flow.named && flow.is_idle() && !std::mem::take(&mut flow.used) {
                return Some(self.hand as u32);
            }
        }
        None
    }

    pub(crate) fn is_at_limit(&self, slot: u32) -> bool {
        let most = self.policy(slot).in_flight_max;
        most.is_some_and(|most| self[slot].in_flight >= most)
    }

    /// Whether it was at its limit until an ask ended just now.
    pub(crate) fn was_at_limit(&self, slot: u32) -> bool {
        let most = self.policy(slot).in_flight_max;
        most.is_some_and(|most| self[slot].in_flight + 1 >= most)
    }

    pub(crate) fn is_limited_per_backend(&self, slot: u32) -> bool {
        self.policy(slot).in_flight_per_backend_max.is_some()
    }

    /// Whether the flow may have one more ask in flight at this backend.
    pub(crate) fn may_use(&self, slot: u32, backend: u32) -> bool {
        let most = self.policy(slot).in_flight_per_backend_max;
        most.is_none_or(|most| self.held.get(&(slot, backend)).is_none_or(|&held| held < most))
    }

    pub(crate) fn hold(&mut self, slot: u32, backend: u32) {
        *self.held.entry((slot, backend)).or_default() += 1;
    }

    /// Undoes one `hold`.
    pub(crate) fn release(&mut self, slot: u32, backend: u32) {
        if let Some(count) = self.held.get_mut(&(slot, backend)) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&(slot, backend));
            }
        }
    }

    pub(crate) fn release_all(&mut self, of: impl Fn(u32) -> bool) {
        self.held.retain(|&(flow, _), _| !of(flow));
    }

    /// The slots of all flows.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.flows.len() as u32).filter(|&slot| self[slot].named)
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

impl Default for Flow {
    fn default() -> Self {
        Self {
            waiting: [0; BANDS],
            rank_bound: [0; BANDS],
            in_flight: 0,
            first_flow_queue: NONE,
            class: 0,
            refused: 0,
            generation: 0,
            limited: false,
            named: false,
            used: true,
        }
    }
}
