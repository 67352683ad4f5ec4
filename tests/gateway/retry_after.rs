//! N02: when a refused client is told to try again.

use crate::support::gateway::{ONE, config};
use crate::support::{Backend, Call, Gateway, Nowhere, chat};

/// One request is in flight, and this many wait. None ends.
fn crowd(gateway: &Gateway, backend: &Backend, waiting: usize) -> Vec<Call> {
    let mut calls = vec![gateway.send(&chat("m"))];
    backend.await_running(1);
    calls.extend((0..waiting).map(|_| gateway.send(&chat("m"))));
    gateway.await_depth(waiting);
    calls
}

/// Before the first response has ended no rate is known. The guess grows with the queue.
#[test]
fn n02_before_a_rate_is_known_the_guess_grows_with_the_queue() {
    let backend = Backend::held();
    for (size, least, most) in [(2, 1, 20), (40, 30, 59)] {
        let gateway = Gateway::before(&format!("[queue]\nmax_size = {size}\n{ONE}"), &backend);
        let before = backend.running();
        assert_eq!(before, 0);
        let calls = crowd(&gateway, &backend, size);
        let refused = gateway.ask(&chat("m"));
        refused.refused(503, "flow_full");
        let told = refused.retry_after();
        assert!((least..=most).contains(&told), "{size} wait: {told}");
        drop(calls);
        backend.await_running(0);
    }
}

/// A client that has waited in vain hears of a wait of that order, not of a second.
#[test]
fn n02_after_a_wait_in_vain_the_guess_is_as_long_as_the_wait() {
    let backend = Backend::held();
    let gateway = Gateway::before(&format!("[queue]\nqueue_ttl = \"4s\"\n{ONE}"), &backend);
    let mut calls = crowd(&gateway, &backend, 2);
    let expired = calls.pop().unwrap().finish();
    expired.refused(503, "queue_timeout");
    assert!((3..=59).contains(&expired.retry_after()), "{}", expired.retry_after());
}

/// Some clients take no `Retry-After` of a minute or more and come back at once.
#[test]
fn n02_no_client_is_told_to_wait_for_a_minute() {
    let backend = Backend::held();
    let gateway = Gateway::before(&format!("[queue]\nmax_size = 200\n{ONE}"), &backend);
    let _calls = crowd(&gateway, &backend, 200);
    let refused = gateway.ask(&chat("m"));
    refused.refused(503, "flow_full");
    assert_eq!(refused.retry_after(), 59);
}

/// Without a backend no rate says when there will be room.
#[test]
fn n02_without_a_ready_backend_no_client_comes_back_at_once() {
    let nowhere = Nowhere::reserve();
    let sections = format!("[queue]\nmax_size = 2\n{ONE}");
    let mut gateway = Gateway::launch(&config(&sections, &[("one", nowhere.address())]));
    let waiting: Vec<_> = (0..2).map(|others| gateway.enqueue(&chat("m"), others)).collect();
    let refused = gateway.ask(&chat("m"));
    refused.refused(503, "flow_full");
    assert_eq!(refused.retry_after(), 5);
    gateway.process.signal("TERM");
    for call in waiting {
        let refused = call.finish();
        refused.refused(503, "shutting_down");
        assert_eq!(refused.retry_after(), 5);
    }
    assert!(gateway.process.exit().success());
}
