//! K02: within the slack the ask whose prompt is cached goes first, and no other one starves.
//! K03: cached tokens are not charged.

use super::fixture::{Fixture, MODEL, backend, limited_to, prompt};
use crate::{Ask, BackendId, Band, Settings, Span, Ticket, Usage, Verdict};

const TOKENS: u64 = 640;

fn with_slack(slack: u32) -> Settings {
    Settings { cache_tokens: 1_000_000, cache_slack: slack, ..limited_to(1.0) }
}

/// One place, taken by an ask with prompt 0, and the flows whose asks wait.
struct Line {
    fixture: Fixture,
    running: Ticket,
    names: Vec<(Ticket, &'static str)>,
}

// === impl Line ===

impl Line {
    fn new(slack: u32) -> Self {
        Self::with(with_slack(slack))
    }

    fn reordered(reorder: u32) -> Self {
        Self::with(Settings { cache_reorder: reorder, ..with_slack(0) })
    }

    fn with(settings: Settings) -> Self {
        // The second backend serves another model.
        let mut fixture = Fixture::with(settings, &[backend(0, &[MODEL.0]), backend(1, &[2])]);
        let ask = Ask { prompt: TOKENS, ..fixture.ask("first") };
        let verdict = fixture.gate.offer_prompt(ask, prompt(0, 0, 10), fixture.now);
        let Verdict::Granted { ticket: running, .. } = verdict else { panic!("{verdict:?}") };
        Self { fixture, running, names: Vec::new() }
    }

    /// Lets an ask of a flow wait.
    fn wait(&mut self, flow: &'static str, text: u64, cost: u64) {
        let ask = Ask { prompt: TOKENS, cost, ..self.fixture.ask(flow) };
        self.offer(flow, ask, text);
    }

    fn offer(&mut self, flow: &'static str, ask: Ask, text: u64) {
        let verdict = self.fixture.gate.offer_prompt(ask, prompt(text, 0, 10), self.fixture.now);
        let Verdict::Queued { ticket } = verdict else { panic!("{verdict:?}") };
        self.names.push((ticket, flow));
    }

    /// Ends the ask in flight; returns the flow that goes next.
    fn next(&mut self) -> Option<&'static str> {
        self.next_after(Usage::Unknown)
    }

    /// Ends the ask in flight; returns which of those that waited goes next.
    fn next_at(&mut self) -> usize {
        self.next();
        self.names.iter().position(|(ticket, _)| *ticket == self.running).unwrap()
    }

    fn next_after(&mut self, usage: Usage) -> Option<&'static str> {
        self.fixture.gate.settle(self.running, usage, self.fixture.now).unwrap();
        self.fixture.collect();
        self.running = *self.fixture.granted().first()?;
        self.names.iter().find(|(ticket, _)| *ticket == self.running).map(|(_, flow)| *flow)
    }
}

#[test]
fn k02_the_ask_whose_prompt_is_cached_goes_first_within_the_slack() {
    // The flows are new, so that their tags are one step behind: 100 and 130.
    for (slack, expected) in [(0, "cold"), (29, "cold"), (30, "warm"), (5000, "warm")] {
        let mut line = Line::new(slack);
        line.wait("cold", 1, 100);
        line.wait("warm", 0, 130);
        assert_eq!(line.next(), Some(expected), "slack {slack}");
    }
}

#[test]
fn k02_without_a_cached_prompt_the_usual_turn_stays() {
    let mut line = Line::new(5000);
    line.wait("a", 1, 100);
    line.wait("b", 2, 130);
    line.wait("c", 3, 90);
    assert_eq!([line.next(), line.next(), line.next()], ["c", "a", "b"].map(Some));
}

/// A cold ask waits for at most the slack and one more ask of a warm flow.
#[test]
fn k02_a_cold_ask_waits_for_no_more_than_the_slack() {
    for (slack, cost) in [(1000, 100), (1000, 40), (50, 100), (7, 3)] {
        let mut line = Line::new(slack);
        line.wait("cold", 1, cost);
        for _ in 0..slack as u64 / cost + 4 {
            line.wait("warm", 0, cost);
        }
        let mut served = 0;
        while line.next() == Some("warm") {
            served += cost;
        }
        let least = u64::from(slack).saturating_sub(cost);
        let bound = u64::from(slack) + cost;
        assert!((least..=bound).contains(&served), "{served} with a slack of {slack}");
    }
}

