//! Findings over time: states that come and go, findings that have ended, and least times.

use super::*;
use crate::diagnosis::situation::ReloadState;

fn closed() -> GateCondition {
    let state = "closed: 97 % full, opens below 90 %".into();
    GateCondition { value: Some(0.03), threshold: 0.1, state, ..GateCondition::default() }
}

fn open() -> GateCondition {
    GateCondition { open: true, left: 3, state: "open".into(), ..closed() }
}

#[test]
fn m03_a_gate_that_opens_for_moments_is_one_finding() {
    let mut trends = Trends::default();
    let mut seen = Vec::new();
    for second in 0..60 {
        let gate = if second % 3 == 2 { open() } else { closed() };
        let page = trends.judge(behind_gate(gate), at(second));
        seen.push(page.findings.first().map(|one| (one.id, one.since_seconds)));
    }
    assert_eq!(seen[5], None, "it closes for moments all the time");
    for (second, seen) in seen.iter().enumerate().skip(6) {
        assert_eq!(*seen, Some(("gate_closed", second as f64)), "at {second} s");
    }
    let text = "The gate load is closed, so 40 batch requests wait: 97 % full, opens below 90 %";
    let page = trends.judge(behind_gate(closed()), at(60));
    assert!(page.sentence.starts_with(text), "{}", page.sentence);
    for second in 61..80 {
        trends.judge(behind_gate(open()), at(second));
    }
    assert!(trends.judge(behind_gate(open()), at(80)).findings.is_empty(), "it stays open");
}

/// Batch work fills the servers and so closes its own gate.
#[test]
fn m03_a_closed_gate_is_a_note_while_its_batch_goes_on() {
    let mut trends = Trends::default();
    let mut situation = behind_gate(closed());
    let mut page = |second: u64, ended: u64| {
        situation.batch_queues[0].ended = ended;
        let page = trends.judge(situation.clone(), at(second));
        page.findings.first().map(|one| (one.id, one.level))
    };
    for second in 0..=20 {
        page(second, second / 3);
    }
    let note = Some(("budget_used_up", Level::Note));
    assert_eq!(page(21, 7), note, "a request ends every three seconds");
    for second in 22..=50 {
        page(second, 7);
    }
    let found = (51..=62).map(|second| page(second, 7)).last().flatten();
    assert_eq!(found, Some(("gate_closed", Level::Warning)), "none has ended for half a minute");
    let mut running = behind_gate(closed());
    running.batch_queues[0].in_flight = 1;
    assert!(after(19, &running).findings.is_empty(), "one runs, and may close the gate itself");
    assert_eq!(after(20, &running).findings[0].id, "gate_closed");
}

#[test]
fn m03_a_gate_that_cannot_be_read_is_named_before_batch_work_waits() {
    let gate = GateCondition { value: None, state: "unreadable: refused".into(), ..closed() };
    let waits = only(&behind_gate(gate.clone()));
    assert_eq!((waits.id, waits.level), ("gate_unreadable", Level::Trouble));
    let text = "the gate load cannot be read, so 40 batch requests wait: refused";
    assert_eq!(waits.text, text);
    let mut idle = behind_gate(gate);
    idle.batch_queues[0].pending = 0;
    let warned = only(&idle);
    assert_eq!((warned.id, warned.level), ("gate_unreadable", Level::Warning));
    assert!(warned.text.contains("no batch request would be sent"), "{}", warned.text);
    let stale = GateCondition { stale: true, ..closed() };
    assert_eq!(only(&behind_gate(stale)).id, "gate_unreadable", "the reading is too old");
}

#[test]
fn m03_a_backend_without_a_peer_is_slow_by_the_objective() {
    let mut situation = well();
    situation.backends.truncate(1);
    (situation.backends_ready, situation.backends_total) = (1, 1);
    situation.queue.objective_seconds = Some(2.0);
    situation.backends[0].stream_first_byte_ms = Some(1900.0);
    situation.backends[0].answered_per_minute = 5.0;
    assert_eq!(ids(&situation), [""; 0], "it makes the objective");
    situation.backends[0].stream_first_byte_ms = Some(4200.0);
    let finding = only(&situation);
    assert_eq!((finding.id, finding.subject.as_deref()), ("backend_slow", Some("gpu-a")));
    let text = "gpu-a is slow: a first token takes 4.2 s although no request waits, and the \
                objective is 2.0 s";
    assert_eq!(finding.text, text);
    let with = |change: fn(&mut Situation)| {
        let mut situation = situation.clone();
        change(&mut situation);
        ids(&situation)
    };
    assert_eq!(with(|situation| situation.queue.depth = 1), [""; 0], "requests wait");
    assert_eq!(with(|one| one.queue.objective_seconds = None), [""; 0], "there is no objective");
    assert_eq!(with(|one| one.backends[0].answered_per_minute = 0.0), [""; 0], "that is long ago");
}

