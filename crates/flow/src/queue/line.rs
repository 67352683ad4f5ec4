//! A line of waiting asks in the order of their turns.
//!
//! Among fresh asks the one that wants its first token earliest goes first, then the one that
//! arrived first. Late asks go in order of arrival. Where all asks have one objective, each new ask
//! has the last turn, so a line is a [`Fifo`], and a new ask is compared with its tail alone. An
//! ask that must go before the tail is an *exception*: it is kept in sorted sets, beside the FIFO.
//! So each operation costs O(log n) with any mixture of objectives, and the order is exact. A flow
//! queue in which no ask is an exception has plain FIFOs instead of lines.

use std::collections::BTreeSet;

use super::asks::{Asks, Turn};
use super::fifo::Fifo;
use super::ordered_asks::AskSum;
use crate::time::Time;

#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// Asks in the order of their turns, which is their order of arrival too.
    in_order: Fifo,
    exceptions: Option<Box<Exceptions>>,
}

/// The asks that go before an older one.
#[derive(Clone, Debug, Default)]
struct Exceptions {
    by_turn: BTreeSet<(Turn, u32)>,
    /// Preemption takes the newest ask.
    by_arrival: BTreeSet<(u64, u32)>,
}

/// The most asks of each part of a line that [`Line::wanted_after`] looks at.
const LOOK_MAX: usize = 256;

// === impl Line ===

impl From<Fifo> for Line {
    /// The asks of the list must be in the order of their turns.
    fn from(in_order: Fifo) -> Self {
        Self { in_order, exceptions: None }
    }
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.in_order.is_empty() && self.exceptions.is_none()
    }

    /// The line as a list, if it has no exceptions.
    pub(crate) fn as_fifo(&self) -> Option<Fifo> {
        self.exceptions.is_none().then_some(self.in_order)
    }

    pub(crate) fn insert(&mut self, slot: u32, asks: &mut Asks) {
        asks[slot].exception = !self.in_order.goes_behind(slot, asks);
        if !asks[slot].exception {
            self.in_order.push_back(slot, asks);
        } else {
            let exceptions = self.exceptions.get_or_insert_default();
            exceptions.by_turn.insert((asks[slot].turn(), slot));
            exceptions.by_arrival.insert((asks[slot].sequence, slot));
        }
    }

    pub(crate) fn remove(&mut self, slot: u32, asks: &mut Asks) {
        if !asks[slot].exception {
            return self.in_order.remove(slot, asks);
        }
        let Some(exceptions) = &mut self.exceptions else { return };
        exceptions.by_turn.remove(&(asks[slot].turn(), slot));
        exceptions.by_arrival.remove(&(asks[slot].sequence, slot));
        if exceptions.by_turn.is_empty() {
            self.exceptions = None;
        }
    }

    /// The ask whose turn it is.
    pub(crate) fn first(&self, asks: &Asks) -> Option<u32> {
        let head = self.in_order.head();
        let Some(exceptions) = &self.exceptions else { return head };
        let &(turn, slot) = exceptions.by_turn.first()?;
        Some(head.filter(|&head| asks[head].turn() < turn).unwrap_or(slot))
    }

    /// The asks in the order of their turns.
    pub(crate) fn in_turn<'a>(&'a self, asks: &'a Asks) -> impl Iterator<Item = u32> + 'a {
        let exceptions = self.exceptions.iter().flat_map(|exceptions| exceptions.by_turn.iter());
        let mut exceptions = exceptions.copied().peekable();
        let mut in_order = self.in_order.forwards(asks).peekable();
        std::iter::from_fn(move || {
            let Some(&(turn, _)) = exceptions.peek() else { return in_order.next() };
            let first = in_order.next_if(|&slot| asks[slot].turn() < turn);
            first.or_else(|| exceptions.next().map(|(_, slot)| slot))
        })
    }

    /// The ask that arrived last.
    pub(crate) fn newest(&self, asks: &Asks) -> Option<u32> {
        let exceptions = self.exceptions.as_ref();
        let newest = exceptions.and_then(|exceptions| exceptions.by_arrival.last());
        let newest = newest.map(|&(_, slot)| slot);
        self.in_order.tail().into_iter().chain(newest).max_by_key(|&slot| asks[slot].sequence)
    }

    /// The asks that want their first token after `by`: a new ask would go before them. If they are
    /// many, only some of them are counted.
    pub(crate) fn wanted_after(&self, by: Time, asks: &Asks) -> AskSum {
        let exceptions = self.exceptions.iter().flat_map(|exceptions| exceptions.by_turn.iter());
        let exceptions = exceptions.rev().map(|&(_, slot)| slot);
        let later = |slot: &u32| asks[*slot].wanted_by > by;
        let in_order = self.in_order.backwards(asks).take_while(later).take(LOOK_MAX);
        in_order.chain(exceptions.take_while(later).take(LOOK_MAX)).fold(
            AskSum::default(),
            |sum, slot| AskSum {
                count: sum.count + 1,
                cost: sum.cost + u64::from(asks[slot].cost),
            },
        )
    }
}
