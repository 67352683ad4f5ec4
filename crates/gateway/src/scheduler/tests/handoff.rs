//! C01: the hand-off of a grant to a waiting request, in every order of its steps.
//!
//! The code under test is the real scheduler, with the real core and the real channels. Its calls
//! are atomic under one mutex. The outcomes of requests that waited are delivered one by one after
//! the mutex is released, so other calls may come between. The test holds the deliveries back and
//! tries every order of: the end of the running request, each delivery, each poll of a waiting
//! request, its cancellation, its end, and the shutdown. In each order no place is lost, no grant
//! is given twice and no request that can be woken sleeps.
//!
//! That the mutex excludes and that a channel delivers once is assumed here; the test with threads
//! at the end runs on both.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use super::*;

/// The requests that wait behind one that runs.
const WAITING: usize = 2;

/// A step of one of the parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// The running request ends, and its place is free.
    EndFirst,
    /// The oldest outcome that is held back is delivered.
    Deliver,
    /// A waiting request is polled.
    Poll(usize),
    /// The client of a waiting request leaves.
    Cancel(usize),
    /// A request that was granted ends.
    End(usize),
    /// The process begins to shut down.
    Close,
}

/// Counts its wake-ups.
#[derive(Debug, Default)]
struct Woken(AtomicUsize);

/// A waiting request, as its task sees it.
struct Waiter {
    permit: Option<Permit>,
    woken: Arc<Woken>,
    granted: bool,
    refused: bool,
    cancelled: bool,
}

/// One order of steps, from the beginning.
struct Story {
    scheduler: Arc<Scheduler>,
    first: Option<Permit>,
    waiters: Vec<Waiter>,
    closed: bool,
}

// === impl Woken ===

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

// === impl Waiter ===

impl Waiter {
    fn new(permit: Permit) -> Self {
        let woken = Arc::new(Woken::default());
        Self { permit: Some(permit), woken, granted: false, refused: false, cancelled: false }
    }

    fn waits(&self) -> bool {
        !self.granted && !self.refused && !self.cancelled
    }

    /// Whether a poll can change anything: there was none yet, or a wake-up came after it.
    fn has_news(&self) -> bool {
        let polled = Arc::strong_count(&self.woken) > 1;
        !polled || self.woken.0.load(Ordering::SeqCst) > 0
    }

    fn poll(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        let permit = self.permit.as_mut().unwrap();
        let polled = pin!(permit.grant()).poll(&mut Context::from_waker(&waker));
        match polled {
            Poll::Ready(Ok(_)) => self.granted = true,
            Poll::Ready(Err(refused)) => {
                assert_eq!(refused.fault, Fault::ShuttingDown);
                self.refused = true;
            }
            Poll::Pending => {}
        }
    }
}

// === impl Story ===