/// A backend without a peer whose first tokens come after 5.5 s, and the objective is 2 s.
fn alone() -> Situation {
    let mut situation = well();
    situation.backends.truncate(1);
    (situation.backends_ready, situation.backends_total) = (1, 1);
    situation.queue.objective_seconds = Some(2.0);
    situation.backends[0].stream_first_byte_ms = Some(5500.0);
    situation.backends[0].answered_per_minute = 5.0;
    situation
}

/// The counters of a backend that has answered so many requests.
fn answered(second: u64, answers: u64) -> Sample {
    Sample { attempts: [(Arc::from("gpu-a"), [answers, 0])].into(), ..at(second) }
}

#[test]
fn m03_a_backend_is_not_slow_while_requests_wait_inside_the_engine() {
    let mut queued = alone();
    queued.stock.mode = "fixed";
    queued.backends[0].in_flight = 20;
    let engine = EngineState { running: 4, waiting: 16, ..EngineState::default() };
    queued.backends[0].engine = Some(engine);
    assert_eq!(ids(&queued), ["watermark_too_high"]);
    let mut unread = queued.clone();
    unread.backends[0].engine = Some(EngineState { waiting: 0, ..engine });
    assert_eq!(ids(&unread), [""; 0], "more requests are there than the engine runs");
    unread.backends[0].in_flight = 4;
    assert_eq!(ids(&unread), ["backend_slow"]);
    let mut trends = Trends::default();
    (0..=20).for_each(|second| _ = trends.judge(queued.clone(), answered(second, second)));
    let mut later = |second: u64| {
        let page = trends.judge(unread.clone(), answered(second, second));
        page.findings.first().map(|one| one.id)
    };
    for second in 21..=50 {
        assert_eq!(later(second), None, "at {second} s: these first tokens waited in the engine");
    }
    assert_eq!((51..=60).filter_map(&mut later).last(), Some("backend_slow"));
}

#[test]
fn m03_a_backend_that_is_fast_again_is_slow_no_longer() {
    let slow_for = |secs: u64| {
        let mut trends = Trends::default();
        (0..=secs).for_each(|second| _ = trends.judge(alone(), answered(second, second)));
        assert!(trends.judge(alone(), answered(secs, secs)).findings[0].id == "backend_slow");
        trends
    };
    let ended = |page: &StatusPage| {
        let shown = |one: &EndedFinding| (one.lasted_seconds, one.ended_seconds_ago);
        page.recent.first().map(shown)
    };
    let mut fast = alone();
    fast.backends[0].stream_first_byte_ms = Some(170.0);
    let mut trends = slow_for(20);
    (21..=50).for_each(|second| _ = trends.judge(fast.clone(), answered(second, second)));
    let page = trends.judge(fast.clone(), answered(51, 51));
    assert_eq!(
        (page.level, ended(&page)),
        (Level::Ok, Some((19.0, 31.0))),
        "until it was last found"
    );
    let mut trends = slow_for(20);
    (21..=60).for_each(|second| _ = trends.judge(alone(), answered(second, 20)));
    let page = trends.judge(alone(), answered(61, 20));
    assert_eq!(page.level, Level::Ok, "no request has come for 41 s: {}", page.sentence);
    let mut busy = alone();
    (busy.queue.depth, busy.queue.drains_in_seconds) = (3, Some(1.0));
    let mut trends = slow_for(20);
    (21..=79).for_each(|second| _ = trends.judge(busy.clone(), answered(second, second)));
    let page = trends.judge(busy, answered(80, 80));
    assert_eq!(page.findings[0].id, "backend_slow", "requests wait now and then");
    let text = "gpu-a is slow: a first token takes 5.5 s once the request is sent, and the \
                objective is 2.0 s";
    assert_eq!(page.findings[0].text, text);
}

#[test]
fn m03_backends_that_an_operator_drains_are_told_with_the_command_that_ends_it() {
    let mut drained = with_second(lost("draining", "an operator drains it"));
    drained.backends.remove(0);
    drained.backends[0].drained_by_operator = true;
    (drained.backends_ready, drained.backends_total) = (0, 1);
    let page = after(1, &drained);
    let worst = &page.findings[0];
    assert_eq!((worst.id, worst.level), ("no_backend_ready", Level::Trouble));
    let text = "no backend is ready, because every one is drained (gpu-b: an operator drains it)";
    assert_eq!(worst.text, text);
    let advice = "`tidegate drain gpu-b --undo` lets it serve again. ";
    assert!(worst.advice.starts_with(advice), "{}", worst.advice);
    drained.backends.push(lost("unready", "connection refused"));
    drained.backends_total = 2;
    let advice = &after(1, &drained).findings[0].advice;
    assert!(advice.starts_with("Start a model server") && advice.contains("--undo"), "{advice}");
    drained.backends = vec![lost("draining", "Kubernetes is about to end it")];
    let advice = &after(1, &drained).findings[0].advice;
    assert!(!advice.contains("--undo"), "{advice}");
    drained.backends = vec![lost("leaving", "it is taken out")];
    let text = &after(1, &drained).findings[0].text;
    assert!(!text.contains("drained"), "{text}");
}

