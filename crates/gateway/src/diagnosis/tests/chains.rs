//! Causes and their consequences, states that change into another, and texts that must agree with
//! each other.

use super::*;

/// The page after so many seconds in which three requests a second expire.
pub(super) fn with_refusals(secs: u64, situation: &Situation) -> StatusPage {
    let mut trends = Trends::default();
    let sample = |second: u64| {
        let endings = [((Some(1), "queue_timeout"), 3 * second)].into();
        Sample { endings, depth: situation.queue.depth, ..at(second) }
    };
    (0..secs).for_each(|second| _ = trends.judge(situation.clone(), sample(second)));
    trends.judge(situation.clone(), sample(secs))
}

fn refused(reason: &'static str) -> Vec<RefusalCount> {
    vec![RefusalCount { reason, total: 9, last_minute: 9, of_work: 9 }]
}

fn advice(situation: &Situation, id: &str) -> String {
    let found = findings(situation);
    found.into_iter().find(|one| one.id == id).map(|one| one.advice).unwrap_or_default()
}

#[test]
fn m03_a_refused_file_is_explained_by_the_disk_alone() {
    let mut trends = Trends::default();
    let mut none = well();
    (none.backends_ready, none.backends) = (0, vec![lost("unready", "connection refused")]);
    (0..3).for_each(|second| _ = trends.judge(none.clone(), at(second)));
    let mut advice = |situation: Situation, second: u64, counted: u64| {
        let endings = [((None, "storage_full"), counted)].into();
        let page = trends.judge(situation, Sample { endings, ..at(second) });
        let found = page.findings.into_iter().find(|one| one.id == "requests_refused");
        found.map(|one| one.advice).unwrap_or_default()
    };
    advice(well(), 18, 0);
    let told = advice(well(), 19, 1);
    assert!(
        told.contains("batch.files_limit"),
        "no backend was ready, which fills no disk: {told}"
    );
    let stores = vec![StoreTrouble::new("batch.folder", "disk is full".into())];
    let full = Situation { stores, ..well() };
    assert_eq!(advice(full, 20, 1), "See disk_full: it explains these refusals.");
}

/// Requests that arrived while a backend was down may wait until their time to live is over.
#[test]
fn m03_a_cause_that_ended_long_before_the_refusals_explains_none() {
    let told = |first: u64| {
        let mut trends = Trends::default();
        let mut down = with_second(lost("unready", "connection refused"));
        down.backends[1].models = vec!["other".into()];
        let mut advice = String::new();
        for second in 0..=first + 1 {
            let situation = if second < 10 { down.clone() } else { well() };
            let endings = [((Some(1), "queue_timeout"), u64::from(second >= first))].into();
            let page = trends.judge(situation, Sample { endings, ..at(second) });
            let found = page.findings.into_iter().find(|one| one.id == "requests_refused");
            advice = found.map(|one| one.advice).unwrap_or_default();
        }
        advice
    };
    assert_eq!(told(30), "See backend_down, which ended 22 s ago: it explains these refusals.");
    assert!(told(60).contains("Add a backend"), "{}", told(60));
}

#[test]
fn m03_waits_point_to_a_lost_backend_or_to_a_flood() {
    let mut dead = with_second(lost("unready", "connection refused"));
    (dead.queue.depth, dead.queue.mean_drain_seconds) = (100, Some(60.0));
    let see = "See backend_down: it explains these waits.";
    assert_eq!(advice(&dead, "requests_will_expire"), see);
    dead.queue.capacity = 100;
    assert_eq!(advice(&dead, "queue_nearly_full"), see);
    dead.refusals = refused("queue_timeout");
    let explained = "See backend_down: it explains these refusals.";
    assert_eq!(advice(&dead, "requests_refused"), explained);
    let mut flooded = well();
    let flow = |name: &str, queue_depth: u32, queue_share: f64| FlowState {
        name: name.into(),
        queue_depth,
        queue_share,
        fair_share: 0.5,
        ..FlowState::default()
    };
    flooded.flows = vec![flow("loud", 95, 0.95), flow("quiet", 5, 0.05)];
    (flooded.queue.depth, flooded.queue.mean_drain_seconds) = (100, Some(60.0));
    let see = "See flow_floods: it explains these waits.";
    assert_eq!(advice(&flooded, "requests_will_expire"), see);
}

