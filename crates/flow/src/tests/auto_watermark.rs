//! C10: the rules of `auto`, one by one. The simulation shows how well they do on engines.

use super::fixture::{Fixture, limited_to};
use crate::auto_watermark::{AutoBound, AutoLimits, EngineReading};
use crate::{Ask, BackendId, Band, Settings, Span, StockUnit, Ticket, Usage, Verdict};

/// A prompt longer than the allowance of unstarted prompt tokens.
const LONG: u64 = 5000;
const CALM: EngineReading = EngineReading {
    running: 1,
    waiting: 0,
    kv_used: 0.5,
    preemptions: 0,
    kv_tokens: None,
    running_max: None,
    ranks: 1,
};

/// One backend under `auto`, and the asks in flight there, the oldest first.
struct Tide {
    fixture: Fixture,
    flying: Vec<Ticket>,
}

// === impl Tide ===

impl Tide {
    fn new() -> Self {
        Self { fixture: Fixture::new(Settings::default(), 1), flying: Vec::new() }
    }

    /// With a backend that was seen to run many requests at once.
    fn warm() -> Self {
        let mut tide = Self::new();
        tide.read(EngineReading { running: 100, ..CALM });
        tide
    }

    fn offer(&mut self, prompt: u64, tokens: u64) -> bool {
        let ask = self.fixture.ask("a");
        self.send(Ask { prompt, tokens, ..ask })
    }

    /// Offers an ask, and returns whether it was granted at once.
    fn send(&mut self, ask: Ask) -> bool {
        match self.fixture.offer(ask) {
            Verdict::Granted { ticket, .. } => self.flying.push(ticket),
            Verdict::Queued { .. } => return false,
            Verdict::Refused { reason, .. } => panic!("{reason:?}"),
        }
        true
    }

    /// Queues many asks with long prompts that never expire.
    fn crowd(&mut self) {
        let ask = self.fixture.ask("crowd");
        for _ in 0..90 {
            self.send(Ask { prompt: LONG, tokens: LONG, ttl: Some(Span::from_secs(9999)), ..ask });
        }
        self.collect();
    }

    fn collect(&mut self) {
        let granted = std::mem::take(&mut self.fixture.events);
        self.flying.extend(granted.into_iter().filter_map(|event| match event {
            crate::Event::Granted { ticket, .. } => Some(ticket),
            crate::Event::Evicted { .. } => None,
        }));
    }

    fn start(&mut self, at: usize) {
        self.fixture.gate.started(self.flying[at], self.fixture.now).unwrap();
        self.fixture.collect();
        self.collect();
    }

    /// Starts every granted ask at once, until none is granted or `most` are in flight.
    fn start_all(&mut self, most: usize) {
        let mut at = 0;
        while at < self.flying.len() && self.flying.len() < most {
            self.start(at);
            at += 1;
        }
    }

    fn read(&mut self, reading: EngineReading) {
        self.fixture.pass(Span::from_millis(200));
        self.fixture.gate.reading(BackendId(0), reading, self.fixture.now);
        self.fixture.collect();
        self.collect();
    }

    fn limits(&self) -> AutoLimits {
        self.fixture.gate.backends().next().unwrap().limits
    }
}

#[test]
fn c10_no_more_asks_go_than_the_unstarted_bound_allows() {
    let mut tide = Tide::new();
    tide.read(CALM);
    assert!(tide.offer(LONG, LONG) && tide.offer(LONG, LONG));
    assert!(!tide.offer(LONG, LONG), "a backend that never showed a first token gets two");
    tide.start(0);
    assert_eq!(tide.flying.len(), 3, "its first token lets the one that waits go");
    assert!(tide.offer(LONG, LONG), "and from now on three may be unstarted");
    assert!(!tide.offer(LONG, LONG));
    assert_eq!(tide.limits().binding, Some(AutoBound::Unstarted));
    assert_eq!(tide.limits().unstarted, (3, 3.0));
}

