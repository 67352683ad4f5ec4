//! The levels above the fair queues: which band goes next, and which set of backends inside the
//! band.
//!
//! A level is start-time fair queueing over a few nodes, so a scan replaces the heap. A node that
//! could not go while others did returns at the current virtual time: it has saved up no credit.

use crate::weight::Weight;

#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    now: u128,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    tag: u128,
    /// The tag with which it last returned; refunds do not go below it.
    floor: u128,
    can_go: bool,
    /// Whether no other node has gone since this one last could.
    present: bool,
}

/// The normalised charge of `cost` to a node whose weight is a sum of weights.
pub(crate) fn charge_by_sum(cost: u32, units: u64) -> i128 {
    (i128::from(cost) << 40) / i128::from(units.max(1))
}

/// The normalised charge of `cost` to a node with a weight of its own.
pub(crate) fn charge_by_weight(cost: u32, weight: Weight) -> i128 {
    i128::from(weight.stretch(cost))
}

// === impl Level ===

impl Level {
    pub(crate) fn resize(&mut self, nodes: usize) {
        self.nodes.resize(nodes, Node::default());
    }

    /// The node with the least tag among those that could go; of equal tags the last node.
    pub(crate) fn choose(&mut self, mut could_go: impl FnMut(usize) -> bool) -> Option<usize> {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.can_go = could_go(at);
            if node.can_go {
                node.come_back(self.now);
            }
        }
        let able = (0..self.nodes.len()).rev().filter(|&at| self.nodes[at].can_go);
        able.min_by_key(|&at| self.nodes[at].tag)
    }

    /// A node goes, either because it was chosen, or past all others because none of them could.
    /// Nodes that cannot go lose their place.
    pub(crate) fn serve(&mut self, at: usize, chosen: bool) {
        if !chosen {
            self.nodes.iter_mut().for_each(|node| node.can_go = false);
            self.nodes[at].can_go = true;
            self.nodes[at].come_back(self.now);
        }
        self.now = self.now.max(self.nodes[at].tag);
        for node in self.nodes.iter_mut().filter(|node| !node.can_go) {
            node.present = false;
        }
    }

    pub(crate) fn charge(&mut self, at: usize, charge: i128) {
        let node = &mut self.nodes[at];
        node.tag = node.tag.saturating_add_signed(charge);
        if charge < 0 {
            node.tag = node.tag.max(node.floor);
        }
    }

    /// No ask waits any more: old service is forgotten.
    pub(crate) fn idle(&mut self) {
        self.now = self.nodes.iter().map(|node| node.tag).fold(self.now, u128::max);
        self.nodes.iter_mut().for_each(|node| node.present = false);
    }
}

// === impl Node ===

impl Node {
    fn come_back(&mut self, now: u128) {
        if !std::mem::replace(&mut self.present, true) {
            self.tag = self.tag.max(now);
            self.floor = self.tag;
        }
    }
}
