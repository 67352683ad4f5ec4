//! The waiting asks of one flow in one fair queue, and the tag that says when its turn comes.

use super::asks::Turn;
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
    pub(crate) passed_by: PassedBy,
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

/// The turns of the asks that went before others of their flow queue since an ask began to wait, in
/// order. An ask was passed by no more of them than have a later turn than the first ask: whoever
/// passes an ask passes all before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassedBy(Vec<Turn>);

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

// === impl PassedBy ===

impl PassedBy {
    /// Whether one more may go before the first ask, if none is passed by more than `most`.
    pub(crate) fn allows(&self, first: Turn, most: u32) -> bool {
        self.0.len() - self.until(first) < most as usize
    }

    /// An ask goes before the first one.
    pub(crate) fn add(&mut self, turn: Turn, first: Turn) {
        self.0.drain(..self.until(first));
        let at = self.until(turn);
        self.0.insert(at, turn);
    }

    /// Takes in those of another flow queue, whose asks wait here now.
    pub(crate) fn join(&mut self, other: Self) {
        self.0.extend(other.0);
        self.0.sort_unstable();
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// How many are not behind this turn.
    fn until(&self, turn: Turn) -> usize {
        self.0.partition_point(|&other| other <= turn)
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
