//! A whole day in a moment: clients, a policy, engines, the network between them and their faults.
//!
//! One heap of events in virtual time, one seed, one history: nothing here depends on a clock, on
//! threads or on the order of a hash map. The engines keep their own next moment, because it moves
//! with everything that reaches them; the heap holds the rest. Where moments are equal, engines go
//! first, then events in the order in which they were scheduled, then the policy's own timer.

mod clients;
mod event_queue;
mod faults;
mod gateway;
mod scaling;
mod servers;

use std::sync::Arc;

use flow::{Band, Span, Time};

use crate::arrivals::{ClosedLoop, Request};
use crate::autoscaler::{Autoscaler, ScaleSignal, Scaling};
use crate::engine::Profile;
use crate::measure::{Charges, History, Outcome, Recorder, Series, Window};
use crate::policy::{EngineId, Policy, Tenant};

use clients::ClientSource;
use event_queue::{Event, EventQueue};
use scaling::Fleet;
use servers::{Batches, Server};

/// How often a request that failed before its first token is tried at most.
const ATTEMPTS_MAX: u8 = 4;
/// The most samples of a series, where their distance is not given.
const SAMPLES_MAX: u64 = 600;

/// Everything a run needs to know besides its policy.
pub struct Setup {
    /// The engines.
    pub engines: Vec<Profile>,
    /// The traffic.
    pub sources: Vec<Source>,
    /// Tenants that are known beforehand, with their weights. Others come with weight 1.
    pub tenants: Vec<Tenant>,
    /// The time between gateway and engine, each way.
    pub network: Span,
    /// How the gateway learns what engines say of themselves, if it does.
    pub metrics: Option<Metrics>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// How engines come and go, and what decides it; without it all of them stay.
    pub scaling: Option<(Scaling, ScaleSignal)>,
    /// Whether engines are told the band of each job as its priority.
    pub priorities: bool,
    /// How long requests arrive.
    pub length: Span,
    /// How long open requests may take after that.
    pub drain: Span,
    /// How long the run goes on before it counts.
    pub warm_up: Span,
    /// The distance of samples.
    pub sample: Span,
    /// The source of all chance.
    pub seed: u64,
}

/// One stream of requests and how its clients behave.
pub struct Source {
    /// The requests, in the order of their times.
    pub arrivals: Box<dyn Iterator<Item = Request>>,
    /// When they are sent, where the requests themselves do not say it.
    pub closed_loop: Option<ClosedLoop>,
    /// Whose they are.
    pub tenancy: Tenancy,
    /// How urgent they are.
    pub bands: Bands,
    /// How long a client waits for the first token before it goes away.
    pub patience: Option<Span>,
    /// How long the gateway may let them wait, where that differs from its own setting.
    pub ttl: Option<Span>,
}

/// Which tenant a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// All to this one.
    One(String),
    /// Each client is a tenant; these are their names.
    Clients(Vec<String>),
}

/// Which band a request is in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bands {
    /// All in this one.
    Fixed(Band),
    /// Drawn from these shares, from best-effort to critical.
    Mixed([f64; flow::BANDS]),
}

/// How metrics reach the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// How often engines are asked.
    pub every: Span,
    /// How old an answer is when the gateway has it.
    pub lag: Span,
}

/// Something that goes wrong, or right again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// When.
    pub at: Time,
    /// Where.
    pub engine: EngineId,
    /// What.
    pub what: FaultKind,
}

/// What can happen to an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// It dies: its jobs fail, and it takes no others.
    Crash,
    /// It is back, empty.
    Return,
    /// It takes this many times as long for everything.
    Slow(f64),
    /// It no longer tells anything of itself.
    NoMetrics,
    /// It tells again.
    Metrics,
}

/// A run in progress. Each part of what happens has a file of its own.
struct World<'a> {
    now: Time,
    policy: &'a mut dyn Policy,
    follows_streams: bool,
    event_queue: EventQueue,
    servers: Vec<Server>,
    batches: Batches,
    sources: Vec<ClientSource>,
    tenants: Vec<Tenant>,
    /// By request, what the world keeps while it is open.
    open: Vec<Open>,
    open_count: usize,
    ready: Vec<bool>,
    fleet: Fleet,
    recorder: Recorder,
    rules: Rules,
}

/// The parts of the setup that are looked at during the run.
struct Rules {
    network: Span,
    metrics: Option<Metrics>,
    faults: Vec<Fault>,
    priorities: bool,
    arrivals_end: Time,
    sample: Span,
}

struct Open {
    stage: Stage,
    source: u32,
    prefix: Arc<[u64]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    At(EngineId),
    Over,
}

/// What happens next.
enum Next {
    Engine(usize),
    Event(Event),
    Wake,
}

/// Plays a setup to a policy until everything has ended or the time is up.
pub fn run(setup: Setup, policy: &mut dyn Policy) -> History {
    let limit = Time::ZERO.after(setup.length).after(setup.drain);
    let mut world = World::new(setup, policy);
    world.start();
    while let Some((at, next)) = world.next().filter(|&(at, _)| at <= limit) {
        world.now = at;
        world.handle(next);
        if world.is_over() {
            break;
        }
    }
    world.finish()
}

// === impl Setup ===

impl Setup {
    /// A healthy world without metrics, with a millisecond of network, that counts from the start
    /// and has ten minutes to come to rest.
    pub fn new(engines: Vec<Profile>, sources: Vec<Source>, length: Span) -> Self {
        let spread = Span::from_nanos(length.nanos().div_ceil(SAMPLES_MAX));
        Self {
            engines,
            sources,
            tenants: Vec::new(),
            network: Span::from_millis(1),
            metrics: None,
            faults: Vec::new(),
            scaling: None,
            priorities: false,
            length,
            drain: Span::from_secs(600),
            warm_up: Span::ZERO,
            sample: spread.max(Span::from_secs(1)),
            seed: 0,
        }
    }
}

