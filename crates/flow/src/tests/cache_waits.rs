//! K02, C03: asks wait for a backend that has their prompt cached, while this gains more than it
//! costs.

use super::fixture::{Fixture, MODEL, backend, limited_to, prompt};
use crate::{
    Ask, BANDS, BackendId, Band, EngineReading, Event, Eviction, ModelId, Order, RequeuePosition,
    Settings, Span, Ticket, Time, Usage, Verdict,
};

fn millis(millis: u64) -> Span {
    Span::from_millis(millis)
}

fn delays(millis: u64) -> Settings {
    let settings = limited_to(4.0);
    Settings { cache_delay: Span::from_millis(millis), cache_tokens: 1_000_000, ..settings }
}

/// Offers an ask with a prompt of so many tokens, of which the beginning is always the same. It
/// takes 0.8 s to compute 6400 of them.
fn offer(fixture: &mut Fixture, ask: Ask, tokens: u64) -> Verdict {
    let ask = Ask { prompt: tokens, ..ask };
    let verdict = fixture.gate.offer_prompt(ask, prompt(0, 0, tokens as usize / 64), fixture.now);
    fixture.collect();
    verdict
}

fn granted(verdict: Verdict) -> (Ticket, BackendId) {
    match verdict {
        Verdict::Granted { ticket, backend } => (ticket, backend),
        other => panic!("{other:?}"),
    }
}

fn queued(verdict: Verdict) -> Ticket {
    match verdict {
        Verdict::Queued { ticket } => ticket,
        other => panic!("{other:?}"),
    }
}

/// Lets an ask with the prompt wait.
fn wait(fixture: &mut Fixture, tokens: u64) -> Ticket {
    let ask = fixture.ask("flow");
    queued(offer(fixture, ask, tokens))
}

/// Two backends with four places each. The first has served a prompt of 6400 tokens in 40 ms, and
/// is full of asks with this prompt. The second runs asks of another model.
struct Crowd {
    fixture: Fixture,
    warm: Vec<Ticket>,
    others: Vec<Ticket>,
}

// === impl Crowd ===

impl Crowd {
    fn new(settings: Settings, others: usize) -> Self {
        Self::with_places(settings, 4, others)
    }

    fn with_places(settings: Settings, places: usize, others: usize) -> Self {
        let settings = Settings { cache_reorder: 4, ..settings };
        let backends = [backend(0, &[MODEL.0, 3]), backend(1, &[MODEL.0, 2])];
        let mut fixture = Fixture::with(settings, &backends);
        let warm = |fixture: &mut Fixture| {
            let ask = Ask { streamed: false, ..fixture.ask("flow") };
            let (ticket, backend) = granted(offer(fixture, ask, 6400));
            assert_eq!(backend, BackendId(0));
            ticket
        };
        let first = warm(&mut fixture);
        fixture.pass(millis(40));
        fixture.settle(first, 1);
        let others = (0..others).map(|_| {
            let ask = Ask { model: ModelId(2), ..fixture.ask("flow") };
            granted(fixture.offer(ask)).0
        });
        let others = others.collect();
        let warm = (0..places).map(|_| warm(&mut fixture)).collect();
        Self { fixture, warm, others }
    }

    /// Two asks with the prompt wait. After this time a place comes free at the first backend, and
    /// then one at the second. Returns the ask that still waits.
    fn turned(&mut self, after: Span) -> Ticket {
        let [first, second] = [6400, 6400].map(|tokens| wait(&mut self.fixture, tokens));
        self.fixture.pass(after);
        self.fixture.settle(self.warm[0], 1);
        assert_eq!(self.fixture.granted(), [first]);
        self.fixture.settle(self.others[0], 1);
        second
    }
}

/// The same with one place each, and an ask with the prompt that waits.
fn awaiting(cache_delay: u64) -> (Fixture, [Ticket; 2]) {
    let settings = Settings { bounds: limited_to(1.0).bounds, ..delays(cache_delay) };
    let Crowd { mut fixture, warm, .. } = Crowd::with_places(settings, 1, 0);
    let waiting = wait(&mut fixture, 6400);
    (fixture, [warm[0], waiting])
}

