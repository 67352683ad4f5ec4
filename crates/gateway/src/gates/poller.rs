//! The tasks of the gates: one for each source that must be read, and one that ends latches and
//! pauses.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use flow::Time;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Gates;
use super::error::ReadError;
use super::gate_state::GateState;
use super::kinds::gateway::LocalLoad;
use super::kinds::{PolledSource, Source, TRANSIT};
use super::reading::Reading;
use crate::jitter::Jitter;

/// The longest time that a reading may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

// === impl Gates ===

impl Gates {
    /// Reads all sources, forever.
    pub(crate) async fn poll(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        for at in 0..self.sources.len() {
            tasks.spawn(Arc::clone(&self).follow(at));
        }
        tasks.spawn(self.end_latches());
        while tasks.join_next().await.is_some() {}
    }

    async fn follow(self: Arc<Self>, at: usize) {
        match &self.sources[at] {
            Source::Fixed { .. } | Source::Responses => {}
            Source::Local(local) => self.follow_local(at, local).await,
            Source::Polled(source) => self.follow_polled(at, &mut *source.lock().await).await,
        }
    }

    /// Reads in intervals, and continuously while a refused request waits.
    async fn follow_local(&self, at: usize, local: &LocalLoad) {
        let every = self.settings[at].interval;
        loop {
            let reading = local.read();
            sleep(TRANSIT).await;
            self.record(at, reading);
            let mut refused = pin!(self.refused.notified());
            // A refusal after this line notifies; one before it shows in the flag.
            refused.as_mut().enable();
            if self.states()[at].has_refused {
                continue;
            }
            tokio::select! {
                () = sleep(every.saturating_sub(TRANSIT)) => {}
                () = refused => {}
            }
        }
    }

    async fn follow_polled(&self, at: usize, source: &mut dyn PolledSource) {
        let settings = &self.settings[at];
        let mut jitter = Jitter::new(at as u64 + 1);
        let limit = settings.valid_for().min(READ_TIMEOUT);
        loop {
            let next = Instant::now() + jitter.around(settings.interval);
            let reading = timeout(limit, source.read()).await;
            let timed_out = |_| Err(ReadError::Timeout(limit));
            let reading = reading.unwrap_or_else(timed_out);
            sleep(TRANSIT).await;
            self.record(at, reading);
            sleep_until(next).await;
        }
    }

    /// Records a reading. The first error is logged, and so is the recovery.
    fn record(&self, at: usize, reading: Result<Reading, ReadError>) {
        let now = self.clock.now();
        let mut states = self.states();
        let change = states[at].record(reading);
        self.refresh(at, &mut states[at], now);
        // Only a gate that has refused a request needs to notify.
        let has_room = states[at].open_room(now).is_some_and(|room| room > 0);
        let open = has_room && std::mem::take(&mut states[at].has_refused);
        drop(states);
        if let Some(change) = change {
            change.log(&self.settings[at].name);
        }
        if open {
            self.open();
        }
    }

    /// Notifies that a gate may have opened.
    pub(super) fn open(&self) {
        // All current waiters, and the next one.
        self.opened.notify_waiters();
        self.opened.notify_one();
    }

    /// Notifies when a latch or a pause ends.
    pub(super) async fn end_latches(self: Arc<Self>) {
        loop {
            let now = self.clock.now();
            let ends = self.states().iter().map(GateState::opens_at).collect();
            let next = soonest(ends, now);
            let end = async {
                match next {
                    Some(time) => sleep_until(self.clock.instant(time)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = end => self.open(),
                () = self.latched.notified() => {}
            }
        }
    }
}

/// The first of these moments in the future.
fn soonest(moments: Vec<Time>, now: Time) -> Option<Time> {
    moments.into_iter().filter(|&moment| moment > now).min()
}
