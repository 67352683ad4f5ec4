//! R01: the other terms of the score, one by one, and turns among equal scores.

use super::*;

/// The points that one of two equal backends gains or loses by a change.
fn effect(preference: &RoutePreference, change: impl Fn(Candidate) -> Candidate) -> f64 {
    let twin = backend(0, 10.0, 200.0);
    let score = |candidate| pick(preference, &[candidate]).score;
    let (before, after) = (score(twin), score(change(twin)));
    let parts = after.speed + after.economy + after.boost + after.affinity;
    let lost = after.depth_penalty + after.queue_penalty + after.kv_penalty + after.handicap;
    assert!((after.total - (parts - lost)).abs() < 1e-9, "the parts make the whole");
    // The choice follows the score.
    let changed = Candidate { at: 1, backend: BackendId(1), ..change(twin) };
    let better = usize::from(after.total > before.total);
    let choice = pick(preference, &[twin, Candidate { last_granted: 1, ..changed }]);
    assert_eq!(choice.at as usize, better);
    after.total - before.total
}

fn assert_effect(expected: f64, change: impl Fn(Candidate) -> Candidate) {
    let found = effect(&RoutePreference::default(), change);
    assert!((found - expected).abs() < 1e-4, "{found}, not {expected}");
}

#[test]
fn r01_stated_speed_and_power_count() {
    assert_effect(100.0, |twin| Candidate {
        traits: BackendTraits { latency_ms: 100.0, ..twin.traits },
        ..twin
    });
    assert_effect(-160.0, |twin| Candidate {
        traits: BackendTraits { power_watts: 20.0, ..twin.traits },
        ..twin
    });
}

#[test]
fn r01_a_measured_latency_counts_half_and_within_reason() {
    let measured = |measured| move |twin| Candidate { measured_latency_ms: measured, ..twin };
    assert_effect(-50.0, measured(Some(300.0)));
    assert_effect(75.0, measured(Some(50.0)));
    assert_effect(-900.0, measured(Some(2000.0)));
    assert_effect(-900.0, measured(Some(60_000.0)));
    for nonsense in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0] {
        assert_effect(0.0, measured(Some(nonsense)));
    }
    let unstated = Candidate { measured_latency_ms: Some(300.0), ..backend(0, 10.0, 0.0) };
    assert_eq!(pick(&RoutePreference::default(), &[unstated]).score.speed, 850.0);
    let trusting = weights(|terms| terms.measured_share = 1.0);
    assert_eq!(pick_by(&trusting, &RoutePreference::default(), &[unstated]).score.speed, 700.0);
}

#[test]
fn r07_a_backend_that_has_just_returned_scores_less() {
    let held = |handicap| move |twin| Candidate { handicap, ..twin };
    assert_effect(-120.0, held(120.0));
    assert_effect(-10_000.0, held(1e9));
    for nonsense in [f32::NAN, f32::INFINITY, -1.0] {
        assert_effect(0.0, held(nonsense));
    }
}

#[test]
fn r01_the_engines_own_queue_counts() {
    assert_effect(-300.0, |twin| Candidate { engine_waiting: Some(3), ..twin });
    assert_effect(0.0, |twin| Candidate { engine_waiting: Some(0), ..twin });
}

#[test]
fn r01_a_crowded_kv_cache_counts() {
    let used = |used| move |twin| Candidate { kv_used: Some(used), ..twin };
    assert_effect(0.0, used(0.0));
    assert_effect(0.0, used(0.8));
    assert_effect(-100.0, used(0.9));
    assert_effect(-200.0, used(1.0));
    assert_effect(-200.0, used(7.0));
    assert_effect(0.0, used(f32::NAN));
}

#[test]
fn r01_nearness_to_the_bound_counts() {
    assert_effect(-25.0, |twin| Candidate { fill: 0.5, ..twin });
    assert_effect(-50.0, |twin| Candidate { fill: 3.0, ..twin });
    assert_effect(0.0, |twin| Candidate { fill: f32::NAN, ..twin });
}

#[test]
fn r01_pending_of_each_band_counts() {
    for (band, expected) in [-50.0, -100.0, -100.0, -100.0].into_iter().enumerate() {
        assert_effect(expected, |twin| {
            let mut pending = [0; BANDS];
            pending[band] = 2;
            Candidate { pending, ..twin }
        });
    }
}

#[test]
fn r01_a_cached_prompt_and_a_loaded_adapter_count() {
    assert_effect(100.0, |twin| Candidate { cached_tokens: 800, ..twin });
    let at_rate = |rate| move |twin| Candidate { prefill_rate: Some(rate), ..twin };
    assert_effect(0.0, at_rate(100.0));
    for (rate, effect) in [(16_000.0, 375.0), (1000.0, 6000.0), (f32::NAN, 750.0), (0.0, 750.0)] {
        assert_effect(effect, |twin| Candidate { cached_tokens: 6000, ..at_rate(rate)(twin) });
        assert_effect(-effect, |twin| Candidate { uncomputed_tokens: 6000, ..at_rate(rate)(twin) });
    }
    assert_effect(0.0, |twin| Candidate { has_adapter: true, ..twin });
    let tuned = RoutePreference { adapter: Some(3), ..RoutePreference::default() };
    assert_eq!(effect(&tuned, |twin| Candidate { has_adapter: true, ..twin }), 150.0);
}

#[test]
fn r01_equal_idle_backends_take_turns() {
    for count in [1, 2, 3, 7, 64] {
        let mut field: Vec<Candidate> =
            (0..count).map(|at| Candidate::new(at, BackendId(at))).collect();
        let mut grants = 0;
        for round in 0..3 {
            let mut hit: Vec<u32> = Vec::new();
            for _ in 0..count {
                let at = pick(&RoutePreference::default(), &field).at;
                grants += 1;
                field[at as usize].last_granted = grants;
                hit.push(at);
            }
            let expected: Vec<u32> = (0..count).collect();
            assert_eq!(hit, expected, "round {round} of {count}");
        }
    }
}

/// Because choice and count are one step, a burst spreads evenly over equal backends.
#[test]
fn r01_a_burst_is_spread_over_equal_backends() {
    let mut field = equals([[0; BANDS]; 5]);
    for grants in 1..=50 {
        let at = pick(&RoutePreference::default(), &field).at as usize;
        field[at].pending[Band::Normal.index()] += 1;
        field[at].last_granted = grants;
    }
    assert!(field.iter().all(|candidate| candidate.depth() == 10), "{field:?}");
}

#[test]
fn r01_an_invalid_trait_counts_as_absent() {
    let usual = pick(&preference(Band::BestEffort), &[Candidate::new(0, BackendId(0))]).score;
    for nonsense in [f32::NAN, f32::INFINITY, -3.0] {
        let odd = pick(&preference(Band::BestEffort), &[backend(0, nonsense, nonsense)]);
        assert_eq!(odd.score, usual);
        assert_eq!(odd.power_watts, 0.0);
    }
}
