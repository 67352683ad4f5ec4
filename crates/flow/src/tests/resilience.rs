//! C10: `auto` survives absurd readings, wrong metrics, slow readers, responses of one token, and
//! models that move.

use super::fixture::{Fixture, backend};
use crate::{
    Ask, AutoLimits, BackendId, EngineReading, FlowClass, Settings, Span, Ticket, Usage, Verdict,
};

const CALM: EngineReading = EngineReading {
    running: 1,
    waiting: 0,
    kv_used: 0.01,
    preemptions: 0,
    kv_tokens: None,
    running_max: None,
    ranks: 1,
};

/// One engine, and the asks in flight there with the tokens they have produced.
struct Shore {
    fixture: Fixture,
    flying: Vec<(Ticket, u64)>,
}

// === impl Shore ===

impl Shore {
    fn new() -> Self {
        let ttl = Span::from_secs(100_000);
        let class = FlowClass { capacity: 10_000, ttl, ..FlowClass::default() };
        let settings =
            Settings { total_capacity: 10_000, default_class: class, ..Settings::default() };
        Self { fixture: Fixture::new(settings, 1), flying: Vec::new() }
    }

    fn offer(&mut self, count: usize, prompt: u64, tokens: u64) {
        for _ in 0..count {
            let ask = self.fixture.ask("a");
            if let Verdict::Granted { ticket, .. } =
                self.fixture.offer(Ask { prompt, tokens, ..ask })
            {
                self.flying.push((ticket, 0));
            }
        }
        self.board();
    }

    fn board(&mut self) {
        self.fixture.collect();
        self.flying.extend(self.fixture.granted().into_iter().map(|ticket| (ticket, 0)));
    }

    fn read(&mut self, reading: EngineReading) {
        self.fixture.gate.reading(BackendId(0), reading, self.fixture.now);
        self.board();
    }

    /// Every ask in flight produces a token; an ask with `output` tokens ends.
    fn step(&mut self, output: u64, moves: impl Fn(Ticket) -> bool) {
        for at in 0..self.flying.len() {
            if moves(self.flying[at].0) {
                let (ticket, made) = &mut self.flying[at];
                *made += 1;
                self.fixture.gate.streamed(*ticket, *made, self.fixture.now).unwrap();
            }
        }
        let (done, rest) = std::mem::take(&mut self.flying)
            .into_iter()
            .partition::<Vec<_>, _>(|&(_, made)| made >= output);
        self.flying = rest;
        for (ticket, _) in done {
            self.fixture.gate.settle(ticket, Usage::Unknown, self.fixture.now).unwrap();
        }
        self.board();
    }

    fn limits(&self) -> AutoLimits {
        self.fixture.gate.backends().next().unwrap().limits
    }
}

#[test]
fn c10_absurd_numbers_are_survived() {
    let mut shore = Shore::new();
    shore.offer(2, u64::MAX, u64::MAX);
    for at in 0..2 {
        let ticket = shore.flying[at].0;
        shore.fixture.gate.streamed(ticket, u64::MAX, shore.fixture.now).unwrap();
        shore.fixture.collect();
    }
    let absurd = EngineReading {
        running: u32::MAX,
        waiting: u32::MAX,
        kv_used: f64::NAN,
        preemptions: u64::MAX,
        kv_tokens: Some(u64::MAX),
        running_max: Some(u32::MAX),
        ranks: 1,
    };
    for _ in 0..9 {
        shore.fixture.pass(Span::from_secs(1));
        shore.read(absurd);
        shore.read(EngineReading { kv_used: f64::INFINITY, kv_tokens: Some(0), ..absurd });
    }
    let limits = shore.limits();
    assert!(limits.tokens.1 > 0.0 && limits.slots.1 >= 1.0, "{limits:?}");
}