/// What waits have won and lost.
fn balance(fixture: &Fixture) -> [Span; 2] {
    let counters = fixture.gate.counters();
    [counters.cache_wait_won, counters.cache_wait_lost]
}

#[test]
fn k02_an_ask_waits_for_the_backend_that_has_its_prompt() {
    let (mut fixture, [running, waiting]) = awaiting(1000);
    fixture.pass(millis(300));
    assert_eq!(fixture.granted(), []);
    fixture.settle(running, 1);
    assert_eq!(fixture.granted(), [waiting]);
    assert_eq!(fixture.gate.choice(waiting).map(|choice| choice.cached_tokens), Some(6400));
    assert_eq!(balance(&fixture), [millis(500), Span::ZERO], "0.8 s less the wait");
}

#[test]
fn k02_an_ask_waits_for_a_cache_no_longer_than_it_saves_and_is_allowed() {
    for (delay, time) in [(1000, 800), (100, 100)] {
        let (mut fixture, [_, waiting]) = awaiting(delay);
        let wake = fixture.gate.next_wake().unwrap();
        assert_eq!(wake.since(fixture.now), millis(time));
        fixture.pass(millis(time - 1));
        assert_eq!(fixture.granted(), []);
        fixture.pass(millis(1));
        assert_eq!(fixture.granted(), [waiting]);
        assert_eq!(balance(&fixture), [Span::ZERO, millis(time)]);
    }
}

/// C03: a critical ask goes to any backend with room, however much a cache would save.
#[test]
fn c03_a_critical_ask_is_never_held_beside_a_backend_with_room() {
    for others in 0..4 {
        for waiting in [false, true] {
            let mut crowd = Crowd::new(delays(10_000), others);
            if waiting {
                wait(&mut crowd.fixture, 6400);
            }
            // It has no time to wait at all.
            let ttl = Some(Span::ZERO);
            let ask = Ask { band: Band::Critical, ttl, ..crowd.fixture.ask("flow") };
            let (_, backend) = granted(offer(&mut crowd.fixture, ask, 6400));
            assert_eq!(backend, BackendId(1), "beside {others} asks, {waiting}");
        }
    }
}

/// C03: also not if it had to wait for a place before.
#[test]
fn c03_a_critical_ask_takes_the_first_place_that_comes_free() {
    let mut crowd = Crowd::new(delays(10_000), 4);
    let ask = Ask { band: Band::Critical, ..crowd.fixture.ask("flow") };
    let critical = queued(offer(&mut crowd.fixture, ask, 6400));
    crowd.fixture.settle(crowd.others[0], 1);
    assert_eq!(crowd.fixture.granted(), [critical]);
}

/// Under `auto` a critical ask goes to the backend that has its prompt, if tokens alone close that,
/// and by little: there it takes few more.
#[test]
fn k02_a_critical_ask_uses_the_headroom_of_the_backend_that_has_its_prompt() {
    let settings = Settings { cache_tokens: 1_000_000, cache_reorder: 4, ..Settings::default() };
    let backends = [backend(0, &[MODEL.0, 3]), backend(1, &[MODEL.0])];
    let mut fixture = Fixture::with(settings, &backends);
    let reading = EngineReading { kv_tokens: Some(100_000), ranks: 1, ..EngineReading::default() };
    for id in [0, 1] {
        fixture.gate.reading(BackendId(id), reading, fixture.now);
    }
    // It computes 8000 tokens a second.
    let started = |fixture: &mut Fixture, verdict| {
        let (ticket, backend) = granted(verdict);
        fixture.pass(millis(if backend == BackendId(0) && fixture.now == Time::ZERO {
            800
        } else {
            10
        }));
        fixture.gate.started(ticket, fixture.now).unwrap();
        fixture.collect();
        (ticket, backend)
    };
    let of = |fixture: &mut Fixture, band| Ask { band, tokens: 7000, ..fixture.ask("flow") };
    let ask = of(&mut fixture, Band::Normal);
    let verdict = offer(&mut fixture, ask, 6400);
    let (first, _) = started(&mut fixture, verdict);
    fixture.settle(first, 1);
    // The cache of the first backend has 100,000 tokens, of which 0.9 may be in flight.
    for _ in 0..3 {
        let ask = Ask { model: ModelId(3), tokens: 30_200, ..fixture.ask("flow") };
        let verdict = fixture.offer(ask);
        started(&mut fixture, verdict);
    }
    let mut at = Vec::new();
    for band in [Band::High].into_iter().chain([Band::Critical; 5]) {
        let ask = of(&mut fixture, band);
        let fresh = prompt(0, 0, 100);
        fixture.supply(&[backend(0, &[MODEL.0, 3]), down(1)]);
        fixture.supply(&backends);
        fixture.gate.reading(BackendId(1), reading, fixture.now);
        let verdict = fixture.gate.offer_prompt(Ask { prompt: 6400, ..ask }, fresh, fixture.now);
        at.push(started(&mut fixture, verdict).1.0);
    }
    // 600 tokens each are added to 90,600, up to 33/32 of 90,000.
    assert_eq!(at, [1, 0, 0, 0, 0, 1]);
}

