//! The events to come, in order of time and then of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flow::Time;

use crate::policy::{EngineId, RequestId};

/// One event. Small, because the heap moves events about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The next request of a source arrives.
    Arrive(u32),
    /// The client of a request loses patience, if it has no first token by then.
    GiveUp(RequestId),
    /// A request reaches its engine.
    Submit(RequestId, EngineId),
    /// The cancellation of a request reaches its engine.
    Abort(RequestId, EngineId),
    /// The tokens of one step reach the gateway.
    Tokens(u32),
    /// The failure of a request at its engine reaches the gateway.
    Fail(RequestId),
    /// The rejection of a request by its engine reaches the gateway.
    Reject(RequestId),
    /// The gateway learns whether an engine takes requests.
    Ready(EngineId, bool),
    /// An engine has started; the number tells its start from others.
    Started(EngineId, u32),
    /// The autoscaler looks at its signal.
    Look,
    /// A fault, by its number in the setup.
    Fault(u32),
    /// The engines' metrics are read.
    Scrape,
    /// The oldest reading reaches the gateway.
    Reading,
    /// The part of the run that counts begins.
    Begin,
    /// The state of the world is written down.
    Sample,
}

/// The heap of events.
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