#[test]
fn c10_memory_filled_by_other_clients_does_not_lower_the_bound_for_ever() {
    for in_flight in [0, 1, 2] {
        let mut shore = Shore::new();
        shore.offer(in_flight, 500, 700);
        let kv_tokens = Some(400_000);
        shore.read(EngineReading { kv_used: 0.97, kv_tokens, ..CALM });
        shore.offer(3000, 500, 700);
        for _ in 0..600 {
            shore.fixture.pass(Span::from_millis(100));
            shore.read(EngineReading { kv_tokens, ..CALM });
            shore.step(u64::MAX, |_| true);
        }
        assert!(shore.limits().tokens.1 > 300_000.0, "{in_flight}: {:?}", shore.limits());
    }
}

#[test]
fn c10_a_new_cache_size_resets_the_bound() {
    let mut shore = Shore::new();
    for kv in [16, 400_000] {
        shore.fixture.pass(Span::from_secs(1));
        shore.read(EngineReading { kv_tokens: Some(kv), ..CALM });
    }
    assert_eq!(shore.limits().tokens.1, 360_000.0);
}

#[test]
fn c10_rare_readings_do_not_stay_fresh_for_hours() {
    let mut shore = Shore::new();
    shore.read(CALM);
    shore.fixture.pass(Span::from_secs(3600));
    shore.read(CALM);
    shore.fixture.pass(Span::from_secs(31));
    assert!(!shore.limits().by_metrics);
}

#[test]
fn c10_one_slow_reader_does_not_starve_a_backend() {
    let mut shore = Shore::new();
    shore.offer(9000, 500, 700);
    let slow = shore.flying[0].0;
    let mut most = 0;
    for tick in 0..1500u64 {
        shore.fixture.pass(Span::from_millis(50));
        shore.step(200, |ticket| ticket != slow || tick % 12 == 0);
        most = most.max(shore.flying.len());
    }
    assert!(shore.flying.len() * 2 > most, "{} of {most}", shore.flying.len());
}

#[test]
fn c10_responses_of_one_token_fill_the_engine() {
    let mut shore = Shore::new();
    shore.offer(2000, 64, 65);
    for _ in 0..100 {
        shore.fixture.pass(Span::from_millis(100));
        shore.step(1, |_| true);
    }
    assert_eq!(shore.fixture.gate.depth(), 0, "{:?}", shore.limits());
}

#[test]
fn c10_a_stall_is_forgotten_when_metrics_return() {
    let mut shore = Shore::new();
    shore.read(CALM);
    shore.offer(2, 100, 200);
    let [first, second] = [0, 1].map(|at| shore.flying[at].0);
    for made in 1..10 {
        shore.fixture.pass(Span::from_millis(100));
        shore.fixture.gate.streamed(first, made, shore.fixture.now).unwrap();
    }
    shore.fixture.gate.streamed(second, 1, shore.fixture.now).unwrap();
    shore.read(CALM);
    shore.fixture.settle(first, 1);
    shore.fixture.pass(Span::from_secs(10));
    shore.fixture.settle(second, 1);
    assert!(shore.limits().tokens.1.is_infinite());
}

#[test]
fn c10_where_nothing_streams_a_calm_engine_is_filled_quickly() {
    let mut shore = Shore::new();
    let ask = shore.fixture.ask("a");
    for _ in 0..100 {
        shore.fixture.offer(Ask { prompt: 5000, tokens: 5000, streamed: false, ..ask });
    }
    for _ in 0..10 {
        shore.fixture.pass(Span::from_millis(101));
        let running = shore.fixture.gate.in_flight();
        let reading = EngineReading { running, ..CALM };
        shore.fixture.gate.reading(BackendId(0), reading, shore.fixture.now);
        shore.fixture.collect();
    }
    let in_flight = shore.fixture.gate.in_flight();
    assert!((20..=40).contains(&in_flight), "about three every tenth of a second: {in_flight}");
}

#[test]
fn c10_a_model_that_moves_away_does_not_disturb_its_asks() {
    let mut shore = Shore::new();
    shore.fixture.supply(&[backend(0, &[0]), backend(1, &[1])]);
    shore.offer(2, 5000, 6000);
    shore.fixture.supply(&[backend(0, &[0, 1]), backend(1, &[])]);
    shore.fixture.gate.started(shore.flying[0].0, shore.fixture.now).unwrap();
    shore.fixture.collect();
    assert_eq!(shore.fixture.gate.in_flight(), 2);
}
