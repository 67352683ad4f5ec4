//! Bounds the handshakes that run at the same time.
//!
//! A handshake holds memory before the client has proved anything. When too many run, a new one
//! takes the place of the oldest. An honest client needs a few round trips, so clients that
//! connect and say nothing displace each other, and do not keep others out.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The handshakes that run.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    running: Mutex<RunningHandshakes>,
}

#[derive(Debug, Default)]
struct RunningHandshakes {
    last: u64,
    /// By their order. A handshake ends when its sender is dropped.
    senders: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One handshake that runs.
#[derive(Debug)]
pub(crate) struct Handshake<'a> {
    handshakes: &'a Handshakes,
    number: u64,
    receiver: oneshot::Receiver<()>,
}

// === impl Handshakes ===

impl Handshakes {
    /// Begins a handshake, and ends the oldest one if `most` run already.
    pub(crate) fn begin(&self, most: usize) -> Handshake<'_> {
        let (sender, receiver) = oneshot::channel();
        let mut running = self.running();
        while running.senders.len() >= most.max(1) {
            running.senders.pop_first();
        }
        running.last += 1;
        let number = running.last;
        running.senders.insert(number, sender);
        Handshake { handshakes: self, number, receiver }
    }

    fn running(&self) -> MutexGuard<'_, RunningHandshakes> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Handshake ===

impl Handshake<'_> {
    /// Resolves when a newer handshake has taken the place of this one.
    pub(crate) async fn displaced(&mut self) {
        // Nothing is ever sent: the sender is dropped.
        let _ = (&mut self.receiver).await;
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        self.handshakes.running().senders.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn x04_the_oldest_handshake_makes_room() {
        let handshakes = Handshakes::default();
        let mut first = handshakes.begin(2);
        let second = handshakes.begin(2);
        assert!(first.receiver.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        let mut third = handshakes.begin(2);
        first.displaced().await;
        drop(second);
        drop(first);
        let _fourth = handshakes.begin(2);
        assert!(third.receiver.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        assert_eq!(handshakes.running().senders.len(), 2);
    }
}
