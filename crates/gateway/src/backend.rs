//! The model servers: which there are, what they serve, how they are.
//!
//! Requests see an immutable [`Roster`]; nothing on their way takes a lock here. The fleet's own
//! task watches the servers, replaces the roster and tells the keeper what there is.

mod roster;

pub(crate) use roster::{Lookup, Roster, Upstream};

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use flow::BackendId;

/// How one attempt at a backend went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It began an answer that is no fault of its own.
    Answered,
    /// It is not there: the connection was refused.
    Refused,
    /// It failed before the first byte of an answer: reset, timeout, 5xx.
    Failed,
    /// It said that it is full (429, 503), perhaps until when.
    Full(Option<Duration>),
}

/// All model servers.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    roster: ArcSwap<Roster>,
}

// === impl Fleet ===

impl Fleet {
    /// What there is now.
    pub(crate) fn roster(&self) -> arc_swap::Guard<Arc<Roster>> {
        self.roster.load()
    }

    /// Takes note of how an attempt went. `Answered` is the common case and costs next to nothing.
    pub(crate) fn report(&self, backend: BackendId, attempt: Attempt) {
        let _ = (backend, attempt);
    }
}
