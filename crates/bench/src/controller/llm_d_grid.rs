//! The grid that the nearest relative publishes: llm-d-router's Go flow controller benchmark.
//!
//! W clients in a closed loop, each with one ask outstanding: offered, granted, ended at once,
//! offered again. At most L are in flight (0 is no limit). There are F flows, chosen by Zipf's law
//! with exponent 1.1; flow number i has priority i mod P, and each flow's asks have one size. As
//! in the original, W is small where L is 0 and always larger than L.

use std::collections::VecDeque;

use anyhow::{Context as _, Result, bail};
use flow::{Ask, Band, Controller, FlowId, Order, Ticket, Time, Usage, Verdict};
use sim::random::Random;

use super::fixture::{self, MODEL, settings};
use super::sample::Sample;
use crate::report::Table;
use crate::runner::Runner;
use testbed::stopwatch::Stopwatch;

const BATCHES: usize = 120;
const STEPS: usize = 20_000;
const ZIPF_EXPONENT: f64 = 1.1;
/// Bands from the lowest priority to the highest; two of the original's eight share one.
const BANDS: [Band; 4] = [Band::BestEffort, Band::Normal, Band::High, Band::Critical];
/// No limit, as a limit that is never reached.
const UNLIMITED: f64 = 1e9;

const NOTE: &str = "Ours is the core alone on one thread; theirs is 14 processors and includes \
    waking a goroutine for each dispatch (its pull request 2456).\n\
    We have 4 bands, so of 8 priorities p falls into band p/2.";

/// One coordinate of the grid, by the original's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Coordinate {
    limit: u32,
    priorities: u32,
    flows: u32,
    clients: u32,
}

/// Dispatches per second on 14 processors, as published after its optimisation.
const PUBLISHED: [(Coordinate, f64); 5] = [
    (Coordinate { limit: 0, priorities: 1, flows: 10, clients: 10 }, 348_900.0),
    (Coordinate { limit: 0, priorities: 8, flows: 5000, clients: 10 }, 320_000.0),
    (Coordinate { limit: 1, priorities: 1, flows: 10, clients: 10 }, 265_600.0),
    (Coordinate { limit: 1, priorities: 1, flows: 10, clients: 5000 }, 196_000.0),
    (Coordinate { limit: 1, priorities: 1, flows: 5000, clients: 5000 }, 213_000.0),
];

/// The closed loop.
struct Loop {
    controller: Controller,
    /// One ask of each flow.
    asks: Vec<Ask>,
    /// The flows to come, over and over.
    choices: Vec<u32>,
    step: usize,
    granted: VecDeque<Ticket>,
}

pub(crate) fn measure(run: &mut Runner<'_>) -> Result<Table> {
    let title = "The grid of llm-d-router's flow controller benchmark";
    let columns = [("ours", 0), ("best", 0), ("published", 1), ("times", 1)];
    let mut table = Table { note: NOTE, ..Table::new(title, &columns) };
    table.subject = "thousand dispatches per second";
    for coordinate in grid() {
        let name = coordinate.name();
        if !run.wants(&name)? {
            continue;
        }
        let mut clients = Loop::new(coordinate)?;
        let mut nanos = Vec::new();
        for _ in 0..run.batches(BATCHES) {
            let watch = Stopwatch::start();
            clients.turn(STEPS)?;
            nanos.push(watch.nanos() / STEPS as f64);
        }
        let published = PUBLISHED.iter().find(|(at, _)| *at == coordinate).map(|&(_, rate)| rate);
        let nanos = Sample::of(nanos);
        let (ours, best) = (1e6 / nanos.median, 1e6 / nanos.min);
        let published = published.map(|rate| rate / 1000.0);
        let times = published.map(|rate| ours / rate);
        table.push(name, [Some(ours), Some(best), published, times]);
    }
    Ok(table)
}

fn grid() -> Vec<Coordinate> {
    let mut grid = Vec::new();
    for (limit, clients) in [(0, 10), (1, 10), (1, 5000), (100, 5000)] {
        for (priorities, flows) in [(1, 10), (1, 5000), (8, 10), (8, 5000)] {
            grid.push(Coordinate { limit, priorities, flows, clients });
        }
    }
    grid
}

/// Numbers below `count`, the k-th with a probability in proportion to `(1 + k)^-exponent`.
fn zipf(count: u32, length: usize) -> Vec<u32> {
    let mut sum = 0.0;
    let weight = |k: u32| {
        sum += f64::from(1 + k).powf(-ZIPF_EXPONENT);
        sum
    };
    let sums: Vec<f64> = (0..count).map(weight).collect();
    let mut random = Random::new(1);
    let choose = |_| {
        let aim = random.unit() * sum;
        sums.partition_point(|&sum| sum <= aim).min(sums.len() - 1) as u32
    };
    (0..length).map(choose).collect()
}

// === impl Coordinate ===

impl Coordinate {
    fn name(self) -> String {
        let Self { limit, priorities, flows, clients } = self;
        format!("relative/L{limit}/P{priorities}/F{flows}/W{clients}")
    }
}

// === impl Loop ===

impl Loop {
    fn new(at: Coordinate) -> Result<Self> {
        let limit = if at.limit == 0 { UNLIMITED } else { f64::from(at.limit) };
        let mut controller = fixture::open(settings(Order::Fifo, limit)?);
        let flows = fixture::flows(&mut controller, at.flows);
        let asks = (0..).zip(flows).map(|(number, flow)| ask(flow, number, at)).collect();
        let choices = zipf(at.flows, 4 * (at.flows as usize).next_power_of_two());
        let mut clients = Self { controller, asks, choices, step: 0, granted: VecDeque::new() };
        for _ in 0..at.clients {
            clients.offer()?;
        }
        Ok(clients)
    }

    /// Lets this many asks come and go.
    fn turn(&mut self, steps: usize) -> Result<()> {
        for _ in 0..steps {
            let ticket = self.granted.pop_front().context("nothing is in flight")?;
            self.controller.settle(ticket, Usage::Unknown, self.now())?;
            self.granted.extend(fixture::granted(&mut self.controller));
            self.offer()?;
        }
        Ok(())
    }

    fn offer(&mut self) -> Result<()> {
        self.step += 1;
        let flow = self.choices[self.step & (self.choices.len() - 1)];
        match self.controller.offer(self.asks[flow as usize], self.now()) {
            Verdict::Granted { ticket, .. } => self.granted.push_back(ticket),
            Verdict::Queued { .. } => {}
            Verdict::Refused { reason, .. } => bail!("the core refused an ask: {reason:?}"),
        }
        Ok(())
    }

    /// A microsecond for each step: a run is shorter than any ask's time to live.
    fn now(&self) -> Time {
        Time::from_nanos(self.step as u64 * 1000)
    }
}

/// The ask of flow `number`: the original's priorities, and its sizes from 100 to 9100.
fn ask(flow: FlowId, number: u32, at: Coordinate) -> Ask {
    let priority = number % at.priorities;
    let band = BANDS[(priority as usize * BANDS.len()) / at.priorities as usize];
    let size = 100 + number.wrapping_mul(0x9E37_79B9) % 9000;
    Ask { band, cost: u64::from(size), ..Ask::new(flow, MODEL) }
}
