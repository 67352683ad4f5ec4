//! W02: the workload registry.

use super::*;
use crate::time::Span;

fn registry(count_max: u32) -> Registry {
    Registry::new(WorkloadLimits { count_max, ..WorkloadLimits::default() })
}

fn rate_at(registry: &mut Registry, id: WorkloadId, at: u64) -> f64 {
    let offers = registry.offers(id.slot, registry.epoch(secs(at)));
    registry.rate_of(offers)
}

fn secs(secs: u64) -> Time {
    Time::ZERO.after(Span::from_secs(secs))
}

#[test]
fn w02_total_active_window_and_last_seen_are_kept() {
    let mut registry = registry(10);
    let id = registry.intern("fraud", secs(0));
    for at in 0..5 {
        registry.arrived(id.slot, secs(at));
        registry.began(id.slot);
    }
    registry.ended(id.slot, secs(9));
    let views = registry.views(secs(10));
    let expected =
        WorkloadView { name: "fraud", total: 5, active: 4, in_window: 5, last_seen: secs(4) };
    assert_eq!(views, [expected]);
}

#[test]
fn w02_arrivals_leave_the_window_after_a_minute() {
    let mut registry = registry(10);
    let id = registry.intern("a", secs(0));
    for at in [0, 0, 0, 30, 30, 59] {
        registry.arrived(id.slot, secs(at));
    }
    let rate = |registry: &mut Registry, at| (rate_at(registry, id, at) * 60.0).round() as u32;
    assert_eq!(rate(&mut registry, 59), 6);
    assert_eq!(rate(&mut registry, 60), 3);
    assert_eq!(rate(&mut registry, 89), 3);
    assert_eq!(rate(&mut registry, 90), 1);
    assert_eq!(rate(&mut registry, 119), 0);
    assert_eq!(rate(&mut registry, 1_000_000), 0);
}

#[test]
fn w02_idle_workloads_are_dropped_after_five_minutes_but_never_while_active() {
    let mut registry = registry(10);
    let busy = registry.intern("busy", secs(0));
    let idle = registry.intern("idle", secs(0));
    for id in [busy, idle] {
        registry.arrived(id.slot, secs(0));
        registry.began(id.slot);
    }
    registry.ended(idle.slot, secs(1));
    let names = |registry: &mut Registry, at| {
        registry.views(secs(at)).iter().map(|view| view.name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut registry, 301), ["busy", "idle"]);
    assert_eq!(names(&mut registry, 302), ["busy"]);
    assert_eq!(names(&mut registry, 100_000), ["busy"]);
    registry.ended(busy.slot, secs(100_000));
    assert_eq!(names(&mut registry, 100_301), Vec::<String>::new());
}

#[test]
fn w02_a_full_registry_forgets_the_least_recent_and_then_shares_one_entry() {
    let mut registry = registry(2);
    let first = registry.intern("first", secs(0));
    let second = registry.intern("second", secs(1));
    registry.arrived(second.slot, secs(1));
    registry.arrived(first.slot, secs(2));
    let third = registry.intern("third", secs(3));
    assert_eq!(third.slot, second.slot, "the least recently used one gave its place");
    assert_eq!(registry.resolve(second), NONE, "and its id is no longer good");
    assert_eq!(rate_at(&mut registry, third, 3), 0.0, "and nothing of it is left");
    registry.began(first.slot);
    registry.began(third.slot);
    let overflow = registry.intern("fourth", secs(4));
    assert_eq!(overflow, WorkloadId::OVERFLOW);
    for _ in 0..120 {
        registry.arrived(overflow.slot, secs(4));
    }
    let fifth = registry.intern("fifth", secs(4));
    assert_eq!(rate_at(&mut registry, fifth, 4), 2.0, "one rate for all");
}

/// W04: 1000 workloads take well under 10 MB.
#[test]
fn w04_a_thousand_workloads_are_small() {
    let size = size_of::<WorkloadEntry>()
        + size_of::<WorkloadRate>()
        + 2 * (size_of::<(Box<str>, u32)>() + 64);
    assert!(1000 * size < 10_000_000 / 10, "{size} bytes each");
}
