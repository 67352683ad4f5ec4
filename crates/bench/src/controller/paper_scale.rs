//! A large cluster on one core: up to a thousand engines, a hundred thousand flows and twenty
//! thousand requests a second.
//!
//! The gateway has one controller behind one mutex. So the time of the verbs of a request, times
//! the requests of a second, is the share of a second for which the mutex is held.

use std::collections::VecDeque;

use anyhow::{Context as _, Result, bail};
use flow::{
    Ask, BackendId, BackendSupply, Controller, FlowId, ModelId, Order, Ticket, Time, Usage, Verdict,
};
use sim::random::Random;
use testbed::stopwatch::Stopwatch;

use super::draw::below;
use super::fixture::{self, MODEL, settings};
use super::sample::Sample;
use crate::report::Table;
use crate::runner::Runner;

const ENGINES: [u32; 4] = [1, 10, 100, 1000];
const FLOWS: u32 = 100_000;
/// What one engine has in flight at most.
const PLACES: u32 = 16;
/// A second of arrivals waits.
const WAITING: u32 = 20_000;
const PER_SECOND: f64 = 20_000.0;
const STEP_NANOS: u64 = 50_000;
const BATCHES: usize = 60;
const STEPS: usize = 512;
/// The engines of one model where there are many models.
const ENGINES_OF_MODEL: u32 = 10;
/// The share of the mutex that leaves room for bursts, in percent.
const SHARE_MAX: f64 = 50.0;

const NOTE: &str = "A request is offered, started and settled; a settlement grants the next one. \
    `held` is the share of a second for which 20,000 requests hold the mutex.\n\
    `look` reads all asks, flows and engines, as a scrape of the metrics does; `list` takes a new \
    list of engines. Both hold the mutex once.";

/// A cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) engines: u32,
    pub(super) flows: u32,
    /// 0 where engines have room for every request.
    pub(super) waiting: u32,
    /// How many engines serve the same model.
    pub(super) engines_of_model: u32,
}

/// A controller in a steady state.
struct Cluster {
    controller: Controller,
    scale: Scale,
    flows: Vec<FlowId>,
    random: Random,
    step: u64,
    in_flight: VecDeque<Ticket>,
}

/// Nanoseconds of each verb.
#[derive(Debug, Default)]
struct Nanos {
    offer: Vec<f64>,
    start: Vec<f64>,
    settle: Vec<f64>,
}

pub(crate) fn measure(run: &mut Runner<'_>) -> Result<Table> {
    let title = "A large cluster on one core: 1e5 flows, 16 requests in flight at each engine";
    let columns = [
        ("offer ns", 0),
        ("start ns", 0),
        ("settle ns", 0),
        ("held %", 1),
        ("look ms", 2),
        ("list ms", 2),
    ];
    let mut table = Table { note: NOTE, subject: "engines", ..Table::new(title, &columns) };
    for scale in scales() {
        let name = scale.name();
        if run.wants(&name)? {
            let batches = run.batches(BATCHES);
            table.push_all(name, figures(scale, batches)?);
        }
    }
    if let Some(held) = table.rows.iter().filter_map(|(_, figures)| figures[3]).reduce(f64::max) {
        table.target("percent of a second that 20,000 requests hold the mutex", SHARE_MAX, held);
    }
    Ok(table)
}

fn scales() -> Vec<Scale> {
    let scale = |engines, waiting, engines_of_model| Scale {
        engines,
        flows: FLOWS,
        waiting,
        engines_of_model,
    };
    let shared = |waiting| ENGINES.into_iter().map(move |count| scale(count, waiting, count));
    let apart = scale(ENGINES[3], WAITING, ENGINES_OF_MODEL);
    shared(WAITING).chain(shared(0)).chain([apart]).collect()
}

/// One row of the table.
pub(super) fn figures(scale: Scale, batches: usize) -> Result<[f64; 6]> {
    let mut cluster = Cluster::new(scale)?;
    let mut nanos = Nanos::default();
    for _ in 0..batches {
        cluster.turn(STEPS, &mut nanos)?;
    }
    let Nanos { offer, start, settle } = nanos;
    let [offer, start, settle] = [offer, start, settle].map(|nanos| Sample::of(nanos).min);
    let held = (offer + start + settle) * PER_SECOND / 1e9 * 100.0;
    let look = cluster.time(batches, Cluster::look);
    let list = cluster.time(batches, Cluster::list);
    Ok([offer, start, settle, held, look, list])
}

