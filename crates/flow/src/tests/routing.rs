//! R01–R05, R07: the choice of a backend inside the grant. The score itself is tested beside it.

use super::fixture::{Fixture, backend, limited_to};
use crate::{
    Ask, BackendId, BackendSupply, BackendTraits, Band, Bounds, ModelId, RouteChoice, RouteReason,
    RouteTerms, RouteWeights, Settings, Span, Ticket, Usage, Verdict,
};

/// The model that every backend serves; each also serves one of its own, 10 and up.
const SHARED: ModelId = ModelId(0);

fn described(id: u32, power_watts: f32, latency_ms: f32) -> BackendSupply {
    let traits = BackendTraits { power_watts, latency_ms };
    BackendSupply { traits, ..backend(id, &[SHARED.0, 10 + id]) }
}

/// The source's three backends: NVIDIA, iGPU, NPU.
fn trio() -> [BackendSupply; 3] {
    [described(0, 55.0, 150.0), described(1, 12.0, 400.0), described(2, 3.0, 800.0)]
}

fn equals(count: u32) -> Vec<BackendSupply> {
    (0..count).map(|id| backend(id, &[SHARED.0, 10 + id])).collect()
}

// === impl Fixture ===

impl Fixture {
    /// Gives a backend this many asks of a band.
    fn occupy(&mut self, backend: u32, band: Band, count: usize) -> Vec<Ticket> {
        let ask = self.ask("others");
        let ask = Ask { band, model: ModelId(10 + backend), ..ask };
        (0..count).map(|_| self.go(ask).0).collect()
    }

    /// Offers an ask that must be granted at once; returns its backend and the reason.
    fn go(&mut self, ask: Ask) -> (Ticket, BackendId, RouteChoice) {
        match self.offer(ask) {
            Verdict::Granted { ticket, backend } => {
                (ticket, backend, self.gate.choice(ticket).unwrap())
            }
            other => panic!("expected a grant, got {other:?}"),
        }
    }

    fn shared(&mut self, band: Band) -> Ask {
        let ask = self.ask("a");
        Ask { band, model: SHARED, ..ask }
    }
}

/// What an ask costs at a backend with two others, four of which fill it.
fn penalty_at_four_places(flat_depth: bool) -> f64 {
    let terms = RouteTerms { fill_penalty: 0.0, flat_depth, ..RouteTerms::default() };
    let settings = Settings { route: RouteWeights::new(terms).unwrap(), ..Settings::default() };
    let settings = Settings { bounds: Bounds::Auto, ..settings };
    let sized = BackendSupply { places: Some(4), ..backend(0, &[SHARED.0, 10]) };
    let mut fixture = Fixture::with(settings, &[sized]);
    fixture.occupy(0, Band::Normal, 2);
    let ask = fixture.shared(Band::Normal);
    fixture.go(ask).2.score.depth_penalty
}

#[test]
fn r02_the_penalty_of_an_ask_follows_the_size_of_its_backend_unless_it_is_flat() {
    assert_eq!([false, true].map(penalty_at_four_places), [500.0, 100.0]);
}

#[test]
fn r02_each_band_goes_where_the_chart_says_and_boosts_move_it() {
    let mut fixture = Fixture::with(limited_to(8.0), &trio());
    for (band, backend, boost) in [
        (Band::Critical, 0, 500.0),
        (Band::High, 0, 200.0),
        (Band::Normal, 1, 0.0),
        (Band::BestEffort, 2, -100.0),
    ] {
        let ask = fixture.shared(band);
        let (ticket, chosen, choice) = fixture.go(ask);
        assert_eq!((chosen, choice.score.boost), (BackendId(backend), boost), "{band:?}");
        fixture.settle(ticket, 1);
    }
    let boosts = [0.0, 300.0, 300.0, 500.0];
    let route = RouteWeights::new(RouteTerms { boosts, ..RouteTerms::default() }).unwrap();
    fixture.gate.configure(Settings { route, ..limited_to(8.0) }, fixture.now);
    let ask = fixture.shared(Band::Normal);
    assert_eq!(fixture.go(ask).1, BackendId(0), "a boosted band prefers speed");
}

#[test]
fn r04_scenario_1_a_critical_ask_avoids_congested_backends() {
    let mut fixture = Fixture::with(limited_to(8.0), &equals(3));
    fixture.occupy(0, Band::Normal, 5);
    fixture.occupy(2, Band::Critical, 2);
    let ask = fixture.shared(Band::Critical);
    let (_, chosen, choice) = fixture.go(Ask { latency_critical: true, ..ask });
    assert_eq!((chosen, choice.depth), (BackendId(1), 0));
    assert_eq!(choice.reason.text(), "critical-priority-low-queue");
    assert_eq!(choice.score.boost, 500.0);
}

