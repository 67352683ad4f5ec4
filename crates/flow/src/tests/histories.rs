//! Random histories of all verbs together, checked after every step.
//!
//! Several bands, pools and domains, limits, wrong estimates, cancels, expiries, re-queues, supply
//! changes and reconfiguration. The invariants are recounted from scratch after each verb
//! ([`crate::invariant`]), and the visible results are compared with a small ledger: every ask ends
//! once, no expired ask is granted, no band is inverted, flow queues are first in first out,
//! capacity is never exceeded, virtual time never runs backwards, and the bounds of `auto` are as
//! published.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::fixture::{Fixture, backend, prompt};
use crate::queue::virtual_clock::HORIZON;
use crate::{
    Ask, AutoLimits, BANDS, BackendId, BackendSupply, Band, Bounds, Cascade, EngineReading, Event,
    FlowClass, Hysteresis, ModelId, Order, Refusal, RequeuePosition, ReserveLimits, Settings, Span,
    StockUnit, Ticket, Time, Usage, Verdict, Weight,
};

/// The ledger's record of a waiting ask.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    flow: usize,
    band: Band,
    deadline: Time,
    place: u64,
}

struct History {
    fixture: Fixture,
    waiting: BTreeMap<Ticket, Waiting>,
    in_flight: Vec<(Ticket, Waiting)>,
    ended: std::collections::BTreeSet<Ticket>,
    places: u64,
    returned: u32,
    /// Whether the order of grants is known in advance: one pool, first in first out, strict bands.
    plain: bool,
    clocks: Vec<u64>,
}

fn settings(choice: u64) -> Settings {
    let class = FlowClass {
        capacity: 8,
        ttl: Span::from_millis(400),
        objective: None,
        in_flight_max: choice.is_multiple_of(3).then_some(2),
        in_flight_per_backend_max: choice.is_multiple_of(5).then_some(1),
        weight: Weight::new(2.5).unwrap(),
    };
    let weights = [1.0, 2.0, 4.0, 8.0].map(|weight| Weight::new(weight).unwrap());
    Settings {
        total_capacity: 20,
        cascade: if choice.is_multiple_of(4) {
            Cascade::Weighted(weights)
        } else {
            Cascade::Strict
        },
        order: [Order::Fifo, Order::Deadline, Order::Workload, Order::Session]
            [choice as usize / 2 % 4],
        bounds: match choice % 5 {
            0 | 1 => Bounds::Auto,
            _ => Hysteresis::around(1.0 + (choice % 3) as f64, 0.3).unwrap().into(),
        },
        stock: if choice.is_multiple_of(7) { StockUnit::Tokens } else { StockUnit::Requests },
        reserve: match choice % 7 {
            0 | 1 => ReserveLimits::OFF,
            2 | 3 => ReserveLimits::usual(Bounds::Auto, [0, 0, 1, 1]),
            _ => ReserveLimits::new([0, 0, 1, 1], 0.5).unwrap(),
        },
        default_class: FlowClass { capacity: 12, ttl: Span::from_secs(1), ..FlowClass::default() },
        classes: vec![class],
        idle_flows_max: 3,
        cache_tokens: [0, 640, 100_000][choice as usize % 3],
        cache_slack: [0, 40][choice as usize / 3 % 2],
        cache_reorder: [0, 2, 256][choice as usize / 6 % 3],
        cache_delay: Span::from_millis([0, 60, 3000][choice as usize / 18 % 3]),
        ..Settings::default()
    }
}

fn backends(choice: u64) -> Vec<BackendSupply> {
    let shapes: [&[&[u32]]; 5] = [
        &[&[0, 1, 2]],
        &[&[0, 1], &[1, 2]],
        &[&[0], &[1], &[2]],
        &[&[0, 1, 2], &[0, 1, 2], &[2]],
        &[&[0, 1, 2], &[]],
    ];
    let shape = shapes[choice as usize % 5].iter().enumerate();
    let listed = shape.map(|(id, models)| BackendSupply {
        ready: choice >> (4 + id) & 1 == 0,
        places: [None, Some(1), Some(3)][(choice >> (8 + id)) as usize % 3],
        ..backend(id as u32, models)
    });
    listed.collect()
}

// === impl History ===

impl History {
    fn new(choice: u64) -> Self {
        let plain = choice.is_multiple_of(2);
        let (settings, listed) = if plain {
            let settings = settings(choice / 2 % 3 * 11);
            let plain = Settings { order: Order::Fifo, cascade: Cascade::Strict, ..settings };
            let settings = Settings { cache_slack: 0, cache_reorder: 0, ..plain };
            let places = [None, Some(1), Some(3)][choice as usize / 198 % 3];
            (settings, vec![BackendSupply { places, ..backend(0, &[0, 1, 2]) }])
        } else {
            (settings(choice / 2), backends(choice / 16))
        };
        Self {
            fixture: Fixture::with(settings, &listed),
            waiting: BTreeMap::new(),
            in_flight: Vec::new(),
            ended: Default::default(),
            places: 0,
            returned: 0,
            plain,
            clocks: Vec::new(),
        }
    }

