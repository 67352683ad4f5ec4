//! Slow backends at light load, floods and their refusals, gates that never open, and findings that
//! point to their cause.

use super::*;

/// Two backends with these times from token to token. The router has left the second one alone.
fn token_times(first: f64, second: f64) -> Situation {
    let mut situation = well();
    situation.backends[0].in_flight = 6;
    situation.backends[0].token_ms = Some(first);
    situation.backends[1].token_ms = Some(second);
    situation
}

#[test]
fn m03_a_backend_that_the_router_avoids_is_slow_by_the_tokens_of_one_response() {
    let slow = token_times(19.0, 142.0);
    let finding = only(&slow);
    let text = "gpu-b is slow: a token takes 142 ms, 7 times as long as at its peers";
    assert_eq!((finding.id, finding.text.as_str()), ("backend_slow", text));
    assert!(after(4, &slow).findings.is_empty(), "a moment is no finding");
    assert_eq!(after(5, &slow).findings[0].id, "backend_slow");
    let mut late = slow.clone();
    late.backends[0].stream_first_byte_ms = Some(170.0);
    late.backends[1].stream_first_byte_ms = Some(346.0);
    assert_eq!(after(9, &late).findings[0].text, text, "the figure that shows it best");
    assert_eq!(ids(&token_times(19.0, 50.0)), [""; 0], "not three times as long");
    assert_eq!(ids(&token_times(4.0, 20.0)), [""; 0], "less than 20 ms longer");
    let mut busy = slow.clone();
    busy.backends[1].in_flight = 13;
    assert_eq!(ids(&busy), [""; 0], "it has more than twice the requests of its peer");
    assert_eq!(after(120, &slow).level, Level::Warning);
    assert_eq!(after(160, &slow).level, Level::Ok, "one response does not count for ever");
}

#[test]
fn m03_a_backend_that_is_slow_now_and_then_is_one_finding() {
    let times = |first_byte: f64| {
        let mut situation = well();
        situation.backends[0].stream_first_byte_ms = Some(100.0);
        situation.backends[1].stream_first_byte_ms = Some(first_byte);
        situation
    };
    let mut trends = Trends::default();
    let mut seen = |first_byte: f64, second: u64| {
        let page = trends.judge(times(first_byte), at(second));
        page.findings.first().map(|one| (one.text.clone(), one.since_seconds))
    };
    assert_eq!([seen(900.0, 0), seen(110.0, 4), seen(900.0, 5)], [None, None, None], "moments");
    (6..=8).for_each(|second| _ = seen(900.0, second));
    let text = "gpu-b is slow: a first byte takes 900 ms, 9 times as long as at its peers";
    assert_eq!(seen(900.0, 9), Some((text.to_owned(), 4.0)));
    let text = "gpu-b is slow: a first byte takes 200 ms, 2 times as long as at its peers";
    assert_eq!(seen(200.0, 10), Some((text.to_owned(), 5.0)), "it ends at a lower bound");
    assert_eq!(seen(110.0, 13), Some((text.to_owned(), 8.0)));
    let past = "gpu-b was slow until 25 s ago";
    assert_eq!(seen(110.0, 35), Some((past.to_owned(), 5.0)), "as long as it was found");
    assert_eq!(seen(900.0, 36).unwrap().1, 31.0, "one finding");
    assert!(seen(110.0, 66).is_some());
    assert_eq!(seen(110.0, 67), None);
    assert_eq!(seen(200.0, 68), None, "the lower bound does not begin it");
}

/// Two flows of which one floods, and the refusals of so many seconds.
fn flooded(second: u64, quiet_refused: u32) -> (Situation, Sample) {
    let flow = |name: &str, queue_depth: u32, queue_share: f64, refused: u32| FlowState {
        name: name.into(),
        queue_depth,
        queue_share,
        fair_share: 0.5,
        refused,
        ..FlowState::default()
    };
    let mut situation = well();
    situation.queue.depth = 40;
    let refused = 100 * u32::try_from(second).unwrap();
    situation.flows = vec![flow("loud", 38, 0.95, refused), flow("quiet", 2, 0.05, quiet_refused)];
    let all = u64::from(refused + quiet_refused);
    let endings = [((Some(1), "flow_full"), all), ((Some(1), "ok"), 10 * second)].into();
    (situation, Sample { endings, granted: 10 * second, depth: 40, ..at(second) })
}

