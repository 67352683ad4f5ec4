//! Slow tokens of a backend without a peer, and one flow for all clients.

use super::*;

/// A lone backend that streams with so many milliseconds from token to token.
fn streaming(token_ms: f64, in_flight: u32) -> Situation {
    let mut situation = well();
    situation.backends.truncate(1);
    (situation.backends_ready, situation.backends_total) = (1, 1);
    situation.backends[0].token_ms = Some(token_ms);
    situation.backends[0].in_flight = in_flight;
    situation
}

#[test]
fn m03_a_lone_backend_with_slow_tokens_is_slow_by_its_own_past() {
    let mut trends = Trends::default();
    let mut found = |situation: Situation, second: u64| {
        let page = trends.judge(situation, at(second));
        page.findings.first().map(|one| (one.id, one.text.clone()))
    };
    for second in 0..120 {
        assert_eq!(found(streaming(20.0, 4), second), None, "at {second} s");
    }
    for second in 120..125 {
        assert_eq!(found(streaming(90.0, 16), second), None, "four times the requests");
    }
    for second in 125..130 {
        assert_eq!(found(streaming(90.0, 4), second), None, "a moment is no finding");
    }
    let text =
        "gpu-a is slow: a token takes 90 ms, 4 times as long as before with as many requests";
    let slow = Some(("backend_slow", text.to_owned()));
    for second in 130..900 {
        assert_eq!(found(streaming(90.0, 4), second), slow, "at {second} s: it does not get used");
    }
    (900..=930).for_each(|second| _ = found(streaming(20.0, 4), second));
    assert_eq!(found(streaming(20.0, 4), 931), None, "it is fast again");
}

#[test]
fn m03_a_lone_backend_with_slow_tokens_is_slow_by_the_objective() {
    let mut situation = streaming(150.0, 4);
    assert_eq!(ids(&situation), [""; 0], "there is no objective, and no past");
    situation.queue.token_objective_seconds = Some(0.1);
    let finding = only(&situation);
    let text = "gpu-a is slow: a token takes 150 ms, and the objective is 100 ms";
    assert_eq!((finding.id, finding.text.as_str()), ("backend_slow", text));
    situation.backends[0].token_ms = Some(120.0);
    assert_eq!(ids(&situation), [""; 0], "the gateway keeps the mean close to it");
    situation.backends[0] = BackendCondition { in_flight: 0, ..situation.backends[0].clone() };
    situation.backends[0].token_ms = Some(150.0);
    assert_eq!(ids(&situation), [""; 0], "that was before");
}

#[test]
fn m03_one_flow_is_named_only_where_clients_are_not_told_apart() {
    let mut situation = well();
    let flow = FlowState {
        name: "llama".into(),
        queue_depth: 40,
        queue_share: 1.0,
        fair_share: 1.0,
        ..FlowState::default()
    };
    (situation.queue.depth, situation.queue.oldest_seconds) = (40, Some(6.0));
    situation.flows = vec![flow];
    let finding = only(&situation);
    assert_eq!((finding.id, finding.subject.as_deref()), ("one_flow", Some("llama")));
    assert!(finding.advice.contains("header:x-team"), "{}", finding.advice);
    let with = |change: fn(&mut Situation)| {
        let mut situation = situation.clone();
        change(&mut situation);
        ids(&situation)
    };
    assert_eq!(with(|one| one.queue.oldest_seconds = Some(1.0)), [""; 0], "no request waits long");
    assert_eq!(with(|one| one.flows[0].queue_share = 0.9), [""; 0], "another flow waits too");
    assert_eq!(with(|one| one.queue.flows_by_client = true), [""; 0], "this client alone waits");
    let unnamed = with(|one| {
        one.queue.flows_by_client = true;
        one.flows[0].name = "-".into();
    });
    assert_eq!(unnamed, ["one_flow"], "no client sends the header");
}

/// The times that the runbook tells are those of the rules.
#[test]
fn m03_the_runbook_tells_when_a_closed_gate_is_a_finding() {
    let runbook = include_str!("../../../../../docs/RUNBOOK.md");
    let section = runbook.split("\n## ").find(|part| part.starts_with("gate_closed\n")).unwrap();
    let told = section.split_whitespace().collect::<Vec<_>>().join(" ");
    for time in ["closed for 5 s", "20 s while a batch request is in flight", "last 30 s"] {
        assert!(told.contains(time), "{time}: {told}");
    }
}
