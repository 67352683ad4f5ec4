//! Servers without metrics and clients that do not stream: what the times of whole responses show,
//! and what advice holds there.

use super::chains::with_refusals;
use super::*;

/// The keys that fix the bounds of each backend.
const KEYS: &str = "watermark_per_backend, lower_bound_per_backend and upper_bound_per_backend";

/// Two alike backends with a fixed watermark. Their responses take so long.
fn whole(watermark: f64, in_flight: u32, (millis, tokens): (f64, f64)) -> Situation {
    let mut situation = well();
    (situation.stock.mode, situation.stock.unit) = ("fixed", "requests");
    situation.queue.objective_seconds = Some(2.0);
    for backend in &mut situation.backends {
        (backend.in_flight, backend.stock) = (in_flight, in_flight.into());
        backend.watermark = watermark;
        (backend.first_byte_ms, backend.latency_ms) = (Some(millis), Some(millis));
        (backend.output_tokens, backend.stream_first_byte_is_old) = (Some(tokens), true);
    }
    situation
}

/// The findings after ten quick seconds and as many like this.
fn after_quick(quick: Situation, now: &Situation) -> Vec<StatusFinding> {
    let mut trends = Trends::default();
    (0..10).for_each(|second| _ = trends.judge(quick.clone(), at(second)));
    (10..20).for_each(|second| _ = trends.judge(now.clone(), at(second)));
    trends.judge(now.clone(), at(20)).findings
}

#[test]
fn m03_a_high_watermark_is_named_by_the_times_of_whole_responses() {
    let quick = || whole(64.0, 30, (500.0, 20.0));
    let slow = whole(64.0, 30, (3600.0, 20.0));
    let found = after_quick(quick(), &slow);
    assert_eq!(found.len(), 1, "{found:?}");
    let text = "the watermark of 64 may be too high for gpu-a: 30 requests are there, and a \
                response of 20 tokens takes 3.6 s instead of 500 ms, as if about 4 ran at once; \
                the same at gpu-b";
    assert_eq!((found[0].id, found[0].text.as_str()), ("watermark_too_high", text));
    assert!(found[0].advice.contains(KEYS), "{}", found[0].advice);
    let named = |change: fn(&mut BackendCondition)| {
        let mut situation = slow.clone();
        situation.backends.iter_mut().for_each(change);
        after_quick(quick(), &situation).iter().any(|one| one.id == "watermark_too_high")
    };
    assert!(named(|_| ()));
    assert!(!named(|one| one.in_flight = 7), "few requests");
    assert!(!named(|one| one.latency_ms = Some(1900.0)), "full batches take longer");
    assert!(!named(|one| one.latency_ms = None), "no response of late");
    assert!(!named(|one| one.output_tokens = Some(200.0)), "longer responses");
    assert!(!named(|one| one.engine = Some(EngineState::default())), "its metrics are read");
    let short = after_quick(whole(64.0, 30, (50.0, 20.0)), &whole(64.0, 30, (300.0, 20.0)));
    assert!(short.is_empty(), "the wait inside is short: {short:?}");
}

/// Under automatic bounds the places that an operator has told are judged like a watermark.
#[test]
fn m03_places_that_are_told_too_high_are_named_by_the_times_of_whole_responses() {
    let told = |millis| {
        let mut situation = whole(64.0, 30, (millis, 20.0));
        situation.stock.mode = "auto";
        situation.backends.iter_mut().for_each(|backend| backend.places = Some(64));
        situation
    };
    let found = after_quick(told(500.0), &told(3600.0));
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!(finding.id, "watermark_too_high");
    assert!(finding.text.starts_with("places = 64 may be too high for gpu-a: 30 requests"));
    assert!(finding.advice.starts_with("Set `places` of the backend"), "{}", finding.advice);
    assert!(after_quick(told(500.0), &told(600.0)).is_empty());
}

/// Of two backends only one takes longer, so the watermark is not the reason.
#[test]
fn m03_a_backend_that_is_slow_alone_has_no_wrong_watermark() {
    let quick = whole(64.0, 30, (500.0, 20.0));
    let mut slow = quick.clone();
    slow.backends[1].latency_ms = Some(3600.0);
    let found = after_quick(quick, &slow);
    assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), ["backend_slow"]);
}