#[test]
fn m03_refusals_of_a_flood_alone_are_a_warning_after_their_cause() {
    let found = |quiet_refused: u32| {
        let mut trends = Trends::default();
        let judge = |trends: &mut Trends, second, refused| {
            let (situation, sample) = flooded(second, refused);
            trends.judge(situation, sample)
        };
        (0..10).for_each(|second| _ = judge(&mut trends, second, 0));
        let page = judge(&mut trends, 10, quiet_refused);
        (page, trends)
    };
    let (page, mut trends) = found(0);
    assert_eq!(page.level, Level::Warning, "{}", page.sentence);
    assert!(page.sentence.starts_with("loud floods the queue"), "{}", page.sentence);
    let refused = &page.findings[1];
    let text = "1000 requests of loud were not served in the last minute: flow_full";
    assert_eq!((refused.id, refused.text.as_str()), ("requests_refused", text));
    assert_eq!(refused.advice, "See flow_floods: it explains these refusals.");
    let (mut over, sample) = flooded(10, 0);
    (over.flows[0].queue_depth, over.queue.depth) = (0, 2);
    let page = trends.judge(over, Sample { at: Time::from_millis(30_000), ..sample });
    assert_eq!((page.findings[0].id, page.level), ("requests_refused", Level::Warning), "ended");
    let (page, _) = found(60);
    assert_eq!((page.findings[0].id, page.level), ("requests_refused", Level::Trouble));
    assert!(!page.findings[0].text.contains("loud"), "others are refused as well");
}

#[test]
fn m03_requests_of_other_flows_without_a_backend_hide_no_flood() {
    let (mut situation, _) = flooded(0, 0);
    let other = FlowState {
        name: "other".into(),
        queue_depth: 100,
        unserved: 100,
        queue_share: 0.714,
        ..FlowState::default()
    };
    situation.flows.insert(0, other);
    (situation.flows[1].queue_share, situation.flows[2].queue_share) = (0.271, 0.014);
    (situation.queue.depth, situation.queue.unserved) = (140, 100);
    let finding = only(&situation);
    assert_eq!((finding.id, finding.subject.as_deref()), ("flow_floods", Some("loud")));
    let text = "loud floods the queue: 38 of 40 waiting requests that a backend can serve (95 %), \
                and its weight gives it 50 %";
    assert_eq!(finding.text, text);
    // They are in one flow with those that a backend can serve.
    situation.flows.truncate(1);
    situation.flows[0].queue_depth = 140;
    situation.queue.oldest_seconds = Some(5.0);
    let finding = only(&situation);
    assert_eq!(finding.id, "one_flow");
    let text = "all 40 waiting requests that a backend can serve are in one flow (other)";
    assert!(finding.text.starts_with(text), "{}", finding.text);
}

fn closed() -> GateCondition {
    let state = "closed: 90 % full, opens below 80 %".into();
    GateCondition { value: Some(0.1), threshold: 0.2, state, ..GateCondition::default() }
}

/// The baseline is not what holds batch work back beside interactive requests.
#[test]
fn m03_batch_work_that_is_held_back_is_told_how_it_starts_faster() {
    let state = "holding back: next start in 0.63 s".to_owned();
    let held = GateCondition { spent: true, state, ..closed() };
    let implied = GateCondition { implied: true, ..held.clone() };
    for (gate, change) in [(held, "set rest = 0 for"), (implied, "add [[dispatch.gates]] with")] {
        let note = only(&behind_gate(gate));
        assert_eq!(note.id, "budget_used_up");
        let is_meant = note.advice.contains(change) && note.advice.contains("rest = 0");
        assert!(is_meant && !note.advice.contains("baseline"), "{}", note.advice);
    }
}

#[test]
fn m03_a_constant_gate_that_never_opens_is_told_so() {
    let constant = GateCondition { kind: "constant", ..closed() };
    let finding = only(&behind_gate(constant.clone()));
    assert_eq!((finding.id, finding.level), ("gate_closed", Level::Warning));
    let text = "the gate load is closed, so 40 batch requests wait: value 0.1 is not above the \
                baseline 0.2: the gate never opens";
    assert_eq!(finding.text, text);
    assert!(finding.advice.contains("Then restart"), "{}", finding.advice);
    let other = GateCondition { value: Some(0.3), ..constant };
    assert!(!only(&behind_gate(other)).text.contains("never opens"), "closed for another reason");
}

