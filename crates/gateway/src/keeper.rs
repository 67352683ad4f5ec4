//! The keeper of the core: one controller behind one short mutex, and those who wait for it.
//!
//! A request holds a [`Seat`] from its offer to its end. Whatever becomes of the request, its seat
//! ends the ask exactly once: settled, or cancelled when it is dropped.

use std::sync::{Mutex, PoisonError};

use flow::{Controller, Settings, Time};

use crate::clock::Clock;

/// The controller and those who wait.
#[derive(Debug)]
pub(crate) struct Keeper {
    clock: Clock,
    state: Mutex<Controller>,
}

// === impl Keeper ===

impl Keeper {
    pub(crate) fn new(settings: Settings, clock: Clock) -> Self {
        Self { clock, state: Mutex::new(Controller::new(settings)) }
    }

    /// Looks at the truth, or tells it something: whatever `act` does, those whom it concerns hear.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Controller, Time) -> T) -> T {
        let now = self.clock.now();
        let mut controller = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut controller, now)
    }
}