    fn step(&mut self, operation: u8, value: u64) {
        match operation % 25 {
            0..=8 => self.offer(value),
            9..=12 => self.settle(value),
            13 => self.cancel(value),
            14 => self.requeue(value),
            15 | 16 => self.fixture.pass(Span::from_millis(value % 150)),
            17 => self.charge(value),
            20 | 21 => self.start(value),
            22 => self.stream(value),
            23 => self.read(value),
            24 => self.moved(value),
            18 if !self.plain => self.fixture.supply(&backends(value)),
            19 if !self.plain => {
                self.fixture.gate.configure(settings(value), self.fixture.now);
                self.fixture.collect();
                self.clocks.clear();
            }
            _ => {}
        }
        self.take_events();
        self.check_clocks();
        self.check_flow_capacity();
        self.check_watermarks();
    }

    fn offer(&mut self, value: u64) {
        let flow = value as usize % 5;
        let class = u32::from(flow >= 3 && !self.plain);
        let id = self.fixture.gate.flow(&format!("flow-{flow}"), class);
        let deadline = (value >> 60 == 7).then(|| self.fixture.now.after(Span::from_millis(90)));
        let ask = Ask {
            band: Band::DESCENDING[(value >> 8) as usize % BANDS],
            cost: (value >> 16) % 50,
            prompt: (value >> 40) % 3000,
            tokens: (value >> 16) % 3,
            streamed: !(value >> 52).is_multiple_of(4),
            deadline,
            ..Ask::new(id, ModelId((value >> 24) as u32 % 3))
        };
        let total = self.fixture.gate.settings().total_capacity;
        let blocks = prompt(value >> 30 & 7, 4, (value >> 33 & 15) as usize);
        let verdict = self.fixture.gate.offer_prompt(ask, blocks, self.fixture.now);
        self.fixture.collect();
        let ttl = if class == 1 { Span::from_millis(400) } else { Span::from_secs(1) };
        let ttl = self.fixture.now.after(ttl);
        let known = Waiting {
            flow,
            band: ask.band,
            deadline: deadline.map_or(ttl, |deadline| deadline.min(ttl)),
            place: self.next_place(),
        };
        match verdict {
            Verdict::Granted { ticket, .. } => self.in_flight.push((ticket, known)),
            Verdict::Queued { ticket } => {
                assert!(self.fixture.gate.depth() <= total + self.returned, "capacity");
                assert!(self.waiting.insert(ticket, known).is_none(), "a ticket given twice");
            }
            Verdict::Refused { reason, retry_after } => {
                assert!(retry_after <= Span::from_secs(59));
                self.check_refusal(&known, reason);
            }
        }
    }

    /// A critical ask finds room unless every ask in its way is critical too.
    fn check_refusal(&self, refused: &Waiting, reason: Refusal) {
        let in_its_way = |other: &&Waiting| match reason {
            Refusal::FlowFull => other.flow == refused.flow,
            Refusal::QueueFull | Refusal::TooManyFlows => true,
            _ => false,
        };
        if refused.band == Band::Critical {
            let mut others = self.waiting.values().filter(in_its_way);
            assert!(others.all(|other| other.band == Band::Critical), "{refused:?}: {reason:?}");
        }
    }

    /// No flow has more waiting asks than its capacity, except by asks that were requeued.
    fn check_flow_capacity(&self) {
        for flow in 0..5 {
            let capacity = if flow >= 3 && !self.plain { 8 } else { 12 };
            let waiting = self.waiting.values().filter(|waiting| waiting.flow == flow).count();
            assert!(waiting <= capacity + self.returned as usize, "flow {flow}: {waiting} wait");
        }
    }

    fn settle(&mut self, value: u64) {
        if let Some((ticket, _)) = self.pick(value) {
            let usage =
                if value.is_multiple_of(5) { Usage::Unknown } else { Usage::Cost(value >> 40) };
            self.fixture.gate.settle(ticket, usage, self.fixture.now).unwrap();
            assert!(self.ended.insert(ticket));
            self.fixture.collect();
        }
    }

    fn charge(&mut self, value: u64) {
        if let Some(&(ticket, _)) = self.in_flight.last() {
            self.fixture.gate.charge(ticket, value % 90, self.fixture.now).unwrap();
            self.fixture.collect();
        }
    }

    fn start(&mut self, value: u64) {
        let count = self.in_flight.len().max(1);
        if let Some(&(ticket, _)) = self.in_flight.get(value as usize % count) {
            self.fixture.gate.started(ticket, self.fixture.now).unwrap();
            self.fixture.collect();
        }
    }

    fn stream(&mut self, value: u64) {
        if let Some(&(ticket, _)) = self.in_flight.first() {
            self.fixture
                .gate
                .streamed(ticket, value % 700 * (value >> 60), self.fixture.now)
                .unwrap();
            self.fixture.collect();
        }
    }

