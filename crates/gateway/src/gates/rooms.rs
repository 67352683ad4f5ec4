//! What all gates allow at one moment, divided among the queues in one pass over them.

use super::settings::Unit;
use super::{GateSet, Gates};

/// What is left of each gate; `None` while it is closed, unless requests in flight fill it.
#[derive(Clone, Debug)]
pub(crate) struct Rooms(Vec<Option<u64>>);

// === impl Gates ===

impl Gates {
    /// The requests that each gate allows now; one if it counts sizes and allows any.
    pub(crate) fn rooms(&self) -> Rooms {
        let now = self.clock.now();
        let mut states = self.refreshed(&GateSet((0..self.settings.len()).collect()), now);
        let rooms = states.iter_mut().zip(&self.settings).map(|(state, settings)| {
            let room = state.open_room(now);
            state.has_refused |= room.is_none_or(|room| room == 0);
            if settings.unit == Unit::Requests { room } else { room.map(|room| room.min(1)) }
        });
        let rooms = Rooms(rooms.collect());
        drop(states);
        if rooms.0.iter().any(|room| room.is_none_or(|room| room == 0)) {
            self.refused.notify_waiters();
        }
        rooms
    }
}

// === impl Rooms ===

impl Rooms {
    /// The requests that a set of gates allows; `None` while one of them is closed.
    pub(crate) fn of(&self, set: &GateSet) -> Option<u64> {
        set.0.iter().map(|&at| self.0[at]).try_fold(u64::MAX, |least, room| Some(least.min(room?)))
    }

    /// Takes a request from all gates of a set. Returns whether all of them had room.
    pub(crate) fn take(&mut self, set: &GateSet) -> bool {
        if self.of(set).is_none_or(|room| room == 0) {
            return false;
        }
        for &at in &*set.0 {
            self.0[at] = self.0[at].map(|room| room.saturating_sub(1));
        }
        true
    }
}
