//! Gauges match the core: the text against a ledger that the test keeps.

use std::collections::{BTreeMap, BTreeSet};

use flow::{
    Ask, BANDS, BackendId, BackendSupply, Band, Bounds, Controller, Event, FlowClass, Hysteresis,
    ModelId, RequeuePosition, Settings, Span, StockUnit, Ticket, Time, Usage, Verdict, WorkloadId,
};

use super::{named, parsed, sum};
use crate::observe::{BAND_NAMES, IdNames, MetricsFormat, Observer, ProcessStatus};

const TARGETS: [&str; 3] = ["llama", "qwen", "gemma"];
const ALIASES: [&str; 3] = ["chat", "qwen", "code"];
const BACKENDS: [&str; 3] = ["gpu-a", "gpu-b", "npu"];

/// A splitmix64 generator.
struct Dice(u64);

#[derive(Clone, Copy, Debug)]
struct Known {
    model: &'static str,
    target: usize,
    band: Band,
    tokens: u64,
    flow: usize,
    at: Option<BackendId>,
}

struct Ledger {
    core: Controller,
    observer: Observer,
    named: IdNames<'static>,
    now: Time,
    dice: Dice,
    alive: BTreeMap<Ticket, Known>,
}

// === impl Dice ===

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

// === impl Ledger ===

impl Ledger {
    fn new(seed: u64) -> Self {
        let fixed = Hysteresis::around(2.0, 0.1).unwrap();
        let settings = Settings {
            total_capacity: 30,
            bounds: if seed.is_multiple_of(3) { Bounds::Auto } else { fixed.into() },
            stock: if seed.is_multiple_of(2) { StockUnit::Tokens } else { StockUnit::Requests },
            default_class: FlowClass { ttl: Span::from_millis(50), ..FlowClass::default() },
            ..Settings::default()
        };
        let observer = Observer::default();
        observer.known(TARGETS.into_iter().chain(ALIASES));
        let mut core = Controller::new(settings);
        let serves: [&[u32]; 3] = [&[0, 1], &[1, 2], &[2]];
        let supply = (0..).zip(serves).map(|(id, models)| {
            BackendSupply::new(BackendId(id), models.iter().map(|&model| ModelId(model)).collect())
        });
        core.supply(&supply.collect::<Vec<_>>(), Time::ZERO);
        let named = named(&BACKENDS, &TARGETS);
        let (now, dice, alive) = (Time::ZERO, Dice(seed), BTreeMap::new());
        Self { core, observer, named, now, dice, alive }
    }

