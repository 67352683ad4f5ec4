//! Virtual time with no economy: exact integers, no rebasing, no horizon.

use crate::Weight;

/// The virtual clock of one fair queue.
#[derive(Clone, Debug, Default)]
pub(super) struct VirtualClock {
    pub(super) now: i128,
    tag_most: i128,
    moves: u64,
}

/// Start-time fair queueing over a few nodes: the bands, or the pools of one band.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    now: i128,
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Node {
    tag: i128,
    /// The tag with which it last came back.
    floor: i128,
    /// Others went while it could not.
    missed: bool,
}

/// `cost / weight`, signed.
pub(super) fn stretch(cost: i64, weight: Weight) -> i128 {
    i128::from(cost) * i128::from(weight.inverse)
}

/// `cost` over a sum of weights, in the scale of [`stretch`], rounded towards zero.
pub(super) fn share(cost: i64, units: u64) -> i128 {
    (i128::from(cost) << 40) / i128::from(units)
}

// === impl VirtualClock ===

impl VirtualClock {
    pub(super) fn next_move(&mut self) -> u64 {
        self.moves += 1;
        self.moves
    }

    pub(super) fn note(&mut self, tag: i128) -> i128 {
        self.tag_most = self.tag_most.max(tag);
        tag
    }

    /// The tag of a flow queue that becomes active, new or known.
    pub(super) fn arrive(&mut self, tag: Option<i128>, step: i128) -> i128 {
        self.note(tag.map_or(self.now + step, |tag| tag.max(self.now)))
    }

    pub(super) fn come_back(&mut self, tag: Option<i128>) -> i128 {
        self.note(tag.map_or(self.now, |tag| tag.max(self.now)))
    }

    pub(super) fn serve(&mut self, tag: i128, step: i128) -> i128 {
        self.now = self.now.max(tag);
        self.note(tag + step)
    }

    /// A flow queue goes ahead of one that is held back at a lesser tag.
    pub(super) fn serve_ahead(&mut self, held: i128, tag: i128, step: i128) -> i128 {
        self.now = self.now.max(held);
        self.note(tag.max(self.now + step))
    }

    /// A flow queue goes before the one whose turn it was, at the tag `least`.
    pub(super) fn serve_within(&mut self, least: i128, tag: i128, step: i128) -> i128 {
        self.now = self.now.max(least);
        self.note(tag + step)
    }

    pub(super) fn idle(&mut self) {
        self.now = self.now.max(self.tag_most);
    }
}

// === impl Level ===

impl Level {
    pub(super) fn resize(&mut self, nodes: usize) {
        self.nodes.resize(nodes, Node { tag: 0, floor: 0, missed: true });
    }

    /// The node with the least tag, the later one where equal.
    pub(super) fn choose(&mut self, able: &[bool]) -> usize {
        let nodes = self.nodes.iter_mut().zip(able).enumerate().filter(|(_, (_, able))| **able);
        let tags = nodes.map(|(at, (node, _))| {
            node.come_back(self.now);
            (node.tag, std::cmp::Reverse(at))
        });
        tags.min().expect("some node can go").1.0
    }

    /// Serves a node; `able` are those that could have gone, itself included.
    pub(super) fn serve(&mut self, at: usize, able: &[bool], charge: i128) {
        self.nodes[at].come_back(self.now);
        self.now = self.now.max(self.nodes[at].tag);
        self.nodes[at].tag += charge;
        for (node, able) in self.nodes.iter_mut().zip(able) {
            node.missed |= !able;
        }
    }

    pub(super) fn correct(&mut self, at: usize, charge: i128) {
        let node = &mut self.nodes[at];
        node.tag += charge;
        if charge < 0 {
            node.tag = node.tag.max(node.floor);
        }
    }

    pub(super) fn idle(&mut self) {
        self.now = self.nodes.iter().map(|node| node.tag).fold(self.now, i128::max);
        self.nodes.iter_mut().for_each(|node| node.missed = true);
    }
}

// === impl Node ===

impl Node {
    fn come_back(&mut self, now: i128) {
        if std::mem::take(&mut self.missed) {
            self.tag = self.tag.max(now);
            self.floor = self.tag;
        }
    }
}
