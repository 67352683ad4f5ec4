//! N05: a request that is alone at a failing backend waits for it, and one that fails beside others
//! that are served does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::gateway::{TWO, config};
use crate::support::{Backend, Gateway, ScriptedResponse, chat, eventually};

const JSON_LOG: &str = "[log]\nformat = \"json\"\n";
/// The pauses of a request before its attempts, doubled from the first to the longest, without
/// jitter.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MOST: Duration = Duration::from_secs(1);

/// A server that gives this response to all requests until the test ends the outage.
fn failing(response: ScriptedResponse) -> (Backend, Arc<AtomicBool>) {
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let backend = Backend::start(move |_| match ended.load(Ordering::SeqCst) {
        true => ScriptedResponse::ok(),
        false => response.clone(),
    });
    (backend, over)
}

/// A server that fails the requests with the tag `poison`, each when the test releases it.
fn poisoned() -> Backend {
    Backend::start(|seen| match seen.tag().as_str() {
        "poison" => ScriptedResponse::json(500, "{\"poison\":1}").held(),
        _ => ScriptedResponse::ok(),
    })
}

fn await_attempts(backend: &Backend, count: usize) {
    eventually("attempts", || match backend.seen().len() {
        enough if enough >= count => Ok(()),
        seen => Err(format!("{seen} attempts")),
    });
}

/// Nobody else is there, so nothing proves that the request is to blame. It tries again with
/// growing pauses, until the backend has recovered.
#[test]
fn n05_a_lone_request_waits_for_a_backend_that_fails() {
    let errors = [500, 502, 504].map(|status| ScriptedResponse::json(status, "{}"));
    for response in errors.into_iter().chain([ScriptedResponse::reset()]) {
        let (backend, over) = failing(response);
        let gateway = Gateway::before(TWO, &backend);
        let call = gateway.send(&chat("m"));
        // Twice as many as `retry.attempts`.
        await_attempts(&backend, 6);
        over.store(true, Ordering::SeqCst);
        let answer = call.finish();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let times: Vec<Duration> = backend.seen().iter().map(|seen| seen.at).collect();
        for (number, pair) in times.windows(2).enumerate() {
            let pause = (PAUSE_FIRST * 2u32.pow(number as u32)).min(PAUSE_MOST);
            // At least half of a pause is left by its jitter.
            assert!(pair[1] - pair[0] >= pause / 2, "no storm: {times:?}");
        }
        gateway.await_idle();
    }
}

/// It fails at both, so neither can be avoided.
#[test]
fn n05_a_lone_request_waits_for_the_first_of_two_failing_backends() {
    let [first, second] = [(); 2].map(|()| failing(ScriptedResponse::json(500, "{}")));
    let backends = [("first", first.0.address()), ("second", second.0.address())];
    let gateway = Gateway::start(&config(TWO, &backends));
    let call = gateway.send(&chat("m"));
    await_attempts(&first.0, 3);
    await_attempts(&second.0, 3);
    second.1.store(true, Ordering::SeqCst);
    let answer = call.finish();
    assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("second")));
    gateway.await_idle();
}

/// A backend that answers others is not what fails, so the attempts are bounded.
#[test]
fn n05_a_request_that_fails_beside_answered_ones_gets_the_backends_last_response() {
    let backend = poisoned();
    let gateway = Gateway::before(&format!("[retry]\nattempts = 3\n{TWO}"), &backend);
    let poison = gateway.send(&chat("m").tag("poison"));
    for attempt in 0..3 {
        // One other request was answered between two attempts.
        backend.await_seen(2 * attempt + 1);
        assert_eq!(gateway.ask(&chat("m")).status, 200);
        backend.release(1);
    }
    let answer = poison.finish();
    assert_eq!((answer.status, answer.text().as_str()), (500, "{\"poison\":1}"));
    assert_eq!(backend.tags().iter().filter(|tag| *tag == "poison").count(), 3);
    let one = gateway.backend("one");
    assert_eq!((&one["state"], &one["failures"]), (&"ready".into(), &0.into()));
    gateway.await_idle();
}