/// C03: the other bands do not wait if a place is not expected in time.
#[test]
fn c03_an_ask_does_not_wait_for_a_place_that_does_not_come_free_in_time() {
    // One ask in flight at the first backend, for which another one took longer than is saved.
    let one_place = || Settings { bounds: limited_to(1.0).bounds, ..delays(10_000) };
    for (stay, expected) in [(700, None), (900, Some(BackendId(1)))] {
        let mut fixture = Fixture::new(Settings { cache_reorder: 4, ..one_place() }, 2);
        for _ in 0..2 {
            let ask = fixture.ask("flow");
            let (ticket, backend) = granted(offer(&mut fixture, ask, 6400));
            assert_eq!(backend, BackendId(0));
            fixture.pass(millis(stay));
            fixture.settle(ticket, 1);
        }
        let ask = fixture.ask("flow");
        granted(offer(&mut fixture, ask, 6400));
        let verdict = offer(&mut fixture, ask, 6400);
        let at = matches!(verdict, Verdict::Granted { .. }).then(|| granted(verdict).1);
        assert_eq!(at, expected, "each stays for {stay} ms");
    }
    // The ask in flight stays much longer than usual.
    let Crowd { mut fixture, .. } = Crowd::with_places(one_place(), 1, 0);
    fixture.pass(millis(900));
    let ask = fixture.ask("flow");
    assert_eq!(granted(offer(&mut fixture, ask, 6400)).1, BackendId(1));
    // Nothing has ended yet, so nothing is known.
    let mut fixture = Fixture::new(Settings { cache_reorder: 4, ..one_place() }, 2);
    let ask = fixture.ask("flow");
    for at in [BackendId(0), BackendId(1)] {
        assert_eq!(granted(offer(&mut fixture, ask, 6400)).1, at);
    }
}

/// C03: asks that were not served do not tell how soon a place comes free.
#[test]
fn c03_asks_that_fail_at_once_make_no_place_look_near() {
    let ends: [fn(&mut Fixture, Ticket); 5] = [
        |fixture, ticket| fixture.settle(ticket, 0),
        |fixture, ticket| fixture.gate.settle(ticket, Usage::Failed, fixture.now).unwrap(),
        |fixture, ticket| _ = fixture.gate.cancel(ticket, fixture.now).unwrap(),
        |fixture, ticket| {
            fixture.gate.moved(ticket, BackendId(1), fixture.now).unwrap();
            fixture.settle(ticket, 1);
        },
        |fixture, ticket| {
            fixture.gate.requeue(ticket, RequeuePosition::Back, fixture.now).unwrap();
            fixture.settle(ticket, 0);
        },
    ];
    for (at, end) in ends.into_iter().enumerate() {
        let settings = Settings { bounds: limited_to(1.0).bounds, ..delays(10_000) };
        let settings = Settings { cache_reorder: 4, ..settings };
        let backends = [backend(0, &[MODEL.0, 3]), backend(1, &[MODEL.0])];
        let mut fixture = Fixture::with(settings, &backends);
        let warm = |fixture: &mut Fixture| {
            let ask = fixture.ask("flow");
            let (ticket, backend) = granted(offer(fixture, ask, 6400));
            assert_eq!(backend, BackendId(0));
            ticket
        };
        for _ in 0..2 {
            let ticket = warm(&mut fixture);
            fixture.pass(millis(900));
            fixture.settle(ticket, 1);
        }
        for _ in 0..20 {
            let ask = Ask { model: ModelId(3), ..fixture.ask("flow") };
            let ticket = granted(fixture.offer(ask)).0;
            end(&mut fixture, ticket);
        }
        warm(&mut fixture);
        let ask = fixture.ask("flow");
        let verdict = offer(&mut fixture, ask, 6400);
        assert!(matches!(verdict, Verdict::Granted { .. }), "end {at}: 900 ms as before");
    }
}

