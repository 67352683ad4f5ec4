//! K04: backends that load models on demand stay with a model for a while, and nobody starves.

use std::collections::{BTreeMap, VecDeque};

use super::fixture::{Dice, Fixture, backend, limited_to};
use crate::{Ask, BackendId, ModelId, Settings, Span, Ticket, Time, Usage, Verdict};

const A: ModelId = ModelId(1);
const B: ModelId = ModelId(2);
const BACKEND: BackendId = BackendId(0);
const STAY: Span = Span::from_secs(10);
const LOAD: Span = Span::from_secs(20);
const SERVICE: Span = Span::from_secs(1);

fn staying(places: f64) -> Settings {
    let mut settings = Settings { model_stay: STAY, model_slack: 64, ..limited_to(places) };
    settings.default_class.ttl = Span::from_secs(100_000);
    settings
}

/// One backend that serves both models and has none of them loaded.
fn empty(settings: Settings) -> Fixture {
    let mut fixture = Fixture::with(settings, &[backend(BACKEND.0, &[A.0, B.0])]);
    fixture.gate.loaded(BACKEND, Some(Vec::new()), fixture.now);
    fixture
}

// === impl Fixture ===

impl Fixture {
    fn ask_for(&mut self, flow: &str, model: ModelId) -> Verdict {
        let flow = self.gate.flow(flow, 0);
        self.offer(Ask::new(flow, model))
    }

    /// An ask that is granted at once.
    fn runs(&mut self, model: ModelId) -> Ticket {
        match self.ask_for("first", model) {
            Verdict::Granted { ticket, .. } => ticket,
            other => panic!("expected a grant, got {other:?}"),
        }
    }

    fn waits(&mut self, flow: &str, model: ModelId) -> Ticket {
        match self.ask_for(flow, model) {
            Verdict::Queued { ticket } => ticket,
            other => panic!("expected a wait, got {other:?}"),
        }
    }

    /// The order in which asks are granted, one after the other.
    fn drained(&mut self, mut running: Ticket) -> Vec<Ticket> {
        let mut order = Vec::new();
        loop {
            self.gate.settle(running, Usage::Unknown, self.now).unwrap();
            self.collect();
            let Some(&next) = self.granted().first() else { return order };
            order.push(next);
            running = next;
        }
    }
}

/// Whether each model has a flow of its own or both share one, the loaded model goes first.
#[test]
fn k04_asks_for_the_loaded_model_go_first() {
    for flows in [["a", "b"], ["both", "both"]] {
        let mut fixture = empty(staying(1.0));
        let running = fixture.runs(A);
        let waiting = [B, A, B, A, B, A].map(|model| {
            let flow = flows[usize::from(model == B)];
            (model, fixture.waits(flow, model))
        });
        let order = fixture.drained(running);
        let model_of = |ticket| waiting.iter().find(|(_, other)| *other == ticket).unwrap().0;
        let models: Vec<_> = order.into_iter().map(model_of).collect();
        assert_eq!(models, [A, A, A, B, B, B], "{flows:?}");
    }
}

/// The slack limits how far a flow goes ahead of its turn.
#[test]
fn k04_the_slack_bounds_what_goes_ahead_of_a_cold_model() {
    for slack in [0, 2, 5] {
        let mut fixture = empty(Settings { model_slack: slack, ..staying(1.0) });
        let running = fixture.runs(A);
        let cold = fixture.waits("b", B);
        for _ in 0..20 {
            fixture.waits("a", A);
        }
        let order = fixture.drained(running);
        let ahead = order.iter().position(|&ticket| ticket == cold).unwrap();
        assert!(ahead as u32 <= slack + 1, "{ahead} with a slack of {slack}");
        assert!(ahead as u32 >= slack, "{ahead} with a slack of {slack}");
    }
}