impl Story {
    fn begin() -> Self {
        let scheduler = scheduler(1.0);
        let mut first = offer(&scheduler, &intent("a"));
        let granted = pin!(first.grant()).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(granted, Poll::Ready(Ok(_))));
        let waiters = (0..WAITING).map(|_| Waiter::new(offer(&scheduler, &intent("b")))).collect();
        scheduler.hold_deliveries();
        Self { scheduler, first: Some(first), waiters, closed: false }
    }

    /// The steps that are possible now.
    fn possible(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.first.is_some() {
            acts.push(Act::EndFirst);
        }
        if self.scheduler.held() > 0 {
            acts.push(Act::Deliver);
        }
        for (at, waiter) in self.waiters.iter().enumerate() {
            if waiter.waits() {
                acts.extend(waiter.has_news().then_some(Act::Poll(at)));
                acts.push(Act::Cancel(at));
            }
            if waiter.granted && waiter.permit.is_some() {
                acts.push(Act::End(at));
            }
        }
        if !self.closed {
            acts.push(Act::Close);
        }
        acts
    }

    fn act(&mut self, act: Act) {
        let now = self.scheduler.clock.now();
        match act {
            Act::EndFirst => self.first.take().unwrap().settle(Usage::Unknown, now),
            Act::Deliver => self.scheduler.deliver_one(),
            Act::Poll(at) => self.waiters[at].poll(),
            Act::Cancel(at) => {
                self.waiters[at].cancelled = true;
                self.waiters[at].permit = None;
            }
            Act::End(at) => self.waiters[at].permit.take().unwrap().settle(Usage::Unknown, now),
            Act::Close => {
                self.scheduler.with(Controller::close);
                self.closed = true;
            }
        }
        let (waiting, in_flight) = counts(&self.scheduler);
        assert!(in_flight <= 1 && waiting <= WAITING as u32, "{in_flight} in one place");
        let at_work =
            self.waiters.iter().filter(|waiter| waiter.granted && waiter.permit.is_some());
        let running = at_work.count() + usize::from(self.first.is_some());
        assert!(running <= in_flight as usize, "{running} run on {in_flight} places");
    }

    /// At the end no request can be woken any more, and the place is free.
    fn check_end(mut self) {
        for waiter in &self.waiters {
            assert!(!waiter.waits(), "a request sleeps, though its place is free");
        }
        self.waiters.clear();
        assert_eq!(counts(&self.scheduler), (0, 0), "a place is lost");
        assert!(self.scheduler.inner().waiting.is_empty(), "a waiter is remembered");
        if !self.closed {
            assert!(!offer(&self.scheduler, &intent("c")).waits(), "a place is lost");
        }
    }
}

/// Repeats the steps `before`, then tries every continuation. Returns the number of orders.
fn explore(before: &mut Vec<Act>) -> usize {
    let mut story = Story::begin();
    for act in before.iter() {
        story.act(*act);
    }
    let acts = story.possible();
    // A shutdown and a cancellation need not happen, so a story may end before them.
    let forced = |act: &&Act| !matches!(act, Act::Close | Act::Cancel(_));
    let mut orders = 0;
    if !acts.iter().any(|act| forced(&act)) {
        story.check_end();
        orders += 1;
    }
    for act in acts {
        before.push(act);
        orders += explore(before);
        before.pop();
    }
    orders
}

#[test]
fn c01_q09_n07_no_order_of_grant_cancellation_and_shutdown_loses_a_place() {
    let orders = explore(&mut Vec::new());
    eprintln!("{orders} orders");
    assert!(orders > 5000, "only {orders} orders");
}

const THREADS: usize = 4;
const REQUESTS: usize = 400;

/// Offers requests one after the other: some leave at once, some end, and some are dropped.
fn take_and_leave(scheduler: &Arc<Scheduler>, granted: &AtomicUsize, thread: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for number in 0..REQUESTS {
        let mut permit = offer(scheduler, &intent("a"));
        if (number + thread).is_multiple_of(3) {
            continue;
        }
        runtime.block_on(permit.grant()).unwrap();
        granted.fetch_add(1, Ordering::SeqCst);
        if number.is_multiple_of(2) {
            permit.settle(Usage::Unknown, scheduler.clock.now());
        }
    }
}

/// The same on threads, where the operating system chooses the order.
#[test]
fn c01_q09_threads_that_take_leave_and_cancel_lose_no_place() {
    let (scheduler, granted) = (scheduler(2.0), Arc::new(AtomicUsize::new(0)));
    let start = |thread: usize| {
        let (scheduler, granted) = (Arc::clone(&scheduler), Arc::clone(&granted));
        thread::spawn(move || take_and_leave(&scheduler, &granted, thread))
    };
    let threads: Vec<_> = (0..THREADS).map(start).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(granted.load(Ordering::SeqCst) >= THREADS * REQUESTS / 2);
    assert_eq!(counts(&scheduler), (0, 0));
    assert!(scheduler.inner().waiting.is_empty());
}