/// C03: waits that lose stop by themselves, are tried again rarely, and go on once they win.
#[test]
fn c03_waits_that_lose_more_than_they_win_stop() {
    let (mut fixture, [mut running, waiting]) = awaiting(1000);
    fixture.pass(millis(800));
    assert_eq!(fixture.granted(), [waiting], "it lost");
    let mut ends = vec![waiting];
    let again = |fixture: &mut Fixture, running: &mut Ticket, ends: &mut Vec<Ticket>| {
        ends.drain(..).for_each(|ticket| fixture.settle(ticket, 1));
        // The second backend has never had the prompt.
        fixture.gate.supply(&[backend(0, &[MODEL.0]), down(1)], fixture.now);
        fixture.supply(&[backend(0, &[MODEL.0]), backend(1, &[MODEL.0])]);
        // The usual time at the first backend stays short, so that a wait seems worth it.
        for _ in 0..20 {
            fixture.settle(*running, 1);
            let ask = fixture.ask("flow");
            let (ticket, backend) = granted(offer(fixture, ask, 6400));
            assert_eq!(backend, BackendId(0));
            *running = ticket;
        }
        let ask = fixture.ask("flow");
        offer(fixture, ask, 6400)
    };
    let (elsewhere, at) = granted(again(&mut fixture, &mut running, &mut ends));
    assert_eq!(at, BackendId(1), "no ask waits");
    ends.push(elsewhere);
    fixture.pass(Span::from_secs(9));
    let (elsewhere, _) = granted(again(&mut fixture, &mut running, &mut ends));
    ends.push(elsewhere);
    fixture.pass(Span::from_secs(1));
    let waiting = queued(again(&mut fixture, &mut running, &mut ends));
    fixture.pass(millis(100));
    fixture.settle(running, 1);
    assert_eq!(fixture.granted(), [waiting], "after ten seconds it is tried again, and wins");
    running = waiting;
    queued(again(&mut fixture, &mut running, &mut ends));
    assert_eq!(balance(&fixture), [millis(700), millis(800)]);
}

fn down(id: u32) -> crate::BackendSupply {
    crate::BackendSupply { ready: false, ..backend(id, &[MODEL.0]) }
}

/// An ask that leaves while it waits has lost its wait, and others look again.
#[test]
fn k02_an_ask_that_leaves_ends_its_wait() {
    let (mut fixture, [_, waiting]) = awaiting(1000);
    let second = wait(&mut fixture, 6400);
    fixture.pass(millis(300));
    fixture.gate.cancel(waiting, fixture.now).unwrap();
    fixture.collect();
    assert_eq!(balance(&fixture), [Span::ZERO, millis(300)]);
    assert_eq!(fixture.gate.next_wake(), Some(fixture.now));
    fixture.pass(Span::ZERO);
    assert_eq!(fixture.granted(), [second], "this wait lost, so none goes on");
}

/// Another prompt does not wait behind it, and no band waits with it.
#[test]
fn k02_an_ask_that_waits_for_a_cache_holds_up_no_other() {
    let (mut fixture, _) = awaiting(1000);
    let ask = Ask { prompt: 6400, ..fixture.ask("flow") };
    let other = queued(fixture.gate.offer_prompt(ask, prompt(7, 0, 100), fixture.now));
    fixture.collect();
    assert_eq!(fixture.granted(), [other]);

    for band in [Band::BestEffort, Band::Critical] {
        let (mut fixture, [running, waiting]) = awaiting(1000);
        let ask = fixture.ask("flow");
        granted(fixture.offer(Ask { band, ..ask }));
        fixture.settle(running, 1);
        assert_eq!(fixture.granted(), [waiting]);
    }
}

