//! What is evidence and what is not: lengths of responses, waits inside engines, unknown figures.

use super::*;

/// A response of 800 tokens takes longer than one of 30 in more than proportion.
#[test]
fn m03_a_whole_response_is_compared_with_responses_of_like_length() {
    let mut situation = well();
    let measured = [(19.7, 30.0), (1600.0, 800.0)];
    for (backend, (millis, tokens)) in situation.backends.iter_mut().zip(measured) {
        (backend.latency_ms, backend.output_tokens) = (Some(millis), Some(tokens));
    }
    assert_eq!(ids(&situation), [""; 0], "the lengths differ");
    situation.backends[1].output_tokens = Some(60.0);
    let finding = only(&situation);
    let text = "gpu-b is slow: a response of 60 tokens takes 1.6 s, 41 times as long as at its \
                peers";
    assert_eq!((finding.id, finding.text.as_str()), ("backend_slow", text));
    assert_eq!(finding.evidence["peers_ms"], 39.4, "what 60 tokens take there");
    assert!(finding.advice.contains("`tidegate drain gpu-b`"), "{}", finding.advice);
}

/// Two alike backends without metrics, of which the first begins its streams late.
fn late_first_bytes(depth: u32, first_byte_ms: f64) -> Situation {
    let mut situation = well();
    situation.queue.depth = depth;
    situation.backends[0].stream_first_byte_ms = Some(first_byte_ms);
    situation.backends[1].stream_first_byte_ms = Some(37.0);
    situation
}

#[test]
fn m03_first_bytes_that_waited_in_a_full_engine_show_no_slow_backend() {
    let mut trends = Trends::default();
    let mut seen = |situation: Situation, second: u64| {
        let page = trends.judge(situation, Sample { depth: 1, ..at(second) });
        page.findings.iter().any(|one| one.id == "backend_slow")
    };
    for second in 0..20 {
        assert!(!seen(late_first_bytes(30, 891.0), second), "{second} s: the engines are full");
    }
    for second in 20..24 {
        assert!(!seen(late_first_bytes(0, 950.0), second), "{second} s: it was sent in the flood");
    }
    for second in 24..80 {
        assert!(!seen(late_first_bytes(0, 950.0), second), "{second} s: the same measurement");
    }
    assert!((80..84).any(|second| seen(late_first_bytes(0, 940.0), second)), "no request waits");
    assert!(seen(late_first_bytes(30, 940.0), 85), "a flood does not end it");
    let mut read = late_first_bytes(30, 891.0);
    let engine = EngineState { running: 4, ..EngineState::default() };
    (read.backends[0].engine, read.backends[0].in_flight) = (Some(engine), 4);
    assert_eq!(after(9, &read).findings[0].id, "backend_slow", "nothing waits inside its engine");
    read.backends[0].in_flight = 9;
    assert!(after(9, &read).findings.is_empty(), "five requests wait inside");
}

#[test]
fn m03_a_state_of_the_past_does_not_lead_over_one_that_holds() {
    let mut trends = Trends::default();
    let mut slow = late_first_bytes(0, 900.0);
    (0..5).for_each(|second| _ = trends.judge(slow.clone(), at(second)));
    slow.backends[0].stream_first_byte_ms = Some(37.0);
    let page = trends.judge(slow.clone(), at(10));
    assert!(page.sentence.starts_with("gpu-a was slow until 6.0 s ago"), "{}", page.sentence);
    (slow.queue.depth, slow.queue.capacity) = (10, 11);
    let page = trends.judge(slow, Sample { depth: 10, ..at(11) });
    let found: Vec<_> = page.findings.iter().map(|one| one.id).collect();
    assert_eq!(found, ["queue_nearly_full", "backend_slow"], "{}", page.sentence);
}

#[test]
fn m03_a_backend_that_refuses_nearly_every_request_is_named() {
    let refusing = |refused: u32, status: u16| {
        let mut situation = well();
        let backend = &mut situation.backends[1];
        (backend.last_responses, backend.last_refused) = (32, refused);
        backend.refusal_status = status;
        situation
    };
    let finding = only(&refusing(31, 401));
    assert_eq!((finding.id, finding.level), ("backend_refusing", Level::Warning));
    let text = "gpu-b refuses requests: 31 of its last 32 responses are refusals, the last with \
                status 401";
    assert_eq!(finding.text, text);
    assert!(finding.advice.contains("api_key_env"), "{}", finding.advice);
    assert!(finding.advice.contains("`tidegate drain gpu-b`"), "{}", finding.advice);
    assert!(only(&refusing(32, 501)).advice.contains("does not know the path"));
    assert_eq!(ids(&refusing(25, 401)), [""; 0], "less than 80 %");
    let with = |change: fn(&mut Situation)| {
        let mut situation = refusing(32, 404);
        change(&mut situation);
        findings(&situation).first().map(|one| one.level)
    };
    assert_eq!(with(|one| one.backends[1].last_responses = 19), None, "too few");
    let trouble = Some(Level::Trouble);
    assert_eq!(with(|one| one.backends[0].models = vec!["other".into()]), trouble, "no peer");
    let both = with(|one| {
        one.backends[0] = BackendCondition { id: "gpu-a".into(), ..one.backends[1].clone() }
    });
    assert_eq!(both, trouble, "its peer refuses as well");
}

