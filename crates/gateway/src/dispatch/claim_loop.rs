//! The claim loop: claims as many messages as may go now, in fair order.

mod sending;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use store::{Lane, StoreError};
use tokio::time::Instant;

use self::sending::WaitingClaim;
use super::target::lock;
use super::turns::Turns;
use super::{Dispatcher, ServedQueue};
use crate::clock::moment;
use crate::task;

/// The most messages claimed in one call of the store.
const CLAIM_MAX: usize = 64;
/// The longest pause between two looks at the store: producers of a shared store send no
/// notification.
const REST_MAX: Duration = Duration::from_secs(1);
/// The pause after an error of the store.
const ERROR_PAUSE: Duration = Duration::from_millis(500);
/// The longest time between two searches for expired claims.
const RECLAIM_MAX: Duration = Duration::from_secs(5);

/// The time limit of a shutdown with no claims while the store is unavailable.
const SHUTDOWN_MIN: Duration = Duration::from_millis(500);
/// The time limit of every shutdown.
const SHUTDOWN_MAX: Duration = Duration::from_secs(4);

/// The state of the loop between two iterations.
#[derive(Debug)]
struct ClaimLoop {
    dispatcher: Arc<Dispatcher>,
    turns: Turns,
    /// For each queue, a claimed message that its gates do not allow yet.
    waiting_at_gate: Vec<Option<WaitingClaim>>,
    /// The time of the next search for expired claims.
    reclaim_at: Instant,
}

// === impl Dispatcher ===

impl Dispatcher {
    /// Sends messages until `closing` resolves, then releases all claims.
    pub(crate) async fn run(self: Arc<Self>, closing: impl Future<Output = ()> + Send + 'static) {
        let told = Arc::clone(&self);
        task::spawn(async move {
            closing.await;
            told.closing.send_replace(true);
        });
        tokio::select! {
            () = Arc::clone(&self).work() => {}
            () = self.overdue() => {
                let messages = self.claims().len();
                if !self.has_nothing_to_lose() {
                    tracing::warn!(messages, "the shutdown took too long; messages that were \
                                              not released are pending when their lease expires");
                }
            }
        }
    }

    async fn work(self: Arc<Self>) {
        self.join().await;
        task::spawn(Arc::clone(&self).keep_leases());
        ClaimLoop::new(Arc::clone(&self)).run().await;
        self.release_all().await;
        // What is not given back comes to other dispatchers when its lease ends.
        let _ = tokio::time::timeout(SHUTDOWN_MIN, self.store.close()).await;
        // Without this call, the other dispatchers notice after a while.
        let _ = tokio::time::timeout(SHUTDOWN_MIN, self.leave()).await;
    }

    /// Resolves when the shutdown has taken too long.
    async fn overdue(&self) {
        self.closed().await;
        tokio::time::sleep(SHUTDOWN_MIN).await;
        if !self.has_nothing_to_lose() {
            tokio::time::sleep(SHUTDOWN_MAX - SHUTDOWN_MIN).await;
        }
    }

    /// Whether the store is unavailable while no message is claimed.
    fn has_nothing_to_lose(&self) -> bool {
        self.claims().is_empty() && self.store_error().is_some()
    }
}

// === impl ClaimLoop ===

impl ClaimLoop {
    fn new(dispatcher: Arc<Dispatcher>) -> Self {
        Self {
            turns: Turns::new(&dispatcher.queues),
            waiting_at_gate: dispatcher.queues.iter().map(|_| None).collect(),
            dispatcher,
            reclaim_at: Instant::now(),
        }
    }

    async fn run(mut self) {
        let dispatcher = Arc::clone(&self.dispatcher);
        let mut look = true;
        while !dispatcher.is_closing() {
            // Taken before the iteration, so that a change during it ends the pause below.
            let changed = dispatcher.store.changed();
            let started = match self.run_once(look).await {
                Ok(started) => started,
                Err(error) => {
                    self.store_failed(&error);
                    tokio::time::sleep(ERROR_PAUSE).await;
                    continue;
                }
            };
            self.store_recovered();
            if started > 0 {
                continue;
            }
            let due = moment_left(dispatcher.next_due.load(Ordering::Relaxed));
            let rest = self.reclaim_at.min(Instant::now() + due.min(REST_MAX));
            look = tokio::select! {
                () = changed => true,
                () = dispatcher.gates.changed() => false,
                () = dispatcher.freed.notified() => false,
                () = dispatcher.closed() => false,
                () = tokio::time::sleep_until(rest) => true,
            };
        }
    }

