//! The waiting asks of one flow queue: fresh asks first, late asks behind them, both in the
//! configured order. In the orders `fifo` and `session` fresh asks go by their objectives.
//!
//! An ask is *fresh* while it can still make its objective, and *late* from then on. It is found
//! late when it would go next, and then moves to the late asks. So each ask moves at most once, no
//! timer is needed, and a queue without late asks pays for one comparison.

use std::collections::BTreeSet;

use super::asks::{AskRecord, Asks};
use super::fifo::Fifo;
use super::line::Line;
use super::session_order::SessionOrder;
use super::urgency::UrgencyOrder;
use crate::outcome::RequeuePosition;
use crate::settings::{Order, UrgencyWeights};
use crate::time::Time;
use crate::workload::Registry;

#[derive(Clone, Debug)]
pub(crate) struct OrderedAsks {
    lines: Lines,
    /// The asks found late that still wait.
    late: AskSum,
}

/// The number of some asks, and what they cost together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AskSum {
    pub(crate) count: u32,
    pub(crate) cost: u64,
}

/// Two lines of asks in the same order: the fresh ones and the late ones.
#[derive(Clone, Debug)]
enum Lines {
    /// The order `fifo` while each ask goes behind all older ones of its line.
    Fifo([Fifo; 2]),
    /// The order `fifo` while an ask goes before an older one.
    Mixed(Box<[Line; 2]>),
    Deadline(Box<DeadlineOrder>),
    Workload(Box<[UrgencyOrder; 2]>),
    Session(Box<SessionOrder>),
}

/// Earliest deadline first. The list in arrival order has the newest ask, which preemption needs.
#[derive(Clone, Debug, Default)]
struct DeadlineOrder {
    arrivals: Fifo,
    by_deadline: [BTreeSet<(Time, u64, u32)>; 2],
}

/// The state that the choice of the first ask may depend on.
pub(crate) struct OrderContext<'a> {
    pub(crate) now: Time,
    pub(crate) weights: &'a UrgencyWeights,
    pub(crate) registry: &'a mut Registry,
}

/// The most asks that [`OrderedAsks::next_fresh`] looks at.
const LOOK_MAX: usize = 256;

pub(super) const FRESH: usize = 0;
pub(super) const LATE: usize = 1;

// === impl AskSum ===

impl AskSum {
    /// What is left of these asks without some of them.
    pub(crate) const fn less(self, some: Self) -> Self {
        Self { count: self.count - some.count, cost: self.cost - some.cost }
    }
}

// === impl OrderedAsks ===

impl OrderedAsks {
    pub(crate) fn new(order: Order) -> Self {
        let lines = match order {
            Order::Fifo => Lines::Fifo(<[Fifo; 2]>::default()),
            Order::Deadline => Lines::Deadline(Box::default()),
            Order::Workload => Lines::Workload(Box::default()),
            Order::Session => Lines::Session(Box::default()),
        };
        Self { lines, late: AskSum::default() }
    }

    /// Adds an ask to the fresh ones. If it is late, that is found when its turn comes.
    #[inline(always)]
    pub(crate) fn insert(&mut self, slot: u32, place: RequeuePosition, asks: &mut Asks) {
        asks[slot].late = false;
        match &mut self.lines {
            Lines::Fifo(_) | Lines::Mixed(_) => self.lines.append(FRESH, slot, asks),
            Lines::Deadline(order) => {
                insert(&mut order.arrivals, slot, place, asks);
                order.by_deadline[FRESH].insert(deadline_key(slot, asks));
            }
            Lines::Workload(lines) => lines[FRESH].insert(slot, place, asks),
            Lines::Session(order) => order.insert(slot, asks),
        }
    }

    pub(crate) fn remove(&mut self, slot: u32, asks: &mut Asks) {
        let line = if asks[slot].late { LATE } else { FRESH };
        if line == LATE {
            self.late.count -= 1;
            self.late.cost -= u64::from(asks[slot].cost);
        }
        match &mut self.lines {
            Lines::Fifo(lines) => lines[line].remove(slot, asks),
            Lines::Mixed(_) => self.lines.remove_mixed(line, slot, asks),
            Lines::Deadline(order) => {
                order.by_deadline[line].remove(&deadline_key(slot, asks));
                order.arrivals.remove(slot, asks);
            }
            Lines::Workload(lines) => lines[line].remove(slot, asks),
            Lines::Session(order) => order.remove(slot, asks),
        }
    }

