//! Eligibility: which flow queues are active, that is take part in their fair queues.
//!
//! A flow queue is active while an ask waits in it and its flow's limits allow one more grant. A
//! flow at `in_flight_max` is active nowhere. A flow limited per backend is active for those
//! backends where it has fewer asks in flight than its limit.

use super::Controller;
use crate::ask::Band;
use crate::links::NONE;
use crate::queue::fair_queue::FairQueue;
use crate::queue::flow_queue::{FlowQueue, PassedBy};
use crate::queue::ordered_asks::OrderedAsks;
use crate::queue::virtual_clock::NEW;

/// The key of a flow queue: a flow, and the fair queue that its ask waits in.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueKey {
    pub(super) flow: u32,
    pub(super) band: Band,
    pub(super) pool: u32,
}

// === impl Controller ===

impl Controller {
    /// The flow queue with this key, if there is one.
    pub(super) fn find_flow_queue(&self, key: QueueKey) -> Option<u32> {
        let mut at = self.flows[key.flow].first_flow_queue;
        while at != NONE {
            let flow_queue = &self.flow_queues[at];
            if flow_queue.band == key.band && flow_queue.pool == key.pool {
                return Some(at);
            }
            at = flow_queue.next;
        }
        None
    }

    /// The flow queue with this key, created on first use.
    #[inline(always)]
    pub(super) fn flow_queue_for(&mut self, key: QueueKey) -> u32 {
        self.find_flow_queue(key).unwrap_or_else(|| self.new_flow_queue(key))
    }

    #[inline(never)]
    fn new_flow_queue(&mut self, key: QueueKey) -> u32 {
        let QueueKey { flow, band, pool } = key;
        let flow_queue = self.flow_queues.insert(FlowQueue {
            tag: NEW,
            weight: self.flows.policy(flow).weight,
            ordered: OrderedAsks::new(self.settings.order),
            passed_by: PassedBy::default(),
            waiting: 0,
            flow,
            pool,
            next: self.flows[flow].first_flow_queue,
            tie_break: 0,
            period: 0,
            band,
            active: false,
            over_share: false,
            in_flight: 0,
            last_seen: 0,
            cost_waiting: 0,
        });
        self.flows[flow].first_flow_queue = flow_queue;
        flow_queue
    }

    pub(super) fn flow_queues_of(&self, flow: u32) -> Vec<u32> {
        let first = Some(self.flows[flow].first_flow_queue).filter(|&at| at != NONE);
        let next = |&at: &u32| Some(self.flow_queues[at].next).filter(|&at| at != NONE);
        std::iter::successors(first, next).collect()
    }

    pub(super) fn fair_queue_of(&mut self, flow_queue: u32) -> &mut FairQueue {
        let FlowQueue { pool, band, .. } = self.flow_queues[flow_queue];
        &mut self.fair_queues[pool as usize][band.index()]
    }

    /// Activates a flow queue because an ask of this cost arrived.
    pub(super) fn join(&mut self, flow_queue: u32, cost: u32) {
        self.activate(flow_queue, |fair_queue, FlowQueue { tag, weight, .. }| {
            fair_queue.clock.join(*tag, *weight, cost)
        });
    }

    /// Activates a flow queue because a limit no longer excludes it.
    pub(super) fn rejoin(&mut self, flow_queue: u32) {
        if self.flow_queues[flow_queue].waiting > 0 && !self.flow_queues[flow_queue].active {
            self.activate(flow_queue, |fair_queue, FlowQueue { tag, weight, .. }| {
                fair_queue.clock.rejoin(*tag, *weight)
            });
        }
    }

    /// Activates a flow queue after a rebuild, with the lead or the lag that it had.
    pub(super) fn resume(&mut self, flow_queue: u32) {
        if self.flow_queues[flow_queue].waiting > 0 {
            self.activate(flow_queue, |fair_queue, FlowQueue { tag, weight, .. }| {
                fair_queue.clock.resume(*tag, *weight)
            });
        }
    }

    fn activate(&mut self, at: u32, start: impl Fn(&mut FairQueue, &FlowQueue) -> u64) {
        let FlowQueue { flow, pool, .. } = self.flow_queues[at];
        if self.flows[flow].limited && self.flows.is_at_limit(flow) {
            return;
        }
        let limited = self.flows[flow].limited && self.flows.is_limited_per_backend(flow);
        let members = self.supply.pools[pool as usize].members.iter().copied();
        let backends: Vec<u32> = if limited {
            members.filter(|&b| self.flows.may_use(flow, b)).collect()
        } else {
            Vec::new()
        };
        if limited && backends.is_empty() {
            return;
        }
        let flow_queue = &mut self.flow_queues[at];
        let fair_queue = &mut self.fair_queues[pool as usize][flow_queue.band.index()];
        flow_queue.tag = start(fair_queue, flow_queue);
        flow_queue.period = flow_queue.period.wrapping_add(1);
        flow_queue.tie_break = fair_queue.next_tie_break();
        flow_queue.active = true;
        let order = flow_queue.service_order(at);
        if limited {
            backends.into_iter().for_each(|backend| fair_queue.enter_for_backend(backend, order));
        } else {
            fair_queue.enter(order, flow_queue.over_share, &mut self.positions);
        }
    }

    /// Takes a flow queue out of its fair queue.
    #[inline(never)]
    pub(super) fn deactivate(&mut self, at: u32) {
        let flow_queue = &mut self.flow_queues[at];
        if !std::mem::take(&mut flow_queue.active) {
            return;
        }
        let fair_queue = &mut self.fair_queues[flow_queue.pool as usize][flow_queue.band.index()];
        fair_queue.clock.leave(flow_queue.weight);
        fair_queue.exit(at, flow_queue.over_share, &mut self.positions);
        // The idle rule may have advanced the clock far without any grant.
        if fair_queue.clock.has_run_far() {
            self.rebase(at);
        }
    }

    /// Deactivates a limited flow where a grant to `backend` has brought it to its limit.
    pub(super) fn limits_after_grant(&mut self, flow: u32, backend: u32) {
        if self.flows.is_limited_per_backend(flow) {
            self.flows.hold(flow, backend);
        }
        let at_limit = self.flows.is_at_limit(flow);
        if !at_limit && self.flows.may_use(flow, backend) {
            return;
        }
        for flow_queue in self.flow_queues_of(flow) {
            let active = self.flow_queues[flow_queue].active;
            if active
                && (at_limit
                    || !self.fair_queue_of(flow_queue).exit_for_backend(backend, flow_queue))
            {
                self.deactivate(flow_queue);
            }
        }
    }

    /// Activates a limited flow where the end of an ask at `backend` allows another grant.
    pub(super) fn limits_after_release(&mut self, flow: u32, backend: u32) {
        let per_backend = self.flows.is_limited_per_backend(flow);
        if per_backend {
            self.flows.release(flow, backend);
        }
        // A limit that was lowered may still be exceeded.
        let opens = per_backend && self.flows.may_use(flow, backend);
        for at in self.flow_queues_of(flow) {
            self.rejoin(at);
            let FlowQueue { active, pool, .. } = self.flow_queues[at];
            let member = self.supply.pools[pool as usize].members.contains(&backend);
            if active && opens && member {
                let order = self.flow_queues[at].service_order(at);
                self.fair_queue_of(at).enter_for_backend(backend, order);
            }
        }
    }
}
