//! The waiting asks of each session of a flow in one band. They decide which session loses an ask
//! when the flow is full.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub(crate) struct SessionCounts {
    waiting: BTreeMap<u32, u32>,
    by_count: BTreeSet<(u32, u32)>,
    total: u32,
}

// === impl SessionCounts ===

impl SessionCounts {
    pub(crate) fn is_empty(&self) -> bool {
        self.total == 0
    }

    pub(crate) fn add(&mut self, session: u32) {
        self.total += 1;
        let count = self.waiting.get(&session).copied().unwrap_or(0);
        self.change(session, count, count + 1);
    }

    pub(crate) fn remove(&mut self, session: u32) {
        let Some(&count) = self.waiting.get(&session) else { return };
        self.total -= 1;
        self.change(session, count, count - 1);
    }

    fn change(&mut self, session: u32, from: u32, to: u32) {
        self.by_count.remove(&(from, session));
        if to == 0 {
            self.waiting.remove(&session);
        } else {
            self.waiting.insert(session, to);
            self.by_count.insert((to, session));
        }
    }

    /// The session that loses an ask to a new one of `newcomer`: the one with most asks, if the
    /// newcomer has fewer than its whole share. Then the loser has at least two more than the
    /// newcomer, and keeps its own share.
    pub(crate) fn loser(&self, newcomer: u32) -> Option<u32> {
        let own = self.waiting.get(&newcomer).copied().unwrap_or(0);
        let sessions = self.waiting.len() as u32 + u32::from(own == 0);
        let &(_, loser) = self.by_count.last()?;
        (own < self.total / sessions).then_some(loser)
    }

    /// The sessions that wait, with their asks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.waiting.iter().map(|(&session, &count)| (session, count))
    }
}