/// Inside a flow the ask whose prompt is cached goes first, too.
#[test]
fn k02_inside_a_flow_a_cached_ask_goes_before_older_ones() {
    for (reorder, expected) in [(0, 0), (1, 2), (16, 2)] {
        let mut line = Line::reordered(reorder);
        for text in [1, 2, 0] {
            line.wait("flow", text, 100);
        }
        line.next();
        let at = line.names.iter().position(|(ticket, _)| *ticket == line.running);
        assert_eq!(at, Some(expected), "reorder {reorder}");
    }
}

#[test]
fn k02_inside_a_flow_no_ask_is_passed_more_often_than_allowed() {
    // Of the 42 asks 28 still wait when the first one has been passed by half as many.
    for (reorder, most) in [(1, 1), (2, 2), (16, 14)] {
        let mut line = Line::reordered(reorder);
        for text in [1, 2].into_iter().chain(std::iter::repeat_n(0, 40)) {
            line.wait("flow", text, 100);
        }
        let mut passed = 0;
        while line.next().is_some() && line.running != line.names[0].0 {
            passed += 1;
        }
        assert_eq!(passed, most);
        // The second ask was passed by as many.
        line.next();
        assert_eq!(line.running, line.names[1].0, "reorder {reorder}");
    }
}

/// P07: no ask goes before an older critical one of its flow, whatever is cached.
#[test]
fn p07_no_cached_ask_passes_a_critical_one() {
    for (band, first) in [(Band::Critical, 0), (Band::High, 1)] {
        let mut line = Line::reordered(16);
        for text in [1, 0] {
            let ask = Ask { prompt: TOKENS, band, ..line.fixture.ask("flow") };
            line.offer("flow", ask, text);
        }
        line.next();
        assert_eq!(line.running, line.names[first].0, "{band:?}");
    }
}

/// The second of two with the same prompt is warm as soon as the first one is sent.
#[test]
fn k02_a_prompt_that_is_cached_while_an_ask_waits_is_noticed() {
    let mut line = Line::reordered(16);
    for text in [1, 2, 3, 1] {
        line.wait("flow", text, 100);
    }
    let order: Vec<usize> = (0..4).map(|_| line.next_at()).collect();
    assert_eq!(order, [0, 3, 1, 2]);
}

/// The engine has memory for one prompt.
#[test]
fn k02_a_prompt_that_is_no_longer_cached_attracts_nobody() {
    let tokens = Settings { cache_tokens: 10 * 64, cache_reorder: 16, ..with_slack(0) };
    let mut line = Line::with(tokens);
    line.wait("flow", 1, 100);
    line.wait("flow", 2, 100);
    // Prompt 0 is there when this one begins to wait, and gone when the first one has been sent.
    line.wait("other", 3, 1);
    line.wait("flow", 0, 100);
    assert_eq!(line.next(), Some("other"));
    let order: Vec<usize> = (0..3).map(|_| line.next_at()).collect();
    assert_eq!(order, [0, 1, 3]);
}

/// How many tokens of a prompt are cached is an estimate from its bytes. Two asks with the same
/// beginning differ in it, and the order must not follow the difference.
#[test]
fn k02_an_ask_goes_before_an_older_one_only_if_much_more_of_it_is_cached() {
    for (older, expected) in [(10, 0), (13, 0), (5, 1)] {
        let mut line = Line::reordered(4);
        for (blocks, tokens) in [(older, TOKENS / 10 * older as u64), (10, TOKENS + 30)] {
            let ask = Ask { prompt: tokens, ..line.fixture.ask("flow") };
            let blocks = prompt(0, 0, blocks);
            let verdict = line.fixture.gate.offer_prompt(ask, blocks, line.fixture.now);
            let Verdict::Queued { ticket } = verdict else { panic!("{verdict:?}") };
            line.names.push((ticket, "flow"));
        }
        line.next();
        assert_eq!(line.running, line.names[expected].0, "{older} blocks of 64 tokens, and 670");
    }
}

/// The grants of a flow whose prompts are cached among 26, beside one whose prompts are not. Its
/// asks end with this usage, the others with their estimate.
fn granted_to_warm(charge_cached: bool, usage: Usage) -> usize {
    let mut line = Line::with(Settings { charge_cached, ..with_slack(0) });
    for at in 0..30 {
        line.wait("cold", 1 + at, TOKENS + 60);
        line.wait("warm", 0, TOKENS + 60);
    }
    let (mut warm, mut ending) = (0, Usage::Unknown);
    for _ in 0..26 {
        let is_warm = line.next_after(ending) == Some("warm");
        warm += usize::from(is_warm);
        ending = if is_warm { usage } else { Usage::Cost(TOKENS + 60) };
    }
    warm
}

