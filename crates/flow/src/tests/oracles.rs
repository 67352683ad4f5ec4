//! Q02, Q03, Q06: whole histories against two ideals, a fluid server and max-min shares.

use std::collections::BTreeMap;

use super::fairness::{WEIGHTS, weighted};
use super::fixture::{Dice, Fixture, MODEL};
use crate::{Ask, FlowClass, Settings, Ticket, Time, Verdict};

/// A fluid server that gives every backlogged flow its weight's share of one unit a tick.
fn fluid(arrivals: &[(u64, usize, u64)], until: u64) -> Vec<Vec<f64>> {
    let mut backlog = [0.0; WEIGHTS.len()];
    let mut served = [0.0; WEIGHTS.len()];
    let mut history = Vec::new();
    let mut next = arrivals.iter().peekable();
    for tick in 0..until {
        while let Some((_, flow, cost)) = next.next_if(|arrival| arrival.0 <= tick) {
            backlog[*flow] += *cost as f64;
        }
        let mut left = 1.0;
        while left > 1e-12 {
            let busy: Vec<usize> = (0..WEIGHTS.len()).filter(|&f| backlog[f] > 1e-12).collect();
            let Some(sum) =
                (!busy.is_empty()).then(|| busy.iter().map(|&f| WEIGHTS[f]).sum::<f64>())
            else {
                break;
            };
            let fill = busy.iter().map(|&f| backlog[f] / WEIGHTS[f]).fold(left / sum, f64::min);
            for &flow in &busy {
                backlog[flow] -= fill * WEIGHTS[flow];
                served[flow] += fill * WEIGHTS[flow];
            }
            left -= fill * sum;
        }
        history.push(served.to_vec());
    }
    history
}

/// The service each flow has had by each tick, from one server that runs asks one by one.
fn packets(arrivals: &[(u64, usize, u64)], until: u64) -> Vec<Vec<f64>> {
    let mut fixture = Fixture::new(weighted(1.0), 1);
    let mut asks = BTreeMap::new();
    let mut running: Option<(Ticket, u64)> = None;
    let mut served = [0.0; WEIGHTS.len()];
    let mut next = arrivals.iter().peekable();
    let mut history = Vec::new();
    for tick in 0..until {
        fixture.now = Time::from_millis(tick);
        while let Some(&(_, flow, cost)) = next.next_if(|arrival| arrival.0 <= tick) {
            let id = fixture.gate.flow(&format!("flow-{flow}"), flow as u32 + 1);
            match fixture.offer(Ask { cost, ..Ask::new(id, MODEL) }) {
                Verdict::Granted { ticket, .. } => {
                    asks.insert(ticket, (flow, cost));
                    running = Some((ticket, cost));
                }
                Verdict::Queued { ticket } => _ = asks.insert(ticket, (flow, cost)),
                Verdict::Refused { reason, .. } => panic!("refused: {reason:?}"),
            }
        }
        if let Some((ticket, left)) = running {
            served[asks[&ticket].0] += 1.0;
            running = Some((ticket, left - 1)).filter(|&(_, left)| left > 0);
            if running.is_none() {
                fixture.settle(ticket, asks[&ticket].1);
                running = fixture.granted().first().map(|&ticket| (ticket, asks[&ticket].1));
            }
        }
        history.push(served.to_vec());
    }
    history
}

/// Q02 against the fluid ideal: over whole histories with idle times, no flow is ever further from
/// generalised processor sharing than one largest cost of every flow together.
#[test]
fn q02_service_tracks_the_fluid_server() {
    const COST: u64 = 20;
    for seed in 0..8 {
        let mut dice = Dice(seed);
        let mut arrivals = Vec::new();
        let mut tick = 0;
        for burst in 0..60 {
            tick += dice.below(400);
            let flow = (burst + dice.below(2) as usize) % WEIGHTS.len();
            for _ in 0..dice.below(25) {
                arrivals.push((tick + dice.below(30), flow, 1 + dice.below(COST)));
            }
        }
        arrivals.sort_unstable();
        let until = tick + 8000;
        let (ideal, real) = (fluid(&arrivals, until), packets(&arrivals, until));
        let allowed = (COST * WEIGHTS.len() as u64) as f64;
        for (tick, (ideal, real)) in ideal.iter().zip(&real).enumerate() {
            for flow in 0..WEIGHTS.len() {
                let lag = (ideal[flow] - real[flow]).abs();
                assert!(lag <= allowed, "seed {seed}, tick {tick}, flow {flow}: off by {lag}");
            }
        }
    }
}

