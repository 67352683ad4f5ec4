//! The queue behind Envoy: bands, fairness, times to live, and clients that leave.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::support::envoy::Recipe;
use crate::support::gateway::{ONE, TWO, config};
use crate::support::tools::tool;
use crate::support::{
    Backend, Call, Engine, Nowhere, Picker, ScriptedResponse, Stopwatch, chat, queueing,
};

const TEAMS: &str = "flow_by = [\"header:x-team\"]\n";

/// A picker with one request at its only backend, so that all others wait.
fn occupied(sections: &str, backend: &Backend) -> (Picker, Call) {
    let first = chat("m").tag("running").priority("critical");
    Picker::occupied(&format!("{sections}{ONE}"), backend, &first)
}

#[test]
fn x02_p03_higher_bands_go_first_and_each_in_order_of_arrival() {
    let backend = Backend::held();
    let (picker, running) = occupied("", &backend);
    queueing::check_bands(&picker, &backend, running);
}

#[test]
fn x02_p02_objectives_and_numbers_set_the_band_in_both_spellings() {
    let backend = Backend::held();
    let sections = "[[objectives]]\nname = \"chat-critical\"\nband = \"critical\"\n\
        [[objectives]]\nname = \"batch\"\npriority = -1\n";
    let (picker, running) = occupied(sections, &backend);
    let objective = |header: &str, name: &str| chat("m").tag(name).header(header, name);
    let (new, old) = ("x-llm-d-inference-objective", "x-gateway-inference-objective");
    let asks = [(new, "batch"), (old, "-7"), (old, "nobody"), (new, "5"), (old, "chat-critical")];
    let mut calls = vec![running];
    for (others, (header, name)) in asks.into_iter().enumerate() {
        calls.push(picker.enqueue(&objective(header, name), others));
    }
    let waiting = picker.get("/health").json()["queue"]["waiting"].clone();
    assert_eq!(waiting, json!({"critical": 1, "high": 1, "normal": 1, "best_effort": 2}));
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    assert_eq!(backend.tags()[1..], ["chat-critical", "5", "nobody", "batch", "-7"]);
}

#[test]
fn x02_p05_a_higher_newcomer_takes_the_newest_place_of_the_lowest_band() {
    let backend = Backend::held();
    let (picker, running) = occupied(&format!("[queue]\ntotal_capacity = 2\n{TEAMS}"), &backend);
    let team = |tag: &str, team: &str, band: &str| {
        chat("m").tag(tag).header("x-team", team).priority(band)
    };
    let old = picker.enqueue(&team("old", "a", "best-effort"), 0);
    let new = picker.enqueue(&team("new", "a", "best-effort"), 1);
    let high = picker.send(&team("high", "c", "high"));
    new.finish().refused(503, "preempted");
    backend.open();
    assert!([running, high, old].into_iter().all(|call| call.finish().status == 200));
    assert_eq!(backend.tags(), ["running", "high", "old"]);
    picker.await_idle();
}

#[test]
fn x02_q07_all_bands_of_a_flow_share_its_capacity() {
    let backend = Backend::held();
    let (picker, running) = occupied("[queue]\nflow_capacity = 3\n", &backend);
    queueing::check_flow_capacity(&picker, &backend, running);
}

#[test]
fn x02_o03_a_request_that_can_be_in_time_overtakes_a_late_one_of_its_flow() {
    for (section, late, first) in
        [("", true, "patient"), ("[queue]\nslo_ttft = \"0s\"\n", false, "hasty")]
    {
        let backend = Backend::held();
        let (picker, running) = occupied(section, &backend);
        let order = queueing::order_by_objective(&picker, &backend, running, ("normal", late));
        assert_eq!(order[0], first);
    }
}

#[test]
fn x02_w01_a_criticality_counts_without_an_id_and_ids_are_logged() {
    let backend = Backend::held();
    let sections = "[queue]\norder = \"workload\"\n[log]\nformat = \"json\"\n";
    let (picker, running) = occupied(sections, &backend);
    queueing::check_workload_context(&picker, &backend, running);
}

#[test]
fn x02_q01_flows_share_fairly_by_their_fairness_ids() {
    let backend = Backend::held();
    let (picker, running) = occupied("[queue]\nflow_by = [\"fairness_id\"]\n", &backend);
    let spellings = ["x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"];
    let ask = |team: &str, number: usize| chat("m").header(spellings[number % 2], team);
    queueing::check_fair_share(&picker, &backend, running, ask);
}

#[test]
fn x02_c02_and_c03_bypass_fills_to_three_and_refill_to_two() {
    let backend = Backend::held();
    let sections = "[controller]\nwatermark_per_backend = 2\n";
    queueing::check_bypass_and_refill(&Picker::before(sections, &backend), &backend);
}

#[test]
fn x02_q08_the_time_to_live_ends_the_wait() {
    let backend = Backend::held();
    let (picker, running) = occupied("[queue]\nqueue_ttl = \"300ms\"\n", &backend);
    picker.ask(&chat("m")).refused(503, "queue_timeout");
    let longer = picker.ask(&chat("m").header("x-llm-d-inference-ttl", "3600"));
    longer.refused(503, "queue_timeout");
    let reason = longer.header("x-llm-d-request-dropped-reason");
    assert_eq!(reason, Some("rejected-ttl-expired"));
    backend.open();
    assert_eq!(running.finish().status, 200);
    picker.await_idle();
}