/// A busy backend is not made to load another model until its stay is over. An idle one is.
#[test]
fn k04_a_cold_model_waits_for_the_end_of_the_stay() {
    let mut fixture = empty(staying(4.0));
    let first = fixture.runs(A);
    let cold = fixture.waits("b", B);
    fixture.pass(LOAD);
    fixture.gate.started(first, fixture.now).unwrap();
    fixture.pass(Span::from_secs(9));
    fixture.gate.loaded(BACKEND, Some(vec![A]), fixture.now);
    fixture.collect();
    assert_eq!(fixture.granted(), [], "the first model has been loaded for nine seconds");
    let warm = fixture.waits("a", A);
    assert_eq!(fixture.granted(), [warm], "its asks go on");
    fixture.pass(Span::from_secs(1));
    fixture.gate.loaded(BACKEND, Some(vec![A]), fixture.now);
    fixture.collect();
    assert_eq!(fixture.granted(), [cold]);

    let mut fixture = empty(staying(4.0));
    let first = fixture.runs(A);
    let cold = fixture.waits("b", B);
    assert_eq!(fixture.drained(first), [cold], "the backend is idle");
}

#[test]
fn k04_a_backend_that_has_the_model_is_preferred() {
    let both = [A.0, B.0];
    let mut fixture = Fixture::with(staying(8.0), &[backend(0, &both), backend(1, &both)]);
    fixture.gate.loaded(BackendId(0), Some(vec![A]), fixture.now);
    fixture.gate.loaded(BackendId(1), Some(vec![B]), fixture.now);
    let mut taken = [A, B, B, B, A, B].map(|model| match fixture.ask_for("x", model) {
        Verdict::Granted { backend, .. } => (model, backend.0),
        other => panic!("expected a grant, got {other:?}"),
    });
    taken.sort_unstable();
    assert_eq!(taken, [(A, 0), (A, 0), (B, 1), (B, 1), (B, 1), (B, 1)]);
}

/// A backend that does not say what it has loaded, or a stay of zero, changes nothing.
#[test]
fn k04_without_reports_or_without_a_stay_turns_decide() {
    let off = Settings { model_stay: Span::ZERO, ..staying(1.0) };
    for (settings, reported) in [(staying(1.0), None), (off, Some(vec![A]))] {
        let mut fixture = Fixture::with(settings, &[backend(BACKEND.0, &[A.0, B.0])]);
        fixture.gate.loaded(BACKEND, reported, fixture.now);
        let running = fixture.runs(A);
        let waiting = [B, A, B, A].map(|model| fixture.waits("x", model));
        assert_eq!(fixture.drained(running), waiting);
    }
}

/// An engine that holds one model, as Ollama where the memory is short: requests start in their
/// order; one for another model waits until all others have ended, and for the load.
struct Engine {
    model: Option<ModelId>,
    loads: u32,
    loading: Option<Time>,
    queue: VecDeque<(Ticket, ModelId)>,
    running: Vec<(Time, Ticket)>,
}

const SLOTS: usize = 4;

// === impl Engine ===

impl Engine {
    fn new() -> Self {
        Self { model: None, loads: 0, loading: None, queue: VecDeque::new(), running: Vec::new() }
    }

    fn load_when_idle(&mut self, now: Time) {
        if self.running.is_empty() {
            self.loads += 1;
            self.loading = Some(now.after(LOAD));
        }
    }

    /// Starts what can start, and returns it.
    fn fill(&mut self, now: Time) -> Vec<Ticket> {
        let mut started = Vec::new();
        if self.loading.take_if(|ready| *ready <= now).is_some() {
            self.model = self.queue.front().map(|(_, model)| *model);
        }
        while let Some(&(ticket, model)) = self.queue.front() {
            if self.loading.is_some() || self.running.len() == SLOTS {
                return started;
            }
            if self.model != Some(model) {
                self.load_when_idle(now);
                return started;
            }
            self.queue.pop_front();
            self.running.push((now.after(SERVICE), ticket));
            started.push(ticket);
        }
        started
    }

    fn next(&self) -> Option<Time> {
        self.running.iter().map(|(end, _)| *end).chain(self.loading).min()
    }
}