/// Weighted max-min shares of `capacity` among flows with these demands.
fn water_filling(demands: &[f64], weights: &[f64], capacity: f64) -> Vec<f64> {
    let mut share = vec![0.0; demands.len()];
    let mut open: Vec<usize> = (0..demands.len()).collect();
    let mut left = capacity;
    while !open.is_empty() {
        let sum: f64 = open.iter().map(|&flow| weights[flow]).sum();
        let level = left / sum;
        let met: Vec<usize> =
            open.iter().copied().filter(|&flow| demands[flow] <= level * weights[flow]).collect();
        if met.is_empty() {
            open.iter().for_each(|&flow| share[flow] = level * weights[flow]);
            break;
        }
        for flow in met {
            share[flow] = demands[flow];
            left -= demands[flow];
            open.retain(|&other| other != flow);
        }
    }
    share
}

/// Four servers that each take one ask a tick, and flows whose asks arrive at random.
struct Servers {
    fixture: Fixture,
    dice: Dice,
    owner: BTreeMap<Ticket, usize>,
    running: Vec<Ticket>,
    served: [f64; WEIGHTS.len()],
}

impl Servers {
    fn new(seed: u64) -> Self {
        let class = |class: &FlowClass| FlowClass { capacity: 50, ..*class };
        let classes = weighted(4.0).classes.iter().map(class).collect();
        Self {
            fixture: Fixture::new(Settings { classes, ..weighted(4.0) }, 1),
            dice: Dice(seed),
            owner: BTreeMap::new(),
            running: Vec::new(),
            served: [0.0; WEIGHTS.len()],
        }
    }

    /// Offers as many asks as a demand per tick gives, by chance.
    fn arrive(&mut self, flow: usize, demand: f64) {
        for _ in 0..4 {
            if self.dice.below(4000) >= (demand * 1000.0) as u64 {
                continue;
            }
            let id = self.fixture.gate.flow(&format!("flow-{flow}"), flow as u32 + 1);
            match self.fixture.offer(Ask::new(id, MODEL)) {
                Verdict::Granted { ticket, .. } => {
                    self.owner.insert(ticket, flow);
                    self.running.push(ticket);
                }
                Verdict::Queued { ticket } => _ = self.owner.insert(ticket, flow),
                Verdict::Refused { .. } => {}
            }
        }
    }

    fn tick(&mut self) {
        for ticket in std::mem::take(&mut self.running) {
            self.served[self.owner[&ticket]] += 1.0;
            self.fixture.settle(ticket, 1);
            let granted = self.fixture.granted();
            self.running.extend(granted);
        }
    }
}

/// Q03, Q06 against max-min: flows with demands below and above their shares.
#[test]
fn q03_service_is_max_min_fair_over_whole_histories() {
    const TICKS: u64 = 20_000;
    for (seed, demands) in [[0.2, 0.3, 3.0, 3.0, 0.1], [3.0, 3.0, 0.5, 0.5, 3.0]].iter().enumerate()
    {
        let mut servers = Servers::new(seed as u64);
        for _ in 0..TICKS {
            demands.iter().enumerate().for_each(|(flow, &demand)| servers.arrive(flow, demand));
            servers.tick();
        }
        let ideal = water_filling(demands, &WEIGHTS, 4.0);
        for (flow, (served, ideal)) in servers.served.iter().zip(ideal).enumerate() {
            let rate = served / TICKS as f64;
            assert!((rate - ideal).abs() < 0.05, "seed {seed}, flow {flow}: {rate}, not {ideal}");
        }
    }
}