#[test]
fn x02_c11_responses_state_headroom_and_load_if_configured() {
    let backend = Backend::held();
    let options = "[server]\nheadroom_headers = true\norca = true\n[queue]\ntotal_capacity = 4\n";
    queueing::check_headroom(&Picker::before(&format!("{options}{ONE}"), &backend), &backend);
}

/// The times that client libraries and Envoy state are deadlines, in the picker as in `serve`.
#[test]
fn x02_the_timeouts_of_client_libraries_end_the_wait() {
    let backend = Backend::held();
    let (picker, running) = occupied("", &backend);
    queueing::check_stated_timeouts(&picker);
    backend.open();
    assert_eq!(running.finish().status, 200);
    picker.await_idle();
}

#[test]
fn x02_q08_a_client_may_shorten_its_time_to_live() {
    let backend = Backend::held();
    let (picker, running) = occupied("[queue]\nqueue_ttl = \"1h\"\n", &backend);
    picker.ask(&chat("m").header("x-llm-d-inference-ttl", "0.2")).refused(503, "queue_timeout");
    let late = picker.ask(&chat("m").header("X-Request-Timeout-Ms", "100"));
    assert_eq!((late.status, late.code().as_str()), (504, "deadline_exceeded"));
    backend.open();
    assert_eq!(running.finish().status, 200);
    picker.await_idle();
}

#[test]
fn x02_q09_a_client_that_leaves_the_queue_is_missed_at_once() {
    let backend = Backend::held();
    let (picker, running) = occupied("", &backend);
    let waiting: Vec<_> = (0..5).map(|others| picker.enqueue(&chat("m"), others)).collect();
    let url = format!("{}/v1/chat/completions", picker.url());
    let body = String::from_utf8(chat("m").body).unwrap();
    let mut curl = tool("curl");
    curl.args(["-sS", "--http2-prior-knowledge", &url, "-d", &body]).stdin(Stdio::null());
    let mut curl = curl.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    picker.await_depth(6);
    let watch = Stopwatch::start();
    drop(waiting);
    curl.kill().unwrap();
    picker.await_depth(0);
    assert!(watch.elapsed() < Duration::from_secs(10), "not when their time to live was over");
    curl.wait().unwrap();
    backend.open();
    assert_eq!(running.finish().status, 200);
    picker.await_idle();
    assert_eq!(backend.seen().len(), 1, "none of them was served");
}

#[test]
fn x02_q09_a_client_that_leaves_its_response_makes_room() {
    let backend = Backend::start(|_| ScriptedResponse::stream_held(&["one ", "two "]));
    queueing::check_client_leaves_stream(&Picker::before(ONE, &backend), &backend);
}

#[test]
fn x02_c07_one_model_never_blocks_another() {
    let (slow, quick) = (Backend::held(), Backend::quick());
    let config = queueing::config_of_two_models(ONE, &slow, &quick);
    queueing::check_models_do_not_block(&Picker::start(Recipe::original_dst(), &config), &slow);
}

#[test]
fn x02_c07_without_a_ready_backend_requests_wait_for_the_first() {
    let nowhere = Nowhere::reserve();
    let sections = format!("{TWO}[health]\ninterval = \"100ms\"\n");
    let config = config(&sections, &[("one", nowhere.address())]);
    let picker = Picker::launch(Recipe::original_dst(), &config);
    queueing::check_wait_for_the_first_backend(&picker, nowhere);
}

#[test]
fn x02_c01_many_requests_are_served_within_the_bounds() {
    let pace = ["--service-time", "20ms", "--max-num-seqs", "16", "--model", "m"];
    let engines = [Engine::start(&pace), Engine::start(&pace)];
    let sections = format!("[queue]\n{TEAMS}{TWO}");
    let addresses = [("a", engines[0].address()), ("b", engines[1].address())];
    let picker = Picker::start(Recipe::original_dst(), &config(&sections, &addresses));
    let bands = ["best-effort", "normal", "high", "critical"];
    let ask = |number: usize| {
        let ask = chat("m").header("x-team", &format!("t{}", number % 5));
        let ask = ask.priority(bands[number % bands.len()]).with("max_tokens", 4);
        if number.is_multiple_of(3) { ask.streamed() } else { ask }
    };
    let calls: Vec<_> = (0..160).map(|number| picker.send(&ask(number))).collect();
    for call in calls {
        let answer = call.finish();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let counters = engines.map(|engine| engine.control());
    assert_eq!(counters.iter().map(|seen| seen["received"].as_u64().unwrap()).sum::<u64>(), 160);
    for seen in counters {
        // An answer's last byte is out before its place is free again, so three may meet there.
        assert!(seen["max_in_flight_seen"].as_u64().unwrap() <= 3, "{seen}");
        assert!(seen["received"].as_u64().unwrap() > 40, "both take part: {seen}");
    }
    picker.await_idle();
}
