//! A future that is polled again only after its own waker was called.
//!
//! A connection's task is woken several times for every request. Polling the shutdown signal each
//! time takes a lock, for something that happens once. So the signal gets a waker of its own.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// See the module's description. It must stay in the task that polled it first.
pub(super) struct LazyWaker<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
    waker: Waker,
}

/// Wakes the task, and remembers that it was called.
struct Bell {
    rung: AtomicBool,
    task: Mutex<Option<Waker>>,
}

// === impl LazyWaker ===

impl<F> LazyWaker<F> {
    pub(super) fn new(future: F) -> Self {
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), task: Mutex::default() });
        Self { future: Box::pin(future), waker: Waker::from(Arc::clone(&bell)), bell }
    }
}

impl<F: Future> Future for LazyWaker<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        if !this.bell.rung.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        *this.bell.task.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(context.waker().clone());
        // Before the poll: a wake from now on leads to the next one.
        this.bell.rung.store(false, Ordering::Release);
        this.future.as_mut().poll(&mut Context::from_waker(&this.waker))
    }
}

// === impl Bell ===

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_is_polled_again_only_when_it_has_called() {
        let mut polls = 0;
        let (tell, mut told) = oneshot::channel::<()>();
        let counted = std::future::poll_fn(|context| {
            polls += 1;
            Pin::new(&mut told).poll(context)
        });
        let mut lazy = LazyWaker::new(counted);
        for _ in 0..5 {
            assert!(futures_now(&mut lazy).await.is_pending());
        }
        tell.send(()).unwrap();
        (&mut lazy).await.unwrap();
        drop(lazy);
        assert_eq!(polls, 2);
    }

    /// One poll in the task that asks.
    async fn futures_now<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
    }
}
