//! Random histories for the reference and the controller to live through.
//!
//! A step names everything outright, so that a history from which steps were left out is a history
//! still: asks go by the number of the step that offered them.

use crate::{
    Admission, Ask, BackendId, BackendSupply, Band, Bounds, COST_MAX, Cascade, FlowClass, FlowId,
    Hysteresis, ModelId, Order, RequeuePosition, ReserveLimits, RouteWeights, Settings, Span,
    StockUnit, Time, UrgencyWeights, Usage, Weight, Workload, WorkloadId, WorkloadLimits,
};

/// The longest time to live, in milliseconds. Deadlines that lie beyond the reach of the timing
/// wheel, 2^56 ns, make it turn for ever.
const TTL_MOST: u64 = u64::MAX;

/// Splitmix64.
#[derive(Clone, Debug)]
pub(in crate::tests) struct Random(pub(in crate::tests) u64);

#[derive(Clone, Debug)]
pub(in crate::tests) struct Step {
    pub(in crate::tests) number: u64,
    pub(in crate::tests) now: Time,
    pub(in crate::tests) action: Action,
}

#[derive(Clone, Debug)]
pub(in crate::tests) enum Action {
    /// The ask's flow and workload are filled in from the other two.
    Offer(Caller, Sender, Ask),
    Settle(u64, Usage),
    Charge(u64, u64),
    Cancel(u64),
    Requeue(u64, RequeuePosition),
    Ready(Vec<(BackendId, bool)>),
    Wake,
    Close,
}

/// Which flow an ask says it belongs to.
#[derive(Clone, Copy, Debug)]
pub(in crate::tests) enum Caller {
    Named {
        number: u64,
        class: u32,
    },
    /// An id that was given out at that step, perhaps long ago.
    Remembered(u64),
}

/// Which workload an ask says it belongs to.
#[derive(Clone, Copy, Debug)]
pub(in crate::tests) enum Sender {
    Named(u64),
    Generated,
    NeverGivenOut,
}

/// What the next step may depend on.
pub(in crate::tests) struct Present {
    pub(in crate::tests) flying: Vec<u64>,
    pub(in crate::tests) waiting: Vec<u64>,
    pub(in crate::tests) next_wake: Option<Time>,
}

/// Draws the steps of one run.
pub(in crate::tests) struct History {
    random: Random,
    now: Time,
    next: u64,
    pressure: u64,
    largest_cost: u64,
    flows: u64,
    sessions: u64,
    classes: u64,
    backends: Vec<BackendId>,
    models: Vec<ModelId>,
    /// The step at which it closes.
    closing: u64,
}

