//! A simple store in memory, the reference for random histories.

use std::collections::BTreeMap;

use crate::{Depth, Lane, Message, Moment, Outcome, Receipt, Release, Standing};

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Retry(Moment),
    Claimed { claim: usize, until: Moment },
    Dead(u64),
    Ended,
}

/// A message and its state.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) message: Message,
    pub(crate) turn: u64,
    pub(crate) state: State,
    pub(crate) failures: u32,
    pub(crate) cancelled: bool,
    /// How many results it must have in the end: one, and one for every redrive.
    pub(crate) lives: usize,
}

/// All messages of one queue.
#[derive(Debug, Default)]
pub(crate) struct Reference {
    pub(crate) entries: BTreeMap<String, Record>,
    /// The ids of results, oldest first, and the outcome of each.
    pub(crate) results: Vec<(String, String)>,
    count: u64,
}

// === impl Reference ===

impl Reference {
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub(crate) fn submit(&mut self, message: Message) -> Receipt {
        if let Some(entry) = self.entries.get(&message.id) {
            let same =
                entry.message.tenant == message.tenant && entry.message.model == message.model;
            return if same { Receipt::Duplicate } else { Receipt::Conflict };
        }
        let (turn, id) = (self.next(), message.id.clone());
        let (state, failures, cancelled, lives) = (State::Pending, 0, false, 1);
        self.entries.insert(id, Record { message, turn, state, failures, cancelled, lives });
        Receipt::Accepted
    }

    /// Claims messages of a tenant. The claims get the numbers from `first` on.
    pub(crate) fn claim(
        &mut self,
        tenant: &str,
        most: usize,
        first: usize,
        until: Moment,
    ) -> Vec<Record> {
        let mut waiting: Vec<&mut Record> = self.entries.values_mut().collect();
        waiting.retain(|entry| entry.state == State::Pending && entry.message.tenant == tenant);
        waiting.sort_by_key(|entry| (entry.message.deadline, entry.turn));
        let taken = waiting.into_iter().take(most).enumerate().map(|(at, entry)| {
            entry.state = State::Claimed { claim: first + at, until };
            entry.clone()
        });
        taken.collect()
    }

    /// The message that a claim holds.
    fn held(&mut self, claim: usize) -> Option<&mut Record> {
        self.entries.values_mut().find(|entry| match entry.state {
            State::Claimed { claim: by, .. } => by == claim,
            _ => false,
        })
    }

    pub(crate) fn is_cancelled(&mut self, claim: usize) -> bool {
        self.held(claim).is_some_and(|entry| entry.cancelled)
    }

    pub(crate) fn standing(&mut self, claim: usize, until: Option<Moment>) -> Standing {
        match self.held(claim) {
            Some(entry) => {
                if let Some(until) = until {
                    entry.state = State::Claimed { claim, until };
                }
                if entry.cancelled { Standing::Cancelled } else { Standing::Held }
            }
            None => Standing::Lost,
        }
    }

    pub(crate) fn complete(&mut self, claim: usize, says: &str) -> bool {
        let Some(entry) = self.held(claim) else { return false };
        entry.state = State::Ended;
        let id = entry.message.id.clone();
        self.results.push((id, says.into()));
        true
    }

    pub(crate) fn dead_letter(&mut self, claim: usize, says: &str) -> bool {
        let number = self.next();
        let Some(entry) = self.held(claim) else { return false };
        entry.state = State::Dead(number);
        entry.failures += 1;
        entry.cancelled = false;
        let id = entry.message.id.clone();
        self.results.push((id, says.into()));
        true
    }

    pub(crate) fn release(&mut self, claim: usize, back: Release, now: Moment) -> bool {
        let Some(entry) = self.held(claim) else { return false };
        entry.state = if back.due > now { State::Retry(back.due) } else { State::Pending };
        entry.failures += u32::from(back.failed);
        true
    }

    pub(crate) fn cancel(&mut self, id: &str, at_once: bool) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return false };
        match entry.state {
            State::Dead(_) | State::Ended => return false,
            State::Claimed { .. } => entry.cancelled = true,
            State::Pending | State::Retry(_) if at_once => {
                entry.state = State::Ended;
                self.results.push((id.into(), Outcome::CANCELLED.into()));
            }
            State::Pending | State::Retry(_) => entry.cancelled = true,
        }
        true
    }

    /// Returns how many leases had expired, and how many messages were due.
    pub(crate) fn reclaim(&mut self, now: Moment) -> (u64, u64) {
        let (mut lost, mut came) = (0, 0);
        for entry in self.entries.values_mut() {
            match entry.state {
                State::Claimed { until, .. } if until <= now => {
                    entry.state = State::Pending;
                    entry.failures += 1;
                    lost += 1;
                }
                State::Retry(due) if due <= now => {
                    entry.state = State::Pending;
                    came += 1;
                }
                _ => {}
            }
        }
        (lost, came)
    }

    pub(crate) fn redrive_dead_letters(&mut self, now: Moment) -> u64 {
        let dead: Vec<String> = self.dead().into_iter().map(|(id, _)| id).collect();
        for id in &dead {
            let turn = self.next();
            let Some(entry) = self.entries.get_mut(id) else { continue };
            let time = entry.message.deadline.since(entry.message.created);
            entry.message.deadline = now.after(time);
            entry.message.created = now;
            (entry.turn, entry.state, entry.failures) = (turn, State::Pending, 0);
            entry.lives += 1;
        }
        dead.len() as u64
    }

    pub(crate) fn purge_dead_letters(&mut self, id: &str) -> bool {
        let dead = self.entries.get(id).is_some_and(|entry| matches!(entry.state, State::Dead(_)));
        if dead {
            self.entries.remove(id);
        }
        dead
    }

    /// After a restart of the only owner.
    pub(crate) fn restart(&mut self) {
        for entry in self.entries.values_mut() {
            if matches!(entry.state, State::Claimed { .. }) {
                entry.state = State::Pending;
                entry.failures += 1;
            }
        }
    }

    /// The dead letters and how often they failed, oldest first.
    pub(crate) fn dead(&self) -> Vec<(String, u32)> {
        let number = |entry: &Record| match entry.state {
            State::Dead(number) => Some((number, entry.message.id.clone(), entry.failures)),
            _ => None,
        };
        let mut dead: Vec<_> = self.entries.values().filter_map(number).collect();
        dead.sort();
        dead.into_iter().map(|(_, id, failures)| (id, failures)).collect()
    }

    pub(crate) fn depth(&self) -> Depth {
        let mut depth = Depth::default();
        for entry in self.entries.values() {
            match entry.state {
                State::Pending => depth.pending += 1,
                State::Retry(_) => depth.retry += 1,
                State::Claimed { .. } => depth.claimed += 1,
                State::Dead(_) => depth.dead += 1,
                State::Ended => {}
            }
        }
        depth
    }

    pub(crate) fn lanes(&self) -> Vec<Lane> {
        let mut lanes: BTreeMap<&str, Lane> = BTreeMap::new();
        for entry in self.entries.values().filter(|entry| entry.state == State::Pending) {
            let (tenant, deadline) = (entry.message.tenant.clone(), entry.message.deadline);
            let lane = lanes.entry(&entry.message.tenant);
            let lane = lane.or_insert(Lane { tenant, waiting: 0, deadline });
            lane.waiting += 1;
            lane.deadline = lane.deadline.min(deadline);
        }
        lanes.into_values().collect()
    }
}
