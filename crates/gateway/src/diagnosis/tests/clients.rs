//! Requests that fail by the doing of their clients.

use super::super::situation::ClientMistake;
use super::*;

fn refusal(reason: &'static str, last_minute: u64) -> RefusalCount {
    RefusalCount { reason, total: last_minute, last_minute, of_work: last_minute }
}

fn refused(counts: &[(&'static str, u64)], served: u64) -> Situation {
    let refusals = counts.iter().map(|&(reason, count)| refusal(reason, count)).collect();
    let mut situation = Situation { refusals, ..well() };
    situation.queue.served_last_minute = served;
    situation
}

#[test]
fn m03_a_wrong_model_name_is_named_with_the_one_that_was_meant() {
    let mut situation = refused(&[("model_not_found", 160)], 0);
    situation.client_mistakes = vec![ClientMistake {
        reason: "model_not_found",
        flow: "team-a".into(),
        model: "llama-3".into(),
        path: String::new(),
        suggestion: Some("llama3".into()),
    }];
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("client_errors", Level::Trouble));
    let wanted = "160 of 160 requests of the last minute asked for a model that no backend has, \
                  mostly of team-a for \"llama-3\"";
    assert_eq!(finding.text, wanted);
    assert!(finding.advice.starts_with("Did they mean \"llama3\"?"), "{}", finding.advice);
}

#[test]
fn m03_a_wrong_path_of_an_earlier_time_is_not_told() {
    let mistake = || ClientMistake { reason: "not_found", ..ClientMistake::default() };
    let situation = Situation { client_mistakes: vec![mistake()], ..well() };
    let told = |ended: u64| {
        let sample = Sample { endings: [((None, "not_found"), ended)].into(), ..at(1) };
        Trends::default().judge(situation.clone(), sample).situation.client_mistakes.len()
    };
    assert_eq!((told(0), told(3)), (0, 1));
}

/// The advice is that of the table of codes; a code without one is told with its meaning.
#[test]
fn m03_each_reason_is_told_with_its_advice_or_its_meaning() {
    let advice = |reason| only(&refused(&[(reason, 20)], 0)).advice;
    assert!(advice("rate_limit_exceeded").contains("[[tenants]]"));
    let meant = "body_too_large means: the body is larger than `server.body_limit`.";
    assert!(advice("body_too_large").starts_with(meant));
}

/// Anybody can send wrong keys, so they alone are no trouble, but never well either.
#[test]
fn m03_wrong_keys_are_a_warning_however_many() {
    let finding = only(&refused(&[("invalid_api_key", 50)], 0));
    assert_eq!((finding.id, finding.level), ("client_errors", Level::Warning));
    assert!(finding.text.starts_with("50 of 50 requests"), "{}", finding.text);
}

#[test]
fn m03_a_path_that_does_not_exist_is_named_with_the_one_that_was_meant() {
    let mut situation = refused(&[("not_found", 30)], 0);
    situation.client_mistakes = vec![ClientMistake {
        reason: "not_found",
        path: "/chat/completions".into(),
        suggestion: Some("/v1/chat/completions".into()),
        ..ClientMistake::default()
    }];
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("client_errors", Level::Warning));
    let wanted = "30 of 30 requests of the last minute were sent to a path that does not exist, \
                  mostly at /chat/completions";
    assert_eq!(finding.text, wanted);
    assert!(finding.advice.starts_with("Did they mean /v1/chat/completions?"));
}

/// Editors leave many requests by design, so that some are no finding. Most are never green.
#[test]
fn m03_clients_that_leave_are_a_finding_if_most_do() {
    let left = |left_last_minute, served| Situation { left_last_minute, ..refused(&[], served) };
    assert_eq!(ids(&left(50, 50)), [""; 0]);
    assert_eq!(ids(&left(1, 0)), [""; 0]);
    let finding = only(&left(51, 50));
    assert_eq!((finding.id, finding.level), ("client_errors", Level::Warning));
    assert!(finding.text.starts_with("51 of 101 requests"), "{}", finding.text);
    assert_eq!(only(&left(2, 0)).level, Level::Warning);
}

