//! The sessions that share a flow queue, with lists and scans.

use super::fair::VirtualClock;
use super::{Record, Reference};
use crate::Order;
use crate::queue::session_order::IDLE_MAX;

/// A session that its flow queue remembers.
pub(super) struct Session {
    flow_queue: usize,
    key: u32,
    tag: i128,
    moved: u64,
    /// How often a session of this flow queue had begun to wait, this time included.
    period: u64,
}

/// The sessions of all flow queues, and the virtual clock of each.
#[derive(Default)]
pub(super) struct Sessions {
    known: Vec<Session>,
    clocks: Vec<SessionClock>,
}

#[derive(Default)]
struct SessionClock {
    virtual_clock: VirtualClock,
    periods: u64,
}

// === impl Sessions ===

impl Sessions {
    fn find(&self, ask: &Record) -> Option<usize> {
        let same = |known: &Session| known.flow_queue == ask.flow_queue && known.key == ask.session;
        self.known.iter().position(same)
    }

    fn clock(&mut self, flow_queue: usize) -> &mut SessionClock {
        if self.clocks.len() <= flow_queue {
            self.clocks.resize_with(flow_queue + 1, SessionClock::default);
        }
        &mut self.clocks[flow_queue]
    }
}

// === impl Reference ===

impl Reference {
    /// The key by which the sessions of two waiting asks are compared.
    pub(super) fn session_turn(&self, at: usize) -> (i128, u64) {
        let known = self.sessions.find(&self.asks[at]).expect("a waiting ask has a session");
        (self.sessions.known[known].tag, self.sessions.known[known].moved)
    }

    fn session_waits(&self, of: &Session) -> bool {
        self.waiting()
            .any(|at| self.asks[at].flow_queue == of.flow_queue && self.asks[at].session == of.key)
    }

    /// An ask is about to wait.
    pub(super) fn session_begins(&mut self, at: usize) {
        if self.settings.order != Order::Session {
            return;
        }
        let ask = &mut self.asks[at];
        ask.session_period = None;
        let (flow_queue, key, cost) = (ask.flow_queue, ask.session, i128::from(ask.cost));
        let known = self.sessions.find(&self.asks[at]);
        if known.is_some_and(|known| self.session_waits(&self.sessions.known[known])) {
            return;
        }
        let tag = known.map(|known| self.sessions.known.remove(known).tag);
        let clock = self.sessions.clock(flow_queue);
        clock.periods += 1;
        let period = clock.periods;
        let tag = clock.virtual_clock.arrive(tag, cost);
        let moved = clock.virtual_clock.next_move();
        self.sessions.known.push(Session { flow_queue, key, tag, moved, period });
    }

    /// A waiting ask is granted.
    pub(super) fn session_serves(&mut self, at: usize) {
        if self.settings.order != Order::Session {
            return;
        }
        let known = self.sessions.find(&self.asks[at]).expect("a waiting ask has a session");
        let Session { flow_queue, tag, period, .. } = self.sessions.known[known];
        let cost = i128::from(self.asks[at].cost);
        let clock = self.sessions.clock(flow_queue);
        let (tag, moved) = (clock.virtual_clock.serve(tag, cost), clock.virtual_clock.next_move());
        let session = &mut self.sessions.known[known];
        (session.tag, session.moved) = (tag, moved);
        self.asks[at].session_period = Some(period);
    }

    /// An ask has stopped waiting.
    pub(super) fn session_rests(&mut self, at: usize) {
        if self.settings.order != Order::Session {
            return;
        }
        let known = self.sessions.find(&self.asks[at]).expect("a waiting ask has a session");
        let flow_queue = self.asks[at].flow_queue;
        if !self.session_waits(&self.sessions.known[known]) {
            let moved = self.sessions.clock(flow_queue).virtual_clock.next_move();
            self.sessions.known[known].moved = moved;
        }
        let idle =
            |session: &&Session| session.flow_queue == flow_queue && !self.session_waits(session);
        let mut idle: Vec<_> =
            self.sessions.known.iter().filter(idle).map(|idle| (idle.moved, idle.key)).collect();
        idle.sort_unstable();
        for (_, key) in idle.iter().take(idle.len().saturating_sub(IDLE_MAX)) {
            let kept = |known: &Session| known.flow_queue != flow_queue || known.key != *key;
            self.sessions.known.retain(kept);
        }
        if self.waiting().all(|other| self.asks[other].flow_queue != flow_queue) {
            self.sessions.clock(flow_queue).virtual_clock.idle();
        }
    }

    /// The charge for an ask in flight changes.
    pub(super) fn session_corrects(&mut self, at: usize, difference: i64) {
        let Some(charged_in) = self.asks[at].session_period else { return };
        let Some(known) = self.sessions.find(&self.asks[at]) else { return };
        let session = &self.sessions.known[known];
        let void = difference < 0 && session.period != charged_in && self.session_waits(session);
        if void {
            return;
        }
        let (flow_queue, tag) = (session.flow_queue, session.tag + i128::from(difference));
        let tag = self.sessions.clock(flow_queue).virtual_clock.note(tag);
        self.sessions.known[known].tag = tag;
    }
}
