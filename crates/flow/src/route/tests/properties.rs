//! R01, R02, R05, R07 for all inputs: order of preference, monotonicity, an oracle.

use proptest::prelude::*;

use super::*;
use crate::time::Span;

fn any_band() -> impl Strategy<Value = Band> {
    (0..BANDS).prop_map(|at| Band::DESCENDING[at])
}

/// Any preference, with limits in the range of the backends.
fn any_preference() -> impl Strategy<Value = RoutePreference> {
    let limit = proptest::option::of((0..2000u64).prop_map(Span::from_millis));
    let session = proptest::option::of(any::<u64>());
    let adapter = proptest::option::of(any::<u32>());
    let power = (proptest::option::of(auto(100.0)), any::<bool>());
    let limits = (limit.clone(), limit);
    (any_band(), limits, any::<bool>(), power, session, adapter).prop_map(
        |(band, (latency_max, start_max), latency_critical, power, session, adapter)| {
            RoutePreference {
                band,
                latency_max,
                start_max,
                latency_critical,
                power_max: power.0,
                power_efficient: power.1,
                session,
                adapter,
            }
        },
    )
}

/// Numbers as metrics report them: mostly sensible, sometimes any bits at all.
fn auto(most: f32) -> impl Strategy<Value = f32> {
    prop_oneof![8 => 0.0..most, 1 => Just(0.0), 1 => any::<f32>(), 1 => Just(f32::NAN)]
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let count = prop_oneof![6 => 0..20u32, 1 => any::<u32>()];
    let measured = || proptest::option::of(auto(1500.0));
    let figures = (auto(100.0), auto(1000.0), measured(), measured());
    let loads = (proptest::array::uniform4(count.clone()), proptest::option::of(count));
    let tokens = prop_oneof![6 => 0..100_000u64, 1 => any::<u64>()];
    let cache = (tokens.clone(), tokens, proptest::option::of(auto(20_000.0)));
    let shares = (proptest::option::of(auto(1.2)), auto(1.2), cache, any::<bool>());
    (figures, loads, shares, 0..5u64).prop_map(|(figures, loads, shares, last_granted)| Candidate {
        traits: BackendTraits { power_watts: figures.0, latency_ms: figures.1 },
        measured_latency_ms: figures.2,
        whole_latency_ms: figures.3,
        pending: loads.0,
        engine_waiting: loads.1,
        kv_used: shares.0,
        fill: shares.1,
        cached_tokens: shares.2.0,
        uncomputed_tokens: shares.2.1,
        prefill_rate: shares.2.2,
        has_adapter: shares.3,
        last_granted,
        ..Candidate::new(0, BackendId(0))
    })
}

fn any_field() -> impl Strategy<Value = Vec<Candidate>> {
    proptest::collection::vec(any_candidate(), 1..8).prop_map(|mut field| {
        for (at, candidate) in (0..).zip(&mut field) {
            (candidate.at, candidate.backend) = (at, BackendId(at));
        }
        field
    })
}

/// The same score from the formula in docs/FLOW.md, for sensible numbers and without sessions.
fn documented(preference: &RoutePreference, boost: f64, candidate: &Candidate) -> f64 {
    let unit = |value: f32| if value.is_nan() || value < 0.0 { 0.0 } else { f64::from(value) };
    let (stated, power) = (candidate.traits.latency_ms, candidate.traits.power_watts);
    let latency = match candidate.measured_latency_ms {
        Some(measured) => (f64::from(measured.min(10.0 * stated)) + f64::from(stated)) / 2.0,
        None => f64::from(stated),
    };
    let own = preference.band as u32 + 1;
    let pairs = (1..=4u32).zip(candidate.pending);
    let depth: f64 = pairs
        .map(|(weight, count)| f64::from(count) * f64::from(weight.min(own)) / f64::from(own))
        .sum();
    let adapter = preference.adapter.is_some() && candidate.has_adapter;
    1500.0 + boost
        - latency
        - 16.0 * f64::powf(2.0, -boost / 50.0) * f64::from(power)
        - 50.0 * depth
        - 100.0 * f64::from(candidate.engine_waiting.unwrap_or(0))
        - 50.0 * f64::from(candidate.fill)
        - 200.0 * ((unit(candidate.kv_used.unwrap_or(0.0)) - 0.8) / 0.2).max(0.0)
        + (candidate.cached_tokens as f64 - candidate.uncomputed_tokens as f64)
            / candidate.prefill_rate.map_or(8.0, |rate| f64::from(rate) / 1e3)
        + if adapter { 150.0 } else { 0.0 }
}

