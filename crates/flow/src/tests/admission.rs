//! Q07, C05, P05–P07: which asks may wait, and which are preempted.

use super::fixture::{Dice, Fixture, limited_to};
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

fn preempted(fixture: &mut Fixture) -> Vec<Ticket> {
    let events = std::mem::take(&mut fixture.events);
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
    let mut fixture = Fixture::new(full_after(5, 3), 1);
    fixture.start("a");
    fixture.fill("a", Band::Normal, 3);
    assert_eq!(fixture.refusal("a", Band::Normal), Refusal::FlowFull);
    fixture.fill("b", Band::Normal, 2);
    assert_eq!(fixture.refusal("b", Band::Normal), Refusal::QueueFull);
    assert_eq!(fixture.refusal("c", Band::Normal), Refusal::TooManyFlows);
    assert_eq!(fixture.gate.depth(), 5);
}

/// Q07: by option, a flow with waiting asks may exceed a full total, up to its own capacity.
#[test]
fn q07_existing_flows_may_exceed_the_total_by_option() {
    let settings = Settings { existing_flows_may_exceed_total: true, ..full_after(2, 3) };
    let mut fixture = Fixture::new(settings, 1);
    fixture.start("a");
    fixture.fill("a", Band::Normal, 3);
    assert_eq!(fixture.refusal("a", Band::Normal), Refusal::FlowFull);
    assert_eq!(fixture.refusal("b", Band::Normal), Refusal::TooManyFlows);
}

/// C05: critical-only refuses every other ask that would have to wait.
#[test]
fn c05_critical_only_refuses_the_rest() {
    let settings = Settings { admission: Admission::CriticalOnly, ..limited_to(1.0) };
    let mut fixture = Fixture::new(settings, 1);
    let running = fixture.start("a");
    assert_eq!(fixture.refusal("a", Band::High), Refusal::NotCritical);
    let waiting = fixture.queue("a", Band::Critical);
    fixture.settle(running, 1);
    assert_eq!(fixture.granted(), [waiting]);
}

/// C05: until-full lets every band wait, and none of them loses its place to a higher one.
#[test]
fn c05_until_full_evicts_no_ask() {
    let settings = Settings { admission: Admission::UntilFull, ..full_after(3, 3) };
    let mut fixture = Fixture::new(settings, 1);
    let running = fixture.start("a");
    let waiting = [fixture.queue("a", Band::BestEffort), fixture.queue("a", Band::Normal)];
    let high = fixture.queue("a", Band::High);
    assert_eq!(fixture.refusal("a", Band::Critical), Refusal::FlowFull);
    assert_eq!(fixture.refusal("b", Band::Critical), Refusal::TooManyFlows);
    assert_eq!(fixture.gate.headroom(Band::Critical), 0);
    assert!(preempted(&mut fixture).is_empty());
    fixture.settle(running, 1);
    assert_eq!(fixture.granted(), [high]);
    assert_eq!((fixture.gate.waiting(), waiting.len()), ([1, 1, 0, 0], 2));
}

/// P05: a new ask evicts from the lowest band below its own; critical asks and its own band are
/// safe.
#[test]
fn p05_preemption_takes_from_the_lowest_band_below() {
    let mut fixture = Fixture::new(full_after(3, 10), 1);
    fixture.start("a");
    let best_effort = fixture.queue("a", Band::BestEffort);
    let normal = fixture.queue("a", Band::Normal);
    fixture.queue("a", Band::High);
    fixture.queue("b", Band::High);
    assert_eq!(preempted(&mut fixture), [best_effort]);
    fixture.queue("b", Band::High);
    assert_eq!(preempted(&mut fixture), [normal]);
    assert_eq!(fixture.refusal("b", Band::High), Refusal::QueueFull, "never an equal band");
    fixture.fill("c", Band::Critical, 3);
    assert_eq!(preempted(&mut fixture).len(), 3);
    assert_eq!(
        fixture.refusal("c", Band::Critical),
        Refusal::QueueFull,
        "critical is never evicted"
    );
    assert_eq!(fixture.gate.counters().preempted, [1, 1, 3, 0]);
}

/// P06: least recently preempted flow, then longest queue; inside it the newest ask.
#[test]
fn p06_victims_are_spread_over_flows_and_newest_go_first() {
    let mut fixture = Fixture::new(full_after(6, 10), 1);
    fixture.start("x");
    let a: Vec<_> = (0..3).map(|_| fixture.queue("a", Band::Normal)).collect();
    let b: Vec<_> = (0..2).map(|_| fixture.queue("b", Band::Normal)).collect();
    let c = fixture.queue("c", Band::Normal);
    fixture.fill("x", Band::High, 4);
    assert_eq!(preempted(&mut fixture), [a[2], b[1], c, a[1]]);
}

