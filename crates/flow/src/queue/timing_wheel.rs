//! A hierarchical timing wheel with the deadlines of all asks.
//!
//! It has six levels of 64 slots. A slot of one level is as long as the whole level below it.
//! Insertion and removal are O(1), and bitmaps of the occupied slots give the next deadline without
//! a search. The list links are inside the asks. A tick is about a millisecond. An ask is due at
//! the first tick after its deadline, never before it; the controller does not grant an ask past
//! its deadline even if the tick has not come yet.

use super::asks::Asks;
use crate::links::Link;
use crate::links::NONE;
use crate::time::Time;

const TICK_BITS: u32 = 20;
const SLOT_BITS: u32 = 6;
const SLOTS: u64 = 1 << SLOT_BITS;
const LEVELS: usize = 6;
/// The number of ticks that all levels cover.
const SPAN: u64 = 1 << (SLOT_BITS * LEVELS as u32);
/// A deadline further away than this is inserted at this distance first, and inserted again when
/// that tick comes. It stops short of the current slot, which would cascade into itself for ever.
const REACH: u64 = SPAN - (SPAN >> SLOT_BITS);

#[derive(Clone, Debug)]
pub(crate) struct TimingWheel {
    heads: Box<[u32; LEVELS * SLOTS as usize]>,
    occupied: [u64; LEVELS],
    /// Every tick before this one has been handled.
    tick: u64,
}

/// An occupied slot, and the tick at which it must be handled.
struct Next {
    level: usize,
    slot: u64,
    tick: u64,
}

// === impl TimingWheel ===

impl Default for TimingWheel {
    fn default() -> Self {
        Self { heads: Box::new([NONE; LEVELS * SLOTS as usize]), occupied: [0; LEVELS], tick: 0 }
    }
}

impl TimingWheel {
    #[inline(always)]
    pub(crate) fn insert(&mut self, slot: u32, asks: &mut Asks) {
        let due = (asks[slot].deadline.nanos() >> TICK_BITS) + 1;
        let due = due.clamp(self.tick, self.tick.saturating_add(REACH));
        let distance = ((self.tick ^ due) | (SLOTS - 1)).min(SPAN - 1);
        let level = (distance.ilog2() / SLOT_BITS) as usize;
        let place = (due >> (SLOT_BITS * level as u32)) & (SLOTS - 1);
        self.occupied[level] |= 1 << place;
        let at = level * SLOTS as usize + place as usize;
        let next = std::mem::replace(&mut self.heads[at], slot);
        if next != NONE {
            asks[next].wheel_link.prev = slot;
        }
        asks[slot].wheel_link = Link { prev: NONE, next };
        asks[slot].wheel_slot = at as u16;
    }

    #[inline(always)]
    pub(crate) fn remove(&mut self, slot: u32, asks: &mut Asks) {
        let Link { prev, next } = asks[slot].wheel_link;
        if next != NONE {
            asks[next].wheel_link.prev = prev;
        }
        if prev != NONE {
            asks[prev].wheel_link.next = next;
            return;
        }
        let at = asks[slot].wheel_slot as usize;
        self.heads[at] = next;
        if next == NONE {
            self.occupied[at / SLOTS as usize] &= !(1 << (at as u64 % SLOTS));
        }
    }

    /// When the next occupied slot must be handled.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.next().map(|next| Time::from_nanos(next.tick << TICK_BITS))
    }

    /// An ask that is due; it stays in the wheel until it is removed.
    pub(crate) fn due(&mut self, now: Time, asks: &mut Asks) -> Option<u32> {
        let now_tick = now.nanos() >> TICK_BITS;
        while let Some(next) = self.next().filter(|next| next.tick <= now_tick) {
            self.tick = self.tick.max(next.tick);
            let at = next.level * SLOTS as usize + next.slot as usize;
            if next.level == 0 {
                return Some(self.heads[at]);
            }
            self.cascade(at, asks);
        }
        self.tick = self.tick.max(now_tick);
        None
    }

    /// Distributes a slot of a higher level over the levels below it.
    fn cascade(&mut self, at: usize, asks: &mut Asks) {
        let mut slot = std::mem::replace(&mut self.heads[at], NONE);
        self.occupied[at / SLOTS as usize] &= !(1 << (at as u64 % SLOTS));
        while slot != NONE {
            let next = asks[slot].wheel_link.next;
            self.insert(slot, asks);
            slot = next;
        }
    }

    /// The first occupied slot; a lower level always comes before a higher one.
    fn next(&self) -> Option<Next> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let shift = SLOT_BITS * level as u32;
        let here = (self.tick >> shift) & (SLOTS - 1);
        let ahead = self.occupied[level].rotate_right(here as u32).trailing_zeros();
        let slot = (here + u64::from(ahead)) & (SLOTS - 1);
        let span = SLOTS << shift;
        let tick = (self.tick & !(span - 1)) + (slot << shift);
        let passed = slot < here;
        Some(Next { level, slot, tick: if passed { tick + span } else { tick } })
    }
}
