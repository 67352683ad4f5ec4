//! Whose turn it is among lanes that somebody else keeps: weighted fair turns by the virtual clock
//! of the fair queue.
//!
//! Batch work waits in a store, not in memory, so there is no line here to take the next one from.
//! Whoever dispatches says which lanes have how much waiting, and hears how many to take from each;
//! what really went is charged, before turns are planned again. A lane may turn out to be empty: a
//! turn that is not taken costs nothing.
//!
//! The rules and the bound are those of the fair queue (`queue::virtual_clock`), with a cost of one for each
//! turn: from plan to plan, two lanes that both wait and take their turns differ in turns over
//! weight by at most one step of each, and a lane that was away has hoarded nothing. For two levels
//! (queues, and tenants inside each) nest them: one `LaneScheduler` divides a number among the
//! queues, and one for each queue divides what that gave among its tenants; both are charged. Neither knows of
//! the other, so tenants cannot move their queue's share.
//!
//! A lane that does not wait is forgotten once others have caught up with it, so memory is bounded
//! by the lanes that wait and a number of those served last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::queue::virtual_clock::{NEW, VirtualClock};
use crate::weight::Weight;

/// Lanes that are remembered at most while they do not wait.
const IDLE_MAX: usize = 4096;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct LaneScheduler<K> {
    clock: VirtualClock,
    lanes: BTreeMap<K, Lane>,
    /// Counts moves, so that of equal tags the one moved longest ago goes first.
    moves: u64,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    tag: u64,
    weight: Weight,
    waits: bool,
    moved: u64,
}

// === impl LaneScheduler ===

impl<K> Default for LaneScheduler<K> {
    fn default() -> Self {
        Self { clock: VirtualClock::default(), lanes: BTreeMap::new(), moves: 0 }
    }
}

impl<K: Ord + Clone> LaneScheduler<K> {
    /// Plans the next `most` turns among the lanes that wait, each told once with how many it has.
    /// Says how many each is to send, in the order of their first turns. A lane that is not told of
    /// waits no more.
    pub fn plan(
        &mut self,
        waiting: impl IntoIterator<Item = (K, Weight, usize)>,
        most: usize,
    ) -> Vec<(K, usize)> {
        let waiting = waiting.into_iter().filter(|&(_, _, count)| count > 0);
        let waiting: BTreeMap<K, (Weight, usize)> =
            waiting.map(|(key, weight, count)| (key, (weight, count))).collect();
        self.follow(&waiting);
        let lanes: Vec<(&K, usize)> =
            waiting.iter().map(|(key, (_, count))| (key, *count)).collect();
        let mut turns = vec![0; lanes.len()];
        let mut firsts = Vec::new();
        let entry = |(at, (key, _)): (usize, &(&K, usize))| {
            self.lanes.get(*key).map(|lane| Reverse((lane.tag, lane.moved, at)))
        };
        let mut heap: BinaryHeap<_> = lanes.iter().enumerate().filter_map(entry).collect();
        for turn in 1..=most as u64 {
            let Some(Reverse((tag, _, at))) = heap.pop() else { break };
            let (key, count) = lanes[at];
            if turns[at] == 0 {
                firsts.push(at);
            }
            turns[at] += 1;
            if turns[at] < count {
                let step = waiting[key].0.stretch(1);
                heap.push(Reverse((tag + step, self.moves + turn, at)));
            }
        }
        firsts.into_iter().map(|at| (lanes[at].0.clone(), turns[at])).collect()
    }

    /// One that was planned for was really sent.
    pub fn charge(&mut self, key: &K, weight: Weight) {
        // Turns may be charged in another order than they were planned in: virtual time must not
        // pass whoever still waits for one of them.
        let waiting = self.lanes.values().filter(|lane| lane.waits);
        if let Some(least) = waiting.map(|lane| lane.tag).min() {
            self.clock.serve(least, weight, 0);
        }
        self.moves += 1;
        let (moved, now) = (self.moves, self.clock.now());
        let fresh = Lane { tag: now, weight, waits: false, moved };
        let lane = self.lanes.entry(key.clone()).or_insert(fresh);
        lane.moved = moved;
        lane.tag = self.clock.true_up(lane.tag, lane.weight, 1);
        self.rebase();
    }

    /// How many lanes are remembered.
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Takes note of who waits now.
    fn follow(&mut self, waiting: &BTreeMap<K, (Weight, usize)>) {
        for (key, &(weight, _)) in waiting {
            let fresh = Lane { tag: NEW, weight, waits: false, moved: 0 };
            let lane = self.lanes.entry(key.clone()).or_insert(fresh);
            if !lane.waits {
                self.moves += 1;
                lane.moved = self.moves;
                lane.tag = self.clock.join(lane.tag, weight, 1);
            } else if lane.weight != weight {
                self.clock.leave(lane.weight);
                lane.tag = self.clock.resume(lane.tag, weight);
            }
            (lane.weight, lane.waits) = (weight, true);
        }
        for (key, lane) in &mut self.lanes {
            if lane.waits && !waiting.contains_key(key) {
                lane.waits = false;
                self.clock.leave(lane.weight);
            }
        }
        self.rebase();
        self.forget();
    }

    /// Forgets lanes that do not wait and are not ahead of the others; of too many, those that are
    /// least ahead.
    fn forget(&mut self) {
        let now = self.clock.now();
        self.lanes.retain(|_, lane| lane.waits || lane.tag > now);
        let idle = self.lanes.values().filter(|lane| !lane.waits);
        let mut ahead: Vec<u64> = idle.map(|lane| lane.tag).collect();
        if ahead.len() > IDLE_MAX {
            ahead.sort_unstable();
            let least = ahead[ahead.len() - IDLE_MAX - 1];
            self.lanes.retain(|_, lane| lane.waits || lane.tag > least);
        }
    }

    /// Keeps the clock's numbers small.
    fn rebase(&mut self) {
        if !self.clock.has_run_far() {
            return;
        }
        let shift = self.clock.rebase();
        for lane in self.lanes.values_mut() {
            // No tag may look like that of a newcomer.
            lane.tag = lane.tag.saturating_sub(shift).max(NEW + 1);
        }
    }
}
