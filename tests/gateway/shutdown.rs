//! N07: the shutdown of the gateway, and the source's stories about it.

use std::net::TcpStream;

use serde_json::Value;

use crate::support::gateway::{ONE, config};
use crate::support::keys::Keys;
use crate::support::scripted_response::Step;
use crate::support::{
    Backend, Call, Gateway, HttpRequest, ScriptedResponse, Stopwatch, chat, eventually,
};

#[test]
fn n_s5_1_and_n_s5_3_waiting_requests_get_503_and_running_ones_finish() {
    let backend = Backend::held();
    let mut gateway = Gateway::before(ONE, &backend);
    let running = gateway.send(&chat("m").tag("running"));
    backend.await_running(1);
    let waiting: Vec<_> = (0..3).map(|others| gateway.enqueue(&chat("m"), others)).collect();
    gateway.process.signal("TERM");
    for call in waiting {
        call.finish().refused(503, "shutting_down");
    }
    backend.open();
    assert_eq!(running.finish().status, 200);
    assert!(gateway.process.exit().success());
    assert_eq!(backend.tags(), ["running"]);
}

#[test]
fn n_s5_2_no_new_request_is_accepted_during_shutdown() {
    let backend = Backend::held();
    let mut gateway = Gateway::before(ONE, &backend);
    let running = gateway.send(&chat("m"));
    backend.await_running(1);
    let mut kept = Call::open(gateway.address(), b"");
    let waiting = gateway.enqueue(&chat("m"), 0);
    gateway.process.signal("INT");
    waiting.finish().refused(503, "shutting_down");
    // The connection is closed or refused, or gets a response; it never waits.
    let told = kept.send(&chat("m").bytes_kept()).and_then(|()| kept.answer());
    if let Ok(answer) = told {
        answer.refused(503, "shutting_down");
    }
    if TcpStream::connect(gateway.address()).is_ok() {
        let mut late = Call::open(gateway.address(), b"");
        if let Ok(answer) = late.send(&chat("m").bytes()).and_then(|()| late.answer()) {
            answer.refused(503, "shutting_down");
        }
    }
    backend.open();
    assert_eq!(running.finish().status, 200);
    assert!(gateway.process.exit().success());
    assert_eq!(backend.seen().len(), 1);
}

#[test]
fn n07_five_hundred_waiting_and_fifty_streaming_clients_all_get_an_end() {
    let backend = Backend::start(|_| ScriptedResponse::stream_held(&["first ", "last"]));
    let bounds = "[controller]\nlower_bound_per_backend = 50\nwatermark_per_backend = 50\n\
        upper_bound_per_backend = 50\n[queue]\nmax_size = 1000\n";
    let mut gateway = Gateway::before(bounds, &backend);
    let mut streaming: Vec<_> = (0..50).map(|_| gateway.send(&chat("m").streamed())).collect();
    backend.await_held(50);
    backend.release(50);
    for call in &mut streaming {
        assert!(call.chunk().is_some());
    }
    let waiting: Vec<_> = (0..500).map(|_| gateway.send(&chat("m"))).collect();
    gateway.await_depth(500);
    let watch = Stopwatch::start();
    gateway.process.signal("TERM");
    for call in waiting {
        call.finish().refused(503, "shutting_down");
    }
    // The promise is one second; the machine may be busy with other tests.
    let elapsed = watch.elapsed();
    eprintln!("the last of 500 waiting clients had its response after {elapsed:?}");
    assert!(elapsed.as_secs() < 5, "{elapsed:?}");
    assert_eq!(backend.running(), 50, "no stream was cut");
    backend.open();
    for call in streaming {
        let text = call.finish().text();
        assert!(text.contains("last") && text.ends_with("data: [DONE]\n\n"), "{text}");
    }
    assert!(gateway.process.exit().success());
    assert_eq!((backend.most(), backend.seen().len()), (50, 50));
}