/// Serves a backlog of both models. Returns the loads, and the longest time in which a model
/// that waited was granted nothing.
fn serve(settings: Settings, flows: [&str; 2], seed: u64) -> (u32, Span) {
    let mut fixture = empty(settings);
    let (mut engine, mut dice) = (Engine::new(), Dice(seed));
    let mut models = BTreeMap::new();
    let mut sent = Vec::new();
    for _ in 0..400 {
        let model = [A, B][dice.below(2) as usize];
        let flow = flows[usize::from(model == B)];
        match fixture.ask_for(flow, model) {
            Verdict::Granted { ticket, .. } => {
                models.insert(ticket, model);
                sent.push(ticket);
            }
            Verdict::Queued { ticket } => drop(models.insert(ticket, model)),
            refused => panic!("{refused:?}"),
        }
    }
    let mut waiting = [A, B].map(|model| models.values().filter(|of| **of == model).count());
    let (mut last, mut longest) = ([fixture.now; 2], Span::ZERO);
    while waiting.iter().sum::<usize>() > 0 || engine.next().is_some() {
        for ticket in sent.drain(..).chain(fixture.granted()) {
            let at = usize::from(models[&ticket] == B);
            waiting[at] -= 1;
            longest = longest.max(fixture.now.since(last[at]));
            last[at] = fixture.now;
            engine.queue.push_back((ticket, models[&ticket]));
        }
        for ticket in engine.fill(fixture.now) {
            fixture.gate.started(ticket, fixture.now).unwrap();
        }
        let next = engine.next().expect("an idle engine is granted an ask");
        let tick = fixture.now.after(SERVICE);
        fixture.now = next.min(tick);
        let ended = engine.running.extract_if(.., |(end, _)| *end <= fixture.now);
        for (_, ticket) in ended.collect::<Vec<_>>() {
            fixture.gate.settle(ticket, Usage::Unknown, fixture.now).unwrap();
        }
        let loaded = engine.model.into_iter().filter(|_| engine.loading.is_none());
        fixture.gate.loaded(BACKEND, Some(loaded.collect()), fixture.now);
        fixture.collect();
    }
    (engine.loads, longest)
}

/// Two models on one engine with 20 s of loading: a tenth of the loads of the order of arrival, and
/// no model waits longer than section 19 allows.
#[test]
fn k04_loads_are_a_tenth_of_those_in_order_of_arrival_and_no_model_starves() {
    for seed in 0..5 {
        let mut settings = Settings { total_capacity: 1000, ..staying(SLOTS as f64) };
        settings.default_class.capacity = 1000;
        let off = Settings { model_stay: Span::ZERO, ..settings.clone() };
        let (fifo, _) = serve(off, ["both", "both"], seed);
        assert!(fifo > 150, "{fifo} loads in order of arrival");
        for flows in [["a", "b"], ["both", "both"]] {
            let (loads, longest) = serve(settings.clone(), flows, seed);
            assert!(10 * loads <= fifo, "{loads} loads, {fifo} in order of arrival, {flows:?}");
            let bound = LOAD.nanos() + STAY.nanos() + 3 * SERVICE.nanos();
            assert!(longest.nanos() <= bound, "{longest:?} between two grants, {flows:?}");
        }
    }
}

/// A load that was going on when the stay was switched off is forgotten: reports count again.
#[test]
fn k04_a_stay_that_was_off_for_a_while_keeps_no_load() {
    let mut fixture = empty(staying(4.0));
    let loads = fixture.runs(A);
    fixture.gate.configure(Settings { model_stay: Span::ZERO, ..staying(4.0) }, fixture.now);
    fixture.gate.settle(loads, Usage::Unknown, fixture.now).unwrap();
    fixture.gate.configure(staying(4.0), fixture.now);
    fixture.gate.loaded(BACKEND, Some(vec![A, B]), fixture.now);
    for model in [A, B] {
        fixture.runs(model);
    }
}
