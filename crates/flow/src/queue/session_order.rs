//! The `session` order: the sessions of one flow queue share its grants by cost.
//!
//! This is start-time fair queueing one level below the flows, with the rules of
//! [`super::virtual_clock`] at weight 1. The asks of a session go as in the order `fifo`: fresh
//! asks by their objectives, late ones behind them. A session all of whose asks are late keeps its
//! tag while others go: it waits, so it is owed that service.
//!
//! A session that no longer waits is remembered, because a known session starts ahead of new ones.
//! A flow queue remembers at most [`IDLE_MAX`] of them, and each other session has a waiting ask,
//! so memory is bounded, whatever names clients invent.

use std::collections::{BTreeMap, BTreeSet};

use super::asks::{self, Asks};
use super::line::Line;
use super::ordered_asks::{FRESH, LATE};
use crate::time::Time;

/// The most sessions that one flow queue remembers while they do not wait.
pub(crate) const IDLE_MAX: usize = 64;

/// The period of an ask that its session was not charged for.
pub(crate) const NOT_CHARGED: u32 = 0;

/// The order of the sessions: the least tag first, then the one that moved longest ago.
type Turn = (u64, u64, u32);

/// Where virtual time begins, so that refunds do not go below 0.
const BEGINNING: u64 = 1 << 60;

#[derive(Clone, Debug)]
pub(crate) struct SessionOrder {
    /// Virtual time. With costs below 2^28 it lasts for 2^35 grants of the largest cost; beyond
    /// that it stands still, and the order is by age.
    now: u64,
    tag_max: u64,
    moves: u64,
    periods: u32,
    sessions: BTreeMap<u32, Session>,
    /// The sessions with fresh asks, and those with late asks.
    turns: [BTreeSet<Turn>; 2],
    /// The sessions that do not wait, by when they stopped.
    idle: BTreeSet<(u64, u32)>,
}

#[derive(Clone, Debug, Default)]
struct Session {
    tag: u64,
    moved: u64,
    /// The number of the time for which it has waited without a break.
    period: u32,
    waiting: u32,
    /// Its fresh asks and its late asks.
    lines: [Line; 2],
}

/// The turns of sessions as they would be after the asks that were told.
struct ToldTurns {
    tags: BTreeMap<u32, (u64, u64)>,
    moves: u64,
}

// === impl SessionOrder ===

impl Default for SessionOrder {
    fn default() -> Self {
        Self {
            now: BEGINNING,
            tag_max: BEGINNING,
            moves: 0,
            periods: NOT_CHARGED,
            sessions: BTreeMap::new(),
            turns: Default::default(),
            idle: BTreeSet::new(),
        }
    }
}

impl SessionOrder {
    /// Adds an ask to the fresh ones of its session.
    pub(crate) fn insert(&mut self, slot: u32, asks: &mut Asks) {
        let key = asks[slot].session;
        asks[slot].session_period = NOT_CHARGED;
        let mut session = self.sessions.remove(&key).unwrap_or_else(|| {
            let tag = self.now.saturating_add(u64::from(asks[slot].cost));
            Session { tag, ..Session::default() }
        });
        if session.waiting == 0 {
            self.idle.remove(&(session.moved, key));
            self.begin(&mut session);
        }
        session.waiting += 1;
        session.lines[FRESH].insert(slot, asks);
        self.turns[FRESH].insert(session.turn(key));
        self.sessions.insert(key, session);
    }

    /// A session begins to wait. It has no credit for the time in which it did not.
    fn begin(&mut self, session: &mut Session) {
        session.tag = session.tag.max(self.now);
        self.tag_max = self.tag_max.max(session.tag);
        session.moved = self.next_move();
        self.periods = self.periods.wrapping_add(1).max(NOT_CHARGED + 1);
        session.period = self.periods;
    }

    fn next_move(&mut self) -> u64 {
        self.moves += 1;
        self.moves
    }

    pub(crate) fn remove(&mut self, slot: u32, asks: &mut Asks) {
        let (key, line) = (asks[slot].session, usize::from(asks[slot].late));
        let Some(mut session) = self.sessions.remove(&key) else { return };
        session.lines[line].remove(slot, asks);
        session.waiting -= 1;
        if session.lines[line].is_empty() {
            self.turns[line].remove(&session.turn(key));
        }
        if session.waiting == 0 {
            session.moved = self.next_move();
            self.idle.insert((session.moved, key));
        }
        self.sessions.insert(key, session);
        self.forget();
    }

    /// Forgets the session that stopped waiting first, if too many are remembered; and old
    /// service, if no session waits.
    fn forget(&mut self) {
        if self.idle.len() > IDLE_MAX
            && let Some((_, key)) = self.idle.pop_first()
        {
            self.sessions.remove(&key);
        }
        if self.turns.iter().all(BTreeSet::is_empty) {
            self.now = self.now.max(self.tag_max);
        }
    }