#[test]
fn r04_scenario_2_best_effort_saves_power_and_leaves_the_fast_one_free() {
    let [nvidia, _, npu] = trio();
    let mut fixture = Fixture::with(limited_to(8.0), &[nvidia, npu]);
    fixture.occupy(2, Band::BestEffort, 1);
    let ask = fixture.shared(Band::BestEffort);
    let (_, chosen, choice) = fixture.go(ask);
    assert_eq!((chosen, choice.power_watts), (BackendId(2), 3.0));
    assert_eq!(choice.reason.text(), "best-effort-power-efficient");
}

#[test]
fn r04_scenario_3_an_unmet_limit_takes_the_fastest_with_the_least_ahead() {
    let mut fixture = Fixture::with(limited_to(20.0), &equals(3));
    fixture.occupy(0, Band::BestEffort, 10);
    fixture.occupy(1, Band::Normal, 5);
    fixture.occupy(2, Band::Critical, 3);
    let ask = fixture.shared(Band::Critical);
    let (_, chosen, choice) = fixture.go(Ask { latency_max: Some(Span::from_millis(100)), ..ask });
    assert_eq!(choice.reason, RouteReason::LimitUnmet);
    // Ten asks that it overtakes weigh 2.5, five normal ones 2.5, three of its own band 3; of the
    // two equal backends the longest unused goes first.
    assert_eq!((chosen, choice.weighted_depth), (BackendId(0), 2.5));
}

#[test]
fn r05_a_preference_is_kept_while_its_ask_waits() {
    let mut fixture = Fixture::with(limited_to(1.0), &trio());
    let busy: Vec<Ticket> = (0..3).flat_map(|id| fixture.occupy(id, Band::BestEffort, 1)).collect();
    let ask = fixture.shared(Band::BestEffort);
    let has_preference = Ask { latency_max: Some(Span::from_millis(200)), ..ask };
    let Verdict::Queued { ticket } = fixture.offer(has_preference) else { panic!("all are busy") };
    assert_eq!(fixture.gate.choice(ticket), None, "nothing was chosen yet");
    fixture.gate.configure(limited_to(2.0), fixture.now);
    fixture.collect();
    assert_eq!(fixture.gate.backend_of(ticket), Some(BackendId(0)), "not the NPU of its band");
    fixture.settle(ticket, 1);
    assert_eq!(fixture.gate.choice(ticket), None, "and nothing of it remains");
    assert_eq!(busy.len(), 3);
}

#[test]
fn r07_best_effort_goes_wherever_there_is_room() {
    let boosts = [-1000.0, 0.0, 0.0, 0.0];
    let route = RouteWeights::new(RouteTerms { boosts, ..RouteTerms::default() }).unwrap();
    let [nvidia, ..] = trio();
    let mut fixture = Fixture::with(Settings { route, ..limited_to(1.0) }, &[nvidia]);
    let ask = fixture.shared(Band::BestEffort);
    assert_eq!(fixture.go(ask).2.reason, RouteReason::OnlyBackend);
}

#[test]
fn r07_a_returned_backend_is_chosen_less_at_first() {
    let [warm, cold] = [0, 1].map(|id| backend(id, &[SHARED.0]));
    let cold = |handicap| BackendSupply { handicap, ..cold.clone() };
    let mut fixture = Fixture::with(limited_to(8.0), &[warm.clone(), cold(175.0)]);
    let ask = fixture.shared(Band::Normal);
    // Each ask in flight costs 50 points, so the cold one is behind by three and a half.
    let chosen: Vec<u32> = (0..6).map(|_| fixture.go(ask).1.0).collect();
    assert_eq!(chosen, [0, 0, 0, 0, 1, 0]);
    fixture.supply(&[warm, cold(0.0)]);
    let chosen: Vec<u32> = (0..4).map(|_| fixture.go(ask).1.0).collect();
    assert_eq!(chosen, [1; 4], "it catches up");
}

#[test]
fn r03_equal_backends_are_taken_in_turn_and_pending_never_drifts() {
    let mut fixture = Fixture::with(limited_to(4.0), &equals(4));
    let mut tickets = Vec::new();
    let mut chosen = Vec::new();
    for _ in 0..8 {
        let ask = fixture.shared(Band::Normal);
        let (ticket, backend, _) = fixture.go(ask);
        tickets.push(ticket);
        chosen.push(backend.0);
    }
    assert_eq!(chosen, [0, 1, 2, 3, 0, 1, 2, 3]);
    fixture.gate.cancel(tickets[0], fixture.now).unwrap();
    fixture.gate.requeue(tickets[1], crate::RequeuePosition::Original, fixture.now).unwrap();
    for &ticket in &tickets[1..] {
        fixture.gate.settle(ticket, Usage::Unknown, fixture.now).unwrap();
    }
    fixture.collect();
    assert!(fixture.gate.backends().all(|backend| backend.in_flight == [0; 4]));
}

