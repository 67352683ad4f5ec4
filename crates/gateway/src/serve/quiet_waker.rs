//! Leaves out a wake that hyper gives the task of a connection when a request takes its body.
//!
//! Over HTTP/1 that task runs at the moment, because it polls the request itself. The wake would
//! only poll everything on the connection once more. It is of use where more of the body is to
//! come. Most bodies are whole in their first frame, and hyper has ended its part by then. So the
//! connection gets a waker that is muted while a request takes a frame. Wakes from other threads
//! and at any other moment pass, and so do all wakes over HTTP/2, where requests have tasks of
//! their own.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use http_body::{Body, Frame};

thread_local! {
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Outside) };
}

/// What this thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It polls no connection.
    Outside,
    /// It polls a connection.
    Inside,
    /// It takes a frame there, and there was no wake, or there was one.
    Muted,
    Swallowed,
}

/// What the poll of a body returns.
type PolledFrame<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

/// The waker of a connection. It must stay in the task that used it first.
#[derive(Default)]
pub(super) struct QuietWaker(Option<Waker>);

/// Wakes the task, unless it is muted.
struct TaskWaker(Waker);

/// Sets the phase of this thread until it is dropped.
struct PhaseGuard {
    before: Phase,
}

// === impl QuietWaker ===

impl QuietWaker {
    /// Polls the connection.
    pub(super) fn poll<F: Future>(
        &mut self,
        connection: Pin<&mut F>,
        context: &Context<'_>,
    ) -> Poll<F::Output> {
        let waker =
            self.0.get_or_insert_with(|| Arc::new(TaskWaker(context.waker().clone())).into());
        let _inside = PhaseGuard::enter(Phase::Inside);
        connection.poll(&mut Context::from_waker(waker))
    }
}

/// Polls the next frame of a body, without a wake if the body is whole with it.
pub(super) fn poll_frame<B: Body + Unpin>(
    body: &mut B,
    context: &mut Context<'_>,
) -> PolledFrame<B> {
    if PHASE.get() != Phase::Inside {
        return Pin::new(body).poll_frame(context);
    }
    let muted = PhaseGuard::enter(Phase::Muted);
    let frame = Pin::new(&mut *body).poll_frame(context);
    let was_woken = PHASE.get() == Phase::Swallowed;
    drop(muted);
    if was_woken && !(frame.is_ready() && body.is_end_stream()) {
        context.waker().wake_by_ref();
    }
    frame
}

// === impl TaskWaker ===

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match PHASE.get() {
            Phase::Outside | Phase::Inside => self.0.wake_by_ref(),
            Phase::Muted | Phase::Swallowed => PHASE.set(Phase::Swallowed),
        }
    }
}

// === impl PhaseGuard ===

impl PhaseGuard {
    fn enter(phase: Phase) -> Self {
        Self { before: PHASE.replace(phase) }
    }
}

impl Drop for PhaseGuard {
    fn drop(&mut self) {
        PHASE.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;

    use super::*;

    /// A body that wakes the connection when a frame is taken, as hyper's does.
    struct WakingBody {
        connection: Waker,
        frames: usize,
    }

    /// The task of a connection, which counts its wakes.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Body for WakingBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.connection.wake_by_ref();
            let Some(left) = self.frames.checked_sub(1) else { return Poll::Pending };
            self.frames = left;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"part")))))
        }

        fn is_end_stream(&self) -> bool {
            self.frames == 0
        }
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The wakes of a task that polls a connection, which does `act` with its own context.
    fn wakes(act: impl Fn(&mut Context<'_>)) -> usize {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut connection = pin!(poll_fn(|context| {
            act(context);
            Poll::<()>::Pending
        }));
        let polled = QuietWaker::default().poll(connection.as_mut(), &Context::from_waker(&waker));
        assert!(polled.is_pending());
        task.0.load(Ordering::Relaxed)
    }

    fn take_frame(frames: usize, context: &mut Context<'_>) {
        let mut body = WakingBody { connection: context.waker().clone(), frames };
        let _ = poll_frame(&mut body, context);
    }

    #[test]
    fn x03_a_body_that_is_whole_wakes_its_connection_not_once_more() {
        assert_eq!(wakes(|context| take_frame(1, context)), 0);
    }

    #[test]
    fn x03_a_body_of_which_more_is_to_come_wakes_its_connection() {
        assert_eq!(wakes(|context| take_frame(2, context)), 1);
        assert_eq!(wakes(|context| take_frame(0, context)), 1);
    }

    #[test]
    fn x03_every_other_wake_passes() {
        assert_eq!(wakes(|context| context.waker().wake_by_ref()), 1);
        let before_and_after = |context: &mut Context<'_>| {
            context.waker().wake_by_ref();
            take_frame(1, context);
            context.waker().wake_by_ref();
        };
        assert_eq!(wakes(before_and_after), 2);
        let from_another_thread = |context: &mut Context<'_>| {
            let waker = context.waker().clone();
            let muted = PhaseGuard::enter(Phase::Muted);
            std::thread::spawn(move || waker.wake()).join().unwrap();
            drop(muted);
        };
        assert_eq!(wakes(from_another_thread), 1);
    }

    #[test]
    fn x03_a_request_with_a_task_of_its_own_mutes_no_connection() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::new(TaskWaker(Waker::from(Arc::clone(&task)))));
        take_frame(1, &mut Context::from_waker(&waker));
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
    }
}
