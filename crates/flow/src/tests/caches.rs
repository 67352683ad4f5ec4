//! K01: what backends have cached attracts asks, in milliseconds and within limits.

use super::fixture::{Dice, Fixture, backend, limited_to, prompt};
use crate::{
    Ask, BackendId, BackendSupply, Bounds, EngineReading, ModelId, PromptBlocks, RequeuePosition,
    RouteChoice, RouteReason, Settings, Span, Ticket, Verdict,
};

/// The blocks of a long prompt, and its tokens.
const BLOCKS: usize = 100;
const TOKENS: u64 = 6400;

fn caching(limit: f64) -> Settings {
    Settings { cache_tokens: 1_000_000, ..limited_to(limit) }
}

// === impl Fixture ===

impl Fixture {
    /// Offers a long prompt that must be granted at once.
    fn ask_with(&mut self, blocks: PromptBlocks) -> (Ticket, BackendId, RouteChoice) {
        let ask = Ask { prompt: TOKENS, ..self.ask("a") };
        let verdict = self.gate.offer_prompt(ask, blocks, self.now);
        self.collect();
        match verdict {
            Verdict::Granted { ticket, backend } => {
                (ticket, backend, self.gate.choice(ticket).unwrap())
            }
            other => panic!("expected a grant, got {other:?}"),
        }
    }

    /// Offers a prompt that no other one begins like.
    fn offer_one(&mut self, number: u64, size: u64) -> Option<Option<(Ticket, BackendId)>> {
        let ask = Ask { prompt: size % 9000, ..self.ask("a") };
        let blocks = prompt(number, 0, size as usize % 40);
        match self.gate.offer_prompt(ask, blocks, self.now) {
            Verdict::Granted { ticket, backend } => Some(Some((ticket, backend))),
            other => panic!("expected a grant, got {other:?}"),
        }
    }

    /// Lets the first token of an ask come, and ends it if it is to end.
    fn advance_one(&mut self, ticket: Ticket, ends: bool) -> Option<Option<(Ticket, BackendId)>> {
        self.now = self.now.after(Span::from_millis(7));
        self.gate.started(ticket, self.now).unwrap();
        if ends {
            self.settle(ticket, 1);
            return None;
        }
        Some(None)
    }

    /// Grants a long prompt, and lets its first token come after so many milliseconds.
    fn computed(&mut self, blocks: PromptBlocks, millis: u64) -> BackendId {
        let (ticket, backend, _) = self.ask_with(blocks);
        self.pass(Span::from_millis(millis));
        self.gate.started(ticket, self.now).unwrap();
        self.settle(ticket, 1);
        backend
    }
}

#[test]
fn k01_prompts_with_a_common_beginning_go_to_the_same_backend() {
    let mut fixture = Fixture::new(caching(8.0), 4);
    let homes: Vec<BackendId> =
        (0..4).map(|at| fixture.computed(prompt(100 + at, 0, BLOCKS), 800)).collect();
    assert_eq!(homes, [0, 1, 2, 3].map(BackendId), "with nothing in common they spread");
    for at in [2, 0, 3, 3, 1, 2, 2, 0] {
        let (ticket, backend, choice) = fixture.ask_with(prompt(100 + at, 0, BLOCKS));
        assert_eq!((backend, choice.cached_tokens), (homes[at as usize], TOKENS));
        fixture.settle(ticket, 1);
    }
    // A part of the prompt counts as a part.
    let home = fixture.computed(prompt(7, 50, BLOCKS), 800);
    let (_, backend, choice) = fixture.ask_with(prompt(8, 50, BLOCKS));
    assert_eq!((backend, choice.cached_tokens), (home, TOKENS / 2));
    assert_eq!(choice.reason, RouteReason::Affinity);
}

#[test]
fn k01_a_cached_prompt_is_worth_the_time_to_compute_it() {
    let mut fixture = Fixture::new(caching(8.0), 2);
    let known = || prompt(1, 0, BLOCKS);
    assert_eq!(fixture.computed(known(), 400), BackendId(0));
    let (ticket, _, choice) = fixture.ask_with(known());
    assert_eq!(choice.score.affinity, 400.0, "16 K tokens a second were learned");
    fixture.settle(ticket, 1);
}

/// Prompts that a backend has to compute first are paid in the same unit, until they are computed.
#[test]
fn k01_a_backend_that_has_to_compute_other_prompts_first_loses_its_advantage() {
    for (started, expected) in [(false, BackendId(1)), (true, BackendId(0))] {
        let listed = [backend(0, &[1, 2]), backend(1, &[1])];
        let mut fixture = Fixture::with(caching(8.0), &listed);
        let known = || prompt(1, 0, BLOCKS);
        assert_eq!(fixture.computed(known(), 400), BackendId(0));
        let other = Ask { prompt: 2 * TOKENS, model: ModelId(2), ..fixture.ask("b") };
        let Verdict::Granted { ticket, .. } = fixture.offer(other) else { panic!() };
        if started {
            fixture.gate.started(ticket, fixture.now).unwrap();
            fixture.collect();
        }
        assert_eq!(fixture.ask_with(known()).1, expected);
    }
}

