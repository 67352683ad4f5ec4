//! Divides grants among lanes that a store keeps, by weight.
//!
//! Batch work waits in a store and not in memory, so the core has no asks to take the next one
//! from. The caller reports which lanes have how many messages waiting, and [`LaneScheduler::plan`]
//! returns how many to take from each. Messages that were really sent are charged before the next
//! plan. A lane may turn out to be empty: a turn that is not taken costs nothing.
//!
//! The rules and the bound are those of the fair queue (`queue::virtual_clock`), with a cost of one
//! per turn. From plan to plan, two lanes that both wait and take their turns differ in turns over
//! weight by at most one step of each, and an idle lane saves up no credit. For two levels (queues,
//! and tenants inside each queue) nest the schedulers: one divides a number among the queues, and
//! one per queue divides its share among the tenants; both are charged. They are independent, so
//! tenants cannot change the share of their queue.
//!
//! A lane that does not wait is forgotten once the others have caught up with it. So memory is
//! bounded by the waiting lanes and a number of the lanes served last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::queue::virtual_clock::{NEW, VirtualClock};
use crate::weight::Weight;

/// The most lanes that are remembered while they do not wait.
const IDLE_MAX: usize = 4096;

/// See the module's description.
#[derive(Clone, Debug)]
pub struct LaneScheduler<K> {
    clock: VirtualClock,
    lanes: BTreeMap<K, Lane>,
    /// Counts moves: of equal tags, the lane that moved longest ago goes first.
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
    /// Plans the next `most` turns among the waiting lanes. `waiting` lists each lane once, with
    /// its weight and the number of its messages; a lane that is not listed no longer waits.
    /// Returns how many messages each lane may send, in the order of their first turns.
    pub fn plan(
        &mut self,
        waiting: impl IntoIterator<Item = (K, Weight, usize)>,
        most: usize,
    ) -> Vec<(K, usize)> {
        self.plan_while(waiting, most, |_| true)
    }

    /// The same where a turn also needs something that lanes may share: `may` takes it, or says
    /// that the lane has no further turn now. Such a lane still waits, and keeps its place.
    pub fn plan_while(
        &mut self,
        waiting: impl IntoIterator<Item = (K, Weight, usize)>,
        most: usize,
        mut may: impl FnMut(&K) -> bool,
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
        let mut turn = 0;
        while turn < most as u64 {
            let Some(Reverse((tag, _, at))) = heap.pop() else { break };
            let (key, count) = lanes[at];
            if !may(key) {
                continue;
            }
            turn += 1;
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

    /// Charges a lane for a message that was sent.
    pub fn charge(&mut self, key: &K, weight: Weight) {
        // Turns may be charged in another order than they were planned in. Virtual time must not
        // pass a lane that still waits for one of them.
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

    /// The number of remembered lanes.
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether no lane is remembered.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Updates which lanes wait.
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

    /// Forgets lanes that do not wait and are not ahead of virtual time. If too many remain,
    /// forgets those that are least ahead.
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
            // No tag may become the tag of a new lane.
            lane.tag = lane.tag.saturating_sub(shift).max(NEW + 1);
        }
    }
}
