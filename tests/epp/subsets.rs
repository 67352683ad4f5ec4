//! Subsets of the backends, as another filter of Envoy sets them, and the hooks of the conformance
//! suite.

use std::net::SocketAddr;

use crate::support::envoy::Envoy;
use crate::support::gateway::{ONE, TWO, config};
use crate::support::{Backend, Call, Picker, Recipe, chat};

fn three(sections: &str, addresses: [SocketAddr; 3]) -> String {
    let [one, two, three] = addresses;
    config(sections, &[("one", one), ("two", two), ("three", three)])
}

#[test]
fn x02_only_servers_of_the_subset_are_chosen() {
    let backends = [Backend::quick(), Backend::quick(), Backend::quick()];
    let addresses = [0, 1, 2].map(|at: usize| backends[at].address());
    let subset = [addresses[1].to_string(), "127.0.0.1:1".to_owned()];
    let recipe = Recipe::original_dst().with_subset(&subset);
    let picker = Picker::start(recipe, &three(TWO, addresses));
    for _ in 0..6 {
        let answer = picker.ask(&chat("m"));
        let told = (answer.status, answer.header("x-backend-used"));
        assert_eq!(told, (200, Some("two")), "{}", answer.text());
    }
    picker.await_idle();
}

#[test]
fn x02_a_subset_without_a_server_is_refused() {
    let backend = Backend::quick();
    for subset in [vec!["127.0.0.1:1".to_owned()], vec![]] {
        let recipe = Recipe::original_dst().with_subset(&subset);
        let picker = Picker::start(recipe, &config(TWO, &[("one", backend.address())]));
        let answer = picker.ask(&chat("m"));
        answer.refused(503, "no_backend_in_subset");
        assert!(answer.text().contains("subset"), "{}", answer.text());
        let reason = answer.header("x-llm-d-request-dropped-reason");
        assert_eq!(reason, Some("rejected-no-endpoints"));
        picker.await_idle();
    }
    assert_eq!(backend.seen().len(), 0);
}

#[test]
fn x02_requests_for_a_subset_do_not_hold_up_others() {
    let (busy, idle) = (Backend::held(), Backend::quick());
    let config = config(ONE, &[("busy", busy.address()), ("idle", idle.address())]);
    let confined = Recipe::original_dst().with_subset(&[busy.address().to_string()]);
    let picker = Picker::start(confined, &config);
    let mut calls = vec![picker.send(&chat("m"))];
    busy.await_running(1);
    calls.push(picker.enqueue(&chat("m"), 0));
    // Another Envoy before the same picker, whose requests may go anywhere.
    let free = Envoy::start(&Recipe::original_dst(), picker.process.address());
    for _ in 0..3 {
        let answer = Call::open(free.address(), &chat("m").bytes()).finish();
        assert_eq!((answer.status, answer.header("x-backend-used")), (200, Some("idle")));
    }
    busy.open();
    assert!(calls.into_iter().all(|call| call.finish().status == 200));
    picker.await_idle();
}

#[test]
fn x02_the_conformance_suite_chooses_the_server() {
    let backends = [Backend::quick(), Backend::quick(), Backend::quick()];
    let addresses = [0, 1, 2].map(|at: usize| backends[at].address());
    let sections = format!("[epp]\nconformance = true\n{TWO}");
    let picker = Picker::start(Recipe::override_host(&addresses), &three(&sections, addresses));
    for address in addresses.iter().cycle().take(6) {
        let ask = chat("m").header("test-epp-endpoint-selection", &address.ip().to_string());
        assert_eq!(picker.ask(&ask).status, 200, "an address without a port is any of its ports");
        let ask = chat("m").header("test-epp-endpoint-selection", &address.to_string());
        let answer = picker.ask(&ask);
        let served = answer.header("x-conformance-test-served-endpoint");
        assert_eq!((answer.status, served), (200, Some(address.to_string().as_str())));
    }
    picker.await_idle();
}
