//! Tidegate as a policy: the core's controller with the calls that the gateway makes.
//!
//! A flow is a tenant. An ask costs one, or its tokens: the prompt plus twice the output that is
//! expected, which is the mean of what has completed. What it really took is settled at the end,
//! and a stream that passes its estimate is charged as it goes.

use std::collections::{BTreeMap, VecDeque};

use flow::{
    Ask, AutoBound, BackendId, BackendSupply, Bounds, Controller, Event, Eviction, FlowClass,
    ModelId, Refusal, RequeuePosition, ScaleGoal, Settings, Span, Ticket, Time, Usage, Verdict,
    Weight,
};

use super::{
    Cost, Decision, EngineId, Failure, Offer, Policy, RefusalReason, RequestId, Spent, Tenant,
};
use crate::engine::EngineReading;

const MODEL: ModelId = ModelId(0);
/// The output expected before anything has completed.
const EXPECTED_AT_FIRST: f64 = 256.0;
/// How much of the expectation each completed request renews.
const EXPECTED_STEP: f64 = 0.02;

/// How the core is set up.
#[derive(Clone, Debug, Default)]
pub struct TidegateConfig {
    /// What the controller is told. Its classes are made from the tenants' weights.
    pub settings: Settings,
    /// What asks cost.
    pub cost: Cost,
}

/// The core's controller as a policy.
#[derive(Debug)]
pub struct Tidegate {
    controller: Controller,
    cost: Cost,
    /// The weights that have a class of their own, from class 1.
    weights: Vec<f64>,
    /// By request: its ticket, while it is alive, and what it was charged.
    asks: Vec<Asked>,
    /// By ticket: the request. Not by the ticket's index, because the event that tells of an
    /// eviction comes after the offer that took its place.
    requests: BTreeMap<Ticket, RequestId>,
    expected: f64,
    /// The share of requests whose answer comes in one piece.
    unstreamed: f64,
    /// Whether the engines report how many requests they run at most, which few do.
    told: bool,
    places: Option<u32>,
    decisions: VecDeque<Decision>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    ticket: Option<Ticket>,
    prompt: u32,
    /// The output tokens that its charge covers.
    covered: u32,
    /// Whether its answer is seen as it comes, or only when it is whole.
    streamed: bool,
}

// === impl Tidegate ===

impl Tidegate {
    /// A controller that knows no engine yet. Tenants with a weight other than 1 must be listed.
    pub fn new(config: TidegateConfig, tenants: &[Tenant]) -> Self {
        let TidegateConfig { mut settings, cost } = config;
        let mut weights = Vec::new();
        settings.classes.clear();
        for tenant in tenants {
            let Ok(weight) = Weight::new(tenant.weight) else { continue };
            if !weights.contains(&tenant.weight) {
                weights.push(tenant.weight);
                settings.classes.push(FlowClass { weight, ..settings.default_class });
            }
        }
        Self {
            controller: Controller::new(settings),
            cost,
            weights,
            asks: Vec::new(),
            requests: BTreeMap::new(),
            expected: EXPECTED_AT_FIRST,
            unstreamed: 0.0,
            told: false,
            places: None,
            decisions: VecDeque::new(),
        }
    }

    /// The same with this share of requests answered in one piece, evenly spread: of those nothing
    /// is seen before they have ended.
    pub fn unstreamed(self, share: f64) -> Self {
        Self { unstreamed: share, ..self }
    }

    /// The same with engines that report how many requests they run at most.
    pub fn told(self, told: bool) -> Self {
        Self { told, ..self }
    }

    /// The operator says how many requests each engine runs at once.
    pub fn places(self, places: Option<u32>) -> Self {
        Self { places, ..self }
    }