/// Data-parallel ranks prefill side by side, so each of them may have three unstarted asks.
#[test]
fn c10_each_rank_of_an_engine_has_its_unstarted_asks() {
    let mut tide = Tide::new();
    tide.read(EngineReading { ranks: 4, ..CALM });
    tide.crowd();
    assert_eq!(tide.flying.len(), 3, "before the first token: one that was seen to run, and two");
    tide.start(0);
    assert_eq!(tide.limits().unstarted, (12, 12.0));
    tide.read(EngineReading { ranks: 1, ..CALM });
    assert_eq!(tide.limits().unstarted, (12, 3.0), "a restart with fewer ranks");
    tide.read(EngineReading { ranks: u32::MAX, ..CALM });
    assert_eq!(tide.limits().unstarted.1, 192.0, "no more than 64 are believed");
}

#[test]
fn c10_many_short_prompts_go_at_once() {
    let mut tide = Tide::warm();
    let gone = (0..100).filter(|_| tide.offer(64, 64)).count();
    assert_eq!(gone, 4096 / 64);
}

/// The size of a new engine is unknown, however short the prompts are: a burst must not wait
/// inside it.
#[test]
fn c10_a_burst_exceeds_the_requests_that_were_seen_to_run_by_three() {
    let mut tide = Tide::new();
    tide.read(EngineReading { running: 0, ..CALM });
    let ttl = Some(Span::from_secs(9999));
    let ask = Ask { prompt: 1, tokens: 1, ttl, ..tide.fixture.ask("a") };
    let gone = (0..90).filter(|_| tide.send(ask)).count();
    assert_eq!(gone, 2);
    for running in 1..=20 {
        tide.start(running - 1);
        assert_eq!(tide.flying.len(), running + 3);
    }
    while let Some(ticket) = tide.flying.pop() {
        tide.fixture.settle(ticket, 1);
        if tide.flying.len() < 10 {
            break;
        }
    }
    tide.collect();
    let in_flight = tide.fixture.gate.in_flight();
    assert_eq!(in_flight, 23, "as many as ran before go at once, and three");
}

/// A slot of the engine is not free because the engine shows nothing: asks that do not stream count
/// as started only as far as a reading confirms it.
#[test]
fn c10_asks_that_do_not_stream_wait_for_a_reading_that_has_seen_them_run() {
    let mut tide = Tide::new();
    tide.read(EngineReading { running: 0, ..CALM });
    let ttl = Some(Span::from_secs(9999));
    let ask = tide.fixture.ask("a");
    let silent = Ask { prompt: LONG, tokens: LONG, streamed: false, ttl, ..ask };
    let gone = (0..90).filter(|_| tide.send(silent)).count();
    assert_eq!(gone, 2);
    let step = |tide: &mut Tide, running: u32, waiting: u32| {
        for _ in 0..10 {
            tide.read(EngineReading { running, waiting, ..CALM });
        }
        tide.fixture.gate.in_flight()
    };
    assert_eq!(step(&mut tide, 0, 0), 6, "no reading has seen one run: three and three more");
    assert_eq!(step(&mut tide, 6, 0), 12);
    assert_eq!(step(&mut tide, 8, 4), 12, "the engine has a queue");
}

#[test]
fn c10_the_watermark_is_the_stock_at_which_the_backend_closes() {
    let mut tide = Tide::new();
    tide.read(EngineReading { running: 0, kv_tokens: Some(20_000), ..CALM });
    assert_eq!(tide.limits().watermark, 2, "before any ask");
    assert!(tide.offer(LONG, LONG));
    assert_eq!(tide.limits().watermark, 2, "although the cache has room for more");
    assert!(tide.offer(LONG, LONG));
    tide.start(0);
    tide.start(1);
    assert!(tide.offer(LONG, LONG));
    assert_eq!(tide.limits().watermark, 4, "beside two started asks, but the cache has no room");
    assert!(tide.offer(LONG, LONG) && !tide.offer(LONG, LONG));
    assert_eq!((tide.limits().watermark, tide.limits().binding), (4, Some(AutoBound::Tokens)));
}

#[test]
fn c10_an_idle_backend_takes_anything() {
    let mut tide = Tide::new();
    tide.read(EngineReading { kv_tokens: Some(100), ..CALM });
    assert!(tide.offer(LONG, 9000), "though it is larger than every bound");
    assert!(!tide.offer(1, 1));
    assert_eq!(tide.limits().binding, Some(AutoBound::Tokens));
}

