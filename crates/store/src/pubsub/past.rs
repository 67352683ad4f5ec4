//! What this process remembers of messages that it no longer holds.
//!
//! Pub/Sub may deliver a message again although it was acknowledged. Such a message is not sent
//! again while this process remembers it.

use std::collections::{BTreeMap, VecDeque};

/// The most messages that are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Past {
    messages: BTreeMap<String, PastMessage>,
    /// Their ids, in the order in which they are forgotten.
    order: VecDeque<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PastMessage {
    has_ended: bool,
    failures: u32,
}

// === impl Past ===

impl Past {
    /// Remembers that a message has its result.
    pub(super) fn ended(&mut self, id: &str) {
        self.entry(id).has_ended = true;
    }

    /// Remembers how often a message failed.
    pub(super) fn failed(&mut self, id: &str, failures: u32) {
        self.entry(id).failures = failures;
    }

    /// Whether a message has its result.
    pub(super) fn has_ended(&self, id: &str) -> bool {
        self.messages.get(id).is_some_and(|past| past.has_ended)
    }

    /// How often a message failed.
    pub(super) fn failures(&self, id: &str) -> u32 {
        self.messages.get(id).map_or(0, |past| past.failures)
    }

    fn entry(&mut self, id: &str) -> &mut PastMessage {
        if !self.messages.contains_key(id) {
            self.order.push_back(id.to_owned());
            if self.order.len() > REMEMBERED_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.messages.remove(&oldest);
            }
        }
        self.messages.entry(id.to_owned()).or_default()
    }
}
