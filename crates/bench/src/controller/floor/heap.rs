//! The flows that have something waiting, in an indexed 4-ary heap by start tag.

use super::NONE;

const ARITY: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Turn {
    tag: u64,
    flow: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Turns {
    entries: Vec<Turn>,
    /// Where each flow stands, or [`NONE`].
    positions: Vec<u32>,
}

// === impl Turns ===

impl Turns {
    pub(super) fn new(flows: u32) -> Self {
        Self { entries: Vec::new(), positions: vec![NONE; flows as usize] }
    }

    /// The flow with the least tag.
    pub(super) fn first(&self) -> Option<u32> {
        self.entries.first().map(|turn| turn.flow)
    }

    pub(super) fn push(&mut self, tag: u64, flow: u32) {
        let turn = Turn { tag, flow };
        self.entries.push(turn);
        self.rise(self.entries.len() - 1, turn);
    }

    /// Gives a flow that is in the heap another tag.
    pub(super) fn update(&mut self, tag: u64, flow: u32) {
        let at = self.positions[flow as usize] as usize;
        let old = self.entries[at].tag;
        self.settle(at, Turn { tag, flow }, tag < old);
    }

    pub(super) fn remove(&mut self, flow: u32) {
        let at = std::mem::replace(&mut self.positions[flow as usize], NONE) as usize;
        let Some(last) = self.entries.pop() else { return };
        if let Some(gap) = self.entries.get(at) {
            let earlier = last.tag < gap.tag;
            self.settle(at, last, earlier);
        }
    }

    fn settle(&mut self, at: usize, turn: Turn, earlier: bool) {
        if earlier {
            self.rise(at, turn);
        } else {
            self.sink(at, turn);
        }
    }

    fn rise(&mut self, mut at: usize, turn: Turn) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = self.entries[parent];
            if above.tag <= turn.tag {
                break;
            }
            self.place(at, above);
            at = parent;
        }
        self.place(at, turn);
    }

    fn sink(&mut self, mut at: usize, turn: Turn) {
        while let Some((child, below)) = self.least_child(at) {
            if below.tag >= turn.tag {
                break;
            }
            self.place(at, below);
            at = child;
        }
        self.place(at, turn);
    }

    fn least_child(&self, at: usize) -> Option<(usize, Turn)> {
        let first = at * ARITY + 1;
        if let Some(&[a, b, c, d]) = self.entries.get(first..first + ARITY) {
            let left = if b.tag < a.tag { (first + 1, b) } else { (first, a) };
            let right = if d.tag < c.tag { (first + 3, d) } else { (first + 2, c) };
            return Some(if right.1.tag < left.1.tag { right } else { left });
        }
        let rest = self.entries.get(first..)?;
        (first..).zip(rest.iter().copied()).min_by_key(|(_, turn)| turn.tag)
    }

    fn place(&mut self, at: usize, turn: Turn) {
        self.entries[at] = turn;
        self.positions[turn.flow as usize] = at as u32;
    }
}
