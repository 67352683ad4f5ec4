//! R07, X01, C07: the updates that follow from the health and the model lists of backends.

use flow::{BackendId, ModelId};

use super::super::engine_metrics::EngineMetrics;
use super::super::fleet_state::{BackendSource, FleetState, FleetUpdate};
use super::super::health_state::CheckResult;
use super::super::model_list::{ModelListError, ModelListReply, openai_list, unreadable};
use super::super::scrape::ScrapeError;
use super::super::{Attempt, Endpoint, StateWord};
use super::*;
use crate::config::settings::{DrainCause, Kubernetes};

const A: BackendId = BackendId(1);
const B: BackendId = BackendId(2);
const C: BackendId = BackendId(3);

/// A fleet whose backends have passed their first check.
fn state(specs: Vec<BackendSpec>) -> (FleetState, FleetUpdate) {
    let mut state = FleetState::default();
    state.configure(&quick(specs), at(0));
    for id in state.backends.keys().copied().collect::<Vec<_>>() {
        state.checked(id, CheckResult::Healthy, at(0), at(0));
    }
    let update = state.take_update(at(0)).unwrap();
    (state, update)
}

fn list(names: &[&str]) -> ModelListReply {
    let entries: Vec<String> = names.iter().map(|name| format!(r#"{{"id":"{name}"}}"#)).collect();
    let text = format!(r#"{{"data":[{}]}}"#, entries.join(","));
    ModelListReply::List(openai_list(text.as_bytes()).unwrap())
}

fn fail(state: &mut FleetState, id: BackendId, now: Time) {
    (0..3).for_each(|_| state.report(id, Attempt::Failed, "", now));
}

fn ready(update: &FleetUpdate) -> Vec<u32> {
    let taking = update.supply.iter().filter(|supply| supply.ready && !supply.paused);
    taking.map(|supply| supply.id.0).collect()
}

fn serves(update: &FleetUpdate, id: BackendId) -> &[ModelId] {
    &update.supply.iter().find(|supply| supply.id == id).unwrap().models
}

/// Requests for a model without a healthy backend wait; one at a time is sent to see whether a
/// backend works again.
#[test]
fn r07_the_ejected_backends_of_a_model_are_tried_when_no_other_serves_it() {
    let specs = vec![
        spec("a", 1, BackendKind::Vllm, &["m"]),
        spec("b", 2, BackendKind::Vllm, &["m", "own"]),
        spec("c", 3, BackendKind::Vllm, &["m", "own"]),
    ];
    let (mut state, update) = state(specs);
    assert_eq!(ready(&update), [1, 2, 3]);
    fail(&mut state, A, at(1));
    fail(&mut state, B, at(1));
    assert_eq!(ready(&state.take_update(at(1)).unwrap()), [3], "others serve their models");
    assert!(state.take_update(at(600)).is_none(), "so that they are not tried before their time");
    fail(&mut state, C, at(700));
    assert_eq!(ready(&state.take_update(at(700)).unwrap()), [1, 2], "C has just failed");
    assert_eq!(ready(&state.take_update(at(1200)).unwrap()), [1, 2, 3]);
    let update = state.take_update(at(5001)).unwrap();
    assert_eq!(ready(&update), [1, 2], "A and B are on trial, so that C waits its time");
    assert!(update.supply.iter().take(2).all(|supply| supply.on_trial));
    state.report(A, Attempt::Answered, "", at(5002));
    let update = state.take_update(at(5002)).unwrap();
    assert!(!update.supply[0].on_trial && update.supply[1].on_trial);
    state.report(A, Attempt::Refused, "", at(5003));
    state.report(B, Attempt::Refused, "", at(5003));
    state.report(C, Attempt::Refused, "", at(5003));
    let update = state.take_update(at(5003)).unwrap();
    assert_eq!(ready(&update), [0; 0], "a backend that refuses connections is not tried");
    assert!(
        matches!(update.roster.lookup("own"), Lookup::Known(_)),
        "and its models are waited for"
    );
}

#[test]
fn n05_a_full_backend_is_paused_and_a_failing_one_is_not_used_instead() {
    let (mut state, _) = state(vec![
        spec("a", 1, BackendKind::Vllm, &["m"]),
        spec("b", 2, BackendKind::Vllm, &["m"]),
    ]);
    fail(&mut state, A, at(0));
    state.report(B, Attempt::Full(None), "", at(0));
    let update = state.take_update(at(0)).unwrap();
    assert_eq!(ready(&update), [0; 0]);
    assert!(update.supply[1].ready && update.supply[1].paused, "it is the same engine afterwards");
    assert_eq!(state.statuses(at(0))[1].state, StateWord::Full);
    assert_eq!(state.next_change(at(0)), Some(at(250)));
    assert_eq!(ready(&state.take_update(at(250)).unwrap()), [2]);
    assert!(state.take_update(at(251)).is_none(), "an unchanged state is not published");
}

#[test]
fn x01_requests_wait_for_an_unknown_model_list() {
    let specs = vec![spec("a", 1, BackendKind::Vllm, &["m"]), spec("b", 2, BackendKind::Vllm, &[])];
    let (mut state, update) = state(specs);
    assert_eq!(ready(&update), [1], "without its list it is not ready");
    let shown = &state.statuses(at(0))[1];
    let reason = shown.reason.as_deref();
    assert_eq!((shown.state, reason), (StateWord::Starting, Some("its model list is unknown")));
    let Lookup::NotYet(waited) = update.roster.lookup("x") else { panic!("the list is unknown") };
    assert_eq!(serves(&update, B), [waited]);
    state.set_model_list(B, ModelListReply::Unavailable(ModelListError::ShuttingDown));
    assert!(state.take_update(at(1)).is_none());
    state.set_model_list(B, list(&["x", "m"]));
    let update = state.take_update(at(2)).unwrap();
    assert!(update.models_changed);
    assert_eq!(ready(&update), [1, 2]);
    let x = update.roster.lookup("x").known();
    assert!(serves(&update, B).contains(&x) && !serves(&update, A).contains(&x));
    assert_eq!(update.roster.lookup("y"), Lookup::Unknown);
    state.set_model_list(B, list(&["x", "m"]));
    assert!(state.take_update(at(3)).is_none(), "the same list is no news");
    state.set_model_list(B, ModelListReply::Unsupported(ModelListError::NotAList("/v1/models")));
    assert!(state.take_update(at(3)).is_none(), "the old list is kept");
    state.set_model_list(B, list(&["m"]));
    let update = state.take_update(at(4)).unwrap();
    assert_eq!(update.roster.lookup("x"), Lookup::Unknown);
    state.set_model_list(B, list(&["x"]));
    let update = state.take_update(at(5)).unwrap();
    assert_eq!(update.roster.lookup("x"), Lookup::Known(x), "its number is the same again");
    state.set_model_list(A, list(&["z"]));
    assert!(state.take_update(at(6)).is_none(), "a configured list is not fetched");
}

/// A client could use any name otherwise, and a tenant a model that no one lists.
#[test]
fn x01_an_engine_whose_list_cannot_be_read_gets_no_requests() {
    let broken = || ModelListError::NotAList("/v1/models");
    for (kind, ready_now) in [(BackendKind::Vllm, false), (BackendKind::Generic, true)] {
        let (mut state, _) = state(vec![spec("a", 1, kind, &[])]);
        state.set_model_list(A, unreadable(kind, broken()));
        let is_ready = state.take_update(at(1)).is_some_and(|update| ready(&update) == [1]);
        assert_eq!(is_ready, ready_now, "{kind:?}");
    }
}

/// It would refuse every request, and get most of them because it answers fastest.
#[test]
fn x01_a_backend_that_refuses_its_list_gets_no_requests() {
    let refused = || {
        let error = ModelListError::Status("/v1/models", http::StatusCode::FORBIDDEN);
        ModelListReply::Forbidden(error)
    };
    let (mut state, _) = state(vec![spec("a", 1, BackendKind::Generic, &[])]);
    state.set_model_list(A, refused());
    assert!(state.take_update(at(1)).is_none());
    state.set_model_list(A, list(&["m"]));
    assert_eq!(ready(&state.take_update(at(2)).unwrap()), [1]);
    // A proxy may refuse a request while it restarts.
    for refusals in [2, 1, 2] {
        (0..refusals).for_each(|_| state.set_model_list(A, refused()));
        assert!(state.take_update(at(3)).is_none(), "a known list is kept");
        assert!(state.backends[&A].needs_list(), "and fetched again soon");
        state.set_model_list(A, list(&["m"]));
        assert!(!state.backends[&A].needs_list());
    }
    (0..3).for_each(|_| state.set_model_list(A, refused()));
    assert_eq!(ready(&state.take_update(at(3)).unwrap()), [0; 0], "it has refused it since");
    let reason = state.statuses(at(3))[0].reason.clone().unwrap();
    assert_eq!(reason, "its model list is unknown: /v1/models answered 403 Forbidden");
    state.set_model_list(A, list(&["m"]));
    assert_eq!(ready(&state.take_update(at(4)).unwrap()), [1]);
    assert_eq!(state.statuses(at(4))[0].reason, None);
}

/// It may refuse all of them, and it answers fastest.
#[test]
fn x01_a_refused_request_makes_the_list_due_once_a_second() {
    let (mut state, _) = state(vec![
        spec("a", 1, BackendKind::Generic, &[]),
        spec("b", 2, BackendKind::Generic, &["m"]),
    ]);
    state.set_model_list(A, list(&["m"]));
    for (millis, due) in [(10, true), (1009, false), (1010, true)] {
        state.refused_request(A, at(millis));
        assert_eq!(state.backends[&A].needs_list(), due, "after {millis} ms");
        state.set_model_list(A, list(&["m"]));
        assert!(!state.backends[&A].needs_list(), "it was fetched");
    }
    state.refused_request(B, at(1020));
    assert!(!state.backends[&B].needs_list(), "its list is configured");
}

/// A server that starts may answer anything before it has its list.
#[test]
fn x01_x02_a_pod_whose_answer_is_no_list_gets_no_requests() {
    let mut state = of_cluster();
    state.set_cluster(Some(vec![spec("a", 1, BackendKind::Generic, &[])]), at(0));
    state.checked(A, CheckResult::Healthy, at(0), at(0));
    let status = |code| ModelListError::Status("/v1/models", code);
    let moved = status(http::StatusCode::FOUND);
    for answer in [ModelListError::NotAList("/v1/models"), moved] {
        state.set_model_list(A, ModelListReply::Unsupported(answer));
        let update = state.take_update(at(1));
        assert!(update.is_none_or(|update| ready(&update).is_empty()));
    }
    let reason = state.statuses(at(1))[0].reason.clone().unwrap();
    assert_eq!(reason, "its model list is unknown: /v1/models answered 302 Found");
    state.set_model_list(A, ModelListReply::Unsupported(status(http::StatusCode::NOT_FOUND)));
    assert_eq!(ready(&state.take_update(at(2)).unwrap()), [1], "it has no such page");
}

#[test]
fn x01_a_backend_without_a_list_takes_any_name() {
    let specs =
        vec![spec("a", 1, BackendKind::Generic, &[]), spec("b", 2, BackendKind::Vllm, &["m"])];
    let (mut state, _) = state(specs);
    state.set_model_list(A, ModelListReply::Unsupported(ModelListError::NotAList("/v1/models")));
    let update = state.take_update(at(1)).unwrap();
    let [other, m] = ["whatever", "m"].map(|name| update.roster.lookup(name).known());
    assert_eq!(other, update.roster.lookup("something else").known());
    assert_eq!(serves(&update, A), [other, m], "it takes the names that others list too");
    assert_eq!(serves(&update, B), [m]);
    assert_eq!(state.statuses(at(1))[0].models, ["*"]);
    state.set_model_list(A, list(&["n"]));
    let update = state.take_update(at(2)).unwrap();
    assert_eq!(update.roster.lookup("whatever"), Lookup::Unknown, "it has a list now");
}

#[test]
fn x01_a_request_that_names_no_model_goes_to_ready_backends_in_turns() {
    let specs = vec![
        spec("a", 1, BackendKind::Vllm, &["m"]),
        spec("b", 2, BackendKind::Vllm, &["n"]),
        spec("c", 3, BackendKind::Vllm, &["*"]),
    ];
    let (mut state, update) = state(specs);
    let models = |update: &FleetUpdate| -> Vec<u32> {
        (0..3).map(|draw| update.roster.anywhere(draw).known().0).collect()
    };
    let [m, n] = ["m", "n"].map(|name| update.roster.lookup(name).known().0);
    assert_eq!(models(&update), [m, n, 0]);
    state.report(A, Attempt::Refused, "", at(1));
    assert_eq!(models(&state.take_update(at(1)).unwrap()), [n, 0, n]);
    state.report(B, Attempt::Refused, "", at(2));
    state.report(C, Attempt::Refused, "", at(2));
    assert_eq!(models(&state.take_update(at(2)).unwrap()), [m, n, 0], "they are waited for");
    let mut empty = FleetState::default();
    empty.configure(&quick(Vec::new()), at(0));
    assert_eq!(empty.take_update(at(0)).unwrap().roster.anywhere(5), Lookup::Unknown);
    empty.set_source(
        BackendSource::EndpointsFile,
        vec![spec("a", 1, BackendKind::Vllm, &[])],
        at(0),
    );
    let update = empty.take_update(at(0)).unwrap();
    assert!(matches!(update.roster.anywhere(5), Lookup::NotYet(_)));
}

#[test]
fn x01_lists_are_merged_by_name() {
    let specs = vec![
        spec("a", 1, BackendKind::Vllm, &[]),
        spec("b", 2, BackendKind::Vllm, &["m"]),
        spec("c", 3, BackendKind::Ollama, &[]),
    ];
    let (mut state, _) = state(specs);
    let text = br#"{"data":[{"id":"n"},{"id":"m","owned_by":"us","created":9}]}"#;
    state.set_model_list(A, ModelListReply::List(openai_list(text).unwrap()));
    let text = br#"{"models":[{"name":"m:latest","size":4}]}"#;
    state.set_model_list(
        C,
        ModelListReply::List(super::super::model_list::ollama_list(text).unwrap()),
    );
    let update = state.take_update(at(1)).unwrap();
    let entries = update.roster.models_merged();
    let names: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(names, ["m", "m:latest", "n"], "an alias is no entry of its own");
    assert_eq!(entries[0].backends, ["a", "b"]);
    assert_eq!((entries[0].owned_by.as_deref(), entries[0].created), (Some("us"), Some(9)));
    assert!(entries[1].tag.is_some());
    let m = update.roster.lookup("m").known();
    assert!(serves(&update, C).contains(&m), "without its tag it is the same name");
}

#[test]
fn x06_a_reload_keeps_remaining_backends_and_drains_the_others() {
    let [a, b] = [spec("a", 1, BackendKind::Vllm, &["m"]), spec("b", 2, BackendKind::Vllm, &["m"])];
    let (mut state, _) = state(vec![a.clone(), b.clone()]);
    fail(&mut state, A, at(1));
    let moved = BackendSpec { url: "http://127.0.0.1:9".into(), ..b };
    let renewed = BackendSpec { traits: BackendTraits { power_watts: 9.0, ..a.traits }, ..a };
    state.configure(&quick(vec![moved.clone(), renewed.clone()]), at(2));
    let update = state.take_update(at(2)).unwrap();
    let published: Vec<u32> = update.supply.iter().map(|supply| supply.id.0).collect();
    assert_eq!(published, [1, 3], "who moves is another");
    assert_eq!(update.supply[0].traits.power_watts, 9.0);
    assert_eq!(state.statuses(at(2))[0].state, StateWord::Ejected, "its past stays");
    assert!(update.roster.endpoint(B).is_some(), "a grant on its way still finds it");
    state.set_source(
        BackendSource::EndpointsFile,
        vec![moved, spec("d", 4, BackendKind::Vllm, &["m"])],
        at(3),
    );
    let published: Vec<u32> =
        state.take_update(at(3)).unwrap().supply.iter().map(|supply| supply.id.0).collect();
    assert_eq!(published, [1, 3, 4], "a name counts once");
    let later = state.next_change(at(10_000)).unwrap();
    let update = state.take_update(later).unwrap();
    assert!(update.roster.endpoint(B).is_none());
}

#[test]
fn o05_a_drain_stops_new_requests_and_forgets_nothing() {
    let [a, b] = [spec("a", 1, BackendKind::Auto, &["m"]), spec("b", 2, BackendKind::Vllm, &["m"])];
    let (mut state, _) = state(vec![a.clone(), b.clone()]);
    let endpoint = Arc::clone(&state.backends[&A].endpoint);
    for cause in [DrainCause::NotReady, DrainCause::Terminating] {
        let drained = BackendSpec { drain: Some(cause), ..a.clone() };
        state.configure(&quick(vec![drained, b.clone()]), at(1));
        assert_eq!(ready(&state.take_update(at(1)).unwrap()), [2]);
        let status = &state.statuses(at(1))[0];
        assert_eq!((status.state, status.ready), (StateWord::Draining, false));
        assert_eq!(status.reason, Some(cause.to_string()));
        assert!(Arc::ptr_eq(&endpoint, &state.backends[&A].endpoint), "what is known of it stays");
        state.configure(&quick(vec![a.clone(), b.clone()]), at(2));
        assert_eq!(ready(&state.take_update(at(2)).unwrap()), [1, 2]);
    }
    assert_eq!(state.drain("none", true), None);
    state.drain("a", true).unwrap();
    assert_eq!(ready(&state.take_update(at(3)).unwrap()), [2]);
    // A reload keeps the drain of an operator, and the end of the backend ends it.
    state.configure(&quick(vec![a.clone(), b.clone()]), at(4));
    assert_eq!(ready(&state.take_update(at(4)).unwrap()), [2]);
    state.configure(&quick(vec![b.clone()]), at(5));
    state.configure(&quick(vec![a, b]), at(5));
    assert_eq!(
        state.statuses(at(5)).iter().filter(|one| one.state == StateWord::Draining).count(),
        0
    );
}

#[test]
fn o05_a_drained_backend_that_moves_to_another_address_stays_drained() {
    let (mut state, _) = state(vec![spec("a", 1, BackendKind::Vllm, &["m"])]);
    state.drain("a", true).unwrap();
    state.configure(&quick(vec![spec("a", 2, BackendKind::Vllm, &["m"])]), at(1));
    let backend = state.backends.values().next().unwrap();
    assert_eq!(state.drain_of(backend), Some(DrainCause::Operator));
    // Only its end is forgotten.
    state.configure(&quick(vec![]), at(2));
    state.configure(&quick(vec![spec("a", 2, BackendKind::Vllm, &["m"])]), at(3));
    assert_eq!(state.drain_of(state.backends.values().next().unwrap()), None);
}

#[test]
fn r01_loaded_adapters_are_reported_by_model_id() {
    let (mut state, update) = state(vec![spec("a", 1, BackendKind::Vllm, &["base", "sql"])]);
    let [base, sql] = ["base", "sql"].map(|name| update.roster.lookup(name).known());
    let adapters = vec!["sql".into(), "never heard of".into()];
    assert!(state.scraped(A, Ok(EngineMetrics { adapters, ..EngineMetrics::default() }), at(1)));
    let update = state.take_update(at(1)).unwrap();
    assert_eq!(update.supply[0].adapters, [sql.0]);
    assert_eq!((update.roster.adapter(sql), update.roster.adapter(base)), (Some(sql.0), None));
    assert!(!state.scraped(A, Err(ScrapeError::UnknownEngine), at(2)));
    assert_eq!(
        state.statuses(at(2))[0].scrape_error.as_deref(),
        Some("/metrics has no metrics of a known engine")
    );
}

#[test]
fn x06_urls_that_cannot_be_used_are_named() {
    for url in ["", "host:1", "https://a..b", "http://", "ftp://host", "http://ho st", "/path"] {
        let spec = BackendSpec { url: url.into(), ..spec("a", 1, BackendKind::Vllm, &[]) };
        let problem = Endpoint::new(A, &spec).unwrap_err().to_string();
        assert!(problem.contains("backend a: url"), "{problem}");
    }
    let at = |url: &str| {
        let spec = BackendSpec { url: url.into(), ..spec("a", 1, BackendKind::Vllm, &[]) };
        let endpoint = Endpoint::new(A, &spec).unwrap();
        (endpoint.authority.to_string(), endpoint.base_path)
    };
    assert_eq!(at("http://host:1/"), ("host:1".into(), String::new()));
    assert_eq!(at("https://host/a"), ("host".into(), "/a".into()));
    assert_eq!(at("http://user:word@[::1]:8/a/b/"), ("[::1]:8".into(), "/a/b".into()));
    assert_eq!(at("http://host/v1"), ("host".into(), String::new()));
}

#[test]
fn x06_a_removed_backend_stays_in_the_roster_while_a_request_uses_it() {
    let specs =
        vec![spec("a", 1, BackendKind::Vllm, &["m"]), spec("b", 2, BackendKind::Vllm, &["m"])];
    let (mut state, update) = state(specs.clone());
    let in_use = update.roster.endpoint(A).map(Endpoint::begin_use);
    // A reload replaces the endpoint that the request has.
    let other_models = spec("a", 1, BackendKind::Vllm, &["m", "n"]);
    state.configure(&quick(vec![other_models, specs[1].clone()]), at(0));
    state.configure(&quick(specs[1..].to_vec()), at(0));
    let removed = state.take_update(at(0)).unwrap();
    assert!(removed.roster.endpoint(A).is_some());
    assert!(state.take_update(at(31_000)).is_none(), "a request uses it");
    drop(in_use);
    let gone = state.take_update(at(62_000)).unwrap();
    assert!(gone.roster.endpoint(A).is_none());
}

/// A fleet that follows a cluster, about which nothing is known yet.
fn of_cluster() -> FleetState {
    let kubernetes = Kubernetes {
        url: None,
        token_file: None,
        ca_file: None,
        namespace: None,
        targets: Vec::new(),
    };
    let mut state = FleetState::default();
    let settings = FleetSettings {
        kubernetes: Some(kubernetes),
        hold_ttl: Duration::from_secs(10),
        ..quick(Vec::new())
    };
    state.configure(&settings, at(0));
    state
}

/// A pool that had a pod of the model `m` and one of `n`, and has neither. Returns the pods, and
/// the id of `n`. The next pod has the id 3.
fn left_by_two() -> (FleetState, [BackendSpec; 2], ModelId) {
    let mut state = of_cluster();
    let pods = [("a", 1), ("b", 2)].map(|(name, port)| spec(name, port, BackendKind::Vllm, &[]));
    state.set_cluster(Some(pods.to_vec()), at(0));
    state.set_model_list(A, list(&["m"]));
    state.set_model_list(B, list(&["n"]));
    let n = state.take_update(at(0)).unwrap().roster.lookup("n").known();
    state.set_cluster(Some(Vec::new()), at(1));
    assert!(state.take_update(at(1)).unwrap().roster.is_at_zero());
    (state, pods, n)
}

#[test]
fn o06_a_pool_without_pods_holds_requests_for_any_model() {
    let mut state = of_cluster();
    let update = state.take_update(at(0)).unwrap();
    assert_eq!(update.roster.lookup("m"), Lookup::Unknown, "the cluster has not answered");
    assert!(!update.roster.is_at_zero());
    state.set_cluster(Some(Vec::new()), at(1));
    let Lookup::NotYet(unnamed) = state.take_update(at(1)).unwrap().roster.lookup("m") else {
        panic!("it is held")
    };
    state.set_cluster(Some(vec![spec("a", 1, BackendKind::Vllm, &[])]), at(2));
    state.checked(A, CheckResult::Healthy, at(2), at(2));
    let roster = state.take_update(at(2)).unwrap().roster;
    assert_eq!(roster.lookup("m"), Lookup::NotYet(unnamed), "until its list is known");
    assert!(roster.is_at_zero() && roster.awaited().any(|id| id == unnamed));
    state.set_model_list(A, list(&["m"]));
    let roster = state.take_update(at(3)).unwrap().roster;
    let m = roster.lookup("m").known();
    assert_eq!(roster.lookup("other"), Lookup::Unknown);
    assert!(!roster.is_at_zero() && roster.awaited().next().is_none());
    // Its last pod leaves: a model that it had keeps its id, and any other may come.
    state.set_cluster(Some(Vec::new()), at(4));
    let roster = state.take_update(at(4)).unwrap().roster;
    assert_eq!(roster.lookup("m"), Lookup::Configured(m));
    assert_eq!(roster.lookup("other"), Lookup::NotYet(unnamed));
    assert!(roster.is_at_zero() && roster.awaited().eq([m, unnamed]));
    let names: Vec<_> = roster.numbered().collect();
    assert_eq!(names, [("m", m), ("*", unnamed)]);
    // A pool that does not exist gets no pods.
    state.set_cluster(None, at(5));
    let roster = state.take_update(at(5)).unwrap().roster;
    assert_eq!(roster.lookup("m"), Lookup::Unknown);
    assert!(!roster.is_at_zero() && roster.awaited().next().is_none());
}

/// Otherwise a picker that cannot reach any pod would look ready.
#[test]
fn o06_a_pool_whose_pods_are_ready_is_not_at_zero_before_their_lists_are_known() {
    let mut state = of_cluster();
    let pod = |drain| BackendSpec { drain, ..spec("a", 1, BackendKind::Vllm, &[]) };
    state.set_cluster(Some(vec![pod(None)]), at(1));
    assert!(!state.take_update(at(1)).unwrap().roster.is_at_zero());
    state.set_cluster(Some(vec![pod(Some(DrainCause::NotReady))]), at(2));
    assert!(state.take_update(at(2)).unwrap().roster.is_at_zero(), "the pod starts");
    state.set_cluster(Some(vec![pod(None)]), at(3));
    assert!(state.take_update(at(3)).unwrap().roster.is_at_zero(), "its list is near");
}

#[test]
fn o06_a_model_that_returns_after_another_is_held_for_a_while() {
    let (mut state, pods, n) = left_by_two();
    state.set_cluster(Some(pods[..1].to_vec()), at(2));
    state.set_model_list(C, list(&["m"]));
    let roster = state.take_update(at(2)).unwrap().roster;
    assert_eq!(roster.lookup("n"), Lookup::Configured(n));
    assert_eq!(roster.lookup("other"), Lookup::Unknown, "the pool never had it");
    assert!(roster.awaited().eq([n]) && !roster.is_at_zero());
    assert_eq!(state.next_change(at(2)), Some(at(10_002)), "queue.hold_ttl later");
    state.stale = true;
    assert_eq!(state.take_update(at(9000)).unwrap().roster.lookup("n"), Lookup::Configured(n));
    // It does not return, and its requests are told.
    let update = state.take_update(at(10_002)).unwrap();
    assert_eq!(update.roster.lookup("n"), Lookup::Unknown);
    assert!(update.models_changed && update.roster.awaited().next().is_none());
    assert!(state.next_change(at(10_002)) > Some(at(10_002)), "no busy loop");
}

#[test]
fn o06_a_model_that_a_pool_had_is_held_while_a_list_is_unknown() {
    for (listed, lookup) in [("n", None), ("other", Some(Lookup::Unknown))] {
        let (mut state, pods, n) = left_by_two();
        state.set_cluster(Some(pods.to_vec()), at(2));
        state.set_model_list(C, list(&["m"]));
        state.take_update(at(2)).unwrap();
        assert!(state.next_change(at(2)) > Some(at(10_002)), "there is nothing to do then");
        state.stale = true;
        let roster = state.take_update(at(20_000)).unwrap().roster;
        assert_eq!(roster.lookup("n"), Lookup::Configured(n), "longer than queue.hold_ttl");
        state.set_model_list(BackendId(4), list(&[listed]));
        let roster = state.take_update(at(20_001)).unwrap().roster;
        assert_eq!(roster.lookup("n"), lookup.unwrap_or(Lookup::Known(n)));
    }
}

#[test]
fn o06_a_pool_that_loses_its_models_again_holds_all_that_it_had() {
    let (mut state, pods, n) = left_by_two();
    state.set_cluster(Some(pods[..1].to_vec()), at(2));
    state.set_model_list(C, list(&["m"]));
    let m = state.take_update(at(2)).unwrap().roster.lookup("m").known();
    state.set_cluster(Some(Vec::new()), at(3));
    let roster = state.take_update(at(3)).unwrap().roster;
    assert_eq!(roster.lookup("m"), Lookup::Configured(m));
    assert_eq!(roster.lookup("n"), Lookup::Configured(n));
    assert!(state.next_change(at(3)) > Some(at(10_003)), "no model has returned");
    // A server without a list takes the requests that wait for one of them.
    let any = BackendSpec { models: vec!["*".into()], ..pods[0].clone() };
    state.set_cluster(Some(vec![any]), at(4));
    let update = state.take_update(at(4)).unwrap();
    assert!([m, n].iter().all(|id| serves(&update, BackendId(4)).contains(id)));
}

/// Otherwise a picker that can read no list would get requests for ever.
#[test]
fn o06_a_pool_whose_lists_cannot_be_read_is_at_zero_for_a_minute() {
    let (mut state, pods, _) = left_by_two();
    let pod = |drain| Some(vec![BackendSpec { drain, ..pods[0].clone() }]);
    state.set_cluster(pod(Some(DrainCause::NotReady)), at(2));
    state.stale = true;
    assert!(state.take_update(at(100_000)).unwrap().roster.is_at_zero(), "no pod is ready");
    state.set_cluster(pod(None), at(100_001));
    assert!(state.take_update(at(100_001)).unwrap().roster.is_at_zero(), "its list is near");
    assert_eq!(state.next_change(at(100_001)), Some(at(160_001)));
    let roster = state.take_update(at(160_001)).unwrap().roster;
    assert!(!roster.is_at_zero() && roster.holds(), "its requests still wait");
    state.stale = true;
    assert!(!state.take_update(at(160_002)).unwrap().roster.is_at_zero());
    state.set_cluster(Some(Vec::new()), at(160_003));
    assert!(state.take_update(at(160_003)).unwrap().roster.is_at_zero(), "again without a pod");
}