    fn step(&mut self) {
        match self.dice.below(10) {
            0..=5 => self.offer(),
            6 | 7 => self.end(),
            8 => self.requeue(),
            _ => {
                self.now = self.now.after(Span::from_millis(self.dice.below(20)));
                self.core.wake(self.now);
            }
        }
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Granted { ticket, backend, .. } => {
                    self.alive.get_mut(&ticket).unwrap().at = Some(backend);
                }
                Event::Evicted { ticket, .. } => _ = self.alive.remove(&ticket),
            }
        }
    }

    fn offer(&mut self) {
        let target = self.dice.below(3) as usize;
        let model = if self.dice.below(2) == 0 { ALIASES[target] } else { TARGETS[target] };
        let flow = self.dice.below(5) as usize;
        let band = Band::DESCENDING[self.dice.below(BANDS as u64) as usize];
        let tokens = 1 + self.dice.below(3);
        let id = self.core.flow(&format!("flow-{flow}"), 0);
        let workload = self.core.workload(&format!("job-{flow}"), self.now);
        let mut ask = Ask { band, tokens, ..Ask::new(id, ModelId(target as u32)) };
        ask.workload.id = if flow == 0 { WorkloadId::GENERATED } else { workload };
        let known = Known { model, target, band, tokens, flow, at: None };
        let (ticket, at) = match self.core.offer(ask, self.now) {
            Verdict::Granted { ticket, backend } => (ticket, Some(backend)),
            Verdict::Queued { ticket } => (ticket, None),
            Verdict::Refused { .. } => return,
        };
        self.observer.began(ticket, (model, TARGETS[target]), 7);
        self.alive.insert(ticket, Known { at, ..known });
    }

    fn pick(&mut self, flying: bool) -> Option<Ticket> {
        let fits = self.alive.iter().filter(|(_, known)| known.at.is_some() || !flying);
        let tickets: Vec<Ticket> = fits.map(|(&ticket, _)| ticket).collect();
        let at = self.dice.below(tickets.len().max(1) as u64) as usize;
        tickets.get(at).copied()
    }

    fn end(&mut self) {
        let Some(ticket) = self.pick(false) else { return };
        match self.alive.remove(&ticket).unwrap().at {
            Some(_) => self.core.settle(ticket, Usage::Unknown, self.now).unwrap(),
            None => _ = self.core.cancel(ticket, self.now).unwrap(),
        }
    }

    fn requeue(&mut self) {
        if let Some(ticket) = self.pick(true) {
            self.alive.get_mut(&ticket).unwrap().at = None;
            self.core.requeue(ticket, RequeuePosition::Original, self.now).unwrap();
        }
    }

    fn scrape(&mut self) -> BTreeMap<String, f64> {
        let snapshot = self.observer.snapshot(&mut self.core, self.now, &self.named);
        parsed(&self.observer.metrics(
            &snapshot,
            &self.named,
            &ProcessStatus::default(),
            MetricsFormat::default(),
        ))
    }

    fn count(&self, which: impl Fn(&Known) -> bool) -> f64 {
        self.alive.values().filter(|known| which(known)).count() as f64
    }

    fn stock(&self, which: impl Fn(&Known) -> bool) -> f64 {
        let tokens = self.core.settings().stock == StockUnit::Tokens;
        let size = |known: &Known| if tokens { known.tokens as f64 } else { 1.0 };
        let held = self.alive.values().filter(|known| known.at.is_some() && which(known));
        held.map(size).sum()
    }

    fn check(&mut self, place: &str) {
        let samples = self.scrape();
        let is = |series: &str, told: f64| {
            let shown = samples.get(series).copied().unwrap_or(0.0);
            assert_eq!(shown, told, "{place}: {series}");
        };
        is("nexus_queue_depth", self.count(|known| known.at.is_none()));
        is("tidegate_requests_in_flight", self.count(|known| known.at.is_some()));
        for (target, name) in TARGETS.into_iter().enumerate() {
            self.check_model((ALIASES[target], target), &is);
            self.check_model((name, target), &is);
            let bounds = self.core.bounds(ModelId(target as u32));
            for (at, family) in ["lower_bound", "watermark", "upper_bound"].iter().enumerate() {
                is(&format!("tidegate_{family}{{target_model=\"{name}\"}}"), bounds[at]);
            }
        }
        (0..3).for_each(|id| self.check_backend(BackendId(id), &is));
        let flows: BTreeSet<usize> = self.alive.values().map(|known| known.flow).collect();
        is("tidegate_active_flows", flows.len() as f64);
        let jobs = flows.iter().filter(|&&flow| flow > 0).count();
        is("tidegate_active_workloads", jobs as f64);
        self.check_saturation(&samples, place);
        let granted = self.core.counters().granted as f64;
        is("tidegate_popper_dequeue_successes_total", granted);
        is("tidegate_popper_dequeue_attempts_total", granted);
    }

    fn check_model(&self, (model, target): (&'static str, usize), is: &impl Fn(&str, f64)) {
        let labels = format!("model=\"{model}\",target_model=\"{}\"", TARGETS[target]);
        let mine = |known: &Known| known.target == target && known.model == model;
        is(&format!("tidegate_stock_level{{{labels}}}"), self.stock(mine));
        for (band, text) in BAND_NAMES.into_iter().enumerate() {
            let waits = |k: &Known| mine(k) && k.at.is_none() && k.band as usize == band;
            let series = format!("tidegate_queue_length{{{labels},band=\"{text}\"}}");
            is(&series, self.count(waits));
        }
    }

    fn check_backend(&self, id: BackendId, is: &impl Fn(&str, f64)) {
        let name = BACKENDS[id.0 as usize];
        let here = |known: &Known| known.at == Some(id);
        is(&format!("tidegate_backend_stock{{backend=\"{name}\"}}"), self.stock(here));
        for (band, text) in BAND_NAMES.into_iter().enumerate() {
            let labels = format!("backend=\"{name}\",band=\"{text}\"");
            let count = self.count(|known| here(known) && known.band as usize == band);
            is(&format!("tidegate_backend_in_flight{{{labels}}}"), count);
        }
    }

    /// C11: under a strict cascade, the requests that wait at or above a band, divided by the
    /// capacity.
    fn check_saturation(&self, samples: &BTreeMap<String, f64>, place: &str) {
        for (band, text) in BAND_NAMES.into_iter().enumerate() {
            let ahead = self.count(|known| known.at.is_none() && known.band as usize >= band);
            let labels = format!("{{band=\"{text}\"}}");
            let room = samples[&format!("tidegate_headroom_requests{labels}")];
            assert_eq!(room, (30.0 - ahead).max(0.0), "{place}: {text}");
            let full = samples[&format!("tidegate_queue_saturation{labels}")];
            assert!((full - (ahead / 30.0).min(1.0)).abs() < 1e-9, "{place}: {text} {full}");
        }
    }
}

#[test]
fn m01_gauges_match_the_core_after_random_histories() {
    for seed in 0..24 {
        let mut ledger = Ledger::new(seed);
        for step in 0..300 {
            ledger.step();
            if step % 7 == 0 {
                ledger.check(&format!("seed {seed}, step {step}"));
            }
        }
    }
}

/// N06: the depth is read from the core at the time of the scrape.
#[test]
fn n06_the_depth_follows_every_enqueue_and_dequeue() {
    let mut ledger = Ledger::new(1);
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        ledger.step();
        let waiting = ledger.alive.values().filter(|known| known.at.is_none()).count();
        let samples = ledger.scrape();
        assert_eq!(samples["nexus_queue_depth"], waiting as f64);
        assert_eq!(sum(&samples, "tidegate_queue_length", &[]), waiting as f64);
        seen.insert(waiting);
    }
    assert!(seen.len() > 10, "the depth has moved: {seen:?}");
}

/// Without a label index, and with one of an earlier ask, an ask counts under the name of its
/// target.
#[test]
fn an_ask_without_a_note_counts_under_its_target() {
    let mut ledger = Ledger::new(1);
    let flow = ledger.core.flow("a", 0);
    let ask = Ask::new(flow, ModelId(1));
    let Verdict::Granted { ticket, .. } = ledger.core.offer(ask, ledger.now) else {
        panic!("an idle backend takes it");
    };
    let own = "tidegate_stock_level{model=\"qwen\",target_model=\"qwen\"}";
    assert_eq!(ledger.scrape()[own], 1.0);
    ledger.observer.began(ticket, ("chat", "llama"), 7);
    assert_eq!(ledger.scrape()[own], 1.0);
}