/// Newer versions of llama.cpp do not report their KV cache.
#[test]
fn m03_an_unknown_kv_cache_is_no_evidence() {
    let unknown = EngineState { running: 1, ..EngineState::default() };
    assert_eq!(ids(&fixed(4.0, unknown)), [""; 0], "nothing shows a free place");
    let json = serde_json::to_value(unknown).unwrap();
    assert!(json["kv_used"].is_null(), "{json}");
    let told = EngineState { running_max: Some(8), ..unknown };
    let finding = only(&fixed(4.0, told));
    assert!(finding.text.contains("7 of its 8 places are free"), "{}", finding.text);
    assert!(!finding.evidence.contains_key("kv_used"), "{:?}", finding.evidence);
}

/// A server without metrics, with this fixed watermark.
fn unread(watermark: f64, in_flight: u32) -> Situation {
    let mut situation = fixed(watermark, EngineState::default());
    (situation.stock.unit, situation.queue.objective_seconds) = ("requests", Some(2.0));
    let backend = &mut situation.backends[1];
    (backend.engine, backend.in_flight, backend.first_byte_ms) = (None, in_flight, Some(300.0));
    situation
}

#[test]
fn m03_a_watermark_of_one_without_metrics_holds_requests_back() {
    let finding = only(&unread(1.0, 1));
    let text = "the watermark of 1 may be too low for gpu-b: it gets one request at once, and its \
                responses begin after 300 ms while requests wait";
    assert_eq!((finding.id, finding.text.as_str()), ("watermark_too_low", text));
    assert!(finding.advice.contains("watermark_per_backend"), "{}", finding.advice);
    assert_eq!(ids(&unread(2.0, 2)), [""; 0], "how many it runs is not known");
    let with = |change: fn(&mut Situation)| {
        let mut situation = unread(1.0, 1);
        change(&mut situation);
        ids(&situation)
    };
    assert_eq!(with(|one| one.backends[1].first_byte_ms = Some(1500.0)), [""; 0], "it is busy");
    assert_eq!(with(|one| one.models[0].queue_depth = 0), [""; 0], "no request of it waits");
    assert_eq!(with(|one| one.stock.unit = "tokens"), [""; 0], "a watermark of tokens");
    let unknown = Some(EngineState { running: 1, ..EngineState::default() });
    let mut read = unread(1.0, 1);
    read.backends[1].engine = unknown;
    assert_eq!(ids(&read), ["watermark_too_low"], "its metrics do not tell free places");
}

#[test]
fn m03_a_high_watermark_without_metrics_explains_late_first_bytes() {
    let mut situation = unread(200.0, 60);
    (situation.queue.depth, situation.models[0].queue_depth) = (0, 0);
    situation.backends[1].stream_first_byte_ms = Some(5000.0);
    situation.backends[1].answered_per_minute = 90.0;
    let page = after(9, &situation);
    let found: Vec<_> = page.findings.iter().map(|one| (one.id, one.text.as_str())).collect();
    let text = "the watermark of 200 may be too high for gpu-b: 60 requests are there, and a first \
                byte takes 5.0 s although no request waits in the gateway";
    assert_eq!(found, [("watermark_too_high", text)], "it is not slow");
    let mut few = situation.clone();
    few.backends[1].in_flight = 2;
    assert_eq!(ids(&few), ["backend_slow"], "two requests do not fill a server");
    situation.backends[1].stream_first_byte_ms = Some(1900.0);
    assert_eq!(ids(&situation), [""; 0], "it makes the objective");
}