/// Other bands that waited for a place go, too.
#[test]
fn k02_a_band_that_waits_for_a_cache_is_passed_over() {
    let mut crowd = Crowd::new(delays(10_000), 4);
    let held = wait(&mut crowd.fixture, 6400);
    let lower = crowd.fixture.queue("flow", Band::BestEffort);
    crowd.fixture.settle(crowd.others[0], 1);
    assert_eq!(crowd.fixture.granted(), [lower]);
    crowd.fixture.settle(crowd.warm[0], 1);
    assert_eq!(crowd.fixture.granted(), [held]);
}

/// In an overload all asks are old. So at nearly full backends the time counts from the turn of an
/// ask, not its arrival.
#[test]
fn k02_an_ask_waits_for_a_cache_from_its_turn_on() {
    let mut crowd = Crowd::new(delays(10_000), 4);
    let waiting = crowd.turned(millis(2000));
    crowd.fixture.pass(millis(3199));
    assert_eq!(crowd.fixture.granted(), [], "0.8 s for itself, and for three others");
    crowd.fixture.pass(millis(1));
    assert_eq!(crowd.fixture.granted(), [waiting]);
}

/// The grants of others do not begin its wait anew.
#[test]
fn k02_an_ask_waits_for_a_cache_no_longer_because_others_go() {
    let Crowd { mut fixture, others, .. } = Crowd::new(delays(1000), 3);
    let waiting = wait(&mut fixture, 6400);
    fixture.pass(millis(600));
    let ask = Ask { prompt: 6400, ..fixture.ask("flow") };
    let other = queued(fixture.gate.offer_prompt(ask, prompt(7, 0, 100), fixture.now));
    fixture.collect();
    assert_eq!(fixture.granted(), [other]);
    fixture.settle(others[0], 1);
    fixture.pass(millis(399));
    assert_eq!(fixture.granted(), []);
    fixture.pass(millis(1));
    assert_eq!(fixture.granted(), [waiting]);
}

/// A backend that has just come must not stay empty.
#[test]
fn k02_an_old_ask_goes_to_an_emptier_backend() {
    let mut crowd = Crowd::new(delays(10_000), 4);
    let waiting = crowd.turned(millis(2000));
    assert_eq!(crowd.fixture.granted(), [], "three of four places are taken");
    crowd.fixture.settle(crowd.others[1], 1);
    assert_eq!(crowd.fixture.granted(), [waiting], "two");
}

/// An ask that is not the first of its flow queue does not go to a cold backend before its turn,
/// though its cache saves less than that of the first one, and it has waited for longer than that.
#[test]
fn k02_only_the_first_ask_of_a_flow_goes_to_a_cold_backend() {
    let Crowd { mut fixture, warm, .. } = Crowd::new(delays(10_000), 3);
    let first = wait(&mut fixture, 6400);
    wait(&mut fixture, 6400);
    wait(&mut fixture, 1600);
    fixture.pass(millis(1000));
    fixture.settle(warm[0], 1);
    assert_eq!(fixture.granted(), [first]);
}

/// An ask waits for at most half of the time until it would become late, or expire if it is late.
#[test]
fn k02_no_ask_becomes_late_while_it_waits_for_a_cache() {
    let objective = Settings { objectives: [Span::from_secs(2); BANDS], ..delays(1000) };
    let mut short = delays(1000);
    short.default_class.ttl = millis(1500);
    for (settings, passed, time) in
        [(&objective, 400, 550), (&objective, 1600, 1000), (&short, 400, 550)]
    {
        let mut crowd = Crowd::new(settings.clone(), 4);
        let waiting = crowd.turned(millis(passed));
        crowd.fixture.pass(millis(time - 1));
        assert_eq!(crowd.fixture.granted(), [], "it has 1.5 s, and its turn comes at {passed} ms");
        crowd.fixture.pass(millis(2));
        assert_eq!(crowd.fixture.granted(), [waiting]);
    }
}