// === impl Random ===

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn weight(&mut self) -> Weight {
        Weight::new(self.pick(&[0.01, 0.3, 0.5, 1.0, 1.0, 2.0, 3.0, 7.5, 1000.0])).unwrap()
    }

    fn limit(&mut self, most: u64) -> Option<u32> {
        self.one_in(3).then(|| self.between(1, most) as u32)
    }

    fn class(&mut self) -> FlowClass {
        FlowClass {
            weight: self.weight(),
            capacity: self.between(3, 20) as u32,
            ttl: Span::from_millis(self.pick(&[0, 3, 40, 400, 4_000, TTL_MOST])),
            objective: self.one_in(3).then(|| self.objective()),
            in_flight_max: self.limit(6),
            in_flight_per_backend_max: self.limit(3),
        }
    }

    fn objective(&mut self) -> Span {
        self.pick(&[Span::FOREVER, Span::ZERO, Span::from_millis(2), Span::from_millis(30)])
    }

    fn bounds(&mut self, unit: StockUnit) -> Bounds {
        let scale = if unit == StockUnit::Tokens { 20.0 } else { 1.0 };
        let watermark = self.pick(&[1.0, 1.5, 2.0, 3.0, 5.0]) * scale;
        let bounds = match self.below(8) {
            0 => Hysteresis::between(0.1, watermark, watermark),
            1 | 2 => Hysteresis::limit(watermark),
            3 | 4 => Hysteresis::between(watermark / 2.0, watermark, watermark * 2.0),
            _ => Hysteresis::around(watermark, self.pick(&[0.1, 0.4, 0.9])),
        };
        bounds.unwrap().into()
    }

    fn reserve(&mut self) -> ReserveLimits {
        let least = std::array::from_fn(|_| self.pick(&[0, 0, 1, 3]));
        let limits = ReserveLimits::new(least, self.pick(&[0.0, 0.125, 0.3, 0.5])).unwrap();
        ReserveLimits { for_flows: !self.one_in(3), ..limits }
    }

    fn cascade(&mut self) -> Cascade {
        if self.one_in(2) {
            return Cascade::Strict;
        }
        Cascade::Weighted(std::array::from_fn(|_| self.weight()))
    }

    pub(in crate::tests) fn settings(&mut self, order: Order) -> Settings {
        let stock = self.pick(&[StockUnit::Requests, StockUnit::Requests, StockUnit::Tokens]);
        let law = [self.below(10) as f64 / 10.0, 0.4, self.below(10) as f64 / 10.0];
        Settings {
            enabled: !self.one_in(30),
            total_capacity: if self.one_in(30) { 0 } else { self.between(5, 60) as u32 },
            existing_flows_may_exceed_total: self.one_in(3),
            refuse_hopeless: false,
            objectives: std::array::from_fn(|_| self.objective()),
            overload_after: Span::from_millis(self.pick(&[5, 60, 900, 180_000])),
            admission: match self.below(10) {
                0 => Admission::CriticalOnly,
                1 => Admission::UntilFull,
                _ => Admission::All,
            },
            cascade: self.cascade(),
            order,
            bounds: self.bounds(stock),
            pace_max: None,
            slo_tpot: None,
            stock,
            reserve: self.reserve(),
            route: RouteWeights::default(),
            cache_tokens: self.pick(&[0, 0, 640, 1_000_000]),
            cache_slack: self.pick(&[0, 1, 100, 10_000_000]),
            cache_reorder: self.pick(&[0, 1, 3, 1000]),
            // The reference looks at waiting asks more often than the controller.
            cache_delay: Span::ZERO,
            charge_cached: self.pick(&[true, false]),
            // No backend reports its loaded models, so these change nothing.
            model_stay: Span::from_millis(self.pick(&[0, 10_000])),
            model_slack: self.pick(&[0, 64]),
            default_class: self.class(),
            classes: vec![self.class(), self.class()],
            urgency: UrgencyWeights::new(law, Span::from_millis(500), 50.0).unwrap(),
            workloads: WorkloadLimits {
                window: Span::from_millis(self.pick(&[60, 300, 60_000])),
                idle: Span::from_millis(self.pick(&[20, 2_000])),
                count_max: self.between(2, 6) as u32,
            },
            idle_flows_max: self.pick(&[0, 1, 3, 100]),
        }
    }

    pub(in crate::tests) fn supply(&mut self) -> Vec<BackendSupply> {
        let (backends, models) = (self.between(1, 5), self.between(1, 4));
        let backend = |at: u64| {
            let further = (0..models).filter(|_| self.one_in(2)).collect::<Vec<_>>();
            let models = further.into_iter().chain([at % models]);
            let models = models.map(|model| ModelId(model as u32)).collect();
            let ready = !self.one_in(5);
            BackendSupply { ready, ..BackendSupply::new(BackendId(100 - at as u32), models) }
        };
        (0..backends).map(backend).collect()
    }
}

// === impl History ===

impl History {
    pub(in crate::tests) fn new(mut random: Random, supply: &[BackendSupply], steps: u64) -> Self {
        Self {
            now: Time::ZERO,
            next: 0,
            pressure: 60,
            largest_cost: random.pick(&[1, 10, 10_000, COST_MAX]),
            flows: random.between(2, 8),
            sessions: random.pick(&[1, 2, 5, 1000]),
            classes: random.between(1, 3),
            backends: supply.iter().map(|backend| backend.id).collect(),
            models: supply.iter().flat_map(|backend| backend.models.clone()).collect(),
            closing: if random.one_in(4) { steps * 9 / 10 } else { steps },
            random,
        }
    }

