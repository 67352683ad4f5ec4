//! One run: engines, traffic and a stock, and the figures that are kept of it.

use anyhow::Result;
use flow::{AutoBound, Band, Bounds, CAPACITY_MAX, FlowClass, Hysteresis, Settings, Span, Time};
use serde::Serialize;
use sim::arrivals::{Arrivals, Lengths, Process, Request};
use sim::engine::Profile;
use sim::measure::{EngineMoment, History, Outcome, Record, Stat};
use sim::policy::Cost;
use sim::policy::tidegate::{Tidegate, TidegateConfig};
use sim::random::Random;
use sim::world::{self, Bands, Fault, Metrics, Setup, Source};

/// One request in ten is critical.
const BANDS: Bands = Bands::Mixed([0.0, 0.9, 0.0, 0.1]);
/// How long what is open may take after the last arrival; critical requests need far less.
const DRAIN: Span = Span::from_secs(60);
/// Nobody is turned away: the queue is what is studied.
const PATIENT: Span = Span::from_secs(1_000_000);
/// How often engines are asked, unless a condition says otherwise.
pub(super) const SCRAPE: Metrics = Metrics { every: Span::from_millis(200), lag: Span::ZERO };

/// How much may be in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stock {
    /// This many requests at each engine.
    Fixed(f64),
    /// What the controller finds.
    Auto,
}

/// Requests of one kind for a while.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    pub(super) process: Process,
    pub(super) lengths: Lengths,
    /// The seconds in which they arrive.
    pub(super) between: (u64, u64),
    /// How long they wait at most; for ever unless told.
    pub(super) ttl: Option<Span>,
}

/// Everything that makes a run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) engines: Vec<Profile>,
    pub(super) traffic: Vec<Traffic>,
    pub(super) stock: Stock,
    pub(super) metrics: Option<Metrics>,
    pub(super) network: Span,
    pub(super) faults: Vec<Fault>,
    /// The share of requests whose answer comes in one piece.
    pub(super) unstreamed: f64,
    /// The seconds that count. Nothing arrives after them.
    pub(super) window: (u64, u64),
    pub(super) seed: u64,
}

/// What is kept of a run, or the means over several.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// Prompt and output tokens a second.
    pub(crate) tokens: f64,
    /// Requests answered a second.
    pub(crate) requests: f64,
    /// The 99th percentile of the time to the first token of critical requests, in seconds. Who
    /// has none at the end counts with its age.
    pub(crate) critical: f64,
    /// Mean time from token to token, in seconds.
    pub(crate) tpot: f64,
    /// Jobs that engines threw back, in the whole run.
    pub(crate) preemptions: f64,
    /// Mean of what is in flight, over all engines.
    pub(crate) in_flight: f64,
    /// The share of the time in which each bound of `auto` kept an engine closed: requests without
    /// a first token, tokens, slots.
    pub(crate) bound: [f64; 3],
}

// === impl Run ===

impl Run {
    /// A healthy engine under Poisson arrivals.
    pub(super) fn new(engine: &Profile, lengths: &Lengths, rate: f64, window: (u64, u64)) -> Self {
        let traffic = Traffic {
            process: Process::Poisson { rate },
            lengths: lengths.clone(),
            between: (0, window.1),
            ttl: None,
        };
        Self {
            engines: vec![engine.clone()],
            traffic: vec![traffic],
            stock: Stock::Auto,
            metrics: Some(SCRAPE),
            network: Span::from_millis(1),
            faults: Vec::new(),
            unstreamed: 0.0,
            window,
            seed: 0,
        }
    }

    pub(super) fn with(&self, stock: Stock, seed: u64) -> Self {
        Self { stock, seed, ..self.clone() }
    }

    /// Plays it.
    pub(super) fn figures(&self) -> Result<Figures> {
        let history = self.history(DRAIN)?;
        Ok(Figures::of(&history))
    }

