//! R04, R05, R07: soft limits, latency-critical asks, and that a backend is always chosen.

use super::*;
use crate::time::Span;

fn within(band: Band, millis: u64) -> RoutePreference {
    RoutePreference { latency_max: Some(Span::from_millis(millis)), ..preference(band) }
}

#[test]
fn r05_a_latency_limit_excludes_slower_backends() {
    let choice = pick(&within(Band::BestEffort, 400), &trio());
    assert_eq!((choice.at, choice.reason.text()), (IGPU, "best-effort-power-efficient"));
    let choice = pick(&within(Band::BestEffort, 399), &trio());
    assert_eq!((choice.at, choice.reason), (NVIDIA, RouteReason::OnlyWithinLimit));
    let choice = pick(&within(Band::BestEffort, 10_000), &trio());
    assert_eq!(choice.at, NPU, "a limit that all keep changes nothing");
    assert_eq!(choice.score.boost, -100.0);
}

#[test]
fn r05_a_limit_is_compared_with_the_measured_latency_if_there_is_one() {
    let slowed = Candidate { measured_latency_ms: Some(450.0), ..igpu() };
    let better = Candidate { measured_latency_ms: Some(390.0), ..npu() };
    let choice = pick(&within(Band::BestEffort, 400), &[nvidia(), slowed, better]);
    assert_eq!(choice.at, NPU);
}

/// A response in one piece tells how long responses take, and nothing about its first token.
#[test]
fn r05_whole_responses_count_for_a_limit_of_latency_alone() {
    let shown = |at, whole| Candidate { whole_latency_ms: Some(whole), ..backend(at, 0.0, 100.0) };
    let field = [shown(0, 402.0), shown(1, 24.0)];
    let choice = pick(&within(Band::Normal, 200), &field);
    assert_eq!((choice.at, choice.reason), (1, RouteReason::OnlyWithinLimit));
    let choice = pick(&within(Band::Normal, 20), &field);
    assert_eq!((choice.at, choice.reason), (1, RouteReason::LimitUnmet));
    let start = |millis| RoutePreference {
        start_max: Some(Span::from_millis(millis)),
        ..preference(Band::Normal)
    };
    let choice = pick(&start(200), &field);
    assert_eq!((choice.at, choice.reason), (0, RouteReason::NormalBalanced), "as stated");
    let streams = Candidate { measured_latency_ms: Some(90.0), ..shown(0, 402.0) };
    assert_eq!(pick(&within(Band::Normal, 100), &[streams]).reason, RouteReason::OnlyBackend);
    // The limit that is missed by more counts.
    let both =
        RoutePreference { start_max: Some(Span::from_millis(50)), ..within(Band::Normal, 300) };
    let slow_start = backend(0, 0.0, 250.0);
    assert_eq!(pick(&both, &[slow_start, shown(1, 290.0)]).at, 1);
}

#[test]
fn r04_an_unmet_limit_chooses_the_fastest_and_reports_it() {
    for band in Band::DESCENDING {
        for millis in [0, 1, 100, 149] {
            let choice = pick(&within(band, millis), &trio());
            assert_eq!(choice.at, NVIDIA, "{band:?}");
            assert_eq!(choice.reason.text(), "latency-limit-unmet-fastest");
        }
    }
    let busy = Candidate { pending: [9, 9, 9, 9], ..nvidia() };
    let choice = pick(&within(Band::Normal, 100), &[busy, igpu(), npu()]);
    assert_eq!(choice.at, NVIDIA, "the fastest, though others have nothing to do");
    let frugal = backend(1, 5.0, 160.0);
    let choice = pick(&within(Band::BestEffort, 100), &[frugal, nvidia()]);
    assert_eq!(choice.at, NVIDIA, "economy does not count any more, also where they are close");
    let alone = pick(&within(Band::Normal, 100), &[npu()]);
    assert_eq!(alone.reason, RouteReason::LimitUnmet, "also where there is no other");
}

/// Equal backends differ slightly in measured latency: the limit must not send every ask to one.
#[test]
fn r04_equal_backends_share_an_unmet_limit() {
    let twin = |at, measured, pending| Candidate {
        measured_latency_ms: Some(measured),
        pending,
        ..backend(at, 10.0, 150.0)
    };
    let field = [twin(0, 150.0, [0, 1, 0, 0]), twin(1, 151.0, [0; BANDS])];
    assert_eq!(pick(&within(Band::Normal, 100), &field).at, 1);
    let apart = [twin(0, 150.0, [0, 1, 0, 0]), twin(1, 166.0, [0; BANDS])];
    assert_eq!(pick(&within(Band::Normal, 100), &apart).at, 0);
}

#[test]
fn r05_latency_critical_prefers_speed_like_a_critical_ask() {
    for band in Band::DESCENDING {
        let choice = pick(&RoutePreference { latency_critical: true, ..preference(band) }, &trio());
        assert_eq!((choice.at, choice.score.boost), (NVIDIA, 500.0), "{band:?}");
    }
    // Its weight in the depth stays that of its band.
    let [busy] = equals([[0, 0, 0, 4]]);
    let choice =
        pick(&RoutePreference { latency_critical: true, ..preference(Band::Normal) }, &[busy]);
    assert_eq!(choice.weighted_depth, 4.0);
    let [busy] = equals([[4, 0, 0, 0]]);
    let choice =
        pick(&RoutePreference { latency_critical: true, ..preference(Band::Normal) }, &[busy]);
    assert_eq!(choice.weighted_depth, 2.0);
}