#[test]
fn m03_a_gate_that_holds_batches_back_for_other_requests_is_a_note() {
    let mut situation = behind_gate(closed());
    assert_eq!(only(&situation).level, Level::Warning, "the backends are idle");
    situation.queue.in_flight = 3;
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("gate_closed", Level::Note));
    assert!(finding.advice.contains("and restart"), "{}", finding.advice);
    situation.batch_queues[0].in_flight = 3;
    assert_eq!(only(&situation).level, Level::Warning, "all of them are its own");
}

/// The overload closes the gate, so it is the cause; who asks about batches reads of the gate.
#[test]
fn m03_the_sentence_names_a_closed_gate_beside_an_overload() {
    let (overload, _) = flooded(0, 0);
    let beside = |gate: GateCondition| {
        let Situation { gates, batch_queues, .. } = behind_gate(gate);
        let mut situation = Situation { gates, batch_queues, ..overload.clone() };
        situation.queue.in_flight = 8;
        situation
    };
    let page = after(6, &beside(closed()));
    assert!(page.sentence.starts_with("loud floods the queue"), "{}", page.sentence);
    let remark = "; 40 batch requests wait (the gate load is closed); ";
    assert!(page.sentence.contains(remark), "{}", page.sentence);
    let page = after(6, &beside(GateCondition { open: true, left: 3, ..closed() }));
    assert!(page.sentence.contains("; 40 batch requests wait."), "{}", page.sentence);
    // Requests of others use the backends, and none waits.
    let mut busy = behind_gate(closed());
    busy.queue.in_flight = 8;
    let page = after(6, &busy);
    let well = "All is well: 2 of 2 backends are ready, no request waits; 40 batch requests wait \
                (the gate load is closed); 1 note.";
    assert_eq!(page.sentence, well);
    // A gate that cannot be read is worse than the overload.
    let page = after(6, &beside(GateCondition { stale: true, ..closed() }));
    let told = "The gate load cannot be read, so 40 batch requests wait";
    assert!(page.sentence.starts_with(told), "{}", page.sentence);
}

#[test]
fn m03_a_gate_that_has_opened_shows_no_old_figures() {
    let mut trends = Trends::default();
    (0..=6).for_each(|second| _ = trends.judge(behind_gate(closed()), at(second)));
    let open = GateCondition { open: true, left: 3, ..closed() };
    let page = trends.judge(behind_gate(open), at(11));
    let finding = &page.findings[0];
    let text = "the gate load is open again: it was closed until 5.0 s ago";
    assert_eq!((finding.text.as_str(), finding.evidence.len()), (text, 0));
    let sentence = "The gate load is open again: it was closed until 5.0 s ago; no request waits";
    assert!(page.sentence.starts_with(sentence), "{}", page.sentence);
}

/// Both backends have a fixed watermark of 1 and free places.
fn too_low() -> Situation {
    let engine = EngineState { running: 1, running_max: Some(8), ..EngineState::default() };
    let mut situation = fixed(1.0, engine);
    situation.backends[0] =
        BackendCondition { id: "gpu-a".into(), ..situation.backends[1].clone() };
    situation
}

#[test]
fn m03_one_wrong_watermark_of_several_backends_is_one_finding() {
    let page = after(2, &too_low());
    assert_eq!(page.findings.len(), 1, "{:?}", page.findings);
    let text = "the watermark of 1 is too low for gpu-a: 7 of its 8 places are free while requests \
                wait; the same at gpu-b";
    assert_eq!(page.findings[0].text, text);
    let lost = lost("draining", "an operator drains it");
    let other = BackendCondition { id: "gpu-c".into(), ..lost.clone() };
    let mut drained = with_second(lost);
    drained.backends.push(other);
    assert_eq!(after(2, &drained).findings.len(), 2, "their reasons may differ");
}

