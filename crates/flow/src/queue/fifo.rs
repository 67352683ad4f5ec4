//! A list of asks in arrival order, linked through the asks themselves.

use super::asks::Asks;
use crate::links::Link;
use crate::links::NONE;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
}

// === impl Fifo ===

impl Default for Fifo {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl Fifo {
    pub(crate) fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(crate) fn tail(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Whether an ask goes behind all asks of the list, in the order of turns and of arrival.
    #[inline]
    pub(crate) fn goes_behind(&self, slot: u32, asks: &Asks) -> bool {
        self.tail == NONE || {
            let (tail, ask) = (&asks[self.tail], &asks[slot]);
            tail.wanted_by <= ask.wanted_by && tail.sequence < ask.sequence
        }
    }

    /// The asks from the last one to the first.
    pub(crate) fn backwards<'a>(&self, asks: &'a Asks) -> impl Iterator<Item = u32> + use<'a> {
        let before = |slot: &u32| Some(asks[*slot].fifo_link.prev).filter(|&prev| prev != NONE);
        std::iter::successors(self.tail(), before)
    }

    /// The asks from the first one to the last.
    pub(crate) fn forwards<'a>(&self, asks: &'a Asks) -> impl Iterator<Item = u32> + use<'a> {
        let after = |slot: &u32| Some(asks[*slot].fifo_link.next).filter(|&next| next != NONE);
        std::iter::successors(self.head(), after)
    }

    pub(crate) fn push_back(&mut self, slot: u32, asks: &mut Asks) {
        self.link_before(NONE, slot, asks);
    }

    /// Inserts an ask that was granted before at its old place in the order of arrival. The walk
    /// passes only asks that were re-queued in the same way, at most as many as were in flight.
    pub(crate) fn restore(&mut self, slot: u32, asks: &mut Asks) {
        if self.tail != NONE && asks[self.tail].sequence < asks[slot].sequence {
            return self.push_back(slot, asks);
        }
        let mut at = self.head;
        while at != NONE && asks[at].sequence < asks[slot].sequence {
            at = asks[at].fifo_link.next;
        }
        self.link_before(at, slot, asks);
    }

    pub(crate) fn remove(&mut self, slot: u32, asks: &mut Asks) {
        let Link { prev, next } = asks[slot].fifo_link;
        self.join(prev, next, asks);
    }

    fn link_before(&mut self, next: u32, slot: u32, asks: &mut Asks) {
        let prev = if next == NONE { self.tail } else { asks[next].fifo_link.prev };
        self.join(prev, slot, asks);
        self.join(slot, next, asks);
    }

    /// Makes `next` follow `prev`; `NONE` is the end of the list.
    fn join(&mut self, prev: u32, next: u32, asks: &mut Asks) {
        if prev == NONE {
            self.head = next;
        } else {
            asks[prev].fifo_link.next = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            asks[next].fifo_link.prev = prev;
        }
    }
}