/// A response to a request from before the failure proves nothing: the backend may have broken
/// since.
#[test]
fn n05_an_answer_to_an_earlier_request_is_no_proof_against_a_later_one() {
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let backend = Backend::start(move |seen| match seen.tag().as_str() {
        "earlier" => ScriptedResponse::ok().held(),
        _ if ended.load(Ordering::SeqCst) => ScriptedResponse::ok(),
        _ => ScriptedResponse::json(500, "{}"),
    });
    let room = "[controller]\nlower_bound_per_backend = 8\nwatermark_per_backend = 8\n\
                upper_bound_per_backend = 8\n";
    let gateway = Gateway::before(room, &backend);
    let earlier: Vec<_> = (0..3).map(|_| gateway.send(&chat("m").tag("earlier"))).collect();
    backend.await_held(3);
    let lone = gateway.send(&chat("m"));
    for answered in 1..=3 {
        await_attempts(&backend, 3 + 2 * answered);
        backend.release(1);
        backend.await_held(3 - answered);
    }
    await_attempts(&backend, 3 + 7);
    over.store(true, Ordering::SeqCst);
    assert_eq!(lone.finish().status, 200);
    assert!(earlier.into_iter().all(|call| call.finish().status == 200));
    gateway.await_idle();
}

/// A server that comes back and fails the same request again is no longer waited for: the request
/// may be what ends it.
#[test]
fn n05_a_request_that_fails_at_a_restarted_server_again_is_given_up() {
    let backend = Backend::start(|_| ScriptedResponse::json(500, "{\"crash\":1}").held());
    let sections = format!("[retry]\nattempts = 2\n[health]\ninterval = \"100ms\"\n{TWO}");
    let gateway = Gateway::before(&sections, &backend);
    let call = gateway.send(&chat("m"));
    backend.await_held(1);
    backend.release(1);
    // The second attempt may be on its way when the check fails.
    backend.await_seen(2);
    backend.set_healthy(false);
    let state = |wanted: &str| {
        eventually(wanted, || match gateway.backend("one")["state"].to_string() {
            state if state.contains(wanted) => Ok(()),
            state => Err(state),
        })
    };
    state("unready");
    backend.set_healthy(true);
    state("\"ready");
    backend.release(1);
    let answer = call.finish();
    assert_eq!((answer.status, answer.text().as_str()), (500, "{\"crash\":1}"));
    assert_eq!(backend.seen().len(), 2);
}

#[test]
fn n05_the_time_to_live_the_deadline_and_the_client_end_the_wait_for_a_failing_backend() {
    let (backend, _over) = failing(ScriptedResponse::json(500, "{}"));
    let sections =
        format!("{JSON_LOG}[queue]\nqueue_ttl = \"1s\"\n[health]\neject_after = 9\n{TWO}");
    let gateway = Gateway::before(&sections, &backend);
    let answer = gateway.ask(&chat("m"));
    assert_eq!((answer.status, answer.code().as_str()), (503, "queue_timeout"));
    assert!(answer.header("retry-after").is_some());
    assert!(answer.text().contains("it answered 500"), "it says why: {}", answer.text());
    let before = backend.seen().len();
    let hurried = gateway.ask(&chat("m").header("X-Request-Timeout-Ms", "300"));
    assert_eq!(hurried.status, 504, "{}", hurried.text());
    await_attempts(&backend, before + 1);
    let leaving = gateway.send(&chat("m").header("X-Request-ID", "leaving"));
    await_attempts(&backend, backend.seen().len() + 2);
    drop(leaving);
    gateway.await_idle();
    let line = gateway.access_of("leaving");
    assert_eq!(line["outcome"], "client_closed", "{line}");
}

