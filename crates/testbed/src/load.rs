//! A small load generator: classes of clients, each with its own pace, and what they saw.
//!
//! Open classes send at moments of their own, whatever becomes of earlier requests, as the world
//! does; closed ones keep a number of requests outstanding, as a batch job does. Times count from
//! the moment at which a request was due, so that a generator that falls behind shows it.

mod client;
mod report;
mod tally;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sim::random::Random;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, sleep_until, timeout_at};

pub use report::{Quantiles, Report, Summary, Waits};

use client::{Client, Template};
use tally::Tally;

/// What to send, where and for how long.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Where requests go, in turns.
    pub targets: Vec<SocketAddr>,
    /// Who sends.
    pub classes: Vec<Class>,
    /// For how long requests are sent.
    pub duration: Duration,
    /// For how long responses may come after that; requests that are open then count as unfinished.
    pub drain: Duration,
    /// How often progress is told.
    pub progress_every: Duration,
    /// The seed of the random traffic.
    pub seed: u64,
}

/// Clients of one kind.
#[derive(Clone, Debug)]
pub struct Class {
    /// What it is called.
    pub name: String,
    /// The path of its requests.
    pub path: String,
    /// Headers of its requests.
    pub headers: Vec<(String, String)>,
    /// The body of its requests, which are sent by POST; without one they are sent by GET.
    pub body: Bytes,
    /// When it sends.
    pub arrivals: Arrivals,
    /// How long it waits for the end of an answer.
    pub timeout: Duration,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At random moments, so many a second on average.
    Poisson(f64),
    /// In equal steps.
    Every(Duration),
    /// The next one as soon as an answer ends.
    Outstanding {
        /// How many at once.
        count: usize,
        /// How long to wait after one that failed.
        pause: Duration,
    },
}

/// What every request of a class needs.
#[derive(Clone, Debug)]
struct Worker {
    client: Arc<Client>,
    template: Arc<Template>,
    tally: Arc<Tally>,
}

/// One class at work.
#[derive(Debug)]
struct Sender {
    worker: Worker,
    random: Random,
    began: Instant,
    ends: Instant,
    gives_up: Instant,
}

/// Sends what the plan says and tells what came of it; `progress` hears of it on the way.
pub async fn run(plan: LoadPlan, mut progress: impl FnMut(&Report)) -> io::Result<Report> {
    if plan.targets.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a load needs a target"));
    }
    let client = Arc::new(Client::new(plan.targets));
    let began = Instant::now();
    let ends = began + plan.duration;
    let random = Random::new(plan.seed);
    let mut tallies = Vec::new();
    let mut senders = JoinSet::new();
    for class in plan.classes {
        let tally = Arc::new(Tally::new(class.name.clone()));
        tallies.push(tally.clone());
        let template = Arc::new(Template::new(&class)?);
        let sender = Sender {
            worker: Worker { client: client.clone(), template, tally },
            random: random.fork(&class.name),
            began,
            ends,
            gives_up: ends + plan.drain,
        };
        senders.spawn(sender.run(class.arrivals));
    }
    let report = || Report::new(began.elapsed(), tallies.iter().map(|tally| tally.summary()));
    let mut ticks = interval(plan.progress_every.max(Duration::from_millis(1)));
    loop {
        tokio::select! {
            ended = senders.join_next() => if ended.is_none() { break },
            _ = ticks.tick() => progress(&report()),
        }
    }
    Ok(report())
}

// === impl Sender ===

impl Sender {
    async fn run(mut self, arrivals: Arrivals) {
        let mut open = JoinSet::new();
        match arrivals {
            Arrivals::Outstanding { count, pause } => {
                let one = || self.worker.clone().send_closed(self.ends, pause);
                (0..count).for_each(|_| drop(open.spawn(one())));
            }
            Arrivals::Every(step) => {
                self.send_open(&mut open, |_| step.max(Duration::from_micros(1))).await;
            }
            Arrivals::Poisson(rate) => {
                let mean = 1.0 / rate.clamp(1e-6, 1e6);
                self.send_open(&mut open, |random| {
                    Duration::from_secs_f64(random.exponential() * mean)
                })
                .await;
            }
        }
        // Requests that are dropped here end as unfinished.
        let _ =
            timeout_at(self.gives_up, async { while open.join_next().await.is_some() {} }).await;
    }

    /// Sends at moments of its own until the end.
    async fn send_open(&mut self, open: &mut JoinSet<()>, step: impl Fn(&mut Random) -> Duration) {
        let mut due = self.began + step(&mut self.random);
        while due < self.ends {
            sleep_until(due).await;
            open.spawn(self.worker.clone().send(due));
            // Those that have ended need no memory.
            while open.try_join_next().is_some() {}
            due += step(&mut self.random);
        }
    }
}

// === impl Worker ===

impl Worker {
    async fn send(self, due: Instant) {
        self.client.send(&self.template, &self.tally, due).await;
    }

    /// One of those that always have a request outstanding.
    async fn send_closed(self, ends: Instant, pause: Duration) {
        while Instant::now() < ends {
            let well = self.client.send(&self.template, &self.tally, Instant::now()).await;
            if !well {
                sleep(pause).await;
            }
        }
    }
}
