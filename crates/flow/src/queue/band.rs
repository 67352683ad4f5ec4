//! The levels above the rounds: which band goes, and inside a band which set of backends.
//!
//! A level is start-time fair queueing over a handful of nodes, so a scan replaces the heap. A node
//! that could not go when others did comes back at the present: it hoarded no credit.

use crate::weight::Weight;

#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    now: u128,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    tag: u128,
    can_go: bool,
    /// Whether it could when the level last chose.
    could_go: bool,
}

/// The normalised charge of `cost` to a node whose weight is a sum of weights.
pub(crate) fn charge_by_sum(cost: u32, units: u64) -> u128 {
    (u128::from(cost) << 40) / u128::from(units.max(1))
}

/// The normalised charge of `cost` to a node with a weight of its own.
pub(crate) fn charge_by_weight(cost: u32, weight: Weight) -> u128 {
    u128::from(weight.stretch(cost))
}

// === impl Level ===

impl Level {
    pub(crate) fn resize(&mut self, nodes: usize) {
        self.nodes.resize(nodes, Node::default());
    }

    /// The node whose turn it is among those that could go; the later one where tags are equal.
    pub(crate) fn choose(&mut self, mut could_go: impl FnMut(usize) -> bool) -> Option<usize> {
        for (at, node) in self.nodes.iter_mut().enumerate() {
            node.can_go = could_go(at);
        }
        // When nobody can go, nobody is overtaken, and whoever lagged keeps its lag.
        if self.nodes.iter().all(|node| !node.can_go) {
            return None;
        }
        for node in &mut self.nodes {
            if node.can_go && !node.could_go {
                node.tag = node.tag.max(self.now);
            }
            node.could_go = node.can_go;
        }
        let able = (0..self.nodes.len()).rev().filter(|&at| self.nodes[at].can_go);
        able.min_by_key(|&at| self.nodes[at].tag)
    }

    pub(crate) fn serve(&mut self, at: usize, charge: u128) {
        let node = &mut self.nodes[at];
        self.now = self.now.max(node.tag);
        node.tag += charge;
    }

    pub(crate) fn true_up(&mut self, at: usize, charge: u128, refund: bool) {
        let tag = &mut self.nodes[at].tag;
        *tag = if refund { tag.saturating_sub(charge) } else { *tag + charge };
    }

    /// Nothing waits: old service is forgotten.
    pub(crate) fn idle(&mut self) {
        self.now = self.nodes.iter().map(|node| node.tag).fold(self.now, u128::max);
    }
}