    /// The ask that goes next.
    #[inline]
    pub(crate) fn first(&mut self, context: OrderContext<'_>, asks: &mut Asks) -> Option<u32> {
        // The usual case, at once.
        if let Lines::Fifo([fresh, _]) = &self.lines
            && let Some(slot) = fresh.head()
            && !asks[slot].is_late(context.now)
        {
            return Some(slot);
        }
        self.first_of_lines(context, asks)
    }

    #[inline(never)]
    fn first_of_lines(&mut self, mut context: OrderContext<'_>, asks: &mut Asks) -> Option<u32> {
        while let Some(slot) = self.lines.first(FRESH, &mut context, asks) {
            if !asks[slot].is_late(context.now) {
                return Some(slot);
            }
            self.demote(slot, asks);
        }
        self.lines.first(LATE, &mut context, asks)
    }

    /// Adds up to `count` fresh asks in the order of their turns, if that is the order `fifo`:
    /// those that could go next without harm to their objective.
    pub(crate) fn next_fresh(&self, count: usize, now: Time, asks: &Asks, found: &mut Vec<u32>) {
        let could_go = |&slot: &u32| !asks[slot].is_late(now) && asks[slot].deadline > now;
        let line = match &self.lines {
            Lines::Fifo(lines) => &Line::from(lines[FRESH]),
            Lines::Mixed(lines) => &lines[FRESH],
            _ => return,
        };
        found.extend(line.in_turn(asks).take(LOOK_MAX).filter(could_go).take(count));
    }

    /// Up to `count` asks in the order of their turns, if that is the order `fifo`: the fresh ones,
    /// or the late ones if there are no others.
    pub(crate) fn next_in_turn(&self, count: usize, now: Time, asks: &Asks) -> Vec<u32> {
        let mut found = Vec::new();
        self.next_fresh(count, now, asks, &mut found);
        let late = match &self.lines {
            _ if !found.is_empty() => return found,
            Lines::Fifo(lines) => &Line::from(lines[LATE]),
            Lines::Mixed(lines) => &lines[LATE],
            _ => return found,
        };
        let could_go = |&slot: &u32| asks[slot].deadline > now;
        late.in_turn(asks).take(LOOK_MAX).filter(could_go).take(count).collect()
    }

