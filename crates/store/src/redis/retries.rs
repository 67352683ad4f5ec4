//! The sorted set of released messages that are not due yet. Several queues may share one set.

use super::envelope::DecodedMessage;
use super::keys::{Keys, Layout};

// === impl Layout ===

impl Layout {
    /// The queue of a message in the set of released messages of `keys`. A message that names no
    /// reachable queue belongs to the queue that found it.
    pub(super) fn home_queue(&self, message: &DecodedMessage, keys: &Keys) -> String {
        let known = Some(&message.queue_id).filter(|name| self.knows(name));
        let named = Some(&message.origin).filter(|name| !name.is_empty()).or(known);
        let reachable = named.filter(|name| self.is_same_slot(&keys.retries, name));
        reachable.unwrap_or(&keys.pending).clone()
    }
}