fn sensible(at: u32, numbers: ([u16; 3], [u32; 4], [u8; 3])) -> Candidate {
    let ([power, stated, measured], pending, shares) = numbers;
    let [kv_used, fill, _] = shares.map(|share| f32::from(share) / 255.0);
    let prefix = shares[2];
    Candidate {
        measured_latency_ms: (measured > 0).then_some(f32::from(measured)),
        pending,
        engine_waiting: Some(pending[0] % 7),
        kv_used: Some(kv_used),
        fill,
        cached_tokens: u64::from(prefix) * 10,
        uncomputed_tokens: u64::from(measured),
        prefill_rate: (prefix > 9).then_some(f32::from(prefix) * 100.0),
        has_adapter: measured % 2 == 0,
        ..backend(at, f32::from(power % 400), f32::from(stated % 2000 + 1))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Raising a boost never moves the choice to a slower backend, all else equal.
    #[test]
    fn r02_a_higher_boost_never_chooses_a_slower_backend(
        traits in proptest::collection::vec((0..400u16, 1..2000u16), 1..10),
        boosts in proptest::collection::vec(-300..=600i32, 2),
        band in any_band(),
    ) {
        let field: Vec<Candidate> = (0..)
            .zip(traits)
            .map(|(at, (power, latency))| backend(at, f32::from(power), f32::from(latency)))
            .collect();
        let (low, high) = (boosts[0].min(boosts[1]), boosts[0].max(boosts[1]));
        let latency = |boost: i32| {
            let weights = weights(|terms| terms.boosts = [f64::from(boost); BANDS]);
            field[pick_by(&weights, &preference(band), &field).at as usize].traits.latency_ms
        };
        prop_assert!(latency(high) <= latency(low), "{} at {low}, {} at {high}",
            latency(low), latency(high));
    }

    /// Higher bands never go to slower backends than lower ones do, with the default weights.
    #[test]
    fn r02_a_higher_band_never_goes_to_a_slower_idle_backend(
        traits in proptest::collection::vec((0..400u16, 1..2000u16), 1..10),
    ) {
        let field: Vec<Candidate> = (0..)
            .zip(traits)
            .map(|(at, (power, latency))| backend(at, f32::from(power), f32::from(latency)))
            .collect();
        let chosen = Band::DESCENDING
            .map(|band| field[pick(&preference(band), &field).at as usize].traits.latency_ms);
        prop_assert!(chosen.is_sorted(), "{chosen:?} from critical to best-effort");
    }

    /// More asks in flight never make a backend more attractive, whatever its other properties.
    #[test]
    fn r01_more_pending_never_attracts(
        preference in any_preference(),
        field in any_field(),
        who in any::<prop::sample::Index>(),
        band in 0..BANDS,
        more in 1..50u32,
    ) {
        let who = who.index(field.len());
        let before = pick(&preference, &field).at as usize;
        let mut loaded = field.clone();
        loaded[who].pending[band] = loaded[who].pending[band].saturating_add(more);
        let after = pick(&preference, &loaded).at as usize;
        prop_assert!(after == before || before == who, "load moved {before} to {after}");
        prop_assert!(after != who || before == who);
        let score = |field: &[Candidate]| pick(&preference, &field[who..=who]).score.total;
        prop_assert!(score(&loaded) <= score(&field));
    }

    /// A backend is chosen for any numbers, the score is finite, and the order of the candidates
    /// does not matter unless two are equal in every term.
    #[test]
    fn r07_a_backend_is_always_chosen_and_always_the_same(
        preference in any_preference(),
        field in any_field(),
    ) {
        let mut field = field;
        for (at, candidate) in (0..).zip(&mut field) {
            candidate.last_granted = candidate.last_granted * 10 + at;
        }
        let choice = pick(&preference, &field);
        prop_assert!(choice.score.total.is_finite());
        prop_assert_eq!(choice, pick(&preference, &field), "the same twice");
        for turn in 0..field.len() {
            let mut turned = field.clone();
            turned.rotate_left(turn);
            prop_assert_eq!(choice, pick(&preference, &turned));
            turned.reverse();
            prop_assert_eq!(choice, pick(&preference, &turned));
        }
    }

    /// A limit that some backend meets is met; otherwise the choice is among the fastest.
    #[test]
    fn r05_a_limit_that_can_be_met_is_met(preference in any_preference(), field in any_field()) {
        let choice = pick(&preference, &field);
        let strains = field.iter().map(|candidate| preference.strain(candidate));
        let least = strains.fold(f64::INFINITY, f64::min);
        let chosen = preference.strain(&field[choice.at as usize]);
        prop_assert_eq!(choice.reason == RouteReason::LimitUnmet, least > 1.0);
        prop_assert!(chosen <= (least * 1.1).max(1.0), "{chosen} of the limit, least {least}");
    }

    /// The score is the documented one, and the highest is chosen.
    #[test]
    fn r01_the_highest_documented_score_is_chosen(
        band in any_band(),
        latency_critical in any::<bool>(),
        adapter in proptest::option::of(0..3u32),
        numbers in proptest::collection::vec(
            (any::<[u16; 3]>(), proptest::array::uniform4(0..30u32), any::<[u8; 3]>()), 1..8),
    ) {
        let field: Vec<Candidate> =
            (0..).zip(numbers).map(|(at, numbers)| sensible(at, numbers)).collect();
        let preference = RoutePreference { latency_critical, adapter, ..preference(band) };
        let boost = if latency_critical { 500.0 } else { RouteWeights::default().boost(band) };
        let choice = pick(&preference, &field);
        let totals: Vec<f64> =
            field.iter().map(|candidate| documented(&preference, boost, candidate)).collect();
        let best = totals.iter().copied().fold(f64::MIN, f64::max);
        prop_assert!((choice.score.total - best).abs() < 0.01, "{choice:?}, not {best}");
        prop_assert!((totals[choice.at as usize] - best).abs() < 0.01);
    }
}