#[test]
fn c10_tokens_in_flight_stay_within_the_kv_cache() {
    let mut tide = Tide::warm();
    tide.read(EngineReading { kv_tokens: Some(1000), ..CALM });
    let gone = (0..30).filter(|_| tide.offer(10, 100)).count();
    assert_eq!(gone, 9, "nine tenths of it");
    tide.fixture.gate.settle(tide.flying[0], Usage::Unknown, tide.fixture.now).unwrap();
    assert_eq!(tide.fixture.gate.in_flight(), 9, "what ends makes room");
}

#[test]
fn c10_a_stream_that_grows_past_its_estimate_counts_for_more() {
    let mut tide = Tide::new();
    tide.offer(160, 200);
    tide.fixture.gate.streamed(tide.flying[0], 400, tide.fixture.now).unwrap();
    assert_eq!(tide.limits().tokens.0, 160 + 400);
    assert_eq!(tide.limits().unstarted.0, 0, "a stream has started");
}

#[test]
fn c10_preemption_cuts_tokens_once_and_only_demand_raises_them() {
    let mut tide = Tide::new();
    tide.read(EngineReading { kv_tokens: Some(100_000), ..CALM });
    assert_eq!(tide.limits().tokens.1, 90_000.0);
    tide.crowd();
    tide.start_all(usize::MAX);
    assert_eq!(tide.limits().binding, Some(AutoBound::Tokens));
    let preempting = EngineReading { preemptions: 1, ..CALM };
    tide.read(preempting);
    assert_eq!(tide.limits().tokens.1, 0.95 * 90_000.0);
    tide.read(EngineReading { preemptions: 2, ..CALM });
    assert_eq!(tide.limits().tokens.1, 0.95 * 90_000.0, "the effect of a cut is awaited");
    for _ in 0..12 {
        tide.read(EngineReading { preemptions: 2, kv_used: 0.9, ..CALM });
    }
    assert_eq!(tide.limits().tokens.1, 0.95 * 90_000.0, "no room to grow in");
    for _ in 0..12 {
        tide.read(EngineReading { preemptions: 2, ..CALM });
    }
    assert!(tide.limits().tokens.1 > 0.95 * 90_000.0, "it binds, and there is room");
}

#[test]
fn c10_nothing_grows_without_demand() {
    let mut tide = Tide::new();
    tide.read(EngineReading { kv_tokens: Some(100_000), ..CALM });
    for _ in 0..100 {
        tide.read(CALM);
    }
    assert_eq!(tide.limits().tokens.1, 90_000.0);
}

#[test]
fn c10_a_standing_queue_lowers_slots_to_the_running_requests() {
    let mut tide = Tide::new();
    tide.crowd();
    tide.start_all(12);
    let in_flight = tide.flying.len() as u32;
    for _ in 0..9 {
        tide.read(EngineReading { running: 9, waiting: in_flight - 9, ..CALM });
    }
    assert_eq!(tide.limits().slots.1, 9.0);
    assert_eq!(tide.limits().binding, Some(AutoBound::Slots));
    for _ in 0..40 {
        tide.read(EngineReading { running: 9, ..CALM });
    }
    assert!(tide.limits().slots.1 > 9.0, "it is tried again while it binds");
}

#[test]
fn c10_a_backlog_of_prefills_is_not_a_standing_queue() {
    let mut tide = Tide::new();
    tide.crowd();
    tide.start_all(12);
    for running in [2, 4, 6, 8, 10, 12] {
        tide.read(EngineReading { running, waiting: 2, ..CALM });
    }
    assert!(tide.limits().slots.1.is_infinite(), "the batch still grows");
}

#[test]
fn c10_without_metrics_slots_follow_the_streams_that_have_started() {
    let mut tide = Tide::new();
    tide.crowd();
    tide.start_all(10);
    let started = tide.limits().slots.0 - tide.limits().unstarted.0;
    assert_eq!(tide.limits().slots.1, f64::from(started) + 3.0, "while they rise");
    assert!(!tide.limits().by_metrics);
    tide.fixture.pass(Span::from_secs(2));
    tide.fixture.gate.streamed(tide.flying[0], 5, tide.fixture.now).unwrap();
    assert_eq!(tide.limits().slots.1, f64::from(started) + 1.0, "and one more asks for the next");
}