    fn read(&mut self, value: u64) {
        let reading = EngineReading {
            running: if value.is_multiple_of(9) { u32::MAX } else { value as u32 % 5 },
            waiting: (value >> 8) as u32 % 3,
            kv_used: match value >> 16 & 15 {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => -1.0,
                used => used as f64 / 15.0,
            },
            preemptions: value >> 58,
            kv_tokens: value.is_multiple_of(3).then_some(value >> 52),
            running_max: value.is_multiple_of(5).then_some((value >> 24) as u32 % 24),
            ranks: (value >> 32) as u32 % 4,
        };
        self.fixture.gate.reading(BackendId(value as u32 % 4), reading, self.fixture.now);
        self.fixture.collect();
    }

    fn cancel(&mut self, value: u64) {
        let ticket = self.waiting.keys().nth(value as usize % (self.waiting.len().max(1))).copied();
        if let Some(ticket) = ticket {
            self.fixture.gate.cancel(ticket, self.fixture.now).unwrap();
            self.waiting.remove(&ticket);
            assert!(self.ended.insert(ticket));
            self.fixture.collect();
        }
    }

    /// The caller sent an ask to another backend, known or unknown.
    fn moved(&mut self, value: u64) {
        let Some(at) = (value as usize).checked_rem(self.in_flight.len()) else { return };
        let (ticket, _) = self.in_flight[at];
        let to = BackendId((value >> 32) as u32 % 5);
        self.fixture.gate.moved(ticket, to, self.fixture.now).unwrap();
        self.fixture.collect();
    }

    fn requeue(&mut self, value: u64) {
        let Some((ticket, mut known)) = self.pick(value) else { return };
        let back = value.is_multiple_of(2);
        if back {
            known.place = self.next_place();
        }
        self.returned += 1;
        self.waiting.insert(ticket, known);
        let place = if back { RequeuePosition::Back } else { RequeuePosition::Original };
        self.fixture.gate.requeue(ticket, place, self.fixture.now).unwrap();
        self.fixture.collect();
    }

    fn pick(&mut self, value: u64) -> Option<(Ticket, Waiting)> {
        let count = self.in_flight.len();
        (count > 0).then(|| self.in_flight.swap_remove(value as usize % count))
    }

    fn next_place(&mut self) -> u64 {
        self.places += 1;
        self.places
    }

    fn take_events(&mut self) {
        for event in std::mem::take(&mut self.fixture.events) {
            match event {
                Event::Granted { ticket, .. } => {
                    let known = self.waiting.remove(&ticket).expect("it waited");
                    assert!(known.deadline > self.fixture.now, "expired and granted");
                    self.check_order(&known);
                    self.in_flight.push((ticket, known));
                }
                Event::Evicted { ticket, .. } => {
                    assert!(self.waiting.remove(&ticket).is_some(), "it waited");
                    assert!(self.ended.insert(ticket), "ended twice");
                }
            }
        }
        assert_eq!(self.fixture.gate.depth() as usize, self.waiting.len());
        assert_eq!(self.fixture.gate.in_flight() as usize, self.in_flight.len());
    }

    /// No ask of a higher band waits that may go, and no older ask of the same flow queue, if that
    /// is guaranteed.
    fn check_order(&self, granted: &Waiting) {
        if !self.plain {
            return;
        }
        for (&ticket, other) in &self.waiting {
            let may_wait = other.band <= granted.band || self.is_over_share(ticket);
            assert!(may_wait, "{granted:?} went before {other:?}");
            let same_line = (other.flow, other.band) == (granted.flow, granted.band);
            assert!(!same_line || other.place > granted.place, "{granted:?} before {other:?}");
        }
    }

    /// Whether the flow of a waiting ask holds more than its share, so that places are kept from it
    /// in any band.
    fn is_over_share(&self, waiting: Ticket) -> bool {
        let gate = &self.fixture.gate;
        let slot = gate.asks.find(waiting).expect("it waits");
        gate.flow_queues[gate.asks[slot].flow_queue].over_share
    }

    /// The published bound of `auto` is the one that holds asks back.
    fn check_watermarks(&self) {
        if self.fixture.gate.settings().bounds != Bounds::Auto {
            return;
        }
        for AutoLimits { slots: (in_flight, _), watermark, binding, .. } in
            self.fixture.gate.backends().map(|backend| backend.limits)
        {
            assert_eq!(in_flight >= watermark, binding.is_some(), "{in_flight} of {watermark}");
        }
    }

    fn check_clocks(&mut self) {
        let fair_queues = self.fixture.gate.fair_queues.iter().flatten();
        let clocks: Vec<u64> = fair_queues.map(|fair_queue| fair_queue.clock.now()).collect();
        if clocks.len() >= self.clocks.len() && self.plain {
            for (now, before) in clocks.iter().zip(&self.clocks) {
                assert!(now >= before && *before >= HORIZON, "virtual time ran backwards");
            }
        }
        self.clocks = clocks;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_promise_holds_after_every_step(
        choice in any::<u64>(),
        steps in prop::collection::vec((any::<u8>(), any::<u64>()), 1..300),
    ) {
        let mut history = History::new(choice);
        steps.into_iter().for_each(|(operation, value)| history.step(operation, value));
    }
}