#[test]
fn r07_best_effort_never_fails_because_of_its_penalty() {
    let harsh = weights(|terms| {
        terms.boosts[0] = -1000.0;
        terms.depth_penalty = 10_000.0;
        terms.kv_penalty = 10_000.0;
        terms.engine_waiting_penalty = 10_000.0;
    });
    let worst = Candidate {
        pending: [u32::MAX; BANDS],
        engine_waiting: Some(u32::MAX),
        kv_used: Some(1.0),
        fill: 1.0,
        measured_latency_ms: Some(f32::MAX),
        ..backend(9, f32::MAX, f32::MAX)
    };
    let choice = choose(&within(Band::BestEffort, 0), &harsh, [worst].into_iter());
    let choice = choice.expect("a ready backend is never refused");
    assert_eq!(choice.at, 9);
    assert!(choice.score.total.is_finite());
    assert!(choose(&preference(Band::BestEffort), &harsh, [worst; 3].into_iter()).is_some());
}

#[test]
fn r01_without_candidates_no_backend_is_chosen() {
    assert_eq!(choose(&RoutePreference::default(), &RouteWeights::default(), [].into_iter()), None);
}

#[test]
fn r04_every_reason_is_given_where_it_holds() {
    let lone = pick(&preference(Band::Critical), &[npu()]);
    assert_eq!(lone.reason.text(), "only-backend");
    let busy = [Candidate { pending: [0, 0, 0, 1], ..nvidia() }, igpu(), npu()];
    let rush = |band| RoutePreference { latency_critical: true, ..preference(band) };
    let expected = [
        (preference(Band::Critical), &trio(), "critical-priority-low-queue"),
        (preference(Band::Critical), &busy, "critical-priority-fastest"),
        (rush(Band::Critical), &busy, "critical-priority-fastest"),
        (preference(Band::High), &trio(), "high-priority-low-queue"),
        (preference(Band::High), &busy, "high-priority-fastest"),
        (rush(Band::High), &trio(), "latency-critical-low-queue"),
        (rush(Band::BestEffort), &busy, "latency-critical-fastest"),
        (preference(Band::Normal), &trio(), "normal-balanced"),
        (preference(Band::BestEffort), &trio(), "best-effort-power-efficient"),
    ];
    for (preference, field, text) in expected {
        assert_eq!(pick(&preference, field).reason.to_string(), text, "{preference:?}");
    }
    let crowded = [nvidia(), igpu(), Candidate { pending: [9, 0, 0, 0], ..npu() }];
    assert_eq!(pick(&preference(Band::BestEffort), &crowded).reason.text(), "best-effort-balanced");
    let equal = equals([[0; BANDS]; 2]);
    let choice = pick(&preference(Band::BestEffort), &equal);
    assert_eq!(choice.reason, RouteReason::BestEffortBalanced, "all draw the same power");
}

fn drawing(band: Band, watts: f32) -> RoutePreference {
    RoutePreference { power_max: Some(watts), ..preference(band) }
}

#[test]
fn r05_a_power_limit_excludes_backends_that_draw_more() {
    let choice = pick(&drawing(Band::Critical, 55.0), &trio());
    assert_eq!(choice.at, NVIDIA, "a limit that all keep changes nothing");
    let choice = pick(&drawing(Band::Critical, 54.9), &trio());
    assert_ne!(choice.at, NVIDIA);
    let choice = pick(&drawing(Band::Critical, 11.5), &trio());
    assert_eq!((choice.at, choice.reason.text()), (NPU, "only-backend-within-power-limit"));
    let choice = pick(&drawing(Band::Critical, 2.0), &trio());
    assert_eq!((choice.at, choice.reason.text()), (NPU, "power-limit-unmet-most-economical"));
    // Speed goes before power: only the fastest one is within the latency limit.
    let both = RoutePreference { power_max: Some(2.0), ..within(Band::Normal, 200) };
    assert_eq!(pick(&both, &trio()).at, NVIDIA);
}

#[test]
fn r05_a_wish_for_economy_counts_power_as_for_best_effort() {
    for band in Band::DESCENDING {
        let wish = RoutePreference { power_efficient: true, ..preference(band) };
        let choice = pick(&wish, &trio());
        assert_eq!((choice.at, choice.reason.text()), (NPU, "power-efficient"), "{band:?}");
        assert_eq!(choice.score.boost, pick(&preference(band), &trio()).score.boost);
        let hasty = RoutePreference { latency_critical: true, ..wish };
        assert_eq!(pick(&hasty, &trio()).at, NVIDIA, "speed goes before it");
    }
}

#[test]
fn r05_the_expected_latency_is_measured_or_stated_and_else_unknown() {
    let one = |candidate| pick(&preference(Band::Normal), &[candidate]).latency_ms;
    assert_eq!(one(npu()), Some(800.0));
    assert_eq!(one(Candidate { measured_latency_ms: Some(90.0), ..npu() }), Some(90.0));
    let unstated = Candidate { measured_latency_ms: Some(90.0), ..Candidate::new(0, BackendId(0)) };
    assert_eq!(one(unstated), None);
}