/// Long responses run while no ask starts: the bound on slots never forgets what runs now.
#[test]
fn c10_without_metrics_a_lull_leaves_room_for_the_next_ask() {
    let mut tide = Tide::new();
    for running in 0..40 {
        assert!(tide.offer(10, 5000));
        tide.start(running);
    }
    for second in 1..=25 {
        tide.fixture.pass(Span::from_secs(1));
        for &ticket in &tide.flying {
            tide.fixture.gate.streamed(ticket, 50 * second, tide.fixture.now).unwrap();
        }
    }
    assert_eq!(tide.limits().slots, (40, 41.0));
    assert!(tide.offer(10, 100), "the engine has room");
    tide.start(40);
    tide.fixture.pass(Span::from_secs(25));
    tide.fixture.settle(tide.flying[0], 1);
    assert!(tide.limits().slots.1 > 41.0, "a response that ends was running");
}

#[test]
fn c10_without_metrics_a_stream_that_stands_still_cuts_tokens() {
    let mut tide = Tide::new();
    for _ in 0..3 {
        tide.offer(100, 1000);
    }
    for step in 1..=10 {
        tide.fixture.pass(Span::from_millis(50));
        for &ticket in &tide.flying[1..] {
            tide.fixture.gate.streamed(ticket, step, tide.fixture.now).unwrap();
        }
        if step == 1 {
            tide.fixture.gate.streamed(tide.flying[0], 1, tide.fixture.now).unwrap();
        }
    }
    assert!(tide.limits().tokens.1.is_infinite());
    tide.fixture.gate.streamed(tide.flying[0], 2, tide.fixture.now).unwrap();
    assert_eq!(tide.limits().tokens.1, 0.95 * 3000.0);
}

#[test]
fn c10_all_streams_slow_together_without_any_effect() {
    let mut tide = Tide::new();
    for _ in 0..3 {
        tide.offer(100, 1000);
    }
    for step in 1..=10 {
        tide.fixture.pass(Span::from_secs(3));
        for &ticket in &tide.flying {
            tide.fixture.gate.streamed(ticket, step, tide.fixture.now).unwrap();
        }
    }
    assert!(tide.limits().tokens.1.is_infinite());
}

#[test]
fn c10_metrics_that_come_back_take_over() {
    let mut tide = Tide::new();
    tide.crowd();
    tide.start_all(10);
    assert!(tide.limits().slots.1.is_finite());
    tide.read(CALM);
    assert!(tide.limits().by_metrics && tide.limits().slots.1.is_infinite());
    tide.fixture.pass(Span::from_secs(3));
    tide.fixture.gate.streamed(tide.flying[0], 5, tide.fixture.now).unwrap();
    assert!(!tide.limits().by_metrics && tide.limits().slots.1.is_finite());
}

/// Lets every stream produce a token every `step` for a time, under fresh metrics.
fn stream(tide: &mut Tide, step: Span, steps: u64, so_far: u64) {
    for made in 1..=steps {
        tide.fixture.pass(step);
        tide.fixture.gate.reading(BackendId(0), CALM, tide.fixture.now);
        for at in 0..tide.flying.len() {
            let ticket = tide.flying[at];
            tide.fixture.gate.streamed(ticket, so_far + made, tide.fixture.now).unwrap();
        }
        tide.fixture.collect();
        tide.collect();
    }
}