/// K03: a flow whose prompts are cached is granted more asks, because they cost less. While they
/// run, what is expected to be cached is not charged; a response must confirm it.
#[test]
fn k03_tokens_that_are_cached_are_not_charged() {
    assert_eq!(granted_to_warm(true, Usage::Unknown), 13, "turn by turn");
    // 700 to 60 is 35 to 3.
    assert_eq!(granted_to_warm(false, Usage::Cost(60)), 24);
    assert_eq!(granted_to_warm(false, Usage::Unknown), 13, "no response has confirmed it");
}

/// K03: what was refunded at the first backend is taken back, even if the last one was cold.
#[test]
fn k03_a_move_to_a_cold_backend_keeps_no_refund() {
    for (ending, expected) in [(Usage::Unknown, "cold"), (Usage::Cost(60), "warm")] {
        let mut line = Line::with(Settings { charge_cached: false, ..with_slack(0) });
        for _ in 0..3 {
            line.wait("warm", 0, 700);
        }
        line.wait("cold", 1, 900);
        assert_eq!(line.next(), Some("warm"));
        line.fixture.gate.moved(line.running, BackendId(1), line.fixture.now).unwrap();
        // Its place at the first backend is free for the second ask.
        assert_eq!(line.next_after(ending), Some("warm"));
        assert_eq!(line.next_after(Usage::Cost(60)), Some(expected));
    }
}

/// K03: the asks of a warm flow that run at once do not wait for the ends of each other.
#[test]
fn k03_what_is_expected_to_be_cached_is_not_charged_while_an_ask_runs() {
    let settings = Settings { charge_cached: false, cache_tokens: 1_000_000, ..limited_to(20.0) };
    let mut fixture = Fixture::new(settings, 1);
    let offer = |fixture: &mut Fixture, flow: &str, text: u64| {
        let ask = Ask { prompt: TOKENS, cost: TOKENS + 60, ..fixture.ask(flow) };
        fixture.gate.offer_prompt(ask, prompt(text, 0, 10), fixture.now)
    };
    let running: Vec<_> = (0..20).map(|_| offer(&mut fixture, "first", 0)).collect();
    let mut warm = Vec::new();
    for at in 0..20 {
        let Verdict::Queued { .. } = offer(&mut fixture, "cold", 1 + at) else { panic!() };
        let Verdict::Queued { ticket } = offer(&mut fixture, "warm", 0) else { panic!() };
        warm.push(ticket);
    }
    for verdict in running {
        let Verdict::Granted { ticket, .. } = verdict else { panic!("{verdict:?}") };
        fixture.settle(ticket, 60);
    }
    let granted = fixture.granted();
    let count = granted.iter().filter(|ticket| warm.contains(ticket)).count();
    assert!((17..=19).contains(&count), "{count} of {}", granted.len());
}

/// K03: the response corrects what was expected to be cached.
#[test]
fn k03_the_actual_cost_replaces_what_was_expected_to_be_cached() {
    let dropped = Usage::Cost(TOKENS + 60);
    assert_eq!(granted_to_warm(false, dropped), 13, "the engine had dropped the prompt each time");
}

/// An ask that came later with another objective stands beside the list. It is looked at, too.
#[test]
fn k02_inside_a_flow_every_objective_is_looked_at() {
    let objectives = [Span::from_secs(200); crate::BANDS];
    let settings = Settings { cache_reorder: 4, objectives, ..with_slack(0) };
    let mut line = Line::with(settings);
    let mut wait = |text: u64, objective: u64| {
        let ask = Ask {
            prompt: TOKENS,
            objective: Some(Span::from_secs(objective)),
            ..line.fixture.ask("flow")
        };
        let verdict = line.fixture.gate.offer_prompt(ask, prompt(text, 0, 10), line.fixture.now);
        let Verdict::Queued { ticket } = verdict else { panic!("{verdict:?}") };
        ticket
    };
    let [_strict, warm, _lax] = [(1, 100), (0, 90), (2, 80)].map(|(text, time)| wait(text, time));
    line.next();
    assert_eq!(line.running, warm);
}
