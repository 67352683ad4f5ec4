//! How long requests for an unknown model wait for the lists of backends.

use super::super::fleet_state::FleetState;
use super::super::health_state::CheckResult;
use super::super::model_list::{ModelListError, ModelListReply, openai_list};
use super::*;

const A: BackendId = BackendId(1);
const B: BackendId = BackendId(2);

/// Two backends without a list, of which the first is up.
fn state() -> FleetState {
    let mut state = FleetState::default();
    let specs = [("a", 1), ("b", 2)].map(|(name, port)| spec(name, port, BackendKind::Vllm, &[]));
    state.configure(&quick(specs.to_vec()), at(0));
    state.checked(A, CheckResult::Healthy, at(0), at(0));
    let text = r#"{"data":[{"id":"m"}]}"#;
    state.set_model_list(A, ModelListReply::List(openai_list(text.as_bytes()).unwrap()));
    state.take_update(at(0)).unwrap();
    state
}

fn refuse(state: &mut FleetState, now: Time) {
    state.checked(B, CheckResult::Healthy, now, now);
    let error = ModelListError::Status("/v1/models", http::StatusCode::FORBIDDEN);
    state.set_model_list(B, ModelListReply::Forbidden(error));
    state.take_update(now);
}

fn lookup(state: &mut FleetState, now: Time) -> Option<Lookup> {
    state.take_update(now).map(|update| update.roster.lookup("x"))
}

#[test]
fn x02_a_list_that_fails_for_a_minute_is_not_waited_for_beside_another() {
    let mut state = state();
    for second in 10..70 {
        refuse(&mut state, at(second * 1000));
        assert!(state.catalogue.not_yet, "after {second} s");
    }
    assert_eq!(state.next_change(at(69_000)), Some(at(70_000)));
    assert_eq!(lookup(&mut state, at(70_000)), Some(Lookup::Unknown), "told at once from then on");
    refuse(&mut state, at(71_000));
    assert!(!state.catalogue.not_yet);
    // It gives a list, and later none again: the time begins anew.
    let list = br#"{"data":[{"id":"n"}]}"#;
    state.set_model_list(B, ModelListReply::List(openai_list(list).unwrap()));
    assert_eq!(lookup(&mut state, at(72_000)), Some(Lookup::Unknown));
    (0..3).for_each(|_| refuse(&mut state, at(73_000)));
    assert!(state.catalogue.not_yet && state.statuses(at(74_000))[1].list_failing.is_some());
}

/// It may load its model.
#[test]
fn x02_a_backend_that_is_silent_is_waited_for_longer_but_not_for_ever() {
    let mut state = state();
    let minutes = |count: u64| at(count * 60_000);
    assert!(lookup(&mut state, minutes(14)).is_none() && state.catalogue.not_yet);
    assert_eq!(state.next_list_given_up(minutes(14)), Some(minutes(15)));
    assert_eq!(lookup(&mut state, minutes(15)), Some(Lookup::Unknown));
}

#[test]
fn x02_while_no_list_is_known_requests_wait_for_the_first() {
    let mut state = FleetState::default();
    state.configure(&quick(vec![spec("a", 1, BackendKind::Vllm, &[])]), at(0));
    let hour = at(3_600_000);
    state.take_update(hour);
    assert!(state.catalogue.not_yet && state.next_list_given_up(hour).is_none());
}
