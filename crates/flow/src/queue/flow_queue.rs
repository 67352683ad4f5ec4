//! The waiting asks of one flow in one fair queue, and the tag that says when its turn comes.

use super::fair_queue::ServiceOrder;
use super::ordered_asks::{AskSum, OrderedAsks};
use crate::ask::Band;
use crate::links::NONE;
use crate::weight::Weight;

#[derive(Clone, Debug)]
pub(crate) struct FlowQueue {
    /// The virtual time at which its next ask starts.
    pub(crate) tag: u64,
    pub(crate) weight: Weight,
    pub(crate) ordered: OrderedAsks,
    pub(crate) waiting: u32,
    pub(crate) flow: u32,
    pub(crate) pool: u32,
    /// The next flow queue of the same flow.
    pub(crate) next: u32,
    /// Breaks ties between equal tags: the flow queue that moved longest ago goes first.
    pub(crate) tie_break: u32,
    /// How often it became active. A refund of a charge from an earlier period would be credit
    /// from a time when it did not wait, so it is void while the flow queue is active.
    pub(crate) period: u32,
    pub(crate) band: Band,
    /// Whether it takes part in its fair queue: an ask waits, and no limit forbids a grant.
    pub(crate) active: bool,
    /// Whether it held more than its share of the places when its last ask was granted or ended.
    pub(crate) over_share: bool,
    pub(crate) in_flight: u32,
    /// The slice of time in which an ask was last admitted; 0 is never.
    pub(crate) last_seen: u64,
    pub(crate) cost_waiting: u64,
}

/// All flow queues, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowQueues {
    flow_queues: Vec<FlowQueue>,
    free: Vec<u32>,
}

// === impl FlowQueue ===

impl FlowQueue {
    /// Its key in the heaps of its fair queue; `flow_queue` is its own number.
    pub(crate) fn service_order(&self, flow_queue: u32) -> ServiceOrder {
        ServiceOrder { tag: self.tag, tie_break: self.tie_break, flow_queue }
    }

    /// The waiting asks that were not found late.
    pub(crate) fn fresh(&self) -> AskSum {
        AskSum { count: self.waiting, cost: self.cost_waiting }.less(self.ordered.late())
    }
}

// === impl FlowQueues ===

impl FlowQueues {
    pub(crate) fn insert(&mut self, flow_queue: FlowQueue) -> u32 {
        if let Some(at) = self.free.pop() {
            self.flow_queues[at as usize] = flow_queue;
            return at;
        }
        self.flow_queues.push(flow_queue);
        self.flow_queues.len() as u32 - 1
    }

    pub(crate) fn remove(&mut self, at: u32) {
        self.flow_queues[at as usize].flow = NONE;
        self.free.push(at);
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut FlowQueue> {
        self.flow_queues.iter_mut().filter(|flow_queue| flow_queue.flow != NONE)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.flow_queues.len() as u32).filter(|&at| self[at].flow != NONE)
    }
}

impl std::ops::Index<u32> for FlowQueues {
    type Output = FlowQueue;

    fn index(&self, at: u32) -> &FlowQueue {
        &self.flow_queues[at as usize]
    }
}

impl std::ops::IndexMut<u32> for FlowQueues {
    fn index_mut(&mut self, at: u32) -> &mut FlowQueue {
        &mut self.flow_queues[at as usize]
    }
}