    /// Moves an ask to the late ones of its session.
    pub(crate) fn demote(&mut self, slot: u32, asks: &mut Asks) {
        let key = asks[slot].session;
        let Some(session) = self.sessions.get_mut(&key) else { return };
        session.lines[FRESH].remove(slot, asks);
        asks[slot].become_late();
        session.lines[LATE].insert(slot, asks);
        let turn = session.turn(key);
        if session.lines[FRESH].is_empty() {
            self.turns[FRESH].remove(&turn);
        }
        self.turns[LATE].insert(turn);
    }

    /// The first of the fresh or of the late asks.
    pub(crate) fn first(&self, line: usize, asks: &Asks) -> Option<u32> {
        let (_, _, key) = self.turns[line].first()?;
        self.sessions.get(key)?.lines[line].first(asks)
    }

    /// These waiting asks, which are all, in the order in which they would go if no other arrived
    /// and no time passed.
    pub(crate) fn in_turn(&self, waiting: &[u32], now: Time, asks: &Asks) -> Vec<u32> {
        let mut lines: [BTreeMap<u32, BTreeSet<(asks::Turn, u32)>>; 2] = Default::default();
        for &slot in waiting {
            let (ask, late) = (&asks[slot], asks[slot].is_late(now));
            let turn = if late { (Time::ZERO, ask.sequence) } else { ask.turn() };
            lines[usize::from(late)].entry(ask.session).or_default().insert((turn, slot));
        }
        let mut told = ToldTurns { tags: BTreeMap::new(), moves: self.moves };
        let mut order = Vec::with_capacity(waiting.len());
        for line in lines {
            self.tell_line(line, &mut told, asks, &mut order);
        }
        order
    }

    /// Adds the asks of one line in turn.
    fn tell_line(
        &self,
        mut line: BTreeMap<u32, BTreeSet<(asks::Turn, u32)>>,
        told: &mut ToldTurns,
        asks: &Asks,
        order: &mut Vec<u32>,
    ) {
        let turn_of = |(&key, session): (&u32, &Session)| (key, (session.tag, session.moved));
        let waits = self.sessions.iter().map(turn_of).filter(|(key, _)| line.contains_key(key));
        let turn = |(key, known)| {
            let (tag, moved) = told.tags.get(&key).copied().unwrap_or(known);
            (tag, moved, key)
        };
        let mut turns: BTreeSet<Turn> = waits.map(turn).collect();
        while let Some((tag, _, key)) = turns.pop_first() {
            let first = line.get_mut(&key).and_then(BTreeSet::pop_first);
            let Some((_, slot)) = first else { continue };
            order.push(slot);
            told.moves += 1;
            let next = tag.saturating_add(u64::from(asks[slot].cost));
            told.tags.insert(key, (next, told.moves));
            turns.insert((next, told.moves, key));
        }
    }

    /// The ask that came last. Only preemption needs it, so a search is good enough.
    pub(crate) fn newest(&self, asks: &Asks) -> Option<u32> {
        let turns = self.turns.iter().flatten();
        let sessions = turns.filter_map(|(_, _, key)| self.sessions.get(key));
        let newest =
            sessions.flat_map(|session| &session.lines).filter_map(|line| line.newest(asks));
        newest.max_by_key(|&slot| asks[slot].sequence)
    }

    /// The ask of a session that came last.
    pub(crate) fn newest_of(&self, key: u32, asks: &Asks) -> Option<u32> {
        let lines = self.sessions.get(&key)?.lines.iter();
        lines.filter_map(|line| line.newest(asks)).max_by_key(|&slot| asks[slot].sequence)
    }

    /// Charges its session for an ask that still waits and is granted now.
    pub(crate) fn charge(&mut self, slot: u32, asks: &mut Asks) {
        let (key, cost) = (asks[slot].session, asks[slot].cost);
        let Some(&Session { tag, period, .. }) = self.sessions.get(&key) else { return };
        asks[slot].session_period = period;
        self.now = self.now.max(tag);
        let moved = self.next_move();
        self.retag(key, tag.saturating_add(u64::from(cost)), Some(moved));
    }

    /// Corrects the charge for an ask in flight. A refund of a charge from an earlier period would
    /// be credit from a time when the session did not wait.
    pub(crate) fn true_up(&mut self, key: u32, charged_in: u32, difference: i64) {
        let Some(&Session { tag, period, waiting, .. }) = self.sessions.get(&key) else { return };
        let void = difference < 0 && waiting > 0 && period != charged_in;
        if charged_in != NOT_CHARGED && !void {
            self.retag(key, tag.saturating_add_signed(difference), None);
        }
    }

    fn retag(&mut self, key: u32, tag: u64, moved: Option<u64>) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let was = session.turn(key);
        session.tag = tag;
        session.moved = moved.unwrap_or(session.moved);
        self.tag_max = self.tag_max.max(tag);
        for turns in &mut self.turns {
            if turns.remove(&was) {
                turns.insert(session.turn(key));
            }
        }
    }

    /// The number of remembered sessions, and of those that wait.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.sessions.len(), self.sessions.len() - self.idle.len())
    }
}

// === impl Session ===

impl Session {
    fn turn(&self, key: u32) -> Turn {
        (self.tag, self.moved, key)
    }
}
