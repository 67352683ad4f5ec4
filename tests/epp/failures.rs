//! A server, the picker or Envoy fails: no request stays counted that is gone.

use std::net::SocketAddr;

use crate::support::call::Response;
use crate::support::gateway::{ONE, TWO, config};
use crate::support::scripted_response::Step;
use crate::support::{Backend, Picker, Recipe, ScriptedResponse, chat, eventually};

/// The picker learns of a loss from requests alone.
const UNWATCHED: &str = "[health]\ninterval = \"1h\"\n";

/// Two backends by their names.
fn two(sections: &str, addresses: [SocketAddr; 2]) -> String {
    config(sections, &[("one", addresses[0]), ("two", addresses[1])])
}

#[test]
fn x02_a_lost_server_costs_nothing_where_the_list_names_another() {
    let (one, two_) = (Backend::quick(), Backend::quick());
    let addresses = [one.address(), two_.address()];
    let sections = format!("[epp]\nfallbacks = 1\n{UNWATCHED}{TWO}");
    let picker = Picker::start(Recipe::override_host(&addresses), &two(&sections, addresses));
    one.stop();
    for size in [1_024, 3 << 20, 1_024, 1_024] {
        let answer = picker.ask(&super::chat_of(size));
        let told = (answer.status, answer.header("x-backend-used"));
        assert_eq!(told, (200, Some("two")), "{}", answer.text());
    }
    assert_eq!(two_.seen().len(), 4);
    picker.await_idle();
    let attempts = picker.metrics().sum_where("tidegate_backend_attempts_total", "\"one\"");
    assert!(attempts > 0.0, "it is told that the first one failed");
}

/// Wherever they were sent, both are at the one that is left, and count there.
#[test]
fn x02_r03_a_response_counts_at_the_backend_that_serves_it() {
    let (one, two_) =
        (Backend::quick(), Backend::start(|_| ScriptedResponse::stream_held(&["a", "b"])));
    let addresses = [one.address(), two_.address()];
    let sections = format!("[epp]\nfallbacks = 1\n{UNWATCHED}{TWO}");
    let picker = Picker::start(Recipe::override_host(&addresses), &two(&sections, addresses));
    one.stop();
    let mut calls = [0, 1].map(|_| picker.send(&chat("m").streamed()));
    assert!(calls.iter_mut().all(|call| call.head().status == 200));
    let at = |name| picker.metrics().sum_where("tidegate_backend_in_flight", name);
    assert_eq!((at("one"), at("two")), (0.0, 2.0));
    two_.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    picker.await_idle();
}

#[test]
fn x02_a_lost_server_is_an_error_where_there_is_no_other() {
    let backend = Backend::quick();
    let log = "[log]\nformat = \"json\"\n";
    let picker = Picker::before(&format!("{log}{UNWATCHED}{TWO}"), &backend);
    assert_eq!(picker.ask(&chat("m")).status, 200);
    backend.stop();
    assert_eq!(picker.ask(&chat("m")).status, 503);
    eventually("told as a failure", || {
        let outcome = picker.last_access()["outcome"].clone();
        if outcome == "backend_error" { Ok(()) } else { Err(outcome.to_string()) }
    });
    picker.await_idle();
    assert_eq!(picker.backend("one")["failures"], 1, "what Envoy says for it is its failure");
    let again = Backend::start_at(backend.address(), |_| ScriptedResponse::ok());
    assert_eq!(picker.ask(&chat("m")).status, 200, "it is tried again");
    assert_eq!(again.seen().len(), 1);
    picker.await_idle();
}

#[test]
fn x02_c01_a_truncated_response_makes_room() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "dies" => ScriptedResponse::stream_begun("a").then(Step::Hold).then(Step::Reset),
        "refuses" => ScriptedResponse::reset(),
        _ => ScriptedResponse::ok(),
    });
    let picker = Picker::before(&format!("{UNWATCHED}{ONE}"), &backend);
    let mut dying = picker.send(&chat("m").tag("dies").streamed());
    assert!(dying.chunk().is_some());
    let next = picker.enqueue(&chat("m").tag("next"), 0);
    backend.open();
    assert!(dying.answer().is_err(), "it was cut");
    assert_eq!(next.finish().status, 200);
    assert_eq!(picker.ask(&chat("m").tag("refuses")).status, 503);
    picker.await_idle();
}