/// Where prompts have nothing in common, the index changes no choice, whatever else happens.
#[test]
fn k01_without_a_common_beginning_every_choice_is_as_without_an_index() {
    for seed in 0..50 {
        let mut dice = Dice(seed);
        let mut fixtures = [limited_to(6.0), caching(6.0)].map(|all| Fixture::new(all, 4));
        let mut flying: Vec<Ticket> = Vec::new();
        for number in 0..300 {
            let (action, at) = (dice.below(5), dice.next());
            let known = flying.get(at as usize % flying.len().max(1)).copied();
            let chosen = fixtures.each_mut().map(|fixture| match known {
                Some(ticket) if action > 2 || flying.len() > 20 => {
                    fixture.advance_one(ticket, action > 3)
                }
                _ => fixture.offer_one(number, at),
            });
            assert_eq!(chosen[0], chosen[1], "seed {seed}, step {number}");
            match (chosen[0], known) {
                (Some(Some((ticket, _))), _) => flying.push(ticket),
                (None, Some(ended)) => flying.retain(|ticket| *ticket != ended),
                _ => {}
            }
        }
    }
}

#[test]
fn k01_a_response_that_found_nothing_cached_is_believed() {
    let mut fixture = Fixture::new(caching(8.0), 2);
    for _ in 0..600 {
        let (ticket, ..) = fixture.ask_with(prompt(1, 0, BLOCKS));
        fixture.gate.cached(ticket, 0, 5000, fixture.now).unwrap();
        fixture.settle(ticket, 1);
    }
    let (ticket, _, choice) = fixture.ask_with(prompt(1, 0, BLOCKS));
    // Seven blocks at most: too few to be judged.
    assert!(choice.cached_tokens < 8 * 64, "{}", choice.cached_tokens);
    fixture.settle(ticket, 1);
    assert!(fixture.gate.cached(ticket, 0, 5000, fixture.now).is_err(), "it has ended");
}

#[test]
fn k01_a_restarted_engine_has_an_empty_cache() {
    let mut fixture = Fixture::new(caching(8.0), 1);
    let known = || prompt(1, 0, BLOCKS);
    fixture.computed(known(), 400);
    assert_eq!(fixture.ask_with(known()).2.cached_tokens, TOKENS);
    let down = BackendSupply { ready: false, ..backend(0, &[1]) };
    fixture.supply(&[down]);
    fixture.supply(&[backend(0, &[1])]);
    assert_eq!(fixture.ask_with(known()).2.cached_tokens, 0);
}

#[test]
fn k01_an_engine_holds_no_more_than_it_says() {
    let mut fixture = Fixture::new(caching(8.0), 1);
    let reading = EngineReading {
        running: 0,
        waiting: 0,
        kv_used: 0.0,
        preemptions: 0,
        kv_tokens: Some(150 * 64),
        running_max: None,
        ranks: 1,
    };
    fixture.gate.reading(BackendId(0), reading, fixture.now);
    fixture.computed(prompt(1, 0, BLOCKS), 400);
    fixture.computed(prompt(2, 0, BLOCKS), 400);
    assert_eq!(fixture.ask_with(prompt(1, 0, BLOCKS)).2.cached_tokens, TOKENS / 2);
}

/// A report is a number of another program. It must not let one index grow without bound.
#[test]
fn k01_an_engine_that_reports_too_much_is_not_believed() {
    let mut fixture = Fixture::new(caching(8.0), 1);
    for (tokens, blocks) in [(1 << 40, 15_625_000), (u64::MAX, 15_625_000), (6_400, 100)] {
        let reading = EngineReading { kv_tokens: Some(tokens), ..EngineReading::default() };
        fixture.gate.reading(BackendId(0), reading, fixture.now);
        assert_eq!(fixture.gate.supply.backends[0].prefixes.limit(), blocks);
    }
}

#[test]
fn k01_a_backend_that_failed_a_prompt_has_not_computed_it() {
    let mut fixture = Fixture::new(caching(8.0), 2);
    fixture.computed(prompt(1, 50, BLOCKS), 800);
    let (ticket, first, choice) = fixture.ask_with(prompt(2, 50, BLOCKS));
    assert_eq!((first, choice.cached_tokens), (BackendId(0), TOKENS / 2));
    fixture.gate.requeue(ticket, RequeuePosition::Back, fixture.now).unwrap();
    fixture.collect();
    let choice = fixture.gate.choice(ticket).unwrap();
    assert_eq!((choice.at, choice.cached_tokens), (1, 0), "it avoids the backend");
    fixture.gate.requeue(ticket, RequeuePosition::Original, fixture.now).unwrap();
    fixture.collect();
    let choice = fixture.gate.choice(ticket).unwrap();
    assert_eq!((choice.at, choice.cached_tokens), (0, TOKENS / 2), "what it had before stays");
    fixture.gate.moved(ticket, BackendId(1), fixture.now).unwrap();
    fixture.collect();
    fixture.settle(ticket, 1);
    let (_, backend, choice) = fixture.ask_with(prompt(2, 50, BLOCKS));
    assert_eq!((backend, choice.cached_tokens), (BackendId(1), TOKENS), "another one served it");
}

/// Asks whose prompts share a beginning share the memory for it.
#[test]
fn k01_under_auto_cached_tokens_are_counted_once() {
    let mut fixture = Fixture::new(Settings { bounds: Bounds::Auto, ..caching(1.0) }, 1);
    let mut tokens_of = |number: u64, shared: usize| {
        let ask = Ask { prompt: TOKENS, tokens: TOKENS + 100, ..fixture.ask("a") };
        let verdict = fixture.gate.offer_prompt(ask, prompt(number, shared, BLOCKS), fixture.now);
        assert!(matches!(verdict, Verdict::Granted { .. }), "{verdict:?}");
        let view = fixture.gate.backends().next();
        view.map(|view| view.limits.tokens.0).unwrap()
    };
    assert_eq!(tokens_of(0, BLOCKS), 6500);
    assert_eq!(tokens_of(1, 50), 6500 + 3300, "half of the prompt is cached");
}