#[test]
fn m03_a_changed_configuration_that_is_not_in_force_is_named() {
    let mut situation = well();
    let problems = vec!["line 3: queue.colour: unknown key".to_owned()];
    situation.reload = ReloadState { problems, problems_total: 3, ..ReloadState::default() };
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("reload_failed", Level::Warning));
    let text = "the changed configuration is not in force: line 3: queue.colour: unknown key, and \
                2 more";
    assert_eq!(finding.text, text);
    let awaits_restart = vec!["server.listen".to_owned()];
    situation.reload = ReloadState { awaits_restart, ..ReloadState::default() };
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("restart_needed", Level::Note));
    assert_eq!(finding.text, "server.listen has changed, and only a restart applies it");
}

/// The load may stop before an operator looks.
#[test]
fn m03_a_finding_that_has_ended_is_listed_for_some_minutes() {
    let mut trends = Trends::default();
    let mut down = with_second(lost("unready", "connection refused"));
    down.backends[1].models = vec!["other".into()];
    for second in 0..=30 {
        trends.judge(down.clone(), at(second));
    }
    let recent = |page: StatusPage| {
        let shown = |one: &EndedFinding| (one.id, one.lasted_seconds, one.ended_seconds_ago);
        let of_backend = page.recent.iter().filter(|one| one.id == "backend_down");
        of_backend.map(shown).collect::<Vec<_>>()
    };
    assert_eq!(recent(trends.judge(down.clone(), at(31))), [], "it holds");
    let page = trends.judge(well(), at(71));
    assert_eq!(page.level, Level::Ok);
    assert_eq!(page.recent[0].text, "gpu-b is down: connection refused");
    assert_eq!(recent(page), [("backend_down", 31.0, 40.0)]);
    assert_eq!(recent(trends.judge(down.clone(), at(100))), [], "it holds again");
    trends.judge(well(), at(101));
    assert_eq!(recent(trends.judge(well(), at(110))).len(), 1);
    assert_eq!(recent(trends.judge(well(), at(700))).len(), 1);
    assert_eq!(recent(trends.judge(well(), at(701))), [], "ten minutes have passed");
}

#[test]
fn m03_notes_and_states_of_a_moment_are_not_listed_and_the_list_is_bounded() {
    let mut trends = Trends::default();
    trends.judge(behind_gate(closed()), at(0));
    assert!(trends.judge(well(), at(60)).recent.is_empty(), "it closed for a moment");
    let mut noted = behind_gate(GateCondition { spent: true, ..closed() });
    for second in 60..90 {
        noted.batch_queues[0].in_flight = 1;
        trends.judge(noted.clone(), at(second));
    }
    assert!(trends.judge(well(), at(200)).recent.is_empty(), "a note is no news");
    let mut many = well();
    let down = |id: u32| BackendCondition {
        id: format!("b{id:03}"),
        ..lost("unready", "connection refused")
    };
    many.backends.extend((0..200).map(down));
    trends.judge(many, at(201));
    assert_eq!(trends.judge(well(), at(202)).recent.len(), 20);
}

/// A least time that becomes shorter than the time that has passed was none.
#[test]
fn m03_a_least_time_is_not_broken_by_a_slow_moment() {
    let mut trends = Trends::default();
    let mut situation = well();
    (situation.queue.depth, situation.queue.late) = (40, 20);
    let mut granted = 0;
    let mut least = Vec::new();
    for second in 0..40 {
        // Four requests start in each second, and none between the 15th and the 25th.
        granted += if (15..25).contains(&second) { 0 } else { 4 };
        let sample = Sample { offered: 4 * second, granted, depth: 40, ..at(second) };
        let queue = trends.judge(situation.clone(), sample).situation.queue;
        least.push((second, queue.drain_is_least, queue.drains_in_seconds));
    }
    for (second, is_least, told) in least.into_iter().skip(6) {
        assert!(is_least, "at {second} s");
        assert_eq!(told, Some(10.0), "at {second} s: 40 requests at 4 a second");
    }
}

