//! The gates: how much batch work may go now, and why not more (D02 to D06).
//!
//! Each gate is a source that says how free a system is and a budget that counts it out
//! (`flow::budget`). All budgets are behind one short lock, so that a request takes from all of its
//! gates or from none. Sources that take time are read by a task each; nobody waits for them.

mod book;
mod explain;
mod fetch;
mod inside;
mod look;
mod page;
mod prometheus;
mod promql;
mod redis;
mod source;
mod watch;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::Time;
use flow::budget::{Budget, Share, take_all};
use tokio::sync::Notify;

use crate::clock::{Clock, span};
use crate::config::resolved::dispatch::Gate as Spec;
use crate::observe::dispatch::GateGauge;
use crate::state::State;
use crate::upstream::client::Client;

use book::Book;
use source::{Parts, Source};

pub(crate) use explain::Explanation;

/// All gates of this process.
#[derive(Debug)]
pub(crate) struct Gates {
    clock: Clock,
    specs: Vec<Spec>,
    sources: Vec<Source>,
    /// In the same order.
    books: Mutex<Vec<Book>>,
    /// Something may have opened.
    opened: Notify,
    /// Somebody was turned away: whoever looks more often then hears it.
    wanted: Notify,
    /// A gate was latched, or rests.
    latched: Notify,
}

/// The gates of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way(Arc<[usize]>);

/// Leave for one request, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Pass {
    gates: Arc<Gates>,
    way: Way,
    bytes: u64,
    sent: Time,
}

/// Why nothing may go.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Closed {
    /// The gate that does not let it.
    pub(crate) gate: String,
    /// In words.
    pub(crate) why: String,
}

// === impl Gates ===

impl Gates {
    /// Makes them all. What is wrong with one is said with its name.
    pub(crate) fn new(
        specs: &[Spec],
        inside: Option<Arc<State>>,
        clock: Clock,
        client: Arc<Client>,
    ) -> Result<Arc<Self>, String> {
        let parts = Parts { inside, clock, client };
        let (mut sources, mut books) = (Vec::new(), Vec::new());
        for spec in specs {
            let made = source::made(spec, &parts);
            let (source, book) = made.map_err(|why| format!("gate {:?}: {why}", spec.name))?;
            sources.push(source);
            books.push(book);
        }
        Ok(Arc::new(Self {
            clock,
            specs: specs.to_vec(),
            sources,
            books: Mutex::new(books),
            opened: Notify::new(),
            wanted: Notify::new(),
            latched: Notify::new(),
        }))
    }

    /// The gates with these names, all of which must let a request go.
    pub(crate) fn named(&self, names: &[String]) -> Result<Way, String> {
        let mut way = Vec::with_capacity(names.len());
        for name in names {
            let at = self.specs.iter().position(|spec| spec.name == *name);
            way.push(at.ok_or_else(|| self.unknown(name))?);
        }
        way.sort_unstable();
        way.dedup();
        Ok(Way(way.into()))
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        format!("there is no gate {name:?}; there are: {known}")
    }

    /// How many requests may go now. Where sizes count, 1 if something may go.
    pub(crate) fn room(&self, way: &Way) -> u64 {
        let now = self.clock.now();
        let mut books = self.fresh(way, now);
        let left = |&at: &usize| {
            let room = books[at].room(now);
            books[at].wanted |= room == 0;
            if self.counts_sizes(at) { room.min(1) } else { room }
        };
        let room = way.0.iter().map(left).min().unwrap_or(u64::MAX);
        drop(books);
        if room == 0 {
            self.wanted.notify_waiters();
        }
        room
    }

    /// Lets one request of so many bytes go, if all of its gates do.
    pub(crate) fn take(self: &Arc<Self>, way: &Way, bytes: u64) -> Result<Pass, Closed> {
        let now = self.clock.now();
        let mut books = self.fresh(way, now);
        let taken = self.take_from(&mut books, way, bytes, now);
        drop(books);
        match taken {
            Ok(()) => {
                self.latched.notify_one();
                let (gates, way) = (Arc::clone(self), way.clone());
                Ok(Pass { gates, way, bytes, sent: now })
            }
            Err((at, why)) => {
                self.books()[at].wanted = true;
                self.wanted.notify_waiters();
                Err(Closed { gate: self.specs[at].name.clone(), why })
            }
        }
    }

