//! R07, X01, C07: what follows from how backends are and what they list.

use flow::{BackendId, ModelId};

use super::super::Attempt;
use super::super::crew::{Board, Crew, Source};
use super::super::health::Check;
use super::super::metrics::Gauges;
use super::super::models::{Lesson, openai_list};
use super::*;

const A: BackendId = BackendId(1);
const B: BackendId = BackendId(2);
const C: BackendId = BackendId(3);

/// A crew whose members have passed their first check.
fn crew(specs: Vec<BackendSpec>) -> (Crew, Board) {
    let mut crew = Crew::default();
    crew.configure(&quick(specs), at(0));
    for id in crew.members.keys().copied().collect::<Vec<_>>() {
        crew.checked(id, Check::Good, at(0), at(0));
    }
    let board = crew.settle(at(0)).unwrap();
    (crew, board)
}

fn list(names: &[&str]) -> Lesson {
    let entries: Vec<String> = names.iter().map(|name| format!(r#"{{"id":"{name}"}}"#)).collect();
    let text = format!(r#"{{"data":[{}]}}"#, entries.join(","));
    Lesson::List(openai_list(text.as_bytes()).unwrap())
}

fn fail(crew: &mut Crew, id: BackendId, now: Time) {
    (0..3).for_each(|_| crew.report(id, Attempt::Failed, now));
}

fn ready(board: &Board) -> Vec<u32> {
    let taking = board.supply.iter().filter(|supply| supply.ready && !supply.paused);
    taking.map(|supply| supply.id.0).collect()
}

fn serves(board: &Board, id: BackendId) -> &[ModelId] {
    &board.supply.iter().find(|supply| supply.id == id).unwrap().models
}

#[test]
fn r07_failures_alone_never_take_the_last_backend_of_a_model() {
    let specs = vec![
        spec("a", 1, BackendKind::Vllm, &["m"]),
        spec("b", 2, BackendKind::Vllm, &["m", "own"]),
        spec("c", 3, BackendKind::Vllm, &["m", "own"]),
    ];
    let (mut crew, board) = crew(specs);
    assert_eq!(ready(&board), [1, 2, 3]);
    fail(&mut crew, A, at(1));
    fail(&mut crew, B, at(1));
    assert_eq!(ready(&crew.settle(at(1)).unwrap()), [3], "others serve their models");
    fail(&mut crew, C, at(2));
    assert_eq!(ready(&crew.settle(at(2)).unwrap()), [1, 2, 3], "better some answers than none");
    let states: Vec<String> = crew.views(at(2)).into_iter().map(|view| view.state).collect();
    assert_eq!(states[2], "ready: ejected 5.0 s more, but nobody else serves its models");
    crew.report(C, Attempt::Refused, at(3));
    crew.report(B, Attempt::Refused, at(3));
    crew.report(A, Attempt::Refused, at(3));
    let board = crew.settle(at(3)).unwrap();
    assert_eq!(ready(&board), [0; 0], "a refused connection takes even the last one");
    assert!(
        matches!(board.roster.lookup("own"), Lookup::Known(_)),
        "and its models are waited for"
    );
}

#[test]
fn n05_one_that_is_full_is_paused_and_no_reason_to_use_one_that_fails() {
    let (mut crew, _) = crew(vec![
        spec("a", 1, BackendKind::Vllm, &["m"]),
        spec("b", 2, BackendKind::Vllm, &["m"]),
    ]);
    fail(&mut crew, A, at(0));
    crew.report(B, Attempt::Full(None), at(0));
    let board = crew.settle(at(0)).unwrap();
    assert_eq!(ready(&board), [0; 0]);
    assert!(board.supply[1].ready && board.supply[1].paused, "it is the same engine afterwards");
    assert_eq!(crew.views(at(0))[1].state, "full");
    assert_eq!(crew.next_change(at(0)), Some(at(250)));
    assert_eq!(ready(&crew.settle(at(250)).unwrap()), [2]);
    assert!(crew.settle(at(251)).is_none(), "nothing new is not told");
}

#[test]
fn x01_a_list_that_is_not_learnt_is_waited_for() {
    let specs = vec![spec("a", 1, BackendKind::Vllm, &["m"]), spec("b", 2, BackendKind::Vllm, &[])];
    let (mut crew, board) = crew(specs);
    assert_eq!(ready(&board), [1], "without its list it is not ready");
    assert_eq!(crew.views(at(0))[1].state, "starting: its list of models is not learnt");
    let Lookup::NotYet(waited) = board.roster.lookup("x") else { panic!("not learnt yet") };
    assert_eq!(serves(&board, B), [waited]);
    crew.learn(B, Lesson::Later("503".into()));
    assert!(crew.settle(at(1)).is_none());
    crew.learn(B, list(&["x", "m"]));
    let board = crew.settle(at(2)).unwrap();
    assert!(board.learnt);
    assert_eq!(ready(&board), [1, 2]);
    let x = board.roster.lookup("x").known();
    assert!(serves(&board, B).contains(&x) && !serves(&board, A).contains(&x));
    assert_eq!(board.roster.lookup("y"), Lookup::Unknown);
    crew.learn(B, list(&["x", "m"]));
    assert!(crew.settle(at(3)).is_none(), "the same list is no news");
    crew.learn(B, Lesson::NoList("404".into()));
    assert!(crew.settle(at(3)).is_none(), "the old list is kept");
    crew.learn(B, list(&["m"]));
    let board = crew.settle(at(4)).unwrap();
    assert_eq!(board.roster.lookup("x"), Lookup::Unknown);
    crew.learn(B, list(&["x"]));
    let board = crew.settle(at(5)).unwrap();
    assert_eq!(board.roster.lookup("x"), Lookup::Known(x), "its number is the same again");
    crew.learn(A, list(&["z"]));
    assert!(crew.settle(at(6)).is_none(), "what is configured is not learnt");
}

#[test]
fn x01_a_backend_without_a_list_takes_any_name() {
    let specs =
        vec![spec("a", 1, BackendKind::Generic, &[]), spec("b", 2, BackendKind::Vllm, &["m"])];
    let (mut crew, _) = crew(specs);
    crew.learn(A, Lesson::NoList("404".into()));
    let board = crew.settle(at(1)).unwrap();
    let [other, m] = ["whatever", "m"].map(|name| board.roster.lookup(name).known());
    assert_eq!(other, board.roster.lookup("something else").known());
    assert_eq!(serves(&board, A), [other, m], "it takes the names that others list too");
    assert_eq!(serves(&board, B), [m]);
    assert_eq!(crew.views(at(1))[0].models, ["*"]);
    crew.learn(A, list(&["n"]));
    let board = crew.settle(at(2)).unwrap();
    assert_eq!(board.roster.lookup("whatever"), Lookup::Unknown, "it has learnt to say");
}

#[test]
fn x01_a_request_that_names_no_model_goes_to_ready_backends_in_turns() {
    let specs = vec![
        spec("a", 1, BackendKind::Vllm, &["m"]),
        spec("b", 2, BackendKind::Vllm, &["n"]),
        spec("c", 3, BackendKind::Vllm, &["*"]),
    ];
    let (mut crew, board) = crew(specs);
    let models = |board: &Board| -> Vec<u32> {
        (0..3).map(|draw| board.roster.anywhere(draw).known().0).collect()
    };
    let [m, n] = ["m", "n"].map(|name| board.roster.lookup(name).known().0);
    assert_eq!(models(&board), [m, n, 0]);
    crew.report(A, Attempt::Refused, at(1));
    assert_eq!(models(&crew.settle(at(1)).unwrap()), [n, 0, n]);
    crew.report(B, Attempt::Refused, at(2));
    crew.report(C, Attempt::Refused, at(2));
    assert_eq!(models(&crew.settle(at(2)).unwrap()), [m, n, 0], "they are waited for");
    let mut empty = Crew::default();
    empty.configure(&quick(Vec::new()), at(0));
    assert_eq!(empty.settle(at(0)).unwrap().roster.anywhere(5), Lookup::Unknown);
    empty.set_source(Source::EndpointsFile, vec![spec("a", 1, BackendKind::Vllm, &[])], at(0));
    let board = empty.settle(at(0)).unwrap();
    assert!(matches!(board.roster.anywhere(5), Lookup::NotYet(_)));
}

#[test]
fn x01_lists_are_merged_by_name() {
    let specs = vec![
        spec("a", 1, BackendKind::Vllm, &[]),
        spec("b", 2, BackendKind::Vllm, &["m"]),
        spec("c", 3, BackendKind::Ollama, &[]),
    ];
    let (mut crew, _) = crew(specs);
    let text = br#"{"data":[{"id":"n"},{"id":"m","owned_by":"us","created":9}]}"#;
    crew.learn(A, Lesson::List(openai_list(text).unwrap()));
    let text = br#"{"models":[{"name":"m:latest","size":4}]}"#;
    crew.learn(C, Lesson::List(super::super::models::ollama_list(text).unwrap()));
    let board = crew.settle(at(1)).unwrap();
    let entries = board.roster.models_merged();
    let names: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(names, ["m", "m:latest", "n"], "an alias is no entry of its own");
    assert_eq!(entries[0].backends, ["a", "b"]);
    assert_eq!((entries[0].owned_by.as_deref(), entries[0].created), (Some("us"), Some(9)));
    assert!(entries[1].tag.is_some());
    let m = board.roster.lookup("m").known();
    assert!(serves(&board, C).contains(&m), "without its tag it is the same name");
}

#[test]
fn x06_a_reload_keeps_those_who_stay_and_lets_the_others_end() {
    let [a, b] = [spec("a", 1, BackendKind::Vllm, &["m"]), spec("b", 2, BackendKind::Vllm, &["m"])];
    let (mut crew, _) = crew(vec![a.clone(), b.clone()]);
    fail(&mut crew, A, at(1));
    let moved = BackendSpec { url: "http://127.0.0.1:9".into(), ..b };
    let renewed = BackendSpec { traits: BackendTraits { power_watts: 9.0, ..a.traits }, ..a };
    crew.configure(&quick(vec![moved.clone(), renewed.clone()]), at(2));
    let board = crew.settle(at(2)).unwrap();
    let told: Vec<u32> = board.supply.iter().map(|supply| supply.id.0).collect();
    assert_eq!(told, [1, 3], "who moves is another");
    assert_eq!(board.supply[0].traits.power_watts, 9.0);
    assert_eq!(crew.views(at(2))[0].state.split(' ').nth(1), Some("ejected"), "its past stays");
    assert!(board.roster.upstream(B).is_some(), "a grant on its way still finds it");
    crew.set_source(
        Source::EndpointsFile,
        vec![moved, spec("d", 4, BackendKind::Vllm, &["m"])],
        at(3),
    );
    let told: Vec<u32> =
        crew.settle(at(3)).unwrap().supply.iter().map(|supply| supply.id.0).collect();
    assert_eq!(told, [1, 3, 4], "a name counts once");
    let later = crew.next_change(at(10_000)).unwrap();
    let board = crew.settle(later).unwrap();
    assert!(board.roster.upstream(B).is_none());
}

#[test]
fn r01_loaded_adapters_are_told_by_the_number_of_their_name() {
    let (mut crew, board) = crew(vec![spec("a", 1, BackendKind::Vllm, &["base", "sql"])]);
    let [base, sql] = ["base", "sql"].map(|name| board.roster.lookup(name).known());
    let adapters = vec!["sql".into(), "never heard of".into()];
    assert!(crew.scraped(A, Ok(Gauges { adapters, ..Gauges::default() }), at(1)));
    let board = crew.settle(at(1)).unwrap();
    assert_eq!(board.supply[0].adapters, [sql.0]);
    assert_eq!((board.roster.adapter(sql), board.roster.adapter(base)), (Some(sql.0), None));
    assert!(!crew.scraped(A, Err("gone".into()), at(2)));
    assert_eq!(crew.views(at(2))[0].scrape_error.as_deref(), Some("gone"));
}

#[test]
fn x06_urls_that_cannot_be_used_are_named() {
    for url in ["", "host:1", "https://host", "http://", "ftp://host", "http://ho st", "/path"] {
        let spec = BackendSpec { url: url.into(), ..spec("a", 1, BackendKind::Vllm, &[]) };
        let problem = Upstream::new(A, &spec).unwrap_err();
        assert!(problem.contains("backend a: url"), "{problem}");
    }
    let at = |url: &str| {
        let spec = BackendSpec { url: url.into(), ..spec("a", 1, BackendKind::Vllm, &[]) };
        let upstream = Upstream::new(A, &spec).unwrap();
        (upstream.authority.to_string(), upstream.base_path)
    };
    assert_eq!(at("http://host:1/"), ("host:1".into(), String::new()));
    assert_eq!(at("http://user:word@[::1]:8/a/b/"), ("[::1]:8".into(), "/a/b".into()));
    assert_eq!(at("http://host/v1"), ("host".into(), String::new()));
}