    /// Plays it and gives back everything that is known of it.
    pub(super) fn history(&self, drain: Span) -> Result<History> {
        let sources: Result<Vec<Source>> = self
            .traffic
            .iter()
            .zip(0..)
            .map(|(traffic, at)| traffic.source(self.seed, at))
            .collect();
        let mut setup = Setup::new(self.engines.clone(), sources?, Span::from_secs(self.window.1));
        setup.network = self.network;
        setup.metrics = self.metrics;
        setup.faults = self.faults.clone();
        setup.drain = drain;
        setup.warm_up = Span::from_secs(self.window.0);
        setup.sample = Span::from_secs(1);
        setup.seed = self.seed;
        let settings = Settings {
            total_capacity: CAPACITY_MAX,
            bounds: self.stock.bounds()?,
            default_class: FlowClass {
                capacity: CAPACITY_MAX,
                ttl: PATIENT,
                ..FlowClass::default()
            },
            ..Settings::default()
        };
        let config = TidegateConfig { settings, cost: Cost::Requests };
        let mut gate = Tidegate::new(config, &[]).unstreamed(self.unstreamed);
        Ok(world::run(setup, &mut gate))
    }
}

// === impl Stock ===

impl Stock {
    fn bounds(self) -> Result<Bounds> {
        match self {
            Self::Fixed(watermark) => Ok(Hysteresis::limit(watermark)?.into()),
            Self::Auto => Ok(Bounds::Auto),
        }
    }
}

// === impl Traffic ===

impl Traffic {
    fn source(&self, seed: u64, at: usize) -> Result<Source> {
        let (from, to) = self.between;
        let random = Random::new(seed).fork(&format!("traffic {at}"));
        let until = Time::ZERO.after(Span::from_secs(to - from));
        let arrivals = Arrivals::new(self.process, self.lengths.clone(), &random, until)?;
        let later = move |request: Request| {
            let at = request.at.after(Span::from_secs(from));
            Request { at, ..request }
        };
        let mut source = Source::new("all", arrivals.map(later));
        source.bands = BANDS;
        source.ttl = self.ttl;
        Ok(source)
    }
}

// === impl Figures ===

impl Figures {
    fn of(history: &History) -> Self {
        let secs = history.window.secs();
        let produced = history.produced;
        let counted = |record: &&Record| history.window.holds(record.arrival);
        let records = || history.records.iter().filter(counted);
        // What no engine takes tells nothing of the queue.
        let critical =
            |record: &&Record| record.band == Band::Critical && record.outcome != Outcome::Failed;
        let age = |record: &Record| history.ended.since(record.arrival);
        let waits = records().filter(critical);
        let waits = waits.map(|record| record.ttft().unwrap_or_else(|| age(record))).collect();
        let tpots = records().filter_map(Record::tpot).collect();
        Self {
            tokens: (produced.prompt + produced.output) as f64 / secs,
            requests: produced.requests as f64 / secs,
            critical: Stat::of(waits).map_or(0.0, |stat| stat.p99.secs_f64()),
            tpot: Stat::of(tpots).map_or(0.0, |stat| stat.mean.secs_f64()),
            preemptions: history.preemptions as f64,
            in_flight: sampled(history, |engine| f64::from(engine.in_flight)),
            bound: [AutoBound::Unstarted, AutoBound::Tokens, AutoBound::Slots].map(|bound| {
                let closed = |engine: &EngineMoment| f64::from(engine.binding == Some(bound));
                sampled(history, closed) / engines(history)
            }),
        }
    }

    /// The mean of each figure.
    pub(super) fn mean(all: &[Self]) -> Self {
        let mean = |pick: &dyn Fn(&Self) -> f64| {
            all.iter().map(pick).sum::<f64>() / all.len().max(1) as f64
        };
        Self {
            tokens: mean(&|one| one.tokens),
            requests: mean(&|one| one.requests),
            critical: mean(&|one| one.critical),
            tpot: mean(&|one| one.tpot),
            preemptions: mean(&|one| one.preemptions),
            in_flight: mean(&|one| one.in_flight),
            bound: [0, 1, 2].map(|bound| mean(&|one| one.bound[bound])),
        }
    }
}

/// The mean over the window's samples of the sum over all engines.
fn sampled(history: &History, pick: impl Fn(&EngineMoment) -> f64) -> f64 {
    let inside = history.series.moments.iter().filter(|moment| history.window.holds(moment.at));
    let sums: Vec<f64> = inside.map(|moment| moment.engines.iter().map(&pick).sum()).collect();
    sums.iter().sum::<f64>() / sums.len().max(1) as f64
}

fn engines(history: &History) -> f64 {
    history.series.moments.first().map_or(1.0, |moment| moment.engines.len() as f64)
}