#[test]
fn n07_the_grace_period_bounds_the_end() {
    let backend = Backend::held();
    let mut gateway = Gateway::before(&format!("[server]\ngrace_seconds = 1\n{ONE}"), &backend);
    let running = gateway.send(&chat("m"));
    backend.await_running(1);
    gateway.process.signal("TERM");
    gateway.process.exit();
    backend.await_left(1);
    drop(running);
}

/// An incomplete request does not delay the shutdown.
#[test]
fn n07_a_client_that_is_still_sending_gets_503_at_shutdown() {
    let backend = Backend::quick();
    let mut gateway = Gateway::before("[server]\ngrace_seconds = 600\n", &backend);
    let bytes = chat("m").bytes();
    let mut sending = Call::open(gateway.address(), &bytes[..bytes.len() - 5]);
    let before = gateway.ask(&chat("m"));
    assert_eq!(before.status, 200);
    gateway.process.signal("TERM");
    sending.answer().unwrap().refused(503, "shutting_down");
    assert!(gateway.process.exit().success());
}

#[test]
fn n07_a_second_signal_cuts_streams_off() {
    let backend = Backend::start(|_| ScriptedResponse::stream_held(&["first ", "never"]));
    let mut gateway = Gateway::before("[server]\ngrace_seconds = 600\n", &backend);
    let mut stream = gateway.send(&chat("m").streamed());
    backend.await_held(1);
    backend.release(1);
    assert!(stream.chunk().is_some());
    let waiting = gateway.send(&chat("m"));
    backend.await_held(2);
    gateway.process.signal("TERM");
    gateway.process.signal("INT");
    assert!(gateway.process.exit().success());
    drop(waiting);
}

/// What ran when the gateway ended was work, so it is in the accounts that the next one reads. It
/// did not end by the doing of its clients.
#[test]
fn x05_n07_requests_that_the_shutdown_cuts_are_paid() {
    const STREAMS: usize = 24;
    let keys = Keys::new();
    let (key, admin) = (keys.tenant("alpha", "a"), keys.make(&["--admin", "read", "--name", "b"]));
    let file = keys.file().with_file_name("usage.db");
    let room = format!(
        "lower_bound_per_backend = {STREAMS}\nwatermark_per_backend = {STREAMS}\n\
         upper_bound_per_backend = {STREAMS}\n"
    );
    let sections = format!(
        "{}[server]\ngrace = \"100ms\"\n[usage]\nfile = {file:?}\n[log]\nformat = \"json\"\n\
         [[tenants]]\nname = \"alpha\"\n[controller]\n{room}",
        keys.section()
    );
    let backend = Backend::start(|_| ScriptedResponse::stream_begun("the ").then(Step::Hold));
    let text = config(&sections, &[("one", backend.address())]);
    let mut gateway = Gateway::launch(&text);
    let ask = chat("m").streamed().key(&key);
    let mut streams: Vec<_> = (0..STREAMS).map(|_| gateway.send(&ask)).collect();
    assert!(streams.iter_mut().all(|stream| stream.chunk().is_some()));
    gateway.process.signal("TERM");
    assert!(gateway.process.exit().success());
    let is_cut = |line: &&Value| line["outcome"] == "shutting_down" && line["status"] == 200;
    eventually("logged", || match gateway.log_lines() {
        lines if lines.iter().filter(is_cut).count() == STREAMS => Ok(()),
        lines => Err(format!("{lines:?}")),
    });
    let next = Gateway::launch(&text);
    let usage = next.ask(&HttpRequest::get("/usage").key(&admin)).json();
    let sum = |field: &str| -> u64 {
        usage["data"].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum()
    };
    assert_eq!(sum("requests"), STREAMS as u64, "{usage}");
    assert!(sum("prompt_tokens") >= STREAMS as u64, "{usage}");
    assert_eq!(sum("completion_tokens"), STREAMS as u64, "{usage}");
}
