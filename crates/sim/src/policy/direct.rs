//! No queue: every request goes to the next ready engine at once.
//!
//! Requests wait inside the engines, first come, first served. Most deployments run this way, so
//! every other policy is compared with it.

use std::collections::VecDeque;

use flow::Time;

use super::{Decision, EngineId, Failure, Offer, Policy, RefusalReason, RequestId, Spent};
use crate::engine::EngineReading;

/// Round robin over the ready engines, without a queue.
#[derive(Debug, Default)]
pub struct Direct {
    ready: Vec<bool>,
    next: usize,
    decisions: VecDeque<Decision>,
}

// === impl Direct ===

impl Direct {
    /// A policy that knows no engine yet.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn send(&mut self, request: RequestId) {
        let count = self.ready.len();
        let turn = (0..count).map(|step| (self.next + step) % count).find(|&at| self.ready[at]);
        let decision = match turn {
            Some(at) => {
                self.next = at + 1;
                Decision::Send { request, engine: at as EngineId, charged: 0 }
            }
            None => Decision::refuse(request, RefusalReason::NoEngine),
        };
        self.decisions.push_back(decision);
    }
}

impl Policy for Direct {
    fn offer(&mut self, offer: &Offer<'_>, _now: Time) {
        self.send(offer.request);
    }

    fn started(&mut self, _request: RequestId, _now: Time) {}

    fn streamed(&mut self, _request: RequestId, _tokens: u32, _now: Time) {}

    fn ended(&mut self, _request: RequestId, _spent: Spent, _now: Time) {}

    fn gave_up(&mut self, _request: RequestId, _spent: Spent, _now: Time) {}

    fn failed(&mut self, request: RequestId, failure: Failure, _now: Time) {
        if failure == Failure::Untouched {
            self.send(request);
        }
    }

    fn engines(&mut self, ready: &[bool], _now: Time) {
        self.ready.clear();
        self.ready.extend_from_slice(ready);
    }

    fn reading(&mut self, _engine: EngineId, _reading: &EngineReading, _now: Time) {}

    fn next_wake(&self) -> Option<Time> {
        None
    }

    fn wake(&mut self, _now: Time) {}

    fn decide(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }
}