#[test]
fn m03_waits_at_free_places_point_to_the_watermark() {
    let mut situation = too_low();
    situation.queue.mean_drain_seconds = Some(60.0);
    let advice = |situation: &Situation, id: &str| {
        let found = findings(situation);
        found.into_iter().find(|one| one.id == id).unwrap().advice
    };
    let see = "See watermark_too_low: a backend may have free places.";
    assert_eq!(advice(&situation, "requests_will_expire"), see);
    situation.queue.capacity = 12;
    assert_eq!(advice(&situation, "queue_nearly_full"), see);
    situation.stock.mode = "auto";
    assert!(advice(&situation, "requests_will_expire").contains("Add a backend"));
}

#[test]
fn m03_errors_of_backends_name_the_backend_that_was_down() {
    let mut trends = Trends::default();
    let mut advice = |situation: Situation, second: u64| {
        let endings = [((Some(1), "backend_error"), second)].into();
        let page = trends.judge(situation, Sample { endings, ..at(second) });
        let refused = page.findings.into_iter().find(|one| one.id == "requests_refused");
        refused.map(|one| one.advice).unwrap_or_default()
    };
    let down = with_second(lost("unready", "connection refused"));
    advice(down.clone(), 0);
    assert_eq!(advice(down, 1), "See backend_down: it explains these refusals.");
    advice(well(), 2);
    let ended = "See backend_down, which ended 9.0 s ago: it explains these refusals.";
    assert_eq!(advice(well(), 10), ended);
    (11..122).for_each(|second| _ = advice(well(), second));
    assert!(advice(well(), 122).contains("findings about backends"), "that is long ago");
}

#[test]
fn m03_a_full_disk_has_one_text_and_its_advice_tells_of_the_restart() {
    let texts = ["the disk of the queue's file is full; free some space", "0 bytes of it are free"];
    let found = texts.map(|error| {
        let full = StoreTrouble::full("batch.folder", error.into()).at("/b".as_ref());
        only(&Situation { stores: vec![full], ..well() })
    });
    assert_eq!(found[0].text, "the disk is full: batch.folder (/b) cannot be written");
    assert_eq!(found[0], found[1]);
    let advice = &found[0].advice;
    assert!(advice.contains("restart") && advice.contains("batches stay"), "{advice}");
    let quota = StoreTrouble::full("usage.file", "Disk quota exceeded".into());
    let text = only(&Situation { stores: vec![quota], ..well() }).text;
    assert_eq!(text, "the disk is full (its quota is used up): usage.file cannot be written");
}

#[test]
fn m03_a_backend_without_a_response_of_late_is_not_judged() {
    let mut situation = well();
    (situation.backends[0].latency_ms, situation.backends[1].latency_ms) = (Some(500.0), Some(4e3));
    situation.backends.iter_mut().for_each(|backend| backend.output_tokens = Some(50.0));
    assert_eq!(only(&situation).id, "backend_slow");
    for at in [0, 1] {
        let mut old = situation.clone();
        old.backends[at].latency_is_old = true;
        assert_eq!(ids(&old), [""; 0], "its own, and that of its only peer");
    }
    let mut streams = well();
    streams.backends[0].stream_first_byte_ms = Some(100.0);
    streams.backends[1].stream_first_byte_ms = Some(900.0);
    streams.backends[1].stream_first_byte_is_old = true;
    streams.backends[1].answered_per_minute = 5.0;
    streams.queue.objective_seconds = Some(0.5);
    assert_eq!(ids(&streams), [""; 0], "also not by the objective");
}

/// Its requests take long then, which makes its mean time long.
#[test]
fn m03_a_backend_that_hangs_again_and_again_is_one_finding() {
    let state = |in_flight: u32, silent: f64| {
        let mut hung = backend("gpu-b");
        (hung.in_flight, hung.silent_seconds) = (in_flight, Some(silent));
        (hung.first_byte_ms, hung.usual_first_byte_ms) = (Some(6000.0), Some(200.0));
        with_second(hung)
    };
    let mut trends = Trends::default();
    let mut found = Vec::new();
    for second in 0..160 {
        let stopped = second % 40;
        let now = if stopped < 20 { state(3, stopped as f64) } else { state(1, 0.1) };
        let page = trends.judge(now, at(second));
        found.push(page.findings.first().map(|one| (one.id, one.since_seconds, one.text.clone())));
    }
    assert_eq!(found[9], None);
    let mut last = 10;
    for (second, found) in found.into_iter().enumerate().skip(10) {
        let (id, since, text) = found.unwrap();
        let past = (20..50).contains(&(second % 40 + 40 * usize::from(second % 40 < 10)));
        let expected = if past { "gpu-b hung until" } else { "gpu-b hangs: 3 requests there" };
        assert!(text.starts_with(expected), "at {second} s: {text}");
        last = if past { last } else { second };
        // A hang is found for three seconds more than it is told as one that holds.
        let lasted = last as f64 - 10.0;
        assert!((0.0..4.0).contains(&(since - lasted)), "at {second} s: {since} and {lasted}");
        assert_eq!(id, "backend_hung");
    }
}

