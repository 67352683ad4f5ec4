//! The floor: the least that a fair queue with deadlines has to do, and nothing else.
//!
//! A slab of nodes, a linked list of nodes for each flow, an indexed heap of flows by start tag, a
//! timing wheel with one entry for each waiting node, and start-time fair queueing with true-up.
//! There are no bands, pools, limits, capacities, tickets with generations, counters or events:
//! what the core costs beyond this is the price of its features. It is written to be fast, not to
//! flatter the core: nodes are half a cache line, and the heap compares four children without
//! branching.

mod heap;
mod wheel;

#[cfg(test)]
mod tests;

use heap::Turns;
use wheel::Wheel;

/// The absence of an index.
const NONE: u32 = u32::MAX;

/// What a cost of one adds to the tag of a flow with a weight of one.
const UNIT: u64 = 1 << 16;

/// One ask, waiting or in flight.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Node {
    /// The neighbours in the flow's list; `next` also links the free nodes.
    prev: u32,
    next: u32,
    wheel_prev: u32,
    wheel_next: u32,
    deadline: u64,
    flow: u32,
    cost: u32,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// Virtual time at which its next ask starts.
    tag: u64,
    head: u32,
    tail: u32,
    /// What a cost of one adds to the tag.
    step: u64,
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct Floor {
    nodes: Vec<Node>,
    free: u32,
    flows: Vec<Flow>,
    turns: Turns,
    wheel: Wheel,
    virtual_time: u64,
}

// === impl Floor ===

impl Floor {
    pub(crate) fn new(flows: u32) -> Self {
        let flow = Flow { tag: 0, head: NONE, tail: NONE, step: UNIT };
        Self {
            nodes: Vec::new(),
            free: NONE,
            flows: vec![flow; flows as usize],
            turns: Turns::new(flows),
            wheel: Wheel::default(),
            virtual_time: 0,
        }
    }

    /// Lets an ask wait until `deadline`, in nanoseconds; returns its node.
    pub(crate) fn offer(&mut self, flow: u32, cost: u32, deadline: u64) -> u32 {
        let at = self.allocate(flow, cost, deadline);
        self.wheel.insert(at, &mut self.nodes);
        let into = &mut self.flows[flow as usize];
        let last = std::mem::replace(&mut into.tail, at);
        if last == NONE {
            into.head = at;
            into.tag = into.tag.max(self.virtual_time);
            self.turns.push(into.tag, flow);
        } else {
            self.nodes[last as usize].next = at;
            self.nodes[at as usize].prev = last;
        }
        at
    }

    /// Sends the first ask of the flow whose turn it is; its node lives on until it is settled.
    pub(crate) fn grant(&mut self) -> Option<u32> {
        let flow = self.turns.first()?;
        let from = &mut self.flows[flow as usize];
        let at = from.head;
        let Node { next, cost, .. } = self.nodes[at as usize];
        self.wheel.remove(at, &mut self.nodes);
        self.virtual_time = self.virtual_time.max(from.tag);
        from.tag += u64::from(cost) * from.step;
        from.head = next;
        if next == NONE {
            from.tail = NONE;
            self.turns.remove(flow);
        } else {
            self.nodes[next as usize].prev = NONE;
            self.turns.update(from.tag, flow);
        }
        Some(at)
    }

    /// Ends an ask in flight, and charges its flow what it really cost.
    pub(crate) fn settle(&mut self, at: u32, actual: u32) {
        let Node { flow, cost, .. } = self.nodes[at as usize];
        let of = &mut self.flows[flow as usize];
        let difference = (i64::from(actual) - i64::from(cost)) * of.step as i64;
        of.tag = of.tag.saturating_add_signed(difference);
        if of.head != NONE {
            self.turns.update(of.tag, flow);
        }
        self.release(at);
    }

    /// Takes a waiting ask out, wherever it stands.
    pub(crate) fn cancel(&mut self, at: u32) {
        self.wheel.remove(at, &mut self.nodes);
        self.unlink(at);
        self.release(at);
    }

    /// Takes out every ask whose deadline lies in a tick before `now`, and tells which they were.
    pub(crate) fn wake(&mut self, now: u64, expired: &mut Vec<u32>) {
        while let Some(at) = self.wheel.due(now, &self.nodes) {
            self.cancel(at);
            expired.push(at);
        }
    }

    fn allocate(&mut self, flow: u32, cost: u32, deadline: u64) -> u32 {
        let node = Node {
            prev: NONE,
            next: NONE,
            wheel_prev: NONE,
            wheel_next: NONE,
            deadline,
            flow,
            cost,
        };
        let Some(place) = self.nodes.get_mut(self.free as usize) else {
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        };
        let next = place.next;
        *place = node;
        std::mem::replace(&mut self.free, next)
    }

    fn release(&mut self, at: u32) {
        self.nodes[at as usize].next = std::mem::replace(&mut self.free, at);
    }

    fn unlink(&mut self, at: u32) {
        let Node { prev, next, flow, .. } = self.nodes[at as usize];
        let of = &mut self.flows[flow as usize];
        match prev {
            NONE => of.head = next,
            _ => self.nodes[prev as usize].next = next,
        }
        match next {
            NONE => of.tail = prev,
            _ => self.nodes[next as usize].prev = prev,
        }
        if of.head == NONE {
            self.turns.remove(flow);
        }
    }

    #[cfg(test)]
    pub(crate) fn waiting_by_flow(&self) -> Vec<u32> {
        let next = |&at: &u32| Some(self.nodes[at as usize].next).filter(|&at| at != NONE);
        let first = |flow: &Flow| Some(flow.head).filter(|&at| at != NONE);
        let count = |flow| std::iter::successors(first(flow), next).count() as u32;
        self.flows.iter().map(count).collect()
    }
}