/// Requests that fail the backend leave its trials to requests that have not failed.
#[test]
fn n05_poisonous_requests_do_not_take_the_trials_of_sound_ones() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "poison" => ScriptedResponse::json(500, "{\"poison\":1}"),
        _ => ScriptedResponse::ok(),
    });
    let settings = format!("[health]\neject_after = 3\neject_for = \"1s\"\n{TWO}");
    let gateway = Gateway::start(&config(&settings, &[("one", backend.address())]));
    let poison = chat("m").priority("critical").with("mark", "poison");
    let poisons: Vec<_> = (0..3).map(|_| gateway.send(&poison)).collect();
    eventually("ejected", || {
        let state = gateway.get("/backends").json()[0]["state"].clone();
        if state == "ejected" { Ok(()) } else { Err(state.to_string()) }
    });
    let before = backend.seen().len();
    assert_eq!(gateway.ask(&chat("m").with("mark", "sound")).status, 200);
    assert_eq!(backend.seen()[before].tag(), "sound", "it has the first trial");
    drop(poisons);
    gateway.await_idle();
}

/// Whoever looks learns since when it has hung and how often it failed. Failed attempts are no
/// progress: no time is told until it goes.
#[test]
fn m03_n05_a_request_between_attempts_is_as_old_as_its_arrival() {
    let (backend, over) = failing(ScriptedResponse::json(500, "{}"));
    let gateway = Gateway::before(TWO, &backend);
    let call = gateway.send(&chat("m").header("X-Request-Id", "hanging"));
    // The pauses between nine attempts, each at least half as long as without jitter.
    await_attempts(&backend, 9);
    let least = 0.5 * (0.05 + 0.1 + 0.2 + 0.4 + 0.8 + 3.0);
    let page = eventually("waits again", || match gateway.get("/requests/hanging").json() {
        page if page["stage"] == "waiting" => Ok(page),
        page => Err(page.to_string()),
    });
    assert!(page["age_seconds"].as_f64().unwrap() >= least, "{page}");
    assert!(page["attempts"].as_u64().unwrap() >= 9, "{page}");
    let text = page["text"].as_str().unwrap();
    assert!(text.contains(" failed attempts; the rest of its wait is not known"), "{text}");
    gateway.await_metrics("oldest", |metrics| {
        match metrics.sum_where("tidegate_queue_oldest_seconds", "normal") {
            age if age >= least => Ok(()),
            age => Err(age.to_string()),
        }
    });
    let queue = eventually("waits", || match gateway.get("/status").json()["queue"].clone() {
        queue if queue["depth"] == 1 => Ok(queue),
        queue => Err(queue.to_string()),
    });
    assert!(queue["oldest_seconds"].as_f64().unwrap() >= least, "{queue}");
    assert!(queue["drains_in_seconds"].is_null(), "{queue}");
    over.store(true, Ordering::SeqCst);
    assert_eq!(call.finish().status, 200);
}

/// A server that works gets its trials from those that it has not failed, each time: otherwise the
/// requests that fail wherever they go would take all of them.
#[test]
fn n05_each_trial_goes_to_a_request_that_has_not_failed() {
    let backend = poisoned();
    let gateway = Gateway::before(&format!("[health]\neject_after = 1\n{TWO}"), &backend);
    let poison = chat("m").tag("poison");
    let first = gateway.send(&poison);
    backend.await_held(1);
    backend.release(1);
    eventually("ejected", || match gateway.backend("one")["state"].to_string() {
        state if state.contains("ejected") => Ok(()),
        state => Err(state),
    });
    // The first trial is one that fails, too. It takes so long that the other one is back.
    let second = gateway.send(&poison);
    backend.await_held(1);
    let good = gateway.enqueue(&chat("m").tag("good"), 1);
    eventually("a while", || {
        let waiting = gateway.get("/requests").json()["waiting"].clone();
        let ages = waiting.as_array().unwrap().iter();
        let youngest = ages.map(|ask| ask["age_seconds"].as_f64().unwrap()).fold(9.0, f64::min);
        if youngest > 0.3 { Ok(()) } else { Err(waiting.to_string()) }
    });
    backend.release(1);
    let answer = good.finish();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(backend.tags()[..3], ["poison", "poison", "good"]);
    drop((first, second));
    gateway.await_idle();
}
