//! K01, K02: what an index of prefixes is worth on engines that cache them.

use super::*;
use crate::measure::History;

const PREFIXES: u64 = 150;
/// Segments of 512 tokens that prompts share.
const SHARED: u64 = 12;
const TEAMS: u64 = 6;

/// Requests of one team: one of the shared beginnings, and a part of its own.
fn drawn_prefixes(rate: f64, seed: u64) -> impl Iterator<Item = Request> {
    let lengths = Lengths::Fixed { prompt: SHARED as u32 * 512 + 300, output: 100 };
    let process = Process::Poisson { rate };
    let times = Arrivals::new(process, lengths, &Random::new(seed), Time::NEVER).unwrap();
    let mut random = Random::new(seed ^ 0xCAFE);
    times.enumerate().map(move |(at, request)| {
        let beginning = random.below(PREFIXES) * SHARED;
        let own = (seed << 32) + at as u64 + PREFIXES * SHARED;
        Request { prefix: (beginning..beginning + SHARED).chain([own]).collect(), ..request }
    })
}

fn saturated(rate: f64, seed: u64) -> Setup {
    let team = |at| {
        let requests = drawn_prefixes(rate / TEAMS as f64, seed * 100 + at);
        Source::new(&format!("team-{at}"), requests)
    };
    let mut setup =
        Setup::new(vec![named("h100-8b"); 4], (0..TEAMS).map(team).collect(), Span::from_secs(90));
    setup.warm_up = Span::from_secs(30);
    setup.drain = Span::ZERO;
    setup
}

fn caching(cache_tokens: u64, cache_slack: u32) -> Tidegate {
    let settings =
        Settings { cache_tokens, cache_slack, total_capacity: 5000, ..settings(fixed(24.0)) };
    Tidegate::new(TidegateConfig { settings, cost: Cost::Tokens }, &[])
}

/// The share of prompt tokens that were cached, and output tokens.
fn outcome(history: &History) -> (f64, u64) {
    let (saved, asked) = history.prefix_hits;
    (saved as f64 / asked.max(1) as f64, history.produced.output)
}

/// With places to choose from, the index alone brings requests to the engine that has their
/// beginning: 0.77 of the prompt tokens are cached, 0.38 without it.
#[test]
fn k01_below_saturation_the_index_doubles_what_engines_find_cached() {
    let [without, with] =
        [0, 400_000].map(|tokens| outcome(&run(saturated(20.0, 1), &mut caching(tokens, 0))));
    assert!(with.0 > 1.7 * without.0, "{with:?} instead of {without:?}");
}

/// Under saturation one place opens at a time, and only the choice of the request helps: 0.73 of
/// the prompt tokens are cached and 1.6 times as many tokens are produced, instead of 0.39.
#[test]
fn k02_under_saturation_slack_keeps_what_engines_find_cached() {
    let [none, index, slack] = [(0, 0), (400_000, 0), (400_000, 50_000)]
        .map(|(tokens, slack)| outcome(&run(saturated(60.0, 1), &mut caching(tokens, slack))));
    assert!(index.0 < 1.2 * none.0, "the index alone has no choice: {index:?}, {none:?}");
    assert!(slack.0 > 1.6 * none.0, "{slack:?} instead of {none:?}");
    assert!(slack.1 as f64 > 1.4 * none.1 as f64, "{slack:?} instead of {none:?}");
}
