//! R02: the ranges of the weights.

use super::*;
use crate::range::OutOfRange;

/// Changes the weight of a key.
type Setter = fn(&mut RouteTerms, f64);

const BOOSTS: [(&str, Setter); BANDS] = [
    ("router.priority_scoring.best_effort_penalty", |terms, value| terms.boosts[0] = value),
    ("router.priority_scoring.normal_boost", |terms, value| terms.boosts[1] = value),
    ("router.priority_scoring.high_boost", |terms, value| terms.boosts[2] = value),
    ("router.priority_scoring.critical_boost", |terms, value| terms.boosts[3] = value),
];

const POINTS: [(&str, Setter); 8] = [
    ("router.queue_depth_penalty_per_request", |terms, value| terms.depth_penalty = value),
    ("router.engine_waiting_penalty_per_request", |terms, value| {
        terms.engine_waiting_penalty = value;
    }),
    ("router.fill_penalty", |terms, value| terms.fill_penalty = value),
    ("router.kv_penalty", |terms, value| terms.kv_penalty = value),
    ("router.prefix_bonus", |terms, value| terms.prefix_bonus = value),
    ("router.adapter_bonus", |terms, value| terms.adapter_bonus = value),
    ("router.kv_threshold", |terms, value| terms.kv_threshold = value),
    ("router.measured_latency_share", |terms, value| terms.measured_share = value),
];

fn refused(set: Setter, value: f64) -> OutOfRange {
    let mut terms = RouteTerms::default();
    set(&mut terms, value);
    RouteWeights::new(terms).expect_err("it is out of range")
}

#[test]
fn r02_the_default_has_the_sources_values() {
    let weights = RouteWeights::default();
    let boosts = Band::DESCENDING.map(|band| weights.boost(band));
    assert_eq!(boosts, [500.0, 200.0, 0.0, -100.0]);
    assert_eq!(weights.terms().depth_penalty, 50.0);
    assert_eq!(RouteWeights::new(RouteTerms::default()), Ok(weights), "and passes its own checks");
}

#[test]
fn r02_absurd_numbers_are_refused_by_their_keys() {
    for (key, set) in BOOSTS {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1000.5, -1000.5] {
            assert_eq!(refused(set, value).what, key, "{value}");
        }
    }
    for (key, set) in POINTS {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5, 10_000.5] {
            assert_eq!(refused(set, value).what, key, "{value}");
        }
    }
    assert_eq!(refused(POINTS[6].1, 1.0).what, "router.kv_threshold", "nothing would be above it");
    assert_eq!(refused(POINTS[7].1, 1.1).what, "router.measured_latency_share");
}

#[test]
fn r02_the_ends_of_a_range_are_allowed() {
    weights(|terms| terms.boosts = [-1000.0, -1000.0, 1000.0, 1000.0]);
    for (_, set) in POINTS {
        weights(|terms| set(terms, 0.0));
    }
    for (_, set) in &POINTS[..6] {
        weights(|terms| set(terms, 10_000.0));
    }
    weights(|terms| terms.measured_share = 1.0);
}

#[test]
fn r02_boosts_may_not_fall_from_one_band_to_the_next() {
    for (at, (key, set)) in BOOSTS.into_iter().enumerate().skip(1) {
        let below = RouteTerms::default().boosts[at - 1];
        let error = refused(set, below - 1.0);
        assert_eq!((error.what, error.value), (key, below - 1.0));
        assert!(error.to_string().contains("no less than the boost of the band below"));
    }
    let equal = weights(|terms| terms.boosts = [0.0, 0.0, 0.0, 500.0]);
    assert_eq!(equal.boost(Band::High), 0.0, "equal ones are good");
}

#[test]
fn r01_traits_are_checked_by_their_keys() {
    assert!(BackendTraits::new(55.0, 150.0).is_ok());
    assert!(BackendTraits::new(0.0, 0.0).is_ok());
    for bad in [f32::NAN, f32::INFINITY, -1.0, 1e8] {
        assert_eq!(BackendTraits::new(bad, 1.0).unwrap_err().what, "power_watts");
        assert_eq!(BackendTraits::new(1.0, bad).unwrap_err().what, "latency_ms");
    }
}