    /// The controller, to look into.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    fn class_of(&self, tenant: &Tenant) -> u32 {
        let known = self.weights.iter().position(|&weight| weight == tenant.weight);
        known.map_or(0, |at| at as u32 + 1)
    }

    fn is_streamed(&self, request: RequestId) -> bool {
        let whole = |count: RequestId| (f64::from(count) * self.unstreamed).floor();
        whole(request + 1) == whole(request)
    }

    fn ticket(&self, request: RequestId) -> Option<Ticket> {
        self.asks[request as usize].ticket
    }

    fn take(&mut self, request: RequestId) -> Option<Ticket> {
        let ticket = self.asks[request as usize].ticket.take()?;
        self.requests.remove(&ticket);
        Some(ticket)
    }

    fn keep(&mut self, request: RequestId, ticket: Ticket) {
        self.asks[request as usize].ticket = Some(ticket);
        self.requests.insert(ticket, request);
    }

    fn send(&mut self, request: RequestId, backend: BackendId) {
        let Asked { prompt, covered, .. } = self.asks[request as usize];
        let charged = self.cost.of(Spent { prompt, output: covered });
        self.decisions.push_back(Decision::Send { request, engine: backend.0, charged });
    }

    fn refuse(&mut self, request: RequestId, why: RefusalReason, retry_after: Span) {
        let retry_after = Some(retry_after);
        self.decisions.push_back(Decision::Refuse { request, why, retry_after });
    }

    /// Turns the events of waiting requests into decisions.
    fn gather(&mut self) {
        while let Some(event) = self.controller.poll_event() {
            let (Event::Granted { ticket, .. } | Event::Evicted { ticket, .. }) = event;
            let Some(&request) = self.requests.get(&ticket) else { continue };
            match event {
                Event::Granted { backend, .. } => self.send(request, backend),
                Event::Evicted { reason, retry_after, .. } => {
                    self.take(request);
                    self.refuse(request, evicted(reason), retry_after);
                }
            }
        }
    }

    /// Ends a grant with what it really cost. A ticket that is no longer alive cannot be here: it
    /// is taken away with the event that ended it.
    fn settle(&mut self, request: RequestId, usage: Usage, now: Time) {
        if let Some(ticket) = self.take(request) {
            let _ = self.controller.settle(ticket, usage, now);
        }
        self.gather();
    }
}

impl Policy for Tidegate {
    fn offer(&mut self, offer: &Offer<'_>, now: Time) {
        let (request, prompt) = (offer.request, offer.prompt);
        let covered = self.expected.round() as u32;
        let streamed = self.is_streamed(request);
        self.asks.push(Asked { ticket: None, prompt, covered, streamed });
        let flow = self.controller.flow(&offer.known.name, self.class_of(offer.known));
        let ask = Ask {
            band: offer.band,
            cost: self.cost.of(Spent { prompt, output: covered }),
            prompt: u64::from(prompt),
            tokens: u64::from(prompt) + u64::from(covered),
            ttl: offer.ttl,
            streamed,
            ..Ask::new(flow, MODEL)
        };
        match self.controller.offer_prompt(ask, offer.blocks(), now) {
            Verdict::Granted { ticket, backend } => {
                self.keep(request, ticket);
                self.send(request, backend);
            }
            Verdict::Queued { ticket } => self.keep(request, ticket),
            Verdict::Refused { reason, retry_after } => {
                self.refuse(request, refused(reason), retry_after);
            }
        }
        self.gather();
    }

    fn started(&mut self, request: RequestId, now: Time) {
        if let Asked { ticket: Some(ticket), streamed: true, .. } = self.asks[request as usize] {
            let _ = self.controller.started(ticket, now);
        }
        self.gather();
    }

    fn streamed(&mut self, request: RequestId, tokens: u32, now: Time) {
        let Asked { ticket, prompt, covered, streamed } = self.asks[request as usize];
        let Some(ticket) = ticket.filter(|_| streamed) else { return };
        let _ = self.controller.streamed(ticket, u64::from(tokens), now);
        if self.cost == Cost::Tokens && tokens > covered {
            let cost = self.cost.of(Spent { prompt, output: tokens });
            let _ = self.controller.charge(ticket, cost, now);
        }
        self.gather();
    }

    fn cached(&mut self, request: RequestId, tokens: u32, now: Time) {
        let Asked { ticket, prompt, .. } = self.asks[request as usize];
        if let Some(ticket) = ticket {
            let _ = self.controller.cached(ticket, u64::from(tokens), u64::from(prompt), now);
        }
    }

    fn ended(&mut self, request: RequestId, spent: Spent, now: Time) {
        self.expected += (f64::from(spent.output) - self.expected) * EXPECTED_STEP;
        self.settle(request, Usage::Cost(self.cost.of(spent)), now);
    }

