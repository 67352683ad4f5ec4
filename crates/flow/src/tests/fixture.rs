//! The fixture of these tests: a controller, a clock, and short names for common calls.

use crate::{
    Ask, BLOCK_BYTES, BackendId, BackendSupply, Band, BlockHasher, Controller, Event, Hysteresis,
    ModelId, PromptBlocks, Refusal, Settings, Span, Ticket, Time, Usage, Verdict, invariant,
};

/// The model that every backend of [`Fixture::new`] serves.
pub(crate) const MODEL: ModelId = ModelId(1);

/// A controller, the time, and every event so far.
pub(crate) struct Fixture {
    pub(crate) gate: Controller,
    pub(crate) now: Time,
    pub(crate) events: Vec<Event>,
}

/// Settings with `limit` asks in flight per backend and no hysteresis.
pub(crate) fn limited_to(limit: f64) -> Settings {
    Settings { bounds: Hysteresis::limit(limit).unwrap().into(), ..Settings::default() }
}

/// Settings with the source's watermark.
pub(crate) fn watermark_of_two() -> Settings {
    Settings { bounds: Hysteresis::default().into(), ..Settings::default() }
}

/// A ready backend for one model.
pub(crate) fn backend(id: u32, models: &[u32]) -> BackendSupply {
    let models = models.iter().map(|&model| ModelId(model)).collect();
    BackendSupply::new(BackendId(id), models)
}

/// A prompt of so many blocks. Of two prompts with different numbers the first `shared` blocks are
/// the same.
pub(crate) fn prompt(number: u64, shared: usize, blocks: usize) -> PromptBlocks {
    let mut hasher = BlockHasher::new(1);
    let text = |at: usize| if at < shared { 0 } else { number + 1 };
    let bytes = (0..blocks).flat_map(|at| [text(at); BLOCK_BYTES / 8]);
    hasher.add(&bytes.flat_map(u64::to_le_bytes).collect::<Vec<u8>>());
    hasher.finish()
}

/// A splitmix64 generator: ten lines are enough for tests.
#[derive(Clone)]
pub(crate) struct Dice(pub(crate) u64);

// === impl Fixture ===

impl Fixture {
    /// A controller with `backends` ready backends that all serve [`MODEL`].
    pub(crate) fn new(settings: Settings, backends: u32) -> Self {
        let listed: Vec<_> = (0..backends).map(|id| backend(id, &[MODEL.0])).collect();
        Self::with(settings, &listed)
    }

    pub(crate) fn with(settings: Settings, backends: &[BackendSupply]) -> Self {
        let mut fixture =
            Self { gate: Controller::new(settings), now: Time::ZERO, events: Vec::new() };
        fixture.supply(backends);
        fixture
    }

    pub(crate) fn supply(&mut self, backends: &[BackendSupply]) {
        self.gate.supply(backends, self.now);
        self.collect();
    }

    pub(crate) fn ask(&mut self, flow: &str) -> Ask {
        Ask::new(self.gate.flow(flow, 0), MODEL)
    }

    pub(crate) fn offer(&mut self, ask: Ask) -> Verdict {
        let verdict = self.gate.offer(ask, self.now);
        self.collect();
        verdict
    }

    /// Offers an ask of a flow in a band at cost 1.
    pub(crate) fn send(&mut self, flow: &str, band: Band) -> Verdict {
        let ask = self.ask(flow);
        self.offer(Ask { band, ..ask })
    }

    /// Offers an ask that must be granted at once.
    pub(crate) fn start(&mut self, flow: &str) -> Ticket {
        match self.send(flow, Band::Normal) {
            Verdict::Granted { ticket, .. } => ticket,
            other => panic!("{flow}: expected a grant, got {other:?}"),
        }
    }

    /// Offers an ask that must wait.
    pub(crate) fn queue(&mut self, flow: &str, band: Band) -> Ticket {
        match self.send(flow, band) {
            Verdict::Queued { ticket } => ticket,
            other => panic!("{flow}: expected to wait, got {other:?}"),
        }
    }

    /// Offers `count` asks that must wait.
    pub(crate) fn fill(&mut self, flow: &str, band: Band, count: usize) {
        for _ in 0..count {
            self.queue(flow, band);
        }
    }

    pub(crate) fn refusal(&mut self, flow: &str, band: Band) -> Refusal {
        match self.send(flow, band) {
            Verdict::Refused { reason, .. } => reason,
            other => panic!("{flow}: expected a refusal, got {other:?}"),
        }
    }

    pub(crate) fn settle(&mut self, ticket: Ticket, cost: u64) {
        self.gate.settle(ticket, Usage::Cost(cost), self.now).unwrap();
        self.collect();
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now = self.now.after(span);
        self.gate.wake(self.now);
        self.collect();
    }

    /// The tickets granted from the queue since the last call.
    pub(crate) fn granted(&mut self) -> Vec<Ticket> {
        let events = std::mem::take(&mut self.events);
        let tickets = events.into_iter().filter_map(|event| match event {
            Event::Granted { ticket, .. } => Some(ticket),
            Event::Evicted { .. } => None,
        });
        tickets.collect()
    }

    /// Settles the asks in flight at cost 1, one at a time, until none waits; returns the grants.
    pub(crate) fn run_dry(&mut self, mut in_flight: Vec<Ticket>) -> Vec<Ticket> {
        let mut order = Vec::new();
        while let Some(ticket) = in_flight.pop() {
            self.settle(ticket, 1);
            let granted = self.granted();
            in_flight.extend(&granted);
            order.extend(granted);
        }
        order
    }

    pub(crate) fn collect(&mut self) {
        while let Some(event) = self.gate.poll_event() {
            self.events.push(event);
        }
        invariant::check(&self.gate).unwrap();
    }
}

// === impl Dice ===

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
