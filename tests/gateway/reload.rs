//! X06: a new configuration while requests wait and run.

use crate::support::gateway::{ONE, TWO, config};
use crate::support::{Backend, Gateway, Nowhere, ScriptedResponse, Stopwatch, chat, eventually};

#[test]
fn x06_c04_a_changed_file_takes_effect_and_releases_the_next_at_once() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(ONE, &backend, &chat("m"));
    let mut calls = vec![running];
    calls.push(gateway.enqueue(&chat("m"), 0));
    gateway.rewrite(&config(TWO, &[("one", backend.address())]));
    backend.await_running(2);
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}

#[test]
fn x06_a_signal_reloads_and_a_bad_file_changes_nothing() {
    let backend = Backend::held();
    let (gateway, running) = Gateway::occupied(ONE, &backend, &chat("m"));
    let mut calls = vec![running];
    calls.push(gateway.enqueue(&chat("m"), 0));
    gateway.rewrite(&config("[queue]\nqueue_tll = \"5s\"\n", &[("one", backend.address())]));
    gateway.process.signal("HUP");
    gateway.process.await_log("queue_tll", 1);
    gateway.process.await_log("queue_ttl", 1);
    assert_eq!((backend.running(), gateway.depth()), (1, 1), "the old one stays in force");
    gateway.rewrite(&config(TWO, &[("one", backend.address())]));
    gateway.process.signal("HUP");
    backend.await_running(2);
    backend.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
}

/// A problem is logged once. A reload by signal is logged each time.
#[test]
fn x06_a_problem_is_logged_once_and_each_signal_is_logged() {
    let backend = Backend::quick();
    let gateway = Gateway::before(ONE, &backend);
    let said = |what: &str, times: usize| gateway.process.await_log(what, times);
    let file = gateway.folder().join("tidegate.toml");
    said("configuration: ", 1);
    for round in 1..=2 {
        std::fs::remove_file(&file).unwrap();
        said("was not reloaded", 2 * round - 1);
        // A change in the folder triggers a check of the file, but not another message.
        std::fs::create_dir(gateway.folder().join(format!("folder-{round}"))).unwrap();
        gateway.process.signal("HUP");
        said("was not reloaded", 2 * round);
        let queue = format!("[queue]\nmax_size = {}\n{ONE}", 10 * round);
        gateway.rewrite(&config(&queue, &[("one", backend.address())]));
        said("was reloaded", round);
        let log = gateway.process.log();
        assert_eq!(log.matches("was not reloaded").count(), 2 * round, "{log}");
        gateway.process.signal("HUP");
        said("in force already", round);
    }
}

#[test]
fn x06_no_request_is_dropped_by_any_number_of_reloads() {
    let (one, two) = (Backend::held(), Backend::held());
    let both = [("one", one.address()), ("two", two.address())];
    let gateway = Gateway::start(&config(TWO, &both));
    let mut calls: Vec<_> = (0..4).map(|_| gateway.send(&chat("m"))).collect();
    eventually("running", || match one.running() + two.running() {
        4 => Ok(()),
        other => Err(other.to_string()),
    });
    calls.extend((0..20).map(|_| gateway.send(&chat("m").streamed())));
    gateway.await_depth(20);
    for round in 0..6 {
        let ttl = format!("[queue]\nmax_size = {}\n{TWO}", 100 + round);
        gateway.rewrite(&config(&ttl, &both));
        gateway.process.signal("HUP");
        let capacity = f64::from(100 + round);
        gateway.await_metrics("in force", |metrics| {
            let found = metrics.sum("tidegate_queue_capacity");
            if found == capacity { Ok(()) } else { Err(found.to_string()) }
        });
        assert_eq!(gateway.depth(), 20);
    }
    one.open();
    two.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    gateway.await_idle();
}

#[test]
fn x06_backends_come_and_go_and_their_streams_finish() {
    let old = Backend::start(|_| ScriptedResponse::stream_held(&["old ", "stream"]));
    let new = Backend::start(|_| ScriptedResponse::ok());
    let gateway = Gateway::start(&config(ONE, &[("old", old.address())]));
    let mut stream = gateway.send(&chat("m").streamed());
    old.release(1);
    assert!(stream.chunk().is_some());
    let waiting = gateway.enqueue(&chat("m"), 0);
    gateway.rewrite(&config(ONE, &[("new", new.address())]));
    let answer = waiting.finish();
    assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("new")));
    old.open();
    assert!(stream.finish().text().contains("[DONE]"));
    gateway.await_idle();
    eventually("gone", || match gateway.backends().len() {
        1 => Ok(()),
        _ => Err(format!("{:?}", gateway.backends())),
    });
}

#[test]
fn q08_changing_models_do_not_shorten_the_wait_for_an_unknown_model() {
    // The list of this backend stays unknown, so it may serve any name.
    let nowhere = [Nowhere::reserve(), Nowhere::reserve()];
    let [silent, other] = nowhere.each_ref().map(Nowhere::address);
    let silent = format!("[[backends]]\nurl = \"http://{silent}\"\n");
    let with = |model: usize| {
        let other = format!("[[backends]]\nurl = \"http://{other}\"\nmodels = [\"m{model}\"]\n");
        format!("[queue]\nqueue_ttl = \"5s\"\n{silent}{other}")
    };
    let gateway = Gateway::launch(&with(0));
    let watch = Stopwatch::start();
    let call = gateway.enqueue(&chat("m"), 0);
    for model in 1..=10 {
        gateway.rewrite(&with(model));
        eventually("listed", || {
            let listed = gateway.get("/v1/models").text();
            if listed.contains(&format!("\"m{model}\"")) { Ok(()) } else { Err(listed) }
        });
    }
    let answer = call.finish();
    answer.refused(503, "queue_timeout");
    assert!(watch.elapsed().as_secs() >= 5, "{:?}: {}", watch.elapsed(), answer.text());
}