/// Two backends of which nothing is known, at a limit that is a guess.
fn guessed() -> Situation {
    let mut situation = whole(3.0, 3, (512.0, 20.0));
    situation.stock.mode = "auto";
    (situation.queue.depth, situation.queue.oldest_seconds) = (24, Some(9.0));
    situation.models =
        vec![ModelState { name: "m".into(), queue_depth: 24, ..ModelState::default() }];
    situation
}

#[test]
fn m03_a_guessed_limit_that_lets_requests_wait_is_named() {
    let page = after(6, &guessed());
    let found: Vec<_> = page.findings.iter().map(|one| (one.id, one.text.as_str())).collect();
    let text = "gpu-a tells no metrics and its responses do not stream, so its places cannot be \
                found: its limit of 3 requests is a guess, and requests wait; the same at gpu-b";
    assert_eq!(found, [("places_unknown", text)]);
    assert_eq!(page.level, Level::Warning);
    let advice = &page.findings[0].advice;
    assert!(advice.starts_with("Set `places` of the backend"), "{advice}");
    let level = |change: fn(&mut Situation)| {
        let mut situation = guessed();
        change(&mut situation);
        findings(&situation).first().map(|one| one.level)
    };
    assert_eq!(level(|one| one.queue.oldest_seconds = Some(0.4)), Some(Level::Note), "short waits");
    assert_eq!(level(|one| one.models[0].queue_depth = 0), None, "none of its requests waits");
    let below = |one: &mut Situation| one.backends.iter_mut().for_each(|each| each.in_flight = 2);
    assert_eq!(level(below), None, "another limit holds them back");
}

#[test]
fn m03_waits_at_a_guessed_limit_point_to_it() {
    let mut situation = guessed();
    situation.queue.mean_drain_seconds = Some(60.0);
    let found = findings(&situation);
    let expire = found.iter().find(|one| one.id == "requests_will_expire").unwrap();
    assert_eq!(expire.advice, "See places_unknown: a backend may have free places.");
    situation.refusals =
        vec![RefusalCount { reason: "queue_timeout", total: 9, last_minute: 9, of_work: 9 }];
    let found = findings(&situation);
    let refused = found.iter().find(|one| one.id == "requests_refused").unwrap();
    assert_eq!(refused.advice, "See places_unknown: it explains these refusals.");
}

/// All backends without metrics have the same trouble, also those with few requests.
#[test]
fn m03_backends_whose_places_cannot_be_found_are_one_finding() {
    let mut situation = guessed();
    (situation.queue.depth, situation.models[0].queue_depth) = (0, 0);
    situation.backends[1].in_flight = 12;
    let text = &after(6, &situation).findings[0].text;
    assert!(text.starts_with("gpu-b tells") && text.ends_with("; the same at gpu-a"), "{text}");
    assert!(
        text.contains("12 requests are in flight there, and a response takes 512 ms"),
        "{text}"
    );
}

#[test]
fn m03_advice_about_a_watermark_names_all_keys_and_promises_no_more_than_holds() {
    let mut low = whole(1.0, 1, (547.0, 20.0));
    (low.queue.depth, low.queue.oldest_seconds) = (24, Some(9.0));
    low.models = guessed().models;
    let finding = findings(&low).into_iter().find(|one| one.id == "watermark_too_low").unwrap();
    assert!(finding.advice.starts_with(&format!("Set {KEYS}")), "{}", finding.advice);
    let blind = "Without metrics and without streams the gateway cannot find it";
    assert!(finding.advice.contains(blind), "{}", finding.advice);
}

/// How many requests the servers can run is not known, so the watermark may be the reason.
#[test]
fn m03_a_watermark_that_is_reached_everywhere_stands_in_the_advice() {
    let mut low = whole(2.0, 2, (518.0, 20.0));
    (low.queue.depth, low.queue.mean_drain_seconds) = (58, Some(90.0));
    let advice = |situation: &Situation| {
        let found = findings(situation);
        found.into_iter().find(|one| one.id == "requests_will_expire").unwrap().advice
    };
    let told = advice(&low);
    let reached = "The configured watermark of 2 is reached at every backend";
    assert!(told.contains(reached) && told.contains(KEYS), "{told}");
    let mut free = low.clone();
    free.backends[1].stock = 1;
    assert!(!advice(&free).contains("watermark"), "one has a place");
    let full = EngineState { running: 2, running_max: Some(2), ..EngineState::default() };
    low.backends.iter_mut().for_each(|backend| backend.engine = Some(full));
    assert!(!advice(&low).contains("watermark"), "the engines run no more");
}

