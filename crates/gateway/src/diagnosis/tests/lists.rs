//! Backends whose model lists are unknown.

use super::*;

/// A backend that answers, and has given no list for so long.
fn without_list(id: &str, secs: Option<f64>) -> BackendCondition {
    let reason = "its model list is unknown: /v1/models answered 403 Forbidden";
    BackendCondition {
        id: id.into(),
        models: Vec::new(),
        list_failing_seconds: secs,
        ..lost("starting", reason)
    }
}

#[test]
fn x02_m03_backends_without_a_list_are_named_and_all_is_not_well() {
    let two = [without_list("gpu-b", Some(10.0)), without_list("gpu-c", Some(200.0))];
    let mut situation = with_second(two[0].clone());
    situation.backends.push(two[1].clone());
    situation.backends_total = 3;
    let page = Trends::default().judge(situation.clone(), at(0));
    let expected = "gpu-b gets no requests: its model list is unknown: /v1/models answered 403 \
                    Forbidden; no request waits; 1 more finding.";
    assert_eq!((page.sentence.as_str(), page.level), (expected, Level::Warning));
    let subjects: Vec<_> = page.findings.iter().map(|found| found.subject.as_deref()).collect();
    assert_eq!(subjects, [Some("gpu-b"), Some("gpu-c")]);
    situation.backends.pop();
    let finding = only(&situation);
    assert_eq!(finding.id, "model_list_unknown");
    assert!(finding.advice.contains("http://gpu-b:8000"), "{}", finding.advice);
}

/// A list that fails for some seconds is no finding, but nor is all well.
#[test]
fn x02_m03_a_backend_that_starts_is_no_finding_yet() {
    for secs in [None, Some(9.0)] {
        let page = Trends::default().judge(with_second(without_list("gpu-b", secs)), at(0));
        let expected = "Nothing wrong is found: 1 of 2 backends are ready, no request waits.";
        assert_eq!((page.sentence.as_str(), page.level), (expected, Level::Ok));
    }
}

/// A server that refuses everything may fail every other health check.
#[test]
fn x02_m03_a_finding_about_a_list_outlasts_a_health_check() {
    let mut trends = Trends::default();
    trends.judge(with_second(without_list("gpu-b", Some(60.0))), at(0));
    let down = BackendCondition {
        list_failing_seconds: Some(61.0),
        ..lost("unready", "/health answered 403 Forbidden")
    };
    let page = trends.judge(with_second(down), at(1));
    assert!(page.findings.iter().any(|found| found.id == "model_list_unknown"), "{page:?}");
}