    /// Sends all messages that may go now and returns their number. If the gates are closed, it
    /// reads the store only if the store may have changed: some gates notify often, and a read
    /// costs more than a notification.
    async fn run_once(&mut self, look: bool) -> Result<usize, StoreError> {
        self.reclaim().await?;
        let ended = self.end_waiting_at_gates();
        if self.workers() == 0 || !(look || self.has_room()) {
            return Ok(ended);
        }
        let mut lanes = self.lanes().await?;
        self.yield_to_earlier(&lanes).await;
        self.dispatcher.restrain(&mut lanes);
        Ok(ended + self.send(&lanes).await?)
    }

    async fn reclaim(&mut self) -> Result<(), StoreError> {
        let dispatcher = Arc::clone(&self.dispatcher);
        let next_due = &dispatcher.next_due;
        if Instant::now() < self.reclaim_at
            && !moment_left(next_due.load(Ordering::Relaxed)).is_zero()
        {
            return Ok(());
        }
        // Messages that are released during this call are due later, or found by it.
        next_due.store(u64::MAX, Ordering::Relaxed);
        let mut pause = RECLAIM_MAX;
        for served in &dispatcher.queues {
            if !dispatcher.is_usable(served).await? {
                continue;
            }
            let now = moment();
            let reclaimed = dispatcher.store.reclaim(&served.queue.name, now).await;
            let Some(reclaimed) = dispatcher.of_queue(served, reclaimed).await? else { continue };
            served.metrics.reclaimed(reclaimed.lost);
            if reclaimed.lost > 0 {
                let queue = &served.queue.name;
                tracing::warn!(
                    queue,
                    claims = reclaimed.lost,
                    "leases expired, the messages are pending again"
                );
            }
            if let Some(next) = reclaimed.next {
                // The minimum prevents a busy loop on a lease that expires during this call.
                pause = pause.min(next.since(now).max(Duration::from_millis(10)));
            }
        }
        self.reclaim_at = Instant::now() + pause;
        Ok(())
    }

    /// Whether the gates of some queue allow a message.
    fn has_room(&self) -> bool {
        let rooms = self.dispatcher.gates.rooms();
        let of_queue = |served: &ServedQueue| rooms.of(&served.gates);
        self.dispatcher.queues.iter().filter_map(of_queue).any(|room| room > 0)
    }

    /// The lanes of each queue.
    async fn lanes(&self) -> Result<Vec<(usize, Vec<Lane>)>, StoreError> {
        let mut all = Vec::new();
        for (at, served) in self.dispatcher.queues.iter().enumerate() {
            if !self.dispatcher.is_usable(served).await? {
                continue;
            }
            let lanes = self.dispatcher.store.lanes(&served.queue.name, moment()).await;
            let lanes = self.dispatcher.of_queue(served, lanes).await?;
            all.extend(lanes.filter(|lanes| !lanes.is_empty()).map(|lanes| (at, lanes)));
        }
        Ok(all)
    }

    /// The workers that may send: free ones, and those of messages that wait at gates.
    fn workers(&self) -> usize {
        self.free_workers() + self.waiting_at_gate.iter().flatten().count()
    }

    fn free_workers(&self) -> usize {
        self.dispatcher.settings.workers.saturating_sub(self.dispatcher.claims().len())
    }

    fn store_failed(&self, error: &StoreError) {
        let mut store_error = lock(&self.dispatcher.store_error);
        if store_error.replace(error.to_string()).is_none() {
            tracing::error!(%error, "the store is unavailable, trying again");
        }
    }

    fn store_recovered(&self) {
        if lock(&self.dispatcher.store_error).take().is_some() {
            tracing::info!("the store is available again");
        }
    }
}

/// The time until a moment in milliseconds since 1970.
fn moment_left(millis: u64) -> Duration {
    Duration::from_millis(millis.saturating_sub(moment().millis()))
}
