//! Receives messages ahead of the claims, so that some are here when there is room for them.

use std::time::Duration;

use super::{PubSubStore, Queue, admit};
use crate::error::StoreError;
use crate::moment::Moment;

/// The pause after a response without messages: some servers respond at once.
const EMPTY_PAUSE: Duration = Duration::from_millis(100);
/// The pause after a failure, at first and at most.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(10);

// === impl PubSubStore ===

impl PubSubStore {
    /// Receives the messages of a queue until [`Store::close`](crate::Store::close). The owner of
    /// the store runs this for each queue, beside its dispatcher. `clock` tells the moment.
    pub async fn receive(&self, queue: &str, clock: impl Fn() -> Moment + Sync) {
        let Some(queue) = self.queue(queue) else { return };
        let mut pause = PAUSE;
        loop {
            let demand = queue.demand.notified();
            let (wanted, is_left, closed) = {
                let held = queue.held();
                (held.wanted(), !held.inbox.is_empty(), held.closed)
            };
            match wanted {
                _ if closed => return,
                0 if !is_left => {
                    // An old error must not keep the messages that are here.
                    queue.held().trouble = None;
                    demand.await;
                }
                wanted => {
                    // What could not be admitted goes first: nothing else keeps it.
                    let received = match is_left {
                        true => self.take_in(queue, clock()).await,
                        false => self.fetch(&queue.name, wanted, false, &clock).await,
                    };
                    pause = self.rest(queue, received, pause).await;
                }
            }
        }
    }

    /// Pauses after a call as its outcome needs; returns the pause after the next failure.
    async fn rest(
        &self,
        queue: &Queue,
        received: Result<usize, StoreError>,
        pause: Duration,
    ) -> Duration {
        match received {
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

    /// Receives at most this many messages, and keeps them from then on: no verb may come before
    /// the deadline of the subscription while all workers are busy. Returns how many came.
    pub(crate) async fn fetch(
        &self,
        queue: &str,
        max: usize,
        return_immediately: bool,
        clock: impl Fn() -> Moment,
    ) -> Result<usize, StoreError> {
        let Some(queue) = self.queue(queue) else { return Ok(0) };
        let name = &queue.subscription;
        let pulled = self.calls.pull(name, max, return_immediately).await;
        let received = pulled.map_err(|error| error.about(name))?;
        let closed = {
            let mut held = queue.held();
            if !held.closed {
                held.inbox.extend_from_slice(&received);
            }
            held.closed
        };
        if closed {
            let ack_ids: Vec<String> = received.into_iter().map(|message| message.ack_id).collect();
            self.extend_by(queue, &ack_ids, 0).await?;
            return Ok(0);
        }
        self.take_in(queue, clock()).await
    }

    /// Admits what was received; returns how many messages these were.
    async fn take_in(&self, queue: &Queue, now: Moment) -> Result<usize, StoreError> {
        let count = admit::admit(self, queue, now).await?;
        queue.held().trouble = None;
        if count > 0 {
            self.changed.notify_waiters();
        }
        Ok(count)
    }
}