#[test]
fn c10_a_longest_pace_bounds_the_asks_in_flight() {
    let mut tide = Tide::new();
    let settings = Settings { pace_max: Some(Span::from_millis(50)), ..Settings::default() };
    tide.fixture.gate.configure(settings, tide.fixture.now);
    tide.read(EngineReading { kv_tokens: Some(1_000_000), ..CALM });
    tide.crowd();
    tide.start_all(20);
    stream(&mut tide, Span::from_millis(40), 30, 0);
    assert!(tide.limits().pace.1.is_infinite(), "40 ms from token to token are allowed");
    let held = f64::from(tide.limits().slots.0);
    stream(&mut tide, Span::from_millis(60), 40, 30);
    let cut = tide.limits().pace.1;
    assert!((0.79 * held..0.9 * held).contains(&cut), "{cut} of {held}: by 50 over 60");
    assert_eq!(tide.limits().binding, Some(AutoBound::Pace));
    assert_eq!(tide.limits().pace.0, Some(Span::from_millis(60)));
    stream(&mut tide, Span::from_millis(48), 60, 70);
    assert_eq!(tide.limits().pace.1, cut, "so near to what is allowed it stays");
    stream(&mut tide, Span::from_millis(30), 60, 130);
    assert_eq!(tide.limits().pace.1, cut, "no request waits for more");
    tide.crowd();
    stream(&mut tide, Span::from_millis(30), 120, 190);
    assert!(tide.limits().pace.1 > cut, "with slack it grows while it binds");
}

/// An objective for each stream moves the same bound, but keeps half of the asks that were seen to
/// run: an engine that cannot meet it would only lose tokens.
#[test]
fn o03_an_objective_for_tokens_bounds_the_asks_in_flight() {
    let mut tide = Tide::new();
    let settings = Settings { slo_tpot: Some(Span::from_millis(50)), ..Settings::default() };
    tide.fixture.gate.configure(settings, tide.fixture.now);
    tide.read(EngineReading { kv_tokens: Some(1_000_000), running: 40, ..CALM });
    tide.crowd();
    tide.start_all(40);
    stream(&mut tide, Span::from_millis(40), 30, 0);
    assert!(tide.limits().pace.1.is_infinite(), "40 ms from token to token are within it");
    let held = f64::from(tide.limits().slots.0);
    stream(&mut tide, Span::from_millis(60), 40, 30);
    let cut = tide.limits().pace.1;
    assert!((0.79 * held..0.9 * held).contains(&cut), "{cut} of {held}: by 50 over 60");
    stream(&mut tide, Span::from_millis(500), 60, 70);
    let least = tide.limits().pace.1;
    assert!((0.5 * held..0.6 * held).contains(&least), "{least} of {held}");
}

/// New prompts slow down the streams beside them. So while streams are slower than the objective,
/// fewer prompts start at once.
#[test]
fn o03_slow_streams_let_fewer_prompts_start_at_once() {
    let mut tide = Tide::warm();
    let settings = Settings { slo_tpot: Some(Span::from_millis(50)), ..Settings::default() };
    tide.fixture.gate.configure(settings, tide.fixture.now);
    for _ in 0..16 {
        assert_eq!((0..20).filter(|_| tide.offer(64, 64)).count(), 20);
        (0..20).for_each(|at| tide.start(at));
        stream(&mut tide, Span::from_millis(60), 50, 0);
        for ended in std::mem::take(&mut tide.flying) {
            tide.fixture.settle(ended, 64);
        }
    }
    assert_eq!((0..100).filter(|_| tide.offer(64, 64)).count(), 1536 / 64);
}

#[test]
fn c10_without_a_longest_pace_streams_may_take_their_time() {
    let mut tide = Tide::new();
    tide.read(CALM);
    tide.crowd();
    tide.start_all(20);
    stream(&mut tide, Span::from_secs(1), 30, 0);
    assert!(tide.limits().pace.1.is_infinite());
}

#[test]
fn c10_asks_that_do_not_stream_are_presumed_to_start() {
    let mut tide = Tide::new();
    let ask = tide.fixture.ask("a");
    let silent = Ask { prompt: LONG, tokens: LONG, streamed: false, ..ask };
    assert!(tide.send(silent) && tide.send(silent) && !tide.send(silent));
    tide.fixture.pass(Span::from_millis(490));
    assert_eq!(tide.fixture.gate.in_flight(), 2);
    tide.fixture.pass(Span::from_millis(20));
    assert_eq!(tide.fixture.gate.in_flight(), 3, "after half a second while nothing is known");
    tide.collect();
    tide.fixture.gate.settle(tide.flying[2], Usage::Unknown, tide.fixture.now).unwrap();
    tide.fixture.pass(Span::from_secs(40));
    assert_eq!(tide.fixture.gate.in_flight(), 2, "no ask in flight ever expires");
}