#[test]
fn x02_a_client_that_leaves_before_its_response_is_logged_so() {
    for recipe in [Recipe::original_dst(), Recipe::heads_only()] {
        let backend = Backend::held();
        let sections = format!("[log]\nformat = \"json\"\n{ONE}");
        let picker = Picker::start(recipe, &config(&sections, &[("one", backend.address())]));
        let call = picker.send(&chat("m"));
        backend.await_running(1);
        drop(call);
        backend.await_left(1);
        picker.await_idle();
        let line = picker.last_access();
        assert_eq!((&line["outcome"], &line["status"]), (&"client_closed".into(), &499.into()));
    }
}

#[test]
fn x02_without_the_picker_envoy_serves_on_and_takes_it_back() {
    let (one, two_) = (Backend::quick(), Backend::quick());
    let addresses = [one.address(), two_.address()];
    let config = two(ONE, addresses);
    let mut picker = Picker::start(Recipe::override_host(&addresses), &config);
    let used = picker.ask(&chat("m"));
    assert!(used.header("x-backend-used").is_some(), "{:?}", used.headers);
    picker.gateway.process.kill();
    picker.envoy.await_picker(false);
    await_served(&picker, |answer| answer.header("x-backend-used").is_none());
    for size in [1_024, 3 << 20, 1_024, 1_024] {
        let answer = picker.ask(&super::chat_of(size));
        let told = (answer.status, answer.header("x-backend-used"));
        assert_eq!(told, (200, None), "{}", answer.text());
    }
    picker.restart(&config);
    picker.envoy.await_picker(true);
    await_served(&picker, |answer| answer.header("x-backend-used").is_some());
    picker.await_idle();
}

/// Waits until requests are served like this: Envoy's workers hear of its picker later than the
/// page that tells of it.
fn await_served(picker: &Picker, like_this: impl Fn(&Response) -> bool) {
    eventually("served as it should be", || {
        let answer = picker.ask(&chat("m"));
        let good = answer.status == 200 && like_this(&answer);
        if good { Ok(()) } else { Err(format!("{} {:?}", answer.status, answer.headers)) }
    });
}

#[test]
fn x02_without_the_picker_nothing_is_served_where_only_it_knows_the_servers() {
    let backend = Backend::held();
    let config = config(ONE, &[("one", backend.address())]);
    let mut picker = Picker::start(Recipe::original_dst(), &config);
    let running = picker.send(&chat("m"));
    backend.await_running(1);
    let waiting = picker.enqueue(&chat("m"), 0);
    picker.gateway.process.kill();
    for call in [running, waiting] {
        assert_eq!(call.finish().status, 500);
    }
    assert_eq!(picker.ask(&chat("m")).status, 500);
    backend.open();
    picker.restart(&config);
    assert_eq!(picker.ask(&chat("m")).status, 200);
    picker.await_idle();
}

#[test]
fn x02_without_envoy_nothing_stays_counted() {
    let backend = Backend::start(|seen| match seen.tag().as_str() {
        "streams" => ScriptedResponse::stream_held(&["one ", "two "]),
        _ => ScriptedResponse::ok().held(),
    });
    let mut picker = Picker::before(TWO, &backend);
    let mut streaming = picker.send(&chat("m").tag("streams").streamed());
    backend.release(1);
    assert!(streaming.chunk().is_some());
    let running = picker.send(&chat("m"));
    backend.await_running(2);
    let waiting: Vec<_> = (0..20).map(|others| picker.enqueue(&chat("m"), others)).collect();
    picker.envoy.kill();
    backend.await_left(2);
    picker.await_idle();
    drop((streaming, running, waiting));
    backend.open();
    picker.restart_envoy();
    let answer = picker.ask(&chat("m"));
    assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("one")));
    picker.await_idle();
}