    pub(in crate::tests) fn step(&mut self, present: &Present) -> Step {
        let number = self.next;
        self.next += 1;
        if number.is_multiple_of(100) {
            self.pressure = self.random.pick(&[40, 60, 60, 80]);
        }
        let ahead = match self.random.below(100) {
            0..50 => 0,
            50..90 => self.random.below(3_000_000),
            90..98 => self.random.below(60_000_000),
            _ => self.random.below(3_000_000_000),
        };
        self.now = self.now.after(Span::from_nanos(ahead));
        let action = self.action(present);
        // Clocks of callers run backwards now and then.
        let back = if self.random.one_in(50) { self.random.below(5_000_000) } else { 0 };
        let now = Time::from_nanos(self.now.nanos().saturating_sub(back));
        Step { number, now, action }
    }

    fn action(&mut self, present: &Present) -> Action {
        if self.next > self.closing {
            self.closing = u64::MAX;
            return Action::Close;
        }
        if self.random.below(100) < self.pressure {
            return self.offer();
        }
        match self.random.below(40) {
            0..20 => Action::Settle(self.ask(present), self.usage()),
            20..23 => Action::Charge(self.ask(present), self.random.below(3 * self.largest_cost)),
            23..26 if !present.waiting.is_empty() => {
                Action::Cancel(self.random.pick(&present.waiting))
            }
            23..28 => Action::Cancel(self.ask(present)),
            28..33 => Action::Requeue(
                self.ask(present),
                self.random.pick(&[RequeuePosition::Original, RequeuePosition::Back]),
            ),
            33..36 => self.readiness(),
            _ => {
                let next = present.next_wake.filter(|_| self.random.one_in(4));
                self.now = self.now.max(next.unwrap_or(Time::ZERO));
                Action::Wake
            }
        }
    }

    fn offer(&mut self) -> Action {
        let number = self.random.below(self.flows);
        let class =
            if self.random.one_in(40) { self.random.below(4) } else { number % self.classes };
        let caller = match self.random.one_in(20) {
            true => Caller::Remembered(self.random.below(self.next)),
            false => Caller::Named { number, class: class as u32 },
        };
        let sender = match self.random.below(8) {
            0 => Sender::Generated,
            1 => Sender::NeverGivenOut,
            _ => Sender::Named(self.random.below(8)),
        };
        let ttl = self.random.pick(&[0, 1, 30, 30, 300, 300, 3_000]);
        let patience = Span::from_nanos(self.random.below(80_000_000));
        let listed = self.random.pick(&self.models);
        let model = if self.random.one_in(50) { ModelId(9) } else { listed };
        let ask = Ask {
            band: self.random.pick(&Band::DESCENDING),
            cost: self.random.between(0, self.largest_cost),
            tokens: self.random.between(0, 25),
            prompt: 16 * self.random.between(0, 400),
            workload: Workload {
                id: WorkloadId::GENERATED,
                criticality: self.random.below(8) as u8,
            },
            ttl: self.random.one_in(4).then_some(Span::from_millis(ttl)),
            objective: self.random.one_in(4).then(|| self.random.objective()),
            flow_session: self.random.below(self.sessions) as u32,
            deadline: self.random.one_in(8).then_some(self.now.after(patience)),
            ..Ask::new(FlowId { slot: 0, generation: 0 }, model)
        };
        Action::Offer(caller, sender, ask)
    }

    /// An ask in flight, or now and then one that waits, has ended or never was.
    fn ask(&mut self, present: &Present) -> u64 {
        if present.flying.is_empty() || self.random.one_in(20) {
            return self.random.below(self.next);
        }
        self.random.pick(&present.flying)
    }

    fn usage(&mut self) -> Usage {
        match self.random.below(6) {
            0 => Usage::Unknown,
            1 => Usage::Cost(0),
            2 => Usage::Failed,
            _ => Usage::Cost(self.random.below(2 * self.largest_cost + 1)),
        }
    }

    fn readiness(&mut self) -> Action {
        let mut listed = self.backends.clone();
        listed.retain(|_| self.random.one_in(3));
        Action::Ready(listed.into_iter().map(|id| (id, !self.random.one_in(3))).collect())
    }
}
