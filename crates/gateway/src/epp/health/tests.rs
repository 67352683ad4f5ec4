//! What each name says in each phase of the picker's life.

use std::sync::Arc;
use std::time::Duration;

use envoy::health::health_check_response::ServingStatus::{self, NotServing, Serving};
use flow::{BackendId, BackendSupply, ModelId};

use super::SUBJECTS;
use crate::config::Config;
use crate::state::State;

/// A picker that knows one backend, ready or not.
fn state(ready: bool) -> Arc<State> {
    let state = State::new(Config::default());
    let backend = BackendSupply { ready, ..BackendSupply::new(BackendId(0), vec![ModelId(1)]) };
    state.scheduler.with(|core, now| core.supply(&[backend], now));
    state
}

/// The whole server, the picker, liveness, readiness.
fn statuses(state: &State) -> [ServingStatus; 4] {
    SUBJECTS.map(|(_, subject)| subject.status(state))
}

#[test]
fn x02_all_services_are_healthy_when_a_backend_is_ready() {
    assert_eq!(statuses(&state(true)), [Serving; 4]);
}

/// Requests wait here for a backend: only readiness says that they should go elsewhere.
#[test]
fn x02_a_picker_that_knows_no_model_is_not_ready_but_takes_requests() {
    assert_eq!(statuses(&state(false)), [Serving, Serving, Serving, NotServing]);
}

#[tokio::test(start_paused = true)]
async fn x02_only_liveness_is_healthy_once_the_picker_drains() {
    let state = state(true);
    state.drain(Duration::from_secs(30)).await;
    assert_eq!(statuses(&state), [NotServing, NotServing, Serving, NotServing]);
    state.close();
    assert_eq!(statuses(&state), [NotServing, NotServing, Serving, NotServing]);
}