#[test]
fn m03_a_few_mistakes_among_many_requests_are_no_finding() {
    assert_eq!(ids(&refused(&[("invalid_request", 1)], 0)), [""; 0]);
    assert_eq!(ids(&refused(&[("invalid_request", 4)], 4)), [""; 0]);
    assert_eq!(only(&refused(&[("invalid_request", 4)], 0)).level, Level::Warning);
    assert_eq!(ids(&refused(&[("invalid_request", 9)], 91)), [""; 0]);
    assert_eq!(only(&refused(&[("invalid_request", 10)], 90)).level, Level::Warning);
    assert_eq!(only(&refused(&[("invalid_request", 10)], 10)).level, Level::Warning);
    assert_eq!(only(&refused(&[("invalid_request", 11)], 10)).level, Level::Trouble);
}

/// Reads that fail are a warning at most, and reads that end well hide no work that fails.
#[test]
fn m03_reads_are_judged_beside_the_work() {
    let reads = |failed, ended_well, served| Situation {
        refusals: vec![RefusalCount { of_work: 0, ..refusal("refused_by_backend", failed) }],
        reads_last_minute: ended_well,
        ..refused(&[], served)
    };
    let finding = only(&reads(80, 0, 8));
    assert_eq!((finding.id, finding.level), ("client_errors", Level::Warning));
    assert!(finding.text.starts_with("80 of 88 requests"), "{}", finding.text);
    assert_eq!(ids(&reads(4, 2, 2)), [""; 0]);
    assert_eq!(ids(&reads(9, 91, 0)), [""; 0]);
    let work = Situation { reads_last_minute: 1000, ..refused(&[("invalid_request", 5)], 1) };
    let finding = only(&work);
    assert_eq!(finding.level, Level::Trouble);
    assert!(finding.text.starts_with("5 of 6 requests"), "{}", finding.text);
}

/// Each reason alone is rare, and together they are most of all.
#[test]
fn m03_no_verdict_is_green_while_most_requests_fail() {
    let reasons =
        [("invalid_request", 2), ("model_not_found", 2), ("refused_by_backend", 2), ("other", 1)];
    let found = findings(&refused(&reasons, 3));
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|one| one.id == "client_errors"));
}

#[test]
fn m03_a_priority_that_does_not_exist_is_a_note() {
    let unknown_priority = "urgent".to_owned();
    let mut situation =
        Situation { unknown_priority, unknown_priorities_last_minute: 20, ..well() };
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("unknown_priority", Level::Note));
    assert!(finding.text.contains("20 requests") && finding.text.contains("\"urgent\""));
    situation.unknown_priorities_last_minute = 0;
    assert_eq!(ids(&situation), [""; 0]);
}

#[test]
fn m03_refusals_held_requests_and_keys_are_reported() {
    let mut situation = well();
    situation.queue.served_last_minute = 200;
    situation.refusals = vec![refusal("invalid_request", 9), refusal("flow_full", 3)];
    let finding = only(&situation);
    assert_eq!(finding.text, "3 requests were not served in the last minute: flow_full");
    situation.refusals = vec![refusal("invalid_request", 9), refusal("flow_full", 0)];
    assert_eq!(ids(&situation), [""; 0], "a few errors of clients are theirs to mend");
    situation.queue.held = 1;
    assert_eq!(only(&situation).text, "1 request waits for a model that no backend lists");
    situation.queue.held = 0;
    let key = KeyExpiry { name: "ci".into(), tenant: None, expires_in_seconds: 7200.0 };
    situation.keys = vec![key.clone()];
    assert_eq!(only(&situation).text, "the API key ci expires in 2 h");
    situation.keys = vec![KeyExpiry { tenant: Some("lab".into()), ..key }];
    assert_eq!(only(&situation).text, "the API key ci of lab expires in 2 h");
}