/// What makes most requests fail is as bad as that, and comes first.
#[test]
fn m03_a_lost_backend_comes_before_the_refusals_that_it_causes() {
    let dead = with_second(lost("unready", "connection refused"));
    let page = with_refusals(3, &dead);
    let found: Vec<_> = page.findings.iter().map(|one| (one.id, one.level)).collect();
    let trouble = Level::Trouble;
    assert_eq!(found, [("backend_down", trouble), ("requests_refused", trouble)]);
}

/// Three flows of which one has arrived first.
#[test]
fn m03_a_burst_of_all_flows_is_no_flood() {
    let burst = |depths: [u32; 3]| {
        let mut situation = well();
        let total: u32 = depths.iter().sum();
        situation.queue.depth = total;
        let flow = |(name, queue_depth): (&str, u32)| FlowState {
            name: name.into(),
            queue_depth,
            in_flight: 1,
            queue_share: f64::from(queue_depth) / f64::from(total),
            fair_share: 0.333,
            ..FlowState::default()
        };
        situation.flows = ["blue", "green", "red"].into_iter().zip(depths).map(flow).collect();
        situation
    };
    let mut trends = Trends::default();
    assert!(trends.judge(burst([8, 4, 2]), at(0)).findings.is_empty(), "it begins");
    for second in 1..20 {
        let page = trends.judge(burst([6, 5, 5]), at(second));
        assert!(page.findings.is_empty(), "at {second} s: {}", page.sentence);
    }
    assert!(trends.judge(well(), at(20)).recent.is_empty());
    assert_eq!(after(3, &burst([30, 4, 2])).findings[0].id, "flow_floods");
}

fn never_opens() -> GateCondition {
    let state = "closed: 90 % full, opens below 80 %".into();
    let (kind, value) = ("constant", Some(0.1));
    GateCondition { kind, value, threshold: 0.2, state, ..GateCondition::default() }
}

#[test]
fn m03_a_gate_whose_batch_is_cancelled_has_not_opened() {
    let mut trends = Trends::default();
    (0..=6).for_each(|second| _ = trends.judge(behind_gate(never_opens()), at(second)));
    let mut cancelled = behind_gate(never_opens());
    cancelled.batch_queues[0].pending = 0;
    let text = &trends.judge(cancelled, at(11)).findings[0].text;
    let past = "no batch request waits at the gate load any more: the last ones waited until 5.0 s \
                ago";
    assert_eq!(text, past);
}

#[test]
fn m03_a_baseline_that_holds_a_batch_back_is_named() {
    let state = "closed: 60 % full, opens below 10 %".into();
    let gate = GateCondition {
        value: Some(0.4),
        threshold: 0.9,
        spent: true,
        state,
        ..GateCondition::default()
    };
    let advice = only(&behind_gate(gate)).advice;
    assert!(advice.contains("the baseline of load leaves 90 % to other work"), "{advice}");
}

#[test]
fn m03_a_batch_target_that_does_not_run_is_told_so() {
    let mut situation = well();
    let advice = |why: &str, situation: &mut Situation| {
        let overload = Some(why.to_owned());
        let queue = BatchQueueState { name: "night".into(), overload, ..Default::default() };
        situation.batch_queues = vec![queue];
        only(situation).advice
    };
    let told = advice("Connection refused (os error 111)", &mut situation);
    assert!(told.contains("see whether it runs"), "{told}");
    let told = advice("429 Too Many Requests", &mut situation);
    assert!(told.contains("status"), "{told}");
}

/// The only backend, ejected for silence, with a request as a trial.
fn on_trial(state: &'static str) -> Situation {
    let why = "it began no response for 12.5 s";
    let mut situation = with_second(lost(state, why));
    situation.backends.remove(0);
    (situation.backends_ready, situation.backends_total) = (0, 1);
    situation
}

#[test]
fn m03_a_backend_on_trial_is_not_ready_and_its_server_runs() {
    for state in ["ejected", "on_trial"] {
        let page = after(2, &on_trial(state));
        let sentence = "No backend is ready (gpu-b: it began no response for 12.5 s), for 2.0 s; ";
        assert!(page.sentence.starts_with(sentence), "{}", page.sentence);
        let advice = &page.findings[0].advice;
        assert!(advice.starts_with("Read the log of the model server at http://gpu-b"), "{advice}");
        assert!(!advice.contains("Start a model server"), "{advice}");
        assert_eq!(page.findings[1].level, Level::Trouble);
    }
    let text = &findings(&on_trial("on_trial"))[1].text;
    let expected = "gpu-b is on trial, with one request at a time: it began no response for 12.5 s";
    assert_eq!(text, expected);
}

