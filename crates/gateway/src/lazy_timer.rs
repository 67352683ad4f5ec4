//! A timer for deadlines that are nearly always met.
//!
//! Every request sets deadlines, and few are ever reached. Setting the runtime's timer for each
//! would be most of their cost. So the timer keeps its first deadline, fires too early for a later
//! one, and is set again only then.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::time::{Instant, Sleep};

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct LazyTimer {
    set: Option<Set>,
}

#[derive(Debug)]
struct Set {
    timer: Pin<Box<Sleep>>,
    /// The waker that it calls.
    waker: Waker,
}

// === impl LazyTimer ===

impl LazyTimer {
    /// Ready at `due`; the task is woken no later than that.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, due: Instant) -> Poll<()> {
        let set = self.set.get_or_insert_with(|| Set {
            timer: Box::pin(tokio::time::sleep_until(due)),
            waker: Waker::noop().clone(),
        });
        if set.rings_for(context.waker(), due) {
            return Poll::Pending;
        }
        set.poll(context, due)
    }

    /// The output of `work`, if it comes before `due`.
    pub(crate) async fn within<T>(
        &mut self,
        due: Instant,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll(context, due).map(|()| None),
        })
        .await
    }
}

// === impl Set ===

impl Set {
    /// Whether the timer runs, early enough and for this task.
    fn rings_for(&self, waker: &Waker, due: Instant) -> bool {
        self.timer.deadline() <= due && !self.timer.is_elapsed() && self.waker.will_wake(waker)
    }

    fn poll(&mut self, context: &mut Context<'_>, due: Instant) -> Poll<()> {
        self.waker.clone_from(context.waker());
        if self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
        let rung = self.ring(context);
        if rung.is_pending() || self.timer.deadline() == due {
            return rung;
        }
        self.timer.as_mut().reset(due);
        self.ring(context)
    }

    /// Polls the runtime's timer. A task whose budget is used up would not be registered there, and
    /// `rings_for` would trust a timer that never wakes it.
    fn ring(&mut self, context: &mut Context<'_>) -> Poll<()> {
        pin!(tokio::task::unconstrained(self.timer.as_mut())).poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Uses up the budget of a task; it has none left.
    fn use_up_budget(context: &mut Context<'_>) -> bool {
        while pin!(tokio::task::consume_budget()).poll(context).is_ready() {}
        false
    }

    #[tokio::test(start_paused = true)]
    async fn it_fires_when_it_is_due_after_any_earlier_setting() {
        let mut timer = LazyTimer::default();
        for seconds in [10, 60, 5, 5, 600] {
            let began = Instant::now();
            let due = began + Duration::from_secs(seconds);
            poll_fn(|context| timer.poll(context, due)).await;
            assert_eq!(began.elapsed().as_secs(), seconds);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_moves_on_or_back_while_it_runs_is_kept() {
        for (first, second) in [(10, 60), (60, 10), (10, 10)] {
            let mut timer = LazyTimer::default();
            let began = Instant::now();
            let due = |seconds| began + Duration::from_secs(seconds);
            let once = poll_fn(|context| Poll::Ready(timer.poll(context, due(first)))).await;
            assert!(once.is_pending());
            poll_fn(|context| timer.poll(context, due(second))).await;
            assert_eq!(began.elapsed().as_secs(), second);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_ends_in_time_is_reported_before_the_timer() {
        let mut timer = LazyTimer::default();
        let due = |seconds| Instant::now() + Duration::from_secs(seconds);
        let work = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        assert_eq!(timer.within(due(10), work(9)).await, Some(()));
        assert_eq!(timer.within(due(10), work(11)).await, None);
        assert_eq!(timer.within(due(10), work(9)).await, Some(()));
    }

    /// A task that writes much has no budget left when it sets its timer.
    #[tokio::test(start_paused = true)]
    async fn x03_it_fires_for_a_task_whose_budget_is_used_up() {
        let mut timer = LazyTimer::default();
        let due = Instant::now() + Duration::from_secs(4);
        let mut is_busy = true;
        let fires = poll_fn(|context| {
            is_busy = is_busy && use_up_budget(context);
            timer.poll(context, due)
        });
        let fired = tokio::time::timeout(Duration::from_secs(600), fires).await;
        assert_eq!((fired, Instant::now()), (Ok(()), due));
    }

    #[tokio::test(start_paused = true)]
    async fn it_wakes_the_task_that_asked_last() {
        let mut timer = LazyTimer::default();
        let due = Instant::now() + Duration::from_secs(10);
        let other = &mut Context::from_waker(Waker::noop());
        assert!(timer.poll(other, due).is_pending());
        poll_fn(|context| timer.poll(context, due)).await;
        assert_eq!(Instant::now(), due);
    }
}