/// An overload that lasts serves no late ask, so none waits for a cache.
#[test]
fn k02_a_late_ask_of_a_lasting_overload_does_not_wait_for_a_cache() {
    let objectives = [Span::from_secs(2); BANDS];
    for (overload_after, evicted) in [(Span::ZERO, true), (Span::from_secs(60), false)] {
        let settings = Settings { objectives, overload_after, ..delays(10_000) };
        let Crowd { mut fixture, others, .. } = Crowd::new(settings, 4);
        let mut last = others[0];
        for _ in 0..6 {
            // The objective is within reach.
            let fresh = fixture.queue("flow", Band::Normal);
            fixture.settle(last, 1);
            last = fresh;
        }
        fixture.granted();
        let waiting = wait(&mut fixture, 6400);
        fixture.pass(Span::from_secs(3));
        fixture.settle(last, 1);
        let is_gone = |event: &Event| {
            matches!(event, Event::Evicted { ticket, reason, .. }
                if (*ticket, *reason) == (waiting, Eviction::TooLate))
        };
        assert_eq!(fixture.events.iter().any(is_gone), evicted, "{overload_after:?}");
        assert_eq!(fixture.granted(), []);
    }
}

/// In the order of deadlines each new ask may become the first one. They do not wait in turn.
#[test]
fn k02_a_fair_queue_is_held_for_a_cache_no_longer_than_one_ask_would_be() {
    let settings = Settings { order: Order::Deadline, ..delays(1000) };
    let Crowd { mut fixture, warm, .. } = Crowd::new(settings, 3);
    let mut asks = Vec::new();
    for (at, ttl) in [900, 800, 700, 600].into_iter().enumerate() {
        let ask = Ask { ttl: Some(Span::from_secs(ttl)), ..fixture.ask("flow") };
        asks.push(queued(offer(&mut fixture, ask, 6400)));
        if at == 0 {
            let critical = Ask { model: ModelId(3), band: Band::Critical, ..ask };
            queued(fixture.offer(critical));
        }
        if at == 2 {
            // The first backend serves others, so a place may come free soon.
            fixture.settle(warm[0], 1);
            assert_eq!(fixture.granted().len(), 1);
        }
        fixture.pass(millis(300));
    }
    assert_eq!(fixture.granted(), [asks[3]], "after one second");
}

/// In the order by workload the first ask is another one at every moment.
#[test]
fn k02_in_the_order_by_workload_no_ask_waits_for_a_cache() {
    let settings = Settings { order: Order::Workload, ..delays(1000) };
    let mut crowd = Crowd::new(settings, 3);
    let ask = crowd.fixture.ask("flow");
    assert_eq!(granted(offer(&mut crowd.fixture, ask, 6400)).1, BackendId(1));
}

/// What is computed again delays the asks in flight there, so the wait is worth more.
#[test]
fn k02_an_ask_waits_longer_where_it_would_delay_others() {
    for (others, times) in [(0, 1), (2, 1), (3, 4)] {
        let mut crowd = Crowd::new(delays(10_000), others);
        wait(&mut crowd.fixture, 6400);
        let wake = crowd.fixture.gate.next_wake().unwrap();
        assert_eq!(wake.since(crowd.fixture.now), millis(800 * times), "{others}");
    }
}

/// Of two flows the ask goes whose wait ends first.
#[test]
fn k02_the_wait_of_every_flow_ends_in_time() {
    let settings = Settings { cache_slack: 4, ..delays(10_000) };
    let mut crowd = Crowd::new(settings, 3);
    wait(&mut crowd.fixture, 6400);
    let ask = crowd.fixture.ask("another flow");
    let ticket = queued(offer(&mut crowd.fixture, ask, 1600));
    let wake = crowd.fixture.gate.next_wake().unwrap();
    assert_eq!(wake.since(crowd.fixture.now), millis(800), "a quarter of 3.2 s");
    crowd.fixture.pass(millis(800));
    assert_eq!(crowd.fixture.granted(), [ticket]);
}

/// Without a queue an ask cannot wait, and is not refused for it.
#[test]
fn k02_an_ask_that_may_not_wait_goes_elsewhere() {
    let one_place = Settings { bounds: limited_to(1.0).bounds, ..delays(1000) };
    let mut no_room = one_place.clone();
    no_room.default_class.capacity = 0;
    for settings in [Settings { total_capacity: 0, ..one_place.clone() }, no_room] {
        let Crowd { mut fixture, .. } = Crowd::with_places(settings, 1, 0);
        let ask = fixture.ask("flow");
        assert_eq!(granted(offer(&mut fixture, ask, 6400)).1, BackendId(1));
    }
}
