//! R01: sessions, cached prefixes and adapters attract asks to their backends, within limits.

use super::*;

fn session(session: u64) -> RoutePreference {
    RoutePreference { session: Some(session), ..RoutePreference::default() }
}

#[test]
fn r01_a_session_stays_at_its_home() {
    let mut field = equals([[0; BANDS]; 5]);
    let mut homes = [0; 5];
    for id in 0..1000 {
        let home = pick(&session(id), &field).at;
        homes[home as usize] += 1;
        field[home as usize].last_granted = id + 1;
        assert_eq!(pick(&session(id), &field).at, home, "again, though others wait longer");
    }
    assert!(homes.iter().all(|&count| (150..250).contains(&count)), "evenly spread: {homes:?}");
}

#[test]
fn r01_a_backend_that_leaves_moves_only_its_own_sessions() {
    let field = equals([[0; BANDS]; 5]);
    let mut heirs = [0; 4];
    for id in 0..1000 {
        let home = pick(&session(id), &field).at;
        let without_last = pick(&session(id), &field[..4]).at;
        assert!(home == 4 || without_last == home, "session {id}");
        heirs[without_last as usize] += u32::from(home == 4);
    }
    assert!(heirs.iter().all(|&count| count > 20), "the rest share them: {heirs:?}");
}

#[test]
fn r01_a_known_cache_counts_more_than_a_home() {
    let field = equals([[0; BANDS]; 4]);
    let home = pick(&session(7), &field).at;
    let holder = (home + 1) % 4;
    let mut known = field;
    known[holder as usize].cached_tokens = 100;
    let choice = pick(&session(7), &known);
    assert_eq!((choice.at, choice.score.affinity), (holder, 12.5));
}

#[test]
fn r01_affinity_yields_to_load() {
    let warm = |pending| {
        let [warm, cold] = equals([[0, pending, 0, 0], [0; BANDS]]);
        [Candidate { cached_tokens: 800, ..warm }, cold]
    };
    assert_eq!(pick(&RoutePreference::default(), &warm(1)).at, 0, "worth one ask ahead of it");
    assert_eq!(pick(&RoutePreference::default(), &warm(3)).at, 1, "not worth three");
}

/// 800 tokens take 100 ms. If two asks are in flight everywhere, three would be delayed by that.
#[test]
fn k01_a_prompt_that_is_computed_again_delays_others() {
    let field = |delayed| {
        let [warm, cold] = equals([[0, 6, 0, 0], [0, 2, 0, 0]]);
        [Candidate { cached_tokens: 800, delayed, ..warm }, Candidate { delayed, ..cold }]
    };
    assert_eq!(pick(&RoutePreference::default(), &field(2)).at, 0, "300 ms, for four asks more");
    assert_eq!(pick(&RoutePreference::default(), &field(0)).at, 1, "100 ms, if none is delayed");
}

#[test]
fn r01_affinity_is_named_when_it_decided() {
    let [warm, cold] = equals([[0, 1, 0, 0], [0; BANDS]]);
    let field = [Candidate { cached_tokens: 800, ..warm }, cold];
    assert_eq!(pick(&RoutePreference::default(), &field).reason.text(), "cache-affinity");
    let field = [warm, Candidate { cached_tokens: 800, ..cold }];
    let choice = pick(&RoutePreference::default(), &field);
    assert_eq!(choice.reason, RouteReason::NormalBalanced, "it would have been chosen anyway");
    let adapter = RoutePreference { adapter: Some(1), ..RoutePreference::default() };
    let field = [Candidate { has_adapter: true, ..warm }, cold];
    assert_eq!(pick(&adapter, &field).reason, RouteReason::Affinity);
}

/// A home above the latency limit does not count: another eligible backend is the home.
#[test]
fn r05_a_session_has_its_home_among_backends_within_the_limit() {
    let limit = crate::time::Span::from_millis(600);
    for id in 0..50 {
        let mut field = equals([[0; BANDS]; 4]);
        let home = pick(&session(id), &field).at;
        field[home as usize].traits.latency_ms = 700.0;
        let choice = pick(&RoutePreference { latency_max: Some(limit), ..session(id) }, &field);
        assert_ne!(choice.at, home);
        assert_eq!(choice.score.affinity, 100.0, "session {id}");
    }
}
