//! O06 through Envoy: requests for configured models wait while no backend serves the model.

use crate::support::gateway::{CONFIGURED, TWO};
use crate::support::{Backend, Call, Picker, Recipe, chat};

const CLIENTS: usize = 40;

#[test]
fn x02_o06_no_request_fails_while_a_configured_model_has_no_backend() {
    let backend = Backend::quick();
    let picker = Picker::launch(Recipe::original_dst(), &format!("{CONFIGURED}{TWO}"));
    let calls: Vec<Call> = (0..CLIENTS).map(|_| picker.send(&chat("m"))).collect();
    picker.await_depth(CLIENTS);
    picker.list(&[&backend]);
    for call in calls {
        let response = call.finish();
        assert_eq!(response.status, 200, "{}", response.text());
    }
    picker.list(&[]);
    picker.await_ready(0);
    let waiting = picker.enqueue(&chat("m"), 0);
    picker.list(&[&backend]);
    assert_eq!(waiting.finish().status, 200);
    picker.await_idle();
}

/// The subset names a backend that the picker does not know yet. Another one that serves the model
/// is not allowed.
#[test]
fn x02_o06_a_subset_waits_for_backends_that_are_not_there_yet() {
    let (allowed, other) = (Backend::quick(), Backend::quick().lists(&["m", "n"]));
    let hold = "[queue]\nhold_capacity = 2\n";
    let recipe = Recipe::original_dst().with_subset(&[allowed.address().to_string()]);
    let picker = Picker::launch(recipe, &format!("{hold}{CONFIGURED}{TWO}"));
    let first = picker.enqueue(&chat("m"), 0);
    picker.list(&[&other]);
    picker.await_ready(1);
    let second = picker.enqueue(&chat("m"), 1);
    picker.ask(&chat("m")).refused(503, "no_backend");
    // The model is not configured.
    picker.ask(&chat("n")).refused(503, "no_backend_in_subset");
    picker.list(&[&other, &allowed]);
    for call in [first, second] {
        let response = call.finish();
        assert_eq!(response.status, 200, "{}", response.text());
    }
    assert_eq!(picker.ask(&chat("m")).status, 200);
    assert_eq!((allowed.seen().len(), other.seen().len()), (3, 0));
    picker.await_idle();
}

/// An empty subset allows no backend, so there is none to wait for.
#[test]
fn x02_o06_an_empty_subset_is_refused_for_a_configured_model() {
    let recipe = Recipe::original_dst().with_subset(&[]);
    let picker = Picker::launch(recipe, &format!("{CONFIGURED}{TWO}"));
    picker.ask(&chat("m")).refused(503, "no_backend_in_subset");
    picker.await_idle();
}

/// The time to live of such a wait is not the one of the queue.
#[test]
fn x02_o06_the_hold_ttl_ends_the_wait_for_a_subset() {
    let hold = "[queue]\nqueue_ttl = \"1h\"\nhold_ttl = \"500ms\"\n";
    let recipe = Recipe::original_dst().with_subset(&["127.0.0.1:1".to_owned()]);
    let picker = Picker::launch(recipe, &format!("{hold}{CONFIGURED}{TWO}"));
    picker.ask(&chat("m")).refused(503, "queue_timeout");
    picker.await_idle();
}