// === impl Scale ===

impl Scale {
    fn name(self) -> String {
        let load = if self.waiting > 0 { "full" } else { "idle" };
        let models = self.engines / self.engines_of_model;
        let models = if models > 1 { format!("/{models}-models") } else { String::new() };
        format!("scale/{}/{load}{models}", self.engines)
    }

    fn model(self, engine: u32) -> ModelId {
        ModelId(MODEL.0 + engine / self.engines_of_model)
    }

    fn supply(self) -> Vec<BackendSupply> {
        let engine = |at: u32| BackendSupply::new(BackendId(1 + at), vec![self.model(at)]);
        (0..self.engines).map(engine).collect()
    }
}

// === impl Cluster ===

impl Cluster {
    fn new(scale: Scale) -> Result<Self> {
        let mut controller = Controller::new(settings(Order::Fifo, f64::from(PLACES))?);
        controller.supply(&scale.supply(), Time::ZERO);
        let flows = fixture::flows(&mut controller, scale.flows);
        let (random, in_flight) = (Random::new(1), VecDeque::new());
        let mut cluster = Self { controller, scale, flows, random, step: 0, in_flight };
        let places = scale.engines * PLACES;
        // Engines that have room are half full.
        let asks = if scale.waiting > 0 { places + scale.waiting } else { places / 2 };
        for _ in 0..asks {
            cluster.offer()?;
        }
        Ok(cluster)
    }

    /// Lets this many requests end, and as many come.
    fn turn(&mut self, steps: usize, nanos: &mut Nanos) -> Result<()> {
        let steps = steps.min(self.in_flight.len());
        let each = |watch: Stopwatch| watch.nanos() / steps as f64;
        let watch = Stopwatch::start();
        for _ in 0..steps {
            let ticket = self.in_flight.pop_front().context("nothing is in flight")?;
            self.controller.settle(ticket, Usage::Unknown, self.now())?;
            self.in_flight.extend(fixture::granted(&mut self.controller));
        }
        nanos.settle.push(each(watch));
        let watch = Stopwatch::start();
        for _ in 0..steps {
            self.offer()?;
        }
        nanos.offer.push(each(watch));
        let newest: Vec<Ticket> = self.in_flight.iter().rev().take(steps).copied().collect();
        let watch = Stopwatch::start();
        for ticket in newest {
            self.controller.started(ticket, self.now())?;
        }
        nanos.start.push(each(watch));
        Ok(())
    }

    fn offer(&mut self) -> Result<()> {
        self.step += 1;
        let flow = self.flows[below(&mut self.random, self.scale.flows) as usize];
        let model = self.scale.model(below(&mut self.random, self.scale.engines));
        let ask =
            Ask { cost: u64::from(1 + below(&mut self.random, 1000)), ..Ask::new(flow, model) };
        match self.controller.offer(ask, self.now()) {
            Verdict::Granted { ticket, .. } => self.in_flight.push_back(ticket),
            Verdict::Queued { .. } => {}
            Verdict::Refused { reason, .. } => bail!("the core refused an ask: {reason:?}"),
        }
        Ok(())
    }

    /// Reads everything that a scrape of the metrics copies.
    fn look(&mut self) -> usize {
        let controller = &self.controller;
        let asks = controller.asks().filter(|ask| !ask.late).count();
        let flows = controller.flows().filter(|flow| flow.in_flight > 0).count();
        asks + flows + controller.backends().count()
    }

    fn list(&mut self) -> usize {
        let engines = self.scale.supply();
        self.controller.supply(&engines, self.now());
        engines.len()
    }

    /// The least time of this call in milliseconds.
    fn time(&mut self, batches: usize, call: fn(&mut Self) -> usize) -> f64 {
        let mut nanos = Vec::new();
        for _ in 0..batches {
            let watch = Stopwatch::start();
            std::hint::black_box(call(self));
            nanos.push(watch.nanos());
        }
        Sample::of(nanos).min / 1e6
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.step * STEP_NANOS)
    }
}