/// A backend that was restarted has failed, and served responses leave the minute before that.
#[test]
fn m03_a_backend_that_fails_for_a_moment_is_no_finding() {
    let mut trends = Trends::default();
    let mut found = |second: u64, ends: [u64; 2]| {
        let attempts = [(Arc::from("gpu-b"), ends)].into();
        let page = trends.judge(well(), Sample { attempts, ..at(second) });
        page.findings.first().map(|one| one.id)
    };
    assert_eq!(found(0, [0, 0]), None);
    assert_eq!(found(1, [5, 3]), None, "a moment");
    assert_eq!(found(2, [5, 3]), None);
    assert_eq!(found(3, [5, 3]), Some("backend_failing"));
}

/// Findings that hold for so long, and what the waits point to.
fn blamed(causes: &[(&'static str, f64, bool)], expires_for: f64) -> String {
    let finding = |id, began_secs, is_past| {
        let new = StatusFinding::new(id, Level::Warning, String::new());
        StatusFinding { began_secs, is_past, ..new }
    };
    let mut found: Vec<StatusFinding> =
        causes.iter().map(|&(id, began, is_past)| finding(id, began, is_past)).collect();
    found.push(finding("requests_will_expire", expires_for, false));
    super::super::causes::explain(&mut found, &[], 30.0);
    found.into_iter().find(|one| one.id == "requests_will_expire").unwrap().advice
}

#[test]
fn m03_waits_point_to_the_last_change_before_them() {
    let flood = |began| ("flow_floods", began, false);
    let dead = |began| ("backend_down", began, false);
    let by = |id: &str| format!("See {id}: it explains these waits.");
    assert_eq!(blamed(&[dead(20.0), flood(600.0)], 15.0), by("backend_down"));
    assert_eq!(blamed(&[dead(600.0), flood(20.0)], 15.0), by("flow_floods"));
    assert_eq!(blamed(&[dead(600.0), flood(12.0)], 15.0), by("flow_floods"), "noticed late");
    assert_eq!(blamed(&[dead(600.0), flood(2.0)], 15.0), by("backend_down"), "it came after");
    assert_eq!(blamed(&[flood(2.0)], 15.0), by("flow_floods"), "nothing else explains them");
    let over = ("backend_down", 20.0, true);
    assert_eq!(blamed(&[over, flood(600.0)], 15.0), by("flow_floods"), "what is over is no cause");
}

/// Requests that wait for another attempt at a backend that fails expire because of it. No further
/// backend is advised.
#[test]
fn m03_requests_that_time_out_at_a_failing_backend_point_to_it() {
    let told = |failed: f64, answered: f64| {
        let mut situation = well();
        (situation.queue.depth, situation.queue.oldest_seconds) = (1, Some(26.0));
        let refusal =
            RefusalCount { reason: "queue_timeout", total: 1, last_minute: 1, of_work: 1 };
        situation.refusals = vec![refusal];
        let backend = &mut situation.backends[0];
        (backend.failed_per_minute, backend.answered_per_minute) = (failed, answered);
        let found = findings(&situation);
        ["requests_will_expire", "requests_refused"].map(|id| {
            found.iter().find(|one| one.id == id).map(|one| one.advice.clone()).unwrap_or_default()
        })
    };
    let explained = ["waits", "refusals"];
    let explained = explained.map(|what| format!("See backend_failing: it explains these {what}."));
    assert_eq!(told(18.0, 0.0), explained);
    let [waits, refusals] = told(6.0, 30.0);
    assert!(!waits.contains("backend_failing") && !refusals.contains("backend_failing"));
}