#[test]
fn r01_a_session_stays_and_an_adapter_is_found() {
    let mut listed = equals(4);
    listed[2].adapters = vec![7];
    let mut fixture = Fixture::with(limited_to(4.0), &listed);
    let ask = fixture.shared(Band::Normal);
    let session = Ask { session: Some(99), ..ask };
    let (first, home, _) = fixture.go(session);
    fixture.settle(first, 1);
    for _ in 0..3 {
        let (ticket, backend, choice) = fixture.go(session);
        assert_eq!((backend, choice.score.affinity), (home, 100.0));
        fixture.settle(ticket, 1);
    }
    let (_, backend, choice) = fixture.go(Ask { adapter: Some(7), ..ask });
    assert_eq!((backend, choice.reason), (BackendId(2), RouteReason::Affinity));
}

#[test]
fn r01_measured_latency_moves_the_choice() {
    for settings in [Settings::default(), limited_to(20.0)] {
        check_measured_latency(settings);
    }
}

fn check_measured_latency(settings: Settings) {
    let mut fixture = Fixture::with(settings, &equals(2));
    let ask = fixture.shared(Band::Normal);
    for millis in [900, 100] {
        let (ticket, _, _) = fixture.go(ask);
        fixture.pass(Span::from_millis(millis));
        fixture.gate.started(ticket, fixture.now).unwrap();
        fixture.settle(ticket, 1);
    }
    for _ in 0..3 {
        let (ticket, backend, _) = fixture.go(ask);
        assert_eq!(backend, BackendId(1), "the other one took longer to start");
        fixture.settle(ticket, 1);
    }
    fixture.pass(Span::from_secs(61));
    let (_, backend, _) = fixture.go(ask);
    assert_eq!(backend, BackendId(0), "what is old is not known any more");
}

#[test]
fn r01_the_metrics_of_an_engine_move_the_choice_under_any_bounds() {
    for settings in [Settings::default(), limited_to(20.0)] {
        let mut fixture = Fixture::with(settings, &equals(2));
        let reading = |waiting, kv_used| crate::EngineReading {
            running: 5,
            waiting,
            kv_used,
            preemptions: 0,
            kv_tokens: None,
            running_max: None,
            ranks: 1,
        };
        let ask = fixture.shared(Band::Normal);
        for (waiting, kv_used) in [(9, 0.0), (0, 0.99)] {
            fixture.gate.reading(BackendId(0), reading(waiting, kv_used), fixture.now);
            fixture.gate.reading(BackendId(1), reading(0, 0.0), fixture.now);
            for _ in 0..3 {
                let (ticket, backend, _) = fixture.go(ask);
                assert_eq!(backend, BackendId(1), "{waiting} waiting, {kv_used} used");
                fixture.settle(ticket, 1);
            }
        }
        fixture.pass(Span::from_secs(600));
        let used: Vec<BackendId> = (0..2).map(|_| fixture.go(ask).1).collect();
        assert_ne!(used[0], used[1], "what is old is not known any more");
    }
}

#[test]
fn r01_under_auto_depth_counts_relative_to_a_backends_size() {
    let mut fixture = Fixture::with(Settings::default(), &equals(2));
    // One closes with 2 in flight, the other with many.
    for (id, kv) in [(0, 200), (1, 20_000)] {
        let reading = crate::EngineReading {
            running: 200,
            waiting: 0,
            kv_used: 0.5,
            preemptions: 0,
            kv_tokens: Some(kv),
            running_max: None,
            ranks: 1,
        };
        fixture.gate.reading(BackendId(id), reading, fixture.now);
    }
    let ask = fixture.shared(Band::Normal);
    let own = |id: u32| Ask { model: ModelId(10 + id), tokens: 100, ..ask };
    let full: Vec<Ticket> = (0..2).map(|_| fixture.go(own(0)).0).collect();
    let many: Vec<Ticket> = (0..180).map(|_| fixture.go(own(1)).0).collect();
    full.iter().chain(&many[..150]).for_each(|&ticket| fixture.settle(ticket, 1));
    fixture.go(own(0));
    let (_, backend, _) = fixture.go(Ask { tokens: 100, ..ask });
    assert_eq!(backend, BackendId(1), "thirty of 180 are less than one of two");
}

/// A backend of which nothing is known would otherwise never be measured.
#[test]
fn r01_a_backend_that_was_not_measured_counts_as_the_fastest() {
    let mut fixture = Fixture::new(limited_to(4.0), 2);
    let mut grants = [0, 0];
    for _ in 0..8 {
        let ask = Ask { streamed: true, ..fixture.ask("a") };
        let Verdict::Granted { ticket, backend } = fixture.offer(ask) else {
            panic!("there is room");
        };
        fixture.pass(Span::from_millis(20));
        fixture.gate.started(ticket, fixture.now).unwrap();
        fixture.settle(ticket, 1);
        grants[backend.0 as usize] += 1;
    }
    assert_eq!(grants, [4, 4], "as fast as the other one");
}
