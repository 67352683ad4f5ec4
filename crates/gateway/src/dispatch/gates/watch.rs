//! The tasks that look, one for each source that must be looked at, and one that ends latches and
//! rests.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use flow::Time;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Gates;
use super::book::{Book, News};
use super::inside::Inside;
use super::look::Look;
use super::source::{Away, Source, TRANSIT};
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
            Source::Inside(inside) => self.follow_inside(at, inside).await,
            Source::Away(away) => self.follow_away(at, &mut *away.lock().await).await,
        }
    }

    /// Looks now and then, and all the time while somebody who was turned away waits.
    async fn follow_inside(&self, at: usize, inside: &Inside) {
        let every = self.specs[at].interval;
        loop {
            let look = inside.look();
            sleep(TRANSIT).await;
            self.tell(at, look);
            let mut wanted = pin!(self.wanted.notified());
            // Whoever is turned away after this is heard, and before this is seen.
            wanted.as_mut().enable();
            if self.books()[at].wanted {
                continue;
            }
            tokio::select! {
                () = sleep(every.saturating_sub(TRANSIT)) => {}
                () = wanted => {}
            }
        }
    }

    async fn follow_away(&self, at: usize, away: &mut Away) {
        let spec = &self.specs[at];
        let mut jitter = Jitter::new(at as u64 + 1);
        let patience = spec.stale_after.min(PATIENCE);
        loop {
            let next = Instant::now() + jitter.around(spec.interval);
            let look = timeout(patience, away.look()).await;
            let late = |_| Err(format!("no answer within {:.1} s", patience.as_secs_f64()));
            let look = look.unwrap_or_else(late);
            sleep(TRANSIT).await;
            self.tell(at, look);
            sleep_until(next).await;
        }
    }

    /// Takes what a look gave. What goes wrong is said once, and so is that it is well again.
    fn tell(&self, at: usize, look: Result<Look, String>) {
        let (name, now) = (&self.specs[at].name, self.clock.now());
        let mut books = self.books();
        let news = books[at].tell(look);
        self.freshen(at, &mut books[at], now);
        // Whoever was not turned away by this gate has nothing to hear of it.
        let open = books[at].room(now) > 0 && std::mem::take(&mut books[at].wanted);
        drop(books);
        match news {
            Some(News::Well) => tracing::info!(gate = %name, "the gate can be read again"),
            Some(News::Ill(why)) => {
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
            let ends = self.books().iter().map(Book::opens_at).collect();
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