#[test]
fn m03_a_backend_whose_places_cannot_be_found_is_named() {
    let mut situation = well();
    situation.queue.objective_seconds = Some(2.0);
    (situation.backends[0].in_flight, situation.backends[0].first_byte_ms) = (30, Some(1500.0));
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("places_unknown", Level::Note));
    let text = "gpu-a tells no metrics and its responses do not stream, so its places cannot be \
                found: 30 requests are in flight there, and a response takes 1.5 s";
    assert_eq!(finding.text, text);
    let with = |change: fn(&mut BackendCondition)| {
        let mut situation = situation.clone();
        change(&mut situation.backends[0]);
        findings(&situation).first().map(|one| one.level)
    };
    let late = with(|one| one.first_byte_ms = Some(9000.0));
    assert_eq!(late, Some(Level::Warning), "beyond the objective");
    assert_eq!(with(|one| one.stream_first_byte_ms = Some(90.0)), None, "it streams");
    assert_eq!(with(|one| one.engine = Some(EngineState::default())), None, "metrics are read");
    assert_eq!(with(|one| one.in_flight = 7), None, "few requests");
    assert_eq!(with(|one| one.places = Some(30)), None, "the operator has told them");
    assert!(finding.advice.starts_with("Set `places` of the backend"), "{}", finding.advice);
}

#[test]
fn m03_the_sentence_counts_with_nouns_and_contradicts_itself_nowhere() {
    let mut down = with_second(lost("unready", "connection refused"));
    down.backends[0] = lost("unready", "no response");
    down.backends_ready = 0;
    let said = after(15, &down).sentence;
    assert!(said.contains("connection refused), for 15 s; no request waits"), "{said}");
    let late = |late: u32, capacity: u32| {
        let mut trends = Trends::default();
        let mut situation = well();
        (situation.queue.depth, situation.queue.late) = (20, late);
        situation.queue.capacity = capacity;
        let sample =
            |second: u64| Sample { offered: second, granted: 2 * second, depth: 20, ..at(second) };
        (0..5).for_each(|second| _ = trends.judge(situation.clone(), sample(second)));
        trends.judge(situation, sample(5)).sentence
    };
    let told = late(5, 20);
    assert!(told.contains("; 5 of the waiting requests are late: they go"), "{told}");
    let told = late(1, 20);
    assert!(told.contains("; 1 of the waiting requests is late: it goes"), "{told}");
    let told = late(1, 1000);
    assert!(told.contains("20 requests wait, 1 of them late: it goes"), "{told}");
}

#[test]
fn m03_one_flow_is_told_in_the_past_when_no_request_waits() {
    let mut situation = well();
    let (queue_depth, queue_share) = (8, 1.0);
    let flow = FlowState { name: "m".into(), queue_depth, queue_share, ..FlowState::default() };
    (situation.queue.depth, situation.queue.oldest_seconds) = (8, Some(6.0));
    situation.flows = vec![flow];
    let mut trends = Trends::default();
    (0..8).for_each(|second| _ = trends.judge(situation.clone(), at(second)));
    let said = trends.judge(well(), at(8)).sentence;
    let past = "The waiting requests were in one flow (m) until 1.0 s ago; no request waits.";
    assert_eq!(said, past);
}

#[test]
fn m03_a_wrong_address_has_its_own_advice() {
    let mut situation = with_second(lost("unready", "it is this gateway itself"));
    situation.backends[1].is_own_gateway = true;
    let advice = only(&situation).advice;
    assert!(advice.starts_with("Its address http://gpu-b:8000 is one of this gateway"), "{advice}");
    situation.backends[1] = lost("unready", "its name has no address (DNS)");
    situation.backends[1].lacks_address = true;
    let advice = only(&situation).advice;
    assert!(advice.starts_with("Correct the name in its address"), "{advice}");
}

#[test]
fn m03_a_forecast_about_two_requests_is_no_alarm() {
    let mut situation = well();
    (situation.queue.depth, situation.queue.mean_drain_seconds) = (2, Some(60.0));
    assert_eq!(ids(&situation), [""; 0], "about 1 of 2");
    situation.queue.oldest_seconds = Some(25.0);
    assert_eq!(only(&situation).id, "requests_will_expire", "its age shows it");
    (situation.queue.depth, situation.queue.oldest_seconds) = (6, None);
    assert!(only(&situation).text.starts_with("about 3 of 6"), "{:?}", only(&situation));
}

/// Attempts that fail take nobody out of the queue for good.
#[test]
fn m03_failed_attempts_empty_no_queue() {
    let mut situation = well();
    situation.queue.depth = 1;
    let drain = |requeued: u64| {
        let mut trends = Trends::default();
        let sample = |second: u64| Sample {
            granted: 2 * second,
            requeued: requeued * second,
            depth: 1,
            ..at(second)
        };
        (0..5).for_each(|second| _ = trends.judge(situation.clone(), sample(second)));
        let page = trends.judge(situation.clone(), sample(5));
        (page.situation.queue.drains_in_seconds, page.situation.queue.starting_per_second)
    };
    assert_eq!([drain(2), drain(1), drain(0)], [(None, 0.0), (Some(1.0), 1.0), (Some(0.5), 2.0)]);
}
