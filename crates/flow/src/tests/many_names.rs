//! Q06, theorem 4: what a client gains by using many names of flows.

use std::collections::BTreeMap;

use super::fairness::{WEIGHTS, weighted};
use super::fixture::{Dice, Fixture, MODEL};
use crate::{Ask, Ticket, Verdict, Weight};

const COST_MAX: u64 = 50;

/// The flow of an ask that waits or is in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Owner {
    /// A flow that always waits.
    Steady,
    /// A name that the client uses again.
    Kept,
    /// A name that the client uses once.
    Fresh,
    /// Neither of the two.
    Other,
}

/// A client with many names beside one flow that always waits.
struct Trial {
    fixture: Fixture,
    dice: Dice,
    /// The classes of the client's flows and of the steady flow, which give their weights.
    classes: [usize; 2],
    /// How many names the client keeps, and how many asks under fresh names it has waiting at most.
    kept: usize,
    fresh: usize,
    names: u64,
    asks: BTreeMap<Ticket, (Owner, u64)>,
    waiting: [usize; 2],
    in_flight: Vec<Ticket>,
    /// Service over weight, of the client and of the steady flow.
    served: [i128; 2],
    /// The least lead of the client so far.
    lead_min: i128,
}

// === impl Trial ===

impl Trial {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let slots = 1 + dice.below(4);
        let class = |dice: &mut Dice| dice.below(WEIGHTS.len() as u64) as usize;
        let mut trial = Self {
            fixture: Fixture::new(weighted(slots as f64), 1),
            classes: [class(&mut dice), class(&mut dice)],
            kept: dice.below(4) as usize,
            fresh: 1 + dice.below(6) as usize,
            dice,
            names: 0,
            asks: BTreeMap::new(),
            waiting: [0; 2],
            in_flight: Vec::new(),
            served: [0; 2],
            lead_min: 0,
        };
        (0..slots).for_each(|_| trial.offer(Owner::Other));
        trial
    }

    fn shares(&self) -> i128 {
        (self.kept + self.fresh) as i128
    }

    fn inverse(&self, side: usize) -> i128 {
        i128::from(Weight::new(WEIGHTS[self.classes[side]]).unwrap().inverse)
    }

    /// How far the client is ahead of so many shares.
    fn lead(&self) -> i128 {
        self.served[0] - self.shares() * self.served[1]
    }

    fn offer(&mut self, owner: Owner) {
        let [client, steady] = self.classes;
        self.names += 1;
        let number = self.dice.below(self.kept.max(1) as u64);
        let (name, class) = match owner {
            Owner::Steady => ("steady".to_owned(), steady),
            Owner::Kept => (format!("kept-{number}"), client),
            Owner::Fresh => (format!("fresh-{}", self.names), client),
            Owner::Other => (format!("other-{}", self.dice.below(3)), 0),
        };
        let flow = self.fixture.gate.flow(&name, class as u32 + 1);
        let cost = 1 + self.dice.below(COST_MAX);
        let ticket = match self.fixture.offer(Ask { cost, ..Ask::new(flow, MODEL) }) {
            Verdict::Granted { ticket, .. } => {
                self.in_flight.push(ticket);
                ticket
            }
            Verdict::Queued { ticket } => {
                self.count(owner, 1);
                ticket
            }
            Verdict::Refused { reason, .. } => panic!("refused: {reason:?}"),
        };
        self.asks.insert(ticket, (owner, cost));
    }

    /// Counts the waiting asks of the steady flow and of fresh names.
    fn count(&mut self, owner: Owner, change: isize) {
        let side = match owner {
            Owner::Steady => 0,
            Owner::Fresh => 1,
            Owner::Kept | Owner::Other => return,
        };
        self.waiting[side] = self.waiting[side].strict_add_signed(change);
    }

    /// The steady flow always waits; the others ask as chance has it.
    fn arrive(&mut self) {
        while self.waiting[0] < 3 {
            self.offer(Owner::Steady);
        }
        while self.waiting[1] < self.fresh && self.dice.chance(90) {
            self.offer(Owner::Fresh);
        }
        if self.kept > 0 && self.dice.chance(60) {
            self.offer(Owner::Kept);
        }
        if self.dice.chance(20) {
            self.offer(Owner::Other);
        }
    }

    fn step(&mut self) {
        self.arrive();
        let at = self.dice.below(self.in_flight.len() as u64) as usize;
        let ended = self.in_flight.swap_remove(at);
        let cost = self.asks[&ended].1;
        self.fixture.settle(ended, cost);
        for ticket in self.fixture.granted() {
            self.in_flight.push(ticket);
            self.charge(ticket);
        }
    }

    fn charge(&mut self, ticket: Ticket) {
        let (owner, cost) = self.asks[&ticket];
        self.count(owner, -1);
        let side = match owner {
            Owner::Steady => 1,
            Owner::Kept | Owner::Fresh => 0,
            Owner::Other => return,
        };
        self.served[side] += i128::from(cost) * self.inverse(side);
        self.lead_min = self.lead_min.min(self.lead());
        let step = i128::from(COST_MAX) * (self.inverse(0) + self.inverse(1));
        let gain = self.lead() - self.lead_min;
        assert!(gain <= self.shares() * step, "the client gained {gain}");
    }
}

/// Theorem 4, after every grant and over every interval of random runs.
#[test]
fn q06_a_client_has_one_share_for_each_name_and_each_ask_under_a_fresh_name() {
    for seed in 0..60 {
        let mut trial = Trial::new(seed);
        (0..400).for_each(|_| trial.step());
    }
}

/// The bound is tight: names do bring shares. Two kept names and three asks under fresh names at a
/// time get five shares of six.
#[test]
fn q06_names_bring_as_many_shares_as_the_theorem_allows() {
    let mut fixture = Fixture::new(weighted(1.0), 1);
    let mut running = fixture.start("first");
    let mut owners = BTreeMap::new();
    let mut served = [0; 3];
    let mut fresh = 0;
    for flow in ["steady", "kept-1", "kept-2"] {
        for _ in 0..2000 {
            let at = usize::from(flow != "steady");
            owners.insert(fixture.queue(flow, crate::Band::Normal), at);
        }
    }
    let mut waiting = 0;
    for _ in 0..6000 {
        while waiting < 3 {
            fresh += 1;
            waiting += 1;
            owners.insert(fixture.queue(&format!("fresh-{fresh}"), crate::Band::Normal), 2);
        }
        fixture.settle(running, 1);
        running = fixture.granted()[0];
        served[owners[&running]] += 1;
        waiting -= usize::from(owners[&running] == 2);
    }
    let [steady, kept, fresh] = served;
    assert!((990..=1010).contains(&steady), "{served:?}");
    assert!((1980..=2020).contains(&kept) && (2980..=3020).contains(&fresh), "{served:?}");
}