// === impl Source ===

impl Source {
    /// Normal requests of one tenant whose clients wait for ever.
    pub fn new(tenant: &str, arrivals: impl Iterator<Item = Request> + 'static) -> Self {
        Self {
            arrivals: Box::new(arrivals),
            closed_loop: None,
            tenancy: Tenancy::One(tenant.to_owned()),
            bands: Bands::Fixed(Band::Normal),
            patience: None,
            ttl: None,
        }
    }
}

// === impl World ===

impl<'a> World<'a> {
    fn new(setup: Setup, policy: &'a mut dyn Policy) -> Self {
        let arrivals_end = Time::ZERO.after(setup.length);
        let window = Window { from: Time::ZERO.after(setup.warm_up), to: arrivals_end };
        let series = Series { every: setup.sample, moments: Vec::new() };
        let charges = Charges { cost: policy.cost(), slack: policy.slack() };
        let count = setup.engines.len();
        let recorder = Recorder::new(window, count, series, charges);
        let scaler = setup.scaling.map(|(scaling, signal)| Autoscaler::new(scaling, signal));
        let fleet = Fleet::new(count, scaler, window);
        let mut servers: Vec<Server> = setup.engines.iter().map(Server::new).collect();
        for (at, server) in servers.iter_mut().enumerate() {
            server.up = fleet.is_on(at);
        }
        Self {
            now: Time::ZERO,
            follows_streams: policy.follows_streams(),
            policy,
            event_queue: EventQueue::default(),
            ready: (0..count).map(|at| fleet.is_on(at)).collect(),
            servers,
            fleet,
            batches: Batches::default(),
            sources: ClientSource::all(setup.sources, setup.seed),
            tenants: setup.tenants,
            open: Vec::new(),
            open_count: 0,
            recorder,
            rules: Rules {
                network: setup.network,
                metrics: setup.metrics,
                faults: setup.faults,
                priorities: setup.priorities,
                arrivals_end,
                sample: setup.sample,
            },
        }
    }

    fn start(&mut self) {
        self.policy.engines(&self.ready, Time::ZERO);
        for (number, fault) in self.rules.faults.iter().enumerate() {
            self.event_queue.add(fault.at, Event::Fault(number as u32));
        }
        self.event_queue.add(self.recorder.window().from, Event::Begin);
        self.event_queue.add(Time::ZERO, Event::Sample);
        if let Some(metrics) = self.rules.metrics {
            self.event_queue.add(Time::ZERO.after(metrics.every), Event::Scrape);
        }
        if let Some(poll) = self.fleet.poll() {
            self.event_queue.add(Time::ZERO.after(poll), Event::Look);
        }
        for tap in 0..self.sources.len() {
            self.open_source(tap);
        }
    }

    fn next(&mut self) -> Option<(Time, Next)> {
        let dues = self.servers.iter().enumerate().map(|(at, server)| (server.due, at));
        let (due, engine) = dues.min().unwrap_or((Time::NEVER, 0));
        let event = self.event_queue.next_time().unwrap_or(Time::NEVER);
        let wake = self.policy.next_wake().map_or(Time::NEVER, |at| at.max(self.now));
        if due == Time::NEVER && event == Time::NEVER && wake == Time::NEVER {
            return None;
        }
        if due <= event && due <= wake {
            return Some((due, Next::Engine(engine)));
        }
        if event <= wake {
            return self.event_queue.pop().map(|(at, event)| (at, Next::Event(event)));
        }
        Some((wake, Next::Wake))
    }

    fn handle(&mut self, next: Next) {
        match next {
            Next::Engine(engine) => self.step(engine),
            Next::Event(event) => self.happen(event),
            Next::Wake => {
                self.policy.wake(self.now);
                self.apply_decisions();
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(tap) => self.arrive(tap as usize),
            Event::GiveUp(request) => self.give_up(request),
            Event::Submit(request, engine) => self.submit(request, engine),
            Event::Abort(request, engine) => self.abort(request, engine),
            Event::Tokens(batch) => self.receive(batch),
            Event::Fail(request) => self.fail(request, false),
            Event::Reject(request) => self.fail(request, true),
            Event::Ready(engine, ready) => self.note_ready(engine, ready),
            Event::Started(engine, number) => self.started(engine, number),
            Event::Look => self.look(),
            Event::Fault(number) => self.inject_fault(number as usize),
            Event::Scrape => self.scrape(),
            Event::Reading => self.deliver_reading(),
            Event::Begin => self.recorder.begin(self.now),
            Event::Sample => self.sample(),
        }
    }

    fn is_over(&self) -> bool {
        self.open_count == 0 && self.sources.iter().all(ClientSource::is_dry)
    }

    fn finish(mut self) -> History {
        let preemptions = self.servers.iter().map(Server::preemptions).sum();
        let hits = self.servers.iter().map(|server| server.engine.prefix_hits());
        let prefix_hits = hits.fold((0, 0), |sum, hits| (sum.0 + hits.0, sum.1 + hits.1));
        for record in self.recorder.records.iter_mut() {
            if record.outcome == Outcome::Open {
                record.end = self.now;
            }
        }
        let engine_secs = self.fleet.bill(self.now.max(self.recorder.window().to));
        History {
            prefix_hits,
            engine_secs,
            ..self.recorder.finish(self.tenants, preemptions, self.now)
        }
    }
}

#[cfg(test)]
mod tests;
