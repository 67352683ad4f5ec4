//! The tasks that look, one for each source that must be looked at, and one that ends latches and
//! rests.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use flow::Time;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Gates;
use super::gate_state::{GateState, ReadabilityChange};
use super::local_load::LocalLoad;
use super::reading::Reading;
use super::source::{Remote, Source, TRANSIT};
use crate::jitter::Jitter;

/// A look takes no longer than this.
const PATIENCE: Duration = Duration::from_secs(5);

// === impl Gates ===

impl Gates {
    /// Looks at everything, again and again, for ever.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        for at in 0..self.sources.len() {
            tasks.spawn(Arc::clone(&self).follow(at));
        }
        tasks.spawn(self.end_latches());
        while tasks.join_next().await.is_some() {}
    }

    async fn follow(self: Arc<Self>, at: usize) {
        match &self.sources[at] {
            Source::Constant(..) | Source::Answers => {}
            Source::LocalLoad(local) => self.follow_local(at, local).await,
            Source::Remote(remote) => self.follow_remote(at, &mut *remote.lock().await).await,
        }
    }

    /// Looks now and then, and all the time while somebody who was turned away waits.
    async fn follow_local(&self, at: usize, local: &LocalLoad) {
        let every = self.settings[at].interval;
        loop {
            let reading = local.read();
            sleep(TRANSIT).await;
            self.record(at, reading);
            let mut wanted = pin!(self.refused.notified());
            // Whoever is turned away after this is heard, and before this is seen.
            wanted.as_mut().enable();
            if self.states()[at].wanted {
                continue;
            }
            tokio::select! {
                () = sleep(every.saturating_sub(TRANSIT)) => {}
                () = wanted => {}
            }
        }
    }

    async fn follow_remote(&self, at: usize, remote: &mut Remote) {
        let settings = &self.settings[at];
        let mut jitter = Jitter::new(at as u64 + 1);
        let patience = settings.stale_after.min(PATIENCE);
        loop {
            let next = Instant::now() + jitter.around(settings.interval);
            let reading = timeout(patience, remote.read()).await;
            let late = |_| Err(format!("no answer within {:.1} s", patience.as_secs_f64()));
            let reading = reading.unwrap_or_else(late);
            sleep(TRANSIT).await;
            self.record(at, reading);
            sleep_until(next).await;
        }
    }

    /// Takes what a look gave. What goes wrong is said once, and so is that it is well again.
    fn record(&self, at: usize, reading: Result<Reading, String>) {
        let (name, now) = (&self.settings[at].name, self.clock.now());
        let mut states = self.states();
        let news = states[at].record(reading);
        self.refresh(at, &mut states[at], now);
        // Whoever was not turned away by this gate has nothing to hear of it.
        let open = states[at].room(now) > 0 && std::mem::take(&mut states[at].wanted);
        drop(states);
        match news {
            Some(ReadabilityChange::Readable) => {
                tracing::info!(gate = %name, "the gate can be read again")
            }
            Some(ReadabilityChange::Unreadable(why)) => {
                tracing::warn!(gate = %name, "the gate cannot be read, nothing goes: {why}");
            }
            None => {}
        }
        if open {
            self.open();
        }
    }

    /// Tells whoever waits that something may have opened.
    pub(super) fn open(&self) {
        // All who wait, and one who is about to.
        self.opened.notify_waiters();
        self.opened.notify_one();
    }

    /// Says when a latch or a rest ends by time alone.
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

/// The first of these moments that is to come.
fn soonest(moments: Vec<Time>, now: Time) -> Option<Time> {
    moments.into_iter().filter(|&moment| moment > now).min()
}