#[test]
fn c10_presumption_keeps_an_asks_own_deadline() {
    let mut tide = Tide::new();
    let ask = tide.fixture.ask("a");
    let ttl = Some(Span::from_secs(3));
    tide.send(Ask { prompt: LONG, tokens: LONG, streamed: false, ttl, ..ask });
    tide.fixture.supply(&[]);
    tide.fixture
        .gate
        .requeue(tide.flying[0], crate::RequeuePosition::Back, tide.fixture.now)
        .unwrap();
    tide.fixture.pass(Span::from_millis(2900));
    assert_eq!(tide.fixture.gate.depth(), 1);
    tide.fixture.pass(Span::from_millis(200));
    assert_eq!(tide.fixture.gate.depth(), 0);
}

#[test]
fn c10_auto_can_be_switched_on_and_off_with_asks_in_flight() {
    let mut fixture = Fixture::new(limited_to(4.0), 2);
    let tickets: Vec<_> = (0..6).map(|_| fixture.start("a")).collect();
    fixture.gate.configure(Settings::default(), fixture.now);
    fixture.collect();
    let in_flight = |fixture: &Fixture| -> u32 {
        fixture.gate.backends().map(|backend| backend.limits.slots.0).sum()
    };
    assert_eq!(in_flight(&fixture), 6);
    fixture.gate.started(tickets[0], fixture.now).unwrap();
    fixture.gate.configure(Settings { stock: StockUnit::Tokens, ..limited_to(4.0) }, fixture.now);
    fixture.collect();
    assert_eq!(in_flight(&fixture), 0, "no request counts for it any more");
    for ticket in tickets {
        fixture.gate.settle(ticket, Usage::Cost(1), fixture.now).unwrap();
    }
    fixture.collect();
}

#[test]
fn c10_a_backend_that_returns_is_treated_as_cold() {
    let mut tide = Tide::new();
    tide.read(EngineReading { kv_tokens: Some(1000), ..CALM });
    tide.offer(LONG, LONG);
    tide.start(0);
    let backend = super::fixture::backend(0, &[super::fixture::MODEL.0]);
    tide.fixture.supply(&[crate::BackendSupply { ready: false, ..backend.clone() }]);
    tide.fixture.supply(&[backend]);
    let limits = tide.limits();
    assert_eq!((limits.unstarted.1, limits.slots.0), (2.0, 1), "what is in flight stays counted");
    assert!(limits.tokens.1.is_infinite(), "its memory may be another now");
}

/// A backend that reports that it is full has the same engine afterwards: without its bounds it
/// would be overloaded again.
#[test]
fn c10_a_backend_that_pauses_keeps_its_bounds() {
    let mut tide = Tide::new();
    tide.read(EngineReading { kv_tokens: Some(1000), ..CALM });
    let backend = super::fixture::backend(0, &[super::fixture::MODEL.0]);
    tide.fixture.supply(&[crate::BackendSupply { paused: true, ..backend.clone() }]);
    assert!(!tide.fixture.gate.backends().next().unwrap().ready, "it takes nothing");
    tide.fixture.supply(&[backend]);
    assert!(tide.fixture.gate.backends().next().unwrap().ready);
    assert_eq!(tide.limits().tokens.1, 900.0);
}

#[test]
fn c10_a_mixed_pool_fills_by_each_backends_own_bounds() {
    let mut fixture = Fixture::new(Settings::default(), 2);
    for (id, kv) in [(0, 1_000), (1, 10_000)] {
        let reading = EngineReading { running: 100, kv_tokens: Some(kv), ..CALM };
        fixture.gate.reading(BackendId(id), reading, fixture.now);
    }
    let ask = fixture.ask("a");
    for _ in 0..99 {
        fixture.offer(Ask { prompt: 10, tokens: 100, band: Band::Normal, ..ask });
    }
    let held: Vec<u32> = fixture.gate.backends().map(|backend| backend.limits.slots.0).collect();
    assert_eq!(held, [9, 90]);
}