#[test]
fn m03_requests_that_leave_without_a_grant_are_no_service() {
    let mut trends = Trends::default();
    let mut situation = well();
    (situation.queue.depth, situation.queue.late) = (20, 20);
    let sample = |second: u64| Sample {
        offered: second,
        granted: 2 * second,
        // Two more leave in each second by a timeout.
        depth: 47 - 3 * second as u32,
        ..at(second)
    };
    (0..9).for_each(|second| _ = trends.judge(situation.clone(), sample(second)));
    let queue = trends.judge(situation, sample(9)).situation.queue;
    assert_eq!((queue.drains_in_seconds, queue.mean_drain_seconds), (Some(10.0), Some(10.0)));
}

#[test]
fn m03_late_requests_expire_if_new_ones_take_every_place() {
    let mut situation = well();
    let queue = &mut situation.queue;
    (queue.depth, queue.late, queue.mean_drain_seconds) = (20, 12, Some(10.0));
    (queue.arriving_per_second, queue.oldest_seconds) = (2.5, Some(8.0));
    let text = "about 12 of 20 waiting requests will expire before their turn";
    assert_eq!(only(&situation).text, text, "two start in a second, and more arrive");
    situation.queue.arriving_per_second = 1.8;
    assert_eq!(only(&situation).text.split(' ').nth(1), Some("7"), "0.2 a second for 26 s");
    situation.queue.arriving_per_second = 1.0;
    assert_eq!(ids(&situation), [""; 0], "one a second is enough for them");
    assert!(after(2, &situation).findings.is_empty());
}

#[test]
fn m03_a_queue_that_grows_is_named_before_requests_expire() {
    let mut situation = well();
    let queue = &mut situation.queue;
    (queue.depth, queue.mean_drain_seconds, queue.growing_per_second) = (40, Some(20.0), 1.0);
    let text = "the queue grows by 1.0 requests a second: in about 20 s requests begin to expire";
    assert_eq!(only(&situation).text, text, "60 requests take 30 s at 2 a second");
    situation.queue.growing_per_second = 0.1;
    assert_eq!(ids(&situation), [""; 0], "that is far away");
    (situation.queue.depth, situation.queue.growing_per_second) = (4, 5.0);
    situation.queue.mean_drain_seconds = Some(2.0);
    assert_eq!(ids(&situation), [""; 0], "a queue begins to fill");
}

#[test]
fn m03_the_sentence_keeps_names_and_tells_no_number_twice() {
    let mut situation = well();
    situation.queue.depth = 38;
    let flow = |name: &str, queue_depth: u32, queue_share: f64| FlowState {
        name: name.into(),
        queue_depth,
        queue_share,
        fair_share: 0.5,
        ..FlowState::default()
    };
    situation.flows = vec![flow("flood", 36, 0.95), flow("quiet", 2, 0.05)];
    let sample = |second: u64| Sample { granted: 2 * second, depth: 38, ..at(second) };
    let mut trends = Trends::default();
    (0..4).for_each(|second| _ = trends.judge(situation.clone(), sample(second)));
    let said = trends.judge(situation, sample(4)).sentence;
    let expected = "flood floods the queue: 36 of 38 waiting requests (95 %), and its weight gives \
                    it 50 % (for 4.0 s); the last request will wait about 19 s more.";
    assert_eq!(said, expected);
}

#[test]
fn m03_a_used_up_quota_says_what_happens_to_its_requests() {
    let tenant = |on_quota| TenantState {
        name: "lab".into(),
        quota_used_up: Some("day"),
        on_quota,
        ..TenantState::default()
    };
    let advice = |on_quota| only(&Situation { tenants: vec![tenant(on_quota)], ..well() }).advice;
    assert!(advice("refuse").starts_with("Until then its requests are refused (on_quota)."));
    assert!(advice("wait").starts_with("Until then its requests wait in the lowest band"));
}

#[test]
fn m03_it_is_trouble_if_more_requests_fail_than_are_served() {
    let level = |failed: u64, served: u64| {
        let mut situation = well();
        let reason = "backend_error";
        situation.refusals =
            vec![RefusalCount { reason, total: 99, last_minute: failed, of_work: failed }];
        situation.queue.served_last_minute = served;
        only(&situation).level
    };
    assert_eq!(level(4, 0), Level::Warning, "a few are no outage");
    assert_eq!(level(5, 5), Level::Warning);
    assert_eq!(level(6, 5), Level::Trouble);
    let mut trends = Trends::default();
    let endings =
        |second: u64| [((Some(1), "ok"), 3 * second), ((None, "internal"), second)].into();
    trends.judge(well(), Sample { endings: endings(0), ..at(0) });
    let page = trends.judge(well(), Sample { endings: endings(10), ..at(10) });
    assert_eq!(page.situation.queue.served_last_minute, 30);
    assert_eq!(page.level, Level::Warning);
}