    fn gave_up(&mut self, request: RequestId, spent: Spent, now: Time) {
        if spent.output > 0 {
            self.settle(request, Usage::Cost(self.cost.of(spent)), now);
            return;
        }
        // It is unknown how much of the prompt was read, so the charge stands.
        if let Some(ticket) = self.take(request) {
            let _ = self.controller.cancel(ticket, now);
        }
        self.gather();
    }

    fn failed(&mut self, request: RequestId, failure: Failure, now: Time) {
        match failure {
            Failure::Untouched => {
                if let Some(ticket) = self.ticket(request) {
                    let _ = self.controller.requeue(ticket, RequeuePosition::Back, now);
                }
                self.gather();
            }
            Failure::Exhausted => self.settle(request, Usage::Cost(0), now),
            Failure::BrokenOff(spent) => {
                self.settle(request, Usage::Cost(self.cost.of(spent)), now);
            }
        }
    }

    fn engines(&mut self, ready: &[bool], now: Time) {
        let backend = |(ready, id): (&bool, u32)| BackendSupply {
            ready: *ready,
            places: self.places,
            ..BackendSupply::new(BackendId(id), vec![MODEL])
        };
        let supply: Vec<BackendSupply> = ready.iter().zip(0..).map(backend).collect();
        self.controller.supply(&supply, now);
        self.gather();
    }

    fn reading(&mut self, engine: EngineId, reading: &EngineReading, now: Time) {
        let running_max = reading.running_max.filter(|_| self.told);
        self.controller.reading(BackendId(engine), EngineReading { running_max, ..*reading }, now);
        self.gather();
    }

    fn next_wake(&self) -> Option<Time> {
        self.controller.next_wake()
    }

    fn wake(&mut self, now: Time) {
        self.controller.wake(now);
        self.gather();
    }

    fn decide(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }

    fn follows_streams(&self) -> bool {
        self.cost == Cost::Tokens || self.controller.settings().bounds == Bounds::Auto
    }

    fn cost(&self) -> Cost {
        self.cost
    }

    fn slack(&self) -> u64 {
        u64::from(self.controller.settings().cache_slack)
    }

    fn engines_wanted(&mut self, now: Time) -> Option<u32> {
        let demand = self.controller.demand(MODEL, now)?;
        Some(demand.wanted(ScaleGoal::default()))
    }

    fn binding(&self, engine: EngineId) -> Option<AutoBound> {
        let view = self.controller.backends().find(|view| view.id == BackendId(engine))?;
        view.limits.binding
    }

    /// Under `auto` the nearer of its bounds on asks and on tokens, the latter at the mean size of
    /// the requests in flight.
    fn limit(&self, engine: EngineId) -> Option<f64> {
        if let Bounds::Fixed(hysteresis) = self.controller.settings().bounds {
            return Some(hysteresis.scaled(1)[1]);
        }
        let view = self.controller.backends().find(|view| view.id == BackendId(engine))?;
        let (in_flight, slots) = view.limits.slots;
        let (tokens, tokens_max) = view.limits.tokens;
        let by_tokens = f64::from(in_flight) * tokens_max / tokens.max(1) as f64;
        Some(slots.min(by_tokens)).filter(|limit| limit.is_finite())
    }
}

fn evicted(reason: Eviction) -> RefusalReason {
    match reason {
        Eviction::Expired | Eviction::DeadlineExceeded => RefusalReason::Expired,
        Eviction::TooLate => RefusalReason::Hopeless,
        Eviction::Preempted => RefusalReason::Preempted,
        Eviction::Displaced => RefusalReason::Full,
        Eviction::ShuttingDown => RefusalReason::NoEngine,
    }
}

fn refused(reason: Refusal) -> RefusalReason {
    match reason {
        Refusal::FlowFull
        | Refusal::TooManyFlows
        | Refusal::QueueFull
        | Refusal::TooManyAsks
        | Refusal::UnknownFlow => RefusalReason::Full,
        Refusal::NotCritical
        | Refusal::QueueDisabled
        | Refusal::NoTimeToWait
        | Refusal::WaitTooLong => RefusalReason::Hopeless,
        Refusal::DeadlineExceeded => RefusalReason::Expired,
        Refusal::UnknownModel | Refusal::ShuttingDown => RefusalReason::NoEngine,
    }
}
