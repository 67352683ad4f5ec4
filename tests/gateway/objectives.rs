//! O03: requests that can still have their first token in time go first in their flow, and a line
//! that stands is refused at the door.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::call::Response;
use crate::support::gateway::ONE;
use crate::support::queueing::{self, order_of, succeed};
use crate::support::scripted_response::{delta, event};
use crate::support::wait::BOUND;
use crate::support::{Backend, Gateway, ScriptedResponse, Stopwatch, chat};

/// The order in which a hasty and a patient request of this band are served.
fn order(section: &str, band: &str, late: bool) -> Vec<String> {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(&format!("{section}{ONE}"), &backend, &chat("m"));
    queueing::order_by_objective(&gateway, &backend, running, (band, late))
}

#[test]
fn o03_a_request_that_can_be_in_time_overtakes_a_late_one_of_its_flow() {
    assert_eq!(order("", "normal", true), ["patient", "hasty"]);
    assert_eq!(order("", "best-effort", false), ["hasty", "patient"]);
    let by_band = "[queue]\nslo_ttft_by_band = { best_effort = \"10s\" }\n";
    assert_eq!(order(by_band, "best-effort", true), ["patient", "hasty"]);
}

#[test]
fn o03_without_an_objective_the_order_of_arrival_stays() {
    let off = "[queue]\nslo_ttft = \"0s\"\n";
    assert_eq!(order(off, "normal", false), ["hasty", "patient"]);
    let by_band = "[queue]\nslo_ttft_by_band = { normal = \"0s\" }\n";
    assert_eq!(order(by_band, "normal", false), ["hasty", "patient"]);
    let of_flow = "[[flows]]\nmatch = { model = \"m\" }\nslo_ttft = \"0s\"\n";
    assert_eq!(order(of_flow, "normal", false), ["hasty", "patient"]);
}

/// Fresh requests of a flow go in the order in which their clients want the first token.
#[test]
fn o03_a_stricter_objective_goes_first_and_a_laxer_one_waits() {
    let ask = |tag: &str| chat("m").tag(tag);
    let asks = [
        ask("lax").header("x-slo-ttft-ms", "600000"),
        ask("none"),
        ask("strict").header("x-slo-ttft-ms", "30000"),
    ];
    let minute = format!("[queue]\nslo_ttft = \"60s\"\n{ONE}");
    assert_eq!(order_of(&minute, &Backend::held(), &asks), ["strict", "none", "lax"]);
    let off = format!("[queue]\nslo_ttft = \"0s\"\n{ONE}");
    assert_eq!(order_of(&off, &Backend::held(), &asks), ["lax", "none", "strict"]);
}

/// A deadline says when the client leaves, not that it is content to be late.
#[test]
fn o03_a_distant_deadline_does_not_keep_a_request_fresh() {
    let backend = Backend::held();
    let section = format!("[queue]\nslo_ttft = \"1ms\"\n{ONE}");
    let (gateway, running) = Gateway::occupied(&section, &backend, &chat("m"));
    let day = chat("m").tag("day").header("X-Request-Timeout-Ms", "86400000");
    let day = gateway.enqueue(&day, 0);
    gateway.await_metrics("late", |metrics| match metrics.sum("tidegate_queue_late") {
        1.0 => Ok(()),
        found => Err(format!("{found} late")),
    });
    let stated = gateway.enqueue(&chat("m").tag("stated").header("x-slo-ttft-ms", "60000"), 1);
    backend.open();
    succeed([running, day, stated]);
    assert_eq!(backend.tags()[1..], ["stated", "day"]);
}

/// The first token takes 600 ms here. A client that leaves after 400 ms hears so at once, and not
/// when it has left.
#[test]
fn o03_a_request_whose_client_leaves_before_a_first_token_is_refused_at_once() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "slow" => ScriptedResponse::stream(&[&delta("word"), &event("[DONE]")]).after_ms(600),
        _ => ScriptedResponse::ok().held(),
    });
    let gateway = Gateway::before(ONE, &backend);
    assert_eq!(gateway.ask(&chat("m").tag("slow").streamed()).status, 200);
    let running = gateway.send(&chat("m"));
    backend.await_running(1);
    let leaves_after = |millis: &str| chat("m").header("X-Request-Timeout-Ms", millis);
    gateway.ask(&leaves_after("400")).refused(503, "wait_too_long");
    let patient = gateway.enqueue(&leaves_after("60000"), 0);
    backend.open();
    succeed([running, patient]);
}

/// Forty clients come back as soon as they are answered or refused, at a backend with one place and
/// 20 requests a second. For two seconds each of them waits for its whole time to live if it must.
/// Then the overload is known to last, and a request that would be late is told so.
#[test]
fn o03_in_an_overload_that_lasts_a_late_request_is_told_so() {
    let backend = Backend::start(|_| ScriptedResponse::ok().after_ms(50));
    let section = "[queue]\nqueue_ttl = \"1s\"\nslo_ttft = \"400ms\"\noverload_after = \"2s\"\n";
    let gateway = Gateway::before(&format!("{section}{ONE}"), &backend);
    let (watch, done) = (Stopwatch::start(), AtomicBool::new(false));
    let client = || {
        while !done.load(Ordering::Relaxed) && watch.elapsed() < 3 * BOUND {
            let answer = gateway.ask(&chat("m"));
            if answer.status == 503 && answer.code() != "queue_timeout" {
                done.store(true, Ordering::Relaxed);
                return Some((watch.elapsed(), answer));
            }
        }
        None
    };
    let refusals: Vec<(Duration, Response)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..40).map(|_| scope.spawn(client)).collect();
        clients.into_iter().filter_map(|client| client.join().unwrap()).collect()
    });
    let (after, refused) = refusals.first().expect("a refusal of a late request");
    refused.refused(503, "wait_too_long");
    assert!(*after >= Duration::from_secs(2), "{after:?}");
    assert!(refused.retry_after() <= 3, "the line is a second long: {}", refused.retry_after());
}

/// P07: the same overload of critical requests refuses none of them. Whoever is not served waits
/// for its whole time to live.
#[test]
fn p07_critical_requests_are_never_refused_for_being_late() {
    let backend = Backend::start(|_| ScriptedResponse::ok().after_ms(50));
    let section = "[queue]\nqueue_ttl = \"1s\"\nslo_ttft = \"400ms\"\noverload_after = \"100ms\"\n\
                   refuse_hopeless = true\n";
    let gateway = Gateway::before(&format!("{section}{ONE}"), &backend);
    let client = || {
        let asks = std::iter::repeat_with(|| chat("m").header("x-priority", "critical"));
        asks.take(4).map(|ask| gateway.ask(&ask)).collect::<Vec<Response>>()
    };
    let answers: Vec<Response> = thread::scope(|scope| {
        let clients: Vec<_> = (0..40).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let (served, others): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 200);
    let codes: Vec<String> = others.iter().map(|answer| answer.code()).collect();
    assert!(codes.iter().all(|code| code == "queue_timeout"), "{codes:?}");
    assert!(!served.is_empty() && !codes.is_empty(), "{} served, {codes:?}", served.len());
}
