//! What will happen, in order of time and then of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flow::Time;

use crate::policy::{EngineId, RequestId};

/// One thing that will happen. Small, because the heap moves them about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The next request of a source arrives.
    Arrive(u32),
    /// The client of a request loses patience, if it has no first token by then.
    GiveUp(RequestId),
    /// A request reaches its engine.
    Submit(RequestId, EngineId),
    /// Word that nobody wants a request any more reaches its engine.
    Abort(RequestId, EngineId),
    /// The tokens of one step reach the gateway.
    Tokens(u32),
    /// Word that an engine has failed a request reaches the gateway.
    Fail(RequestId),
    /// Word that an engine can never serve a request reaches the gateway.
    Reject(RequestId),
    /// The gateway learns whether an engine takes requests.
    Ready(EngineId, bool),
    /// Something goes wrong, by its number in the setup.
    Fault(u32),
    /// Engines are asked what they say of themselves.
    Scrape,
    /// The oldest answer to that reaches the gateway.
    Reading,
    /// The part of the run that counts begins.
    Begin,
    /// The state of the world is written down.
    Sample,
}

/// The heap of what will happen.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    added: u64,
}

// === impl EventQueue ===

impl EventQueue {
    pub(super) fn add(&mut self, at: Time, event: Event) {
        self.added += 1;
        self.heap.push(Reverse((at, self.added, event)));
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|&Reverse((at, ..))| at)
    }

    pub(super) fn pop(&mut self) -> Option<(Time, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
