//! Receives messages ahead of the claims, so that some are here when there is room for them.

use std::time::Duration;

use super::{PubSubStore, Queue};
use crate::error::StoreError;

/// The pause after a response without messages: some servers respond at once.
const EMPTY_PAUSE: Duration = Duration::from_millis(100);
/// The pause after a failure, at first and at most.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(10);

// === impl PubSubStore ===

impl PubSubStore {
    /// Receives the messages of a queue until [`Store::close`](crate::Store::close). The owner of
    /// the store runs this for each queue, beside its dispatcher.
    pub async fn receive(&self, queue: &str) {
        let Some(queue) = self.queue(queue) else { return };
        let mut pause = PAUSE;
        loop {
            let demand = queue.demand.notified();
            let (wanted, closed) = {
                let held = queue.held();
                (held.wanted(), held.closed)
            };
            match wanted {
                _ if closed => return,
                0 => {
                    // An old error must not keep the messages that are here.
                    queue.held().trouble = None;
                    demand.await;
                }
                wanted => pause = self.receive_some(queue, wanted, pause).await,
            }
        }
    }

    /// Receives once; returns the pause after the next failure.
    async fn receive_some(&self, queue: &Queue, wanted: usize, pause: Duration) -> Duration {
        match self.fetch(&queue.name, wanted, false).await {
            Ok(0) => {
                tokio::time::sleep(EMPTY_PAUSE).await;
                PAUSE
            }
            Ok(_) => PAUSE,
            Err(error) => {
                queue.held().trouble = Some(error);
                self.changed.notify_waiters();
                tokio::time::sleep(pause).await;
                (pause * 2).min(PAUSE_MAX)
            }
        }
    }

    /// Receives at most this many messages; returns how many came.
    pub(crate) async fn fetch(
        &self,
        queue: &str,
        max: usize,
        return_immediately: bool,
    ) -> Result<usize, StoreError> {
        let Some(queue) = self.queue(queue) else { return Ok(0) };
        let name = &queue.subscription;
        let pulled = self.calls.pull(name, max, return_immediately).await;
        let received = pulled.map_err(|error| error.about(name))?;
        let count = received.len();
        let closed = {
            let mut held = queue.held();
            held.trouble = None;
            if !held.closed {
                held.inbox.extend_from_slice(&received);
            }
            held.closed
        };
        if closed {
            let ack_ids: Vec<String> = received.into_iter().map(|message| message.ack_id).collect();
            self.extend_by(queue, &ack_ids, 0).await?;
        }
        if count > 0 {
            self.changed.notify_waiters();
        }
        Ok(count)
    }
}