/// A backend with three requests that has sent nothing for so long.
fn silent(watched: u32) -> BackendCondition {
    BackendCondition {
        in_flight: 3,
        silent_seconds: Some(20.0),
        first_byte_ms: Some(200.0),
        watched,
        ..backend("gpu-b")
    }
}

#[test]
fn m03_a_backend_that_hangs_is_told_with_what_the_gateway_will_do() {
    let mut situation = with_second(silent(0));
    let kept = "The gateway leaves these requests there: they neither stream nor have max_tokens";
    let advice = only(&situation).advice;
    assert!(advice.starts_with("Restart the model server at http://gpu-b:8000"), "{advice}");
    assert!(advice.contains(kept) && !advice.contains("elsewhere"), "{advice}");
    situation.backends[1] = silent(3);
    assert_eq!(only(&situation).level, Level::Warning, "the other one serves");
    let advice = only(&situation).advice;
    assert!(advice.ends_with("and sends its requests elsewhere."), "{advice}");
    situation.backends[1] = silent(2);
    let advice = only(&situation).advice;
    assert!(advice.ends_with("except those that neither stream nor have max_tokens."), "{advice}");
    situation.backends.remove(0);
    (situation.backends_ready, situation.backends_total) = (1, 1);
    let finding = only(&situation);
    assert_eq!((finding.id, finding.level), ("backend_hung", Level::Trouble));
    assert!(!finding.advice.contains("elsewhere"), "{}", finding.advice);
}

#[test]
fn m03_a_backend_that_hangs_comes_before_its_consequences() {
    let mut situation = with_second(silent(0));
    situation.backends.remove(0);
    (situation.backends_ready, situation.backends_total) = (1, 1);
    (situation.queue.depth, situation.queue.oldest_seconds) = (120, Some(29.0));
    let page = with_refusals(30, &situation);
    let found: Vec<_> = page.findings.iter().map(|one| (one.id, one.advice.as_str())).collect();
    let ids: Vec<_> = found.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, ["backend_hung", "requests_refused", "requests_will_expire"]);
    assert_eq!(found[1].1, "See backend_hung: it explains these refusals.");
    assert_eq!(found[2].1, "See backend_hung: it explains these waits.");
    assert!(page.sentence.contains("120 requests wait"), "{}", page.sentence);
}

/// Lengths of responses decide how long they take, but not by such a factor over many of them.
#[test]
fn m03_a_backend_far_slower_than_its_peers_is_named_without_lengths() {
    let mut situation = well();
    situation.backends.push(backend("gpu-c"));
    (situation.backends_ready, situation.backends_total) = (3, 3);
    for (backend, millis) in situation.backends.iter_mut().zip([5100.0, 500.0, 480.0]) {
        (backend.latency_ms, backend.usual_first_byte_ms) = (Some(millis), Some(millis));
        backend.answered_per_minute = 40.0;
    }
    let finding = only(&situation);
    let text = "gpu-a may be slow: its responses take 5.1 s, and those of its peers 500 ms; their \
                lengths are not known";
    assert_eq!((finding.id, finding.text.as_str()), ("backend_slow", text));
    let mut trends = Trends::default();
    let sample = |second: u64| {
        let attempts = ["gpu-a", "gpu-b", "gpu-c"].map(|id| (Arc::from(id), [4 * second, 0]));
        Sample { attempts: attempts.into(), ..at(second) }
    };
    for second in 0..12 {
        let page = trends.judge(situation.clone(), sample(second));
        assert!(page.findings.is_empty(), "{second} s: a few long responses are no finding");
    }
    let page = trends.judge(situation.clone(), sample(12));
    assert_eq!(page.findings[0].id, "backend_slow", "it holds since the eighth response");
    let with = |change: fn(&mut BackendCondition)| {
        let mut situation = situation.clone();
        change(&mut situation.backends[0]);
        ids(&situation)
    };
    assert_eq!(with(|one| one.answered_per_minute = 5.0), [""; 0], "a few responses");
    assert_eq!(with(|one| one.latency_ms = Some(2000.0)), [""; 0], "their lengths may differ so");
    assert_eq!(with(|one| one.usual_first_byte_ms = Some(500.0)), [""; 0], "most were fast");
    assert_eq!(with(|one| one.output_tokens = Some(900.0)), [""; 0], "its length is known");
}