/// A request that cannot be served in its time to live does not wait for longer.
#[test]
fn m03_no_time_beyond_the_time_to_live_is_told() {
    let mut situation = well();
    situation.queue.depth = 120;
    let sample = |second: u64| Sample { granted: second / 5, depth: 120, ..at(second) };
    let mut trends = Trends::default();
    (0..20).for_each(|second| _ = trends.judge(situation.clone(), sample(second)));
    let page = trends.judge(situation, sample(20));
    assert_eq!(page.situation.queue.drains_in_seconds, None);
    assert!(!page.sentence.contains("min"), "{}", page.sentence);
}

/// A backend that fails now and then is ejected, and fails again when it is back.
#[test]
fn m03_an_ejection_that_has_ended_is_told_for_a_while() {
    let mut trends = Trends::default();
    let ejected = with_second(BackendCondition {
        models: vec!["other".into()],
        ..lost("ejected", "it answered 500")
    });
    (0..5).for_each(|second| _ = trends.judge(ejected.clone(), at(second)));
    let page = trends.judge(well(), at(5));
    assert_eq!(page.findings[0].text, "gpu-b was ejected (it answered 500) until 1.0 s ago");
    assert_eq!(page.level, Level::Warning, "what is over is no trouble");
    let page = trends.judge(well(), at(40));
    assert_eq!((page.level, page.recent[0].id), (Level::Ok, "backend_ejected"));
}

#[test]
fn m03_a_number_in_a_text_about_a_backend_does_not_count_requests_that_wait() {
    let mut hung = backend("gpu-b");
    (hung.in_flight, hung.silent_seconds, hung.first_byte_ms) = (4, Some(90.0), Some(200.0));
    let mut situation = with_second(hung);
    situation.queue.depth = 4;
    let mut trends = Trends::default();
    let sample = |second: u64| Sample { depth: 4, ..at(second) };
    (0..=12).for_each(|second| _ = trends.judge(situation.clone(), sample(second)));
    let sentence = trends.judge(situation, sample(13)).sentence;
    assert!(sentence.contains("; 4 requests wait, how long is not known yet"), "{sentence}");
}

#[test]
fn m03_short_waits_at_an_unknown_rate_are_well() {
    let mut situation = well();
    (situation.queue.depth, situation.queue.oldest_seconds) = (3, Some(0.2));
    let page = Trends::default().judge(situation.clone(), Sample { depth: 3, ..at(0) });
    assert!(page.sentence.starts_with("All is well: "), "{}", page.sentence);
    situation.queue.oldest_seconds = Some(3.0);
    let page = Trends::default().judge(situation, Sample { depth: 3, ..at(0) });
    assert!(page.sentence.starts_with("Nothing wrong is found: "), "{}", page.sentence);
}

/// Several times show it, and which one shows it best changes from look to look.
#[test]
fn m03_the_reason_of_a_slow_backend_does_not_change_from_look_to_look() {
    let slow = |first_byte: f64, token: f64| {
        let mut situation = well();
        for (backend, times) in
            situation.backends.iter_mut().zip([(100.0, 20.0), (first_byte, token)])
        {
            (backend.stream_first_byte_ms, backend.token_ms) = (Some(times.0), Some(times.1));
        }
        situation
    };
    let mut trends = Trends::default();
    let mut reason = |situation: Situation, second: u64| {
        let page = trends.judge(situation, at(second));
        page.findings.first().map(|one| one.text.contains("a token takes"))
    };
    (0..6).for_each(|second| _ = reason(slow(500.0, 140.0), second));
    assert_eq!(reason(slow(500.0, 140.0), 6), Some(true), "seven times as long");
    assert_eq!(reason(slow(900.0, 140.0), 7), Some(true), "another time is worse now");
    assert_eq!(reason(slow(900.0, 30.0), 8), Some(false), "tokens are fast again");
    assert_eq!(reason(slow(900.0, 400.0), 9), Some(false));
}
