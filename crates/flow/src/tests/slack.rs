//! K02: within the slack the ask whose prompt is cached goes first, and no other one starves.

use super::fixture::{Fixture, limited_to, prompt};
use crate::{Ask, Settings, Ticket, Verdict};

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
        let mut fixture = Fixture::new(with_slack(slack), 1);
        let ask = Ask { prompt: TOKENS, ..fixture.ask("first") };
        let verdict = fixture.gate.offer_prompt(ask, prompt(0, 0, 10), fixture.now);
        let Verdict::Granted { ticket: running, .. } = verdict else { panic!("{verdict:?}") };
        Self { fixture, running, names: Vec::new() }
    }

    /// Lets an ask of a flow wait.
    fn wait(&mut self, flow: &'static str, text: u64, cost: u64) {
        let ask = Ask { prompt: TOKENS, cost, ..self.fixture.ask(flow) };
        let verdict = self.fixture.gate.offer_prompt(ask, prompt(text, 0, 10), self.fixture.now);
        let Verdict::Queued { ticket } = verdict else { panic!("{verdict:?}") };
        self.names.push((ticket, flow));
    }

    /// Ends the ask in flight; returns the flow that goes next.
    fn next(&mut self) -> Option<&'static str> {
        self.fixture.gate.settle(self.running, crate::Usage::Unknown, self.fixture.now).unwrap();
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