    /// Those of the waiting asks of this flow queue that would go before one of them, if nothing
    /// arrived and no time passed. It looks at all of them, and no grant needs it.
    pub(crate) fn before(
        &self,
        slot: u32,
        mut waiting: Vec<u32>,
        (asks, mut context): (&Asks, OrderContext<'_>),
    ) -> Vec<u32> {
        let now = context.now;
        if let Lines::Session(order) = &self.lines {
            let mut waiting = order.in_turn(&waiting, now, asks);
            waiting.truncate(waiting.iter().position(|&other| other == slot).unwrap_or(0));
            return waiting;
        }
        let mut turn = |slot: u32| {
            let ask = &asks[slot];
            let late = ask.is_late(now);
            let key = match &self.lines {
                Lines::Workload(lines) => -lines[usize::from(ask.late)].worth(ask, &mut context),
                Lines::Deadline(_) => ask.deadline.nanos().into(),
                _ if late => 0,
                _ => ask.wanted_by.nanos().into(),
            };
            (late, key, ask.sequence)
        };
        let own = turn(slot);
        waiting.retain(|&other| turn(other) < own);
        waiting
    }

    /// The asks that were found late. There may be more: an ask behind a fresh one is not looked
    /// at.
    pub(crate) const fn late(&self) -> AskSum {
        self.late
    }

    /// The fresh asks that a new one would go before, if they are few enough to be counted.
    pub(crate) fn wanted_after(&self, by: Time, asks: &Asks) -> AskSum {
        match &self.lines {
            Lines::Fifo(lines) => Line::from(lines[FRESH]).wanted_after(by, asks),
            Lines::Mixed(lines) => lines[FRESH].wanted_after(by, asks),
            _ => AskSum::default(),
        }
    }

    /// The ask that came last.
    pub(crate) fn newest(&self, asks: &Asks) -> Option<u32> {
        let newest_of = |tails: [Option<u32>; 2]| {
            tails.into_iter().flatten().max_by_key(|&slot| asks[slot].sequence)
        };
        match &self.lines {
            Lines::Fifo(lines) => newest_of([lines[FRESH].tail(), lines[LATE].tail()]),
            Lines::Mixed(lines) => newest_of([lines[FRESH].newest(asks), lines[LATE].newest(asks)]),
            Lines::Deadline(order) => order.arrivals.tail(),
            Lines::Workload(lines) => {
                newest_of([lines[FRESH].newest(asks), lines[LATE].newest(asks)])
            }
            Lines::Session(order) => order.newest(asks),
        }
    }

    /// The ask of a session that came last, if sessions share the flow queue.
    pub(crate) fn newest_of_session(&self, session: u32, asks: &Asks) -> Option<u32> {
        self.sessions().and_then(|order| order.newest_of(session, asks))
    }

    /// Charges the session of an ask that is granted now, if sessions share the flow queue.
    pub(crate) fn charge_session(&mut self, slot: u32, asks: &mut Asks) {
        if let Lines::Session(order) = &mut self.lines {
            order.charge(slot, asks);
        }
    }

    /// Corrects that charge.
    pub(crate) fn true_up_session(&mut self, ask: &AskRecord, difference: i64) {
        if let Lines::Session(order) = &mut self.lines {
            order.true_up(ask.session, ask.session_period, difference);
        }
    }

    /// The sessions, if they share the flow queue.
    pub(crate) fn sessions(&self) -> Option<&SessionOrder> {
        match &self.lines {
            Lines::Session(order) => Some(order),
            _ => None,
        }
    }

    /// Moves an ask from the fresh ones to the late ones. Asks of one line are found late in its
    /// order, so that the place is mostly at the end.
    fn demote(&mut self, slot: u32, asks: &mut Asks) {
        self.late.count += 1;
        self.late.cost += u64::from(asks[slot].cost);
        match &mut self.lines {
            Lines::Fifo(lines) => {
                lines[FRESH].remove(slot, asks);
                asks[slot].become_late();
                self.lines.append(LATE, slot, asks);
            }
            Lines::Mixed(_) => {
                self.lines.remove_mixed(FRESH, slot, asks);
                asks[slot].become_late();
                self.lines.append(LATE, slot, asks);
            }
            Lines::Deadline(order) => {
                let key = deadline_key(slot, asks);
                order.by_deadline[FRESH].remove(&key);
                order.by_deadline[LATE].insert(key);
                asks[slot].become_late();
            }
            Lines::Workload(lines) => {
                lines[FRESH].remove(slot, asks);
                lines[LATE].insert(slot, RequeuePosition::Original, asks);
                asks[slot].become_late();
            }
            Lines::Session(order) => order.demote(slot, asks),
        }
    }
}

// === impl Lines ===

impl Lines {
    /// Adds an ask to a line of the order `fifo`.
    #[inline]
    fn append(&mut self, line: usize, slot: u32, asks: &mut Asks) {
        match self {
            Self::Fifo(lines) if lines[line].goes_behind(slot, asks) => {
                asks[slot].exception = false;
                lines[line].push_back(slot, asks);
            }
            _ => self.append_mixed(line, slot, asks),
        }
    }

    #[cold]
    fn append_mixed(&mut self, line: usize, slot: u32, asks: &mut Asks) {
        if let Self::Fifo(lines) = self {
            *self = Self::Mixed(Box::new(lines.map(Line::from)));
        }
        if let Self::Mixed(lines) = self {
            lines[line].insert(slot, asks);
        }
    }

    #[cold]
    fn remove_mixed(&mut self, line: usize, slot: u32, asks: &mut Asks) {
        let Self::Mixed(lines) = self else { return };
        lines[line].remove(slot, asks);
        if let [Some(fresh), Some(late)] = [&lines[FRESH], &lines[LATE]].map(Line::as_fifo) {
            *self = Self::Fifo([fresh, late]);
        }
    }

    #[inline]
    fn first(&mut self, line: usize, context: &mut OrderContext<'_>, asks: &Asks) -> Option<u32> {
        match self {
            Self::Fifo(lines) => lines[line].head(),
            Self::Mixed(lines) => lines[line].first(asks),
            Self::Deadline(order) => order.by_deadline[line].first().map(|&(_, _, slot)| slot),
            Self::Workload(lines) => lines[line].most_urgent(context),
            Self::Session(order) => order.first(line, asks),
        }
    }
}

pub(crate) fn insert(fifo: &mut Fifo, slot: u32, place: RequeuePosition, asks: &mut Asks) {
    match place {
        RequeuePosition::Back => fifo.push_back(slot, asks),
        RequeuePosition::Original => fifo.restore(slot, asks),
    }
}

fn deadline_key(slot: u32, asks: &Asks) -> (Time, u64, u32) {
    let ask = &asks[slot];
    (ask.deadline, ask.sequence, slot)
}
