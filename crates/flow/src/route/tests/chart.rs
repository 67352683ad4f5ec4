//! R02, R03, R04: the flow chart, the scenarios and the depth formula of the source.

use super::*;
use crate::time::Span;

#[test]
fn r02_the_sources_flow_chart_is_reproduced() {
    let chart = [
        (Band::Critical, NVIDIA, 500.0),
        (Band::High, NVIDIA, 200.0),
        (Band::Normal, IGPU, 0.0),
        (Band::BestEffort, NPU, -100.0),
    ];
    for (band, expected, boost) in chart {
        let choice = pick(&preference(band), &trio());
        assert_eq!((choice.at, choice.score.boost), (expected, boost), "{band:?}");
        let mut turned = trio();
        turned.reverse();
        assert_eq!(pick(&preference(band), &turned).at, expected, "{band:?}: whatever their order");
    }
}

#[test]
fn r02_boosts_move_the_choice() {
    let flat = weights(|terms| terms.boosts = [0.0; BANDS]);
    for band in Band::DESCENDING {
        assert_eq!(pick_by(&flat, &preference(band), &trio()).at, IGPU, "no boost, no difference");
    }
    let gentle = weights(|terms| terms.boosts[0] = -50.0);
    assert_eq!(pick_by(&gentle, &preference(Band::BestEffort), &trio()).at, IGPU);
    let thrifty = weights(|terms| terms.boosts = [-200.0; BANDS]);
    assert_eq!(pick_by(&thrifty, &preference(Band::Critical), &trio()).at, NPU);
}

#[test]
fn r02_the_depth_penalty_moves_the_choice() {
    let busy = Candidate { pending: [0, 0, 0, 2], ..nvidia() };
    let field = [busy, igpu(), npu()];
    assert_eq!(
        pick(&preference(Band::Critical), &field).at,
        NVIDIA,
        "100 points are worth 250 ms less"
    );
    let shy = weights(|terms| terms.depth_penalty = 200.0);
    assert_eq!(pick_by(&shy, &preference(Band::Critical), &field).at, IGPU);
    let blind = weights(|terms| terms.depth_penalty = 0.0);
    let swamped = [Candidate { pending: [1000; BANDS], ..nvidia() }, igpu()];
    assert_eq!(pick_by(&blind, &preference(Band::Critical), &swamped).at, NVIDIA);
}

/// Every pair of bands: weight 1 for an equal or higher band, less for lower bands.
#[test]
fn r03_the_weighted_depth_is_the_designs_formula() {
    let weight = |band: usize| band as f64 + 1.0;
    for (own, band) in Band::DESCENDING.into_iter().map(|band| (band.index(), band)) {
        for other in 0..BANDS {
            let mut pending = [0; BANDS];
            pending[other] = 12;
            let [candidate] = equals([pending]);
            let choice = pick(&preference(band), &[candidate]);
            let expected = 12.0 * (weight(other) / weight(own)).min(1.0);
            assert!((choice.weighted_depth - expected).abs() < 1e-9, "{band:?} and {other}");
            assert!((choice.score.depth_penalty - 50.0 * expected).abs() < 1e-9);
            assert_eq!(choice.depth, 12);
        }
    }
    let [mixed] = equals([[4, 2, 0, 1]]);
    assert_eq!(pick(&preference(Band::Critical), &[mixed]).weighted_depth, 1.0 + 1.0 + 1.0);
    assert_eq!(pick(&preference(Band::BestEffort), &[mixed]).weighted_depth, 7.0);
}

#[test]
fn r03_a_depth_beyond_counting_stops_at_the_largest_number() {
    let [full] = equals([[u32::MAX; BANDS]]);
    assert_eq!(pick(&preference(Band::Normal), &[full]).depth, u32::MAX);
}

#[test]
fn r04_a_critical_request_avoids_congested_backends() {
    let field = equals([[0, 5, 0, 0], [0; BANDS], [0, 0, 0, 2]]);
    let preference = RoutePreference { latency_critical: true, ..preference(Band::Critical) };
    let choice = pick(&preference, &field);
    assert_eq!((choice.at, choice.depth, choice.score.boost), (1, 0, 500.0));
    assert_eq!(choice.reason.text(), "critical-priority-low-queue");
    // The two busy backends compare as their weighted depths do: 2.5 and 2.
    let busy = [field[0], field[2]];
    let second = pick(&preference, &busy);
    assert_eq!((second.at, second.score.depth_penalty), (2, 100.0));
    assert_eq!(pick(&preference, &busy[..1]).score.depth_penalty, 125.0);
}

#[test]
fn r04_batch_work_leaves_the_fast_backend_free() {
    let field = [nvidia(), Candidate { pending: [1, 0, 0, 0], ..npu() }];
    let choice = pick(&preference(Band::BestEffort), &field);
    assert_eq!((choice.at, choice.power_watts, choice.depth), (NPU, 3.0, 1));
    assert_eq!((choice.score.boost, choice.score.depth_penalty), (-100.0, 50.0));
    assert_eq!(choice.reason.text(), "best-effort-power-efficient");
}

#[test]
fn r04_voice_does_not_wait_behind_batch_jobs() {
    // Ten best-effort and five normal requests are spread over equal backends, and one of these
    // has critical work as well.
    let field = equals([[4, 1, 0, 1], [3, 2, 0, 0], [3, 2, 0, 1]]);
    let limit = |millis| RoutePreference {
        latency_max: Some(Span::from_millis(millis)),
        latency_critical: true,
        ..preference(Band::Critical)
    };
    let choice = pick(&limit(100), &field);
    assert_eq!((choice.at, choice.depth), (1, 5), "the fewest critical requests");
    assert_eq!(choice.reason.text(), "latency-limit-unmet-fastest");
    let kept = pick(&limit(500), &field);
    assert_eq!((kept.at, kept.reason.text()), (1, "critical-priority-low-queue"));
}

/// The table in docs/FLOW.md equals the computed scores.
#[test]
fn r02_the_documented_scores_are_the_computed_ones() {
    let document =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FLOW.md"))
            .unwrap();
    for band in Band::DESCENDING {
        let name = ["best-effort", "normal", "high", "critical"][band.index()];
        let boost = RouteWeights::default().boost(band);
        let scores = trio().map(|candidate| pick(&preference(band), &[candidate]).score.total);
        let best = pick(&preference(band), &trio()).at;
        let cells: Vec<String> = (0..)
            .zip(scores)
            .map(
                |(at, score)| {
                    if at == best { format!("**{score:.1}**") } else { format!("{score:.1}") }
                },
            )
            .collect();
        let rate = 16.0 * (-boost / 50.0).exp2();
        let row = format!("| {name} | {boost} | {rate} | {} |", cells.join(" | "));
        assert!(document.contains(&row), "docs/FLOW.md lacks the row\n{row}");
    }
}