    /// Takes from all of a way's gates, or says which one does not let it and why.
    fn take_from(
        &self,
        books: &mut [Book],
        way: &Way,
        bytes: u64,
        now: Time,
    ) -> Result<(), (usize, String)> {
        let held_back = |&at: &usize| books[at].held_back(now).map(|why| (at, why));
        if let Some(closed) = way.0.iter().find_map(held_back) {
            return Err(closed);
        }
        let ours = books.iter_mut().enumerate().filter(|(at, _)| way.0.contains(at));
        let mut budgets: Vec<(&mut Budget, u64)> =
            ours.map(|(at, book)| (&mut book.budget, self.size(at, bytes))).collect();
        take_all(&mut budgets, now).map_err(|(place, why)| {
            let at = way.0[place];
            (at, books[at].state(&self.specs[at], why))
        })?;
        way.0.iter().for_each(|&at| books[at].begins(now));
        Ok(())
    }

    /// What those call themselves together who look at the same systems: gates of the same names.
    pub(crate) fn group(&self) -> String {
        let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
        names.join(",")
    }

    /// From now on this dispatcher is one of so many that look at the same systems. What it sees
    /// from inside, and the answers to its own requests, are its alone.
    pub(crate) fn share(&self, rank: u32, of: u32) {
        let share = Share::new(rank, of);
        for (book, source) in self.books().iter_mut().zip(&self.sources) {
            if matches!(source, Source::Constant(..) | Source::Away(_)) {
                book.budget.share(share);
            }
        }
        self.open();
    }

    /// How each gate stands, for the metrics.
    pub(crate) fn gauges(&self) -> Vec<GateGauge> {
        self.explain().iter().map(Explanation::gauge).collect()
    }

    /// What every gate sees and makes of it.
    pub(crate) fn explain(&self) -> Vec<Explanation> {
        let now = self.clock.now();
        let books = self.fresh(&Way((0..self.specs.len()).collect()), now);
        self.specs.iter().zip(books.iter()).map(|(spec, book)| book.explain(spec, now)).collect()
    }

    /// Resolves when something may have opened since it was last asked: a reading, the end of a
    /// latch, the end of a request. It may resolve for no reason.
    pub(crate) async fn changed(&self) {
        self.opened.notified().await;
    }

    fn books(&self) -> MutexGuard<'_, Vec<Book>> {
        // A panic under the lock is a fault of one request; budgets check their own arguments.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The books, with those up to date that need no look.
    fn fresh(&self, way: &Way, now: Time) -> MutexGuard<'_, Vec<Book>> {
        let mut books = self.books();
        way.0.iter().for_each(|&at| self.freshen(at, &mut books[at], now));
        books
    }

    fn freshen(&self, at: usize, book: &mut Book, now: Time) {
        match &self.sources[at] {
            Source::Constant(free, system) => book.read(source::steady(*free, *system, now)),
            Source::Answers => book.read_window(now),
            Source::Inside(inside) => {
                let Some(start_limiter) = &mut book.start_limiter else { return };
                match inside.start_load() {
                    Some(seen) => start_limiter.observe(seen, now),
                    None => start_limiter.reset(),
                }
            }
            Source::Away(_) => {}
        }
    }

    fn counts_sizes(&self, at: usize) -> bool {
        book::size(self.specs[at].unit, u64::MAX) > 1
    }

    fn size(&self, at: usize, bytes: u64) -> u64 {
        book::size(self.specs[at].unit, bytes)
    }
}

// === impl Pass ===

impl Pass {
    /// The gateway said that it is full, perhaps until when.
    pub(crate) fn congested(&self, retry_after: Option<Duration>) {
        let now = self.gates.clock.now();
        let mut books = self.gates.books();
        for &at in &*self.way.0 {
            books[at].congested(self.sent, retry_after.map(span), now);
        }
        drop(books);
        self.gates.latched.notify_one();
    }

    /// It is sent, with a prompt of so many tokens.
    pub(crate) fn weighs(&self, prompt: u64) {
        let now = self.gates.clock.now();
        let mut books = self.gates.books();
        self.way.0.iter().for_each(|&at| books[at].weighs(prompt, now));
        drop(books);
        self.gates.latched.notify_one();
    }

    /// The gateway answered well.
    pub(crate) fn good(&self) {
        let mut books = self.gates.books();
        self.way.0.iter().for_each(|&at| books[at].good());
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let now = self.gates.clock.now();
        let mut books = self.gates.books();
        for &at in &*self.way.0 {
            books[at].budget.ended(self.gates.size(at, self.bytes), now);
        }
        drop(books);
        self.gates.open();
    }
}

// === impl Closed ===

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "gate {:?} is {}", self.gate, self.why)
    }
}