/// P06 against the definition: random queues, random departures, every victim checked.
#[test]
fn p06_every_victim_is_the_one_the_definition_names() {
    let mut dice = Dice(6);
    let mut fixture = Fixture::new(full_after(40, 40), 1);
    let mut running = fixture.start("x");
    let names: Vec<String> = (0..6).map(|flow| format!("flow-{flow}")).collect();
    let mut waiting: Vec<Vec<Ticket>> = vec![Vec::new(); names.len()];
    // Flows are numbered in the order they are first named, and ties go by number.
    names.iter().for_each(|name| _ = fixture.ask(name));
    let mut stamps = vec![0; names.len()];
    for step in 1..4000 {
        let at = dice.below(6) as usize;
        if fixture.gate.depth() < 40 {
            waiting[at].push(fixture.queue(&names[at], Band::Normal));
        } else if dice.chance(70) {
            let longest = |at: &usize| (stamps[*at], std::cmp::Reverse(waiting[*at].len()), *at);
            let victim = (0..6).filter(|&at| !waiting[at].is_empty()).min_by_key(longest);
            let newcomer = fixture.queue("x", Band::High);
            let Some(victim) = victim else { panic!("someone waits") };
            let newest = waiting[victim].pop();
            assert_eq!(preempted(&mut fixture), Vec::from_iter(newest), "step {step}");
            stamps[victim] = step;
            fixture.gate.cancel(newcomer, fixture.now).unwrap();
        } else {
            fixture.settle(running, 1);
            running = fixture.granted()[0];
            waiting.iter_mut().for_each(|line| line.retain(|&ticket| ticket != running));
        }
    }
}

/// P07: a critical ask within its flow's capacity always finds a place, until all is critical.
#[test]
fn p07_critical_flows_have_reserved_capacity() {
    let mut fixture = Fixture::new(full_after(4, 2), 1);
    fixture.start("x");
    fixture.fill("a", Band::High, 2);
    fixture.fill("b", Band::High, 2);
    fixture.fill("a", Band::Critical, 2);
    assert_eq!(fixture.refusal("a", Band::Critical), Refusal::FlowFull, "its reservation is used");
    fixture.fill("b", Band::Critical, 2);
    assert_eq!(fixture.gate.waiting(), [0, 0, 0, 4]);
    assert_eq!(fixture.refusal("c", Band::Critical), Refusal::TooManyFlows);
}

/// Q07: all bands of a flow share its capacity. In a full flow an ask takes the place of the newest
/// one in the lowest band below its own, whatever room the total has.
#[test]
fn q07_all_bands_of_a_flow_share_its_capacity() {
    let mut fixture = Fixture::new(full_after(100, 4), 1);
    fixture.start("a");
    let low: Vec<_> = (0..2).map(|_| fixture.queue("a", Band::BestEffort)).collect();
    let normal: Vec<_> = (0..2).map(|_| fixture.queue("a", Band::Normal)).collect();
    fixture.fill("b", Band::BestEffort, 3);
    assert_eq!(fixture.refusal("a", Band::BestEffort), Refusal::FlowFull, "no lower band");
    fixture.fill("a", Band::High, 3);
    assert_eq!(preempted(&mut fixture), [low[1], low[0], normal[1]]);
    assert_eq!(fixture.refusal("a", Band::Normal), Refusal::FlowFull);
    fixture.fill("a", Band::Critical, 4);
    assert_eq!(preempted(&mut fixture)[0], normal[0]);
    assert_eq!(fixture.gate.waiting(), [3, 0, 0, 4], "flow b loses nothing");
    assert_eq!(fixture.refusal("a", Band::Critical), Refusal::FlowFull);
}

/// P07: no share protects a band from critical asks: within the capacity of its flow, a critical
/// ask finds room under any weights, until all is critical.
#[test]
fn p07_critical_asks_find_room_under_any_weights() {
    for weights in [[33.0, 33.0, 33.0, 1.0], [5.0, 10.0, 15.0, 70.0]] {
        let weights = weights.map(|weight| Weight::new(weight).unwrap());
        let settings = Settings { cascade: Cascade::Weighted(weights), ..full_after(60, 40) };
        let mut fixture = Fixture::new(settings, 1);
        fixture.start("x");
        for (flow, band) in [("a", Band::BestEffort), ("b", Band::Normal), ("c", Band::High)] {
            fixture.fill(flow, band, 20);
        }
        assert_eq!(fixture.gate.headroom(Band::Critical), 60);
        fixture.fill("pager", Band::Critical, 40);
        assert_eq!(fixture.refusal("pager", Band::Critical), Refusal::FlowFull);
        fixture.fill("alarm", Band::Critical, 20);
        assert_eq!(fixture.gate.waiting(), [0, 0, 0, 60]);
        assert_eq!(fixture.refusal("late", Band::Critical), Refusal::TooManyFlows);
    }
}

/// P04: under weights preemption leaves each band its share of the total, except to critical asks.
#[test]
fn p04_preemption_leaves_each_band_its_share() {
    let weights = [1.0, 2.0, 3.0, 4.0].map(|weight| Weight::new(weight).unwrap());
    let settings = Settings { cascade: Cascade::Weighted(weights), ..full_after(10, 10) };
    let mut fixture = Fixture::new(settings, 1);
    fixture.start("x");
    fixture.fill("a", Band::Normal, 10);
    fixture.fill("b", Band::High, 4);
    fixture.fill("a", Band::High, 4);
    assert_eq!(fixture.gate.waiting(), [0, 2, 8, 0]);
    assert_eq!(fixture.refusal("a", Band::High), Refusal::QueueFull);
    assert_eq!(fixture.refusal("c", Band::High), Refusal::TooManyFlows);
    fixture.fill("c", Band::Critical, 1);
    assert_eq!(fixture.gate.waiting(), [0, 1, 8, 1]);
}
