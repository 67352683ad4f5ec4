//! Q07, C05, P05–P07: what may wait, and who gives way.

use super::bench::{Bench, Dice, limited_to};
use crate::{
    Admission, Band, Cascade, Event, Eviction, FlowClass, Refusal, Settings, Ticket, Weight,
};

fn full_after(total: u32, flow: u32) -> Settings {
    Settings {
        total_capacity: total,
        default_class: FlowClass { capacity: flow, ..FlowClass::default() },
        ..limited_to(1.0)
    }
}

fn preempted(bench: &mut Bench) -> Vec<Ticket> {
    let events = std::mem::take(&mut bench.events);
    let victims = events.into_iter().filter_map(|event| match event {
        Event::Evicted { ticket, reason: Eviction::Preempted, .. } => Some(ticket),
        _ => None,
    });
    victims.collect()
}

/// Q07: the defaults, and each limit with its own refusal.
#[test]
fn q07_flow_and_total_capacity_are_hard_limits() {
    assert_eq!(Settings::default().total_capacity, 1000);
    assert_eq!(FlowClass::default().capacity, 100);
    let mut bench = Bench::new(full_after(5, 3), 1);
    bench.start("a");
    bench.fill("a", Band::Normal, 3);
    assert_eq!(bench.refusal("a", Band::Normal), Refusal::FlowFull);
    bench.fill("b", Band::Normal, 2);
    assert_eq!(bench.refusal("b", Band::Normal), Refusal::QueueFull);
    assert_eq!(bench.refusal("c", Band::Normal), Refusal::TooManyFlows);
    assert_eq!(bench.gate.depth(), 5);
}

/// Q07: by option a flow that already waits may pass a full total, up to its own capacity.
#[test]
fn q07_existing_flows_may_exceed_the_total_by_option() {
    let settings = Settings { existing_flows_may_exceed_total: true, ..full_after(2, 3) };
    let mut bench = Bench::new(settings, 1);
    bench.start("a");
    bench.fill("a", Band::Normal, 3);
    assert_eq!(bench.refusal("a", Band::Normal), Refusal::FlowFull);
    assert_eq!(bench.refusal("b", Band::Normal), Refusal::TooManyFlows);
}

/// C05: critical-only refuses everyone else whenever they would have to wait.
#[test]
fn c05_critical_only_refuses_the_rest() {
    let settings = Settings { admission: Admission::CriticalOnly, ..limited_to(1.0) };
    let mut bench = Bench::new(settings, 1);
    let running = bench.start("a");
    assert_eq!(bench.refusal("a", Band::High), Refusal::NotCritical);
    let waiting = bench.queue("a", Band::Critical);
    bench.settle(running, 1);
    assert_eq!(bench.granted(), [waiting]);
}

/// P05: a newcomer evicts from the lowest band below its own; critical and equals are safe.
#[test]
fn p05_preemption_takes_from_the_lowest_band_below() {
    let mut bench = Bench::new(full_after(3, 10), 1);
    bench.start("a");
    let best_effort = bench.queue("a", Band::BestEffort);
    let normal = bench.queue("a", Band::Normal);
    bench.queue("a", Band::High);
    bench.queue("b", Band::High);
    assert_eq!(preempted(&mut bench), [best_effort]);
    bench.queue("b", Band::High);
    assert_eq!(preempted(&mut bench), [normal]);
    assert_eq!(bench.refusal("b", Band::High), Refusal::QueueFull, "never an equal band");
    bench.fill("c", Band::Critical, 3);
    assert_eq!(preempted(&mut bench).len(), 3);
    assert_eq!(bench.refusal("c", Band::Critical), Refusal::QueueFull, "critical is never evicted");
    assert_eq!(bench.gate.counters().preempted, [1, 1, 3, 0]);
}

/// P06: least recently preempted flow, then longest queue; inside it the newest ask.
#[test]
fn p06_victims_are_spread_over_flows_and_newest_go_first() {
    let mut bench = Bench::new(full_after(6, 10), 1);
    bench.start("x");
    let a: Vec<_> = (0..3).map(|_| bench.queue("a", Band::Normal)).collect();
    let b: Vec<_> = (0..2).map(|_| bench.queue("b", Band::Normal)).collect();
    let c = bench.queue("c", Band::Normal);
    bench.fill("x", Band::High, 4);
    assert_eq!(preempted(&mut bench), [a[2], b[1], c, a[1]]);
}

/// P06 against the definition: random queues, random departures, every victim checked.
#[test]
fn p06_every_victim_is_the_one_the_definition_names() {
    let mut dice = Dice(6);
    let mut bench = Bench::new(full_after(40, 40), 1);
    let mut running = bench.start("x");
    let names: Vec<String> = (0..6).map(|flow| format!("flow-{flow}")).collect();
    let mut waiting: Vec<Vec<Ticket>> = vec![Vec::new(); names.len()];
    // Flows are numbered in the order they are first named, and ties go by number.
    names.iter().for_each(|name| _ = bench.ask(name));
    let mut stamps = vec![0; names.len()];
    for step in 1..4000 {
        let at = dice.below(6) as usize;
        if bench.gate.depth() < 40 {
            waiting[at].push(bench.queue(&names[at], Band::Normal));
        } else if dice.chance(70) {
            let longest = |at: &usize| (stamps[*at], std::cmp::Reverse(waiting[*at].len()), *at);
            let victim = (0..6).filter(|&at| !waiting[at].is_empty()).min_by_key(longest);
            let newcomer = bench.queue("x", Band::High);
            let Some(victim) = victim else { panic!("someone waits") };
            let newest = waiting[victim].pop();
            assert_eq!(preempted(&mut bench), Vec::from_iter(newest), "step {step}");
            stamps[victim] = step;
            bench.gate.cancel(newcomer, bench.now).unwrap();
        } else {
            bench.settle(running, 1);
            running = bench.granted()[0];
            waiting.iter_mut().for_each(|line| line.retain(|&ticket| ticket != running));
        }
    }
}

/// P07: a critical ask within its flow's capacity always finds a place, until all is critical.
#[test]
fn p07_critical_flows_have_reserved_capacity() {
    let mut bench = Bench::new(full_after(4, 2), 1);
    bench.start("x");
    bench.fill("a", Band::High, 2);
    bench.fill("b", Band::High, 2);
    bench.fill("a", Band::Critical, 2);
    assert_eq!(bench.refusal("a", Band::Critical), Refusal::FlowFull, "its reservation is used");
    bench.fill("b", Band::Critical, 2);
    assert_eq!(bench.gate.waiting(), [0, 0, 0, 4]);
    assert_eq!(bench.refusal("c", Band::Critical), Refusal::TooManyFlows);
}

/// P04: under weights preemption leaves each band its share of the total.
#[test]
fn p04_preemption_leaves_each_band_its_share() {
    let weights = [1.0, 2.0, 3.0, 4.0].map(|weight| Weight::new(weight).unwrap());
    let settings = Settings { cascade: Cascade::Weighted(weights), ..full_after(10, 10) };
    let mut bench = Bench::new(settings, 1);
    bench.start("x");
    bench.fill("a", Band::Normal, 10);
    bench.fill("a", Band::Critical, 8);
    assert_eq!(bench.gate.waiting(), [0, 2, 0, 8]);
    assert_eq!(bench.refusal("b", Band::Critical), Refusal::TooManyFlows);
}
