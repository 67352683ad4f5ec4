//! The headline case, in virtual time.

use super::*;

/// The quiet tenant's p50 is at most 0.42 s beside a flood of 200, and 8 are never passed.
#[test]
fn a_quiet_tenant_beside_a_flood() {
    let [without, with] = outcomes();
    assert!(without.tenants[1].p50 > Span::from_secs(4), "{without:?}");
    assert!(with.tenants[1].p50 <= Span::from_millis(420), "{with:?}");
    assert_eq!((without.in_flight_max, with.in_flight_max), (SLOTS, SLOTS));
    let served = |outcome: &Outcome| outcome.tenants.iter().map(|t| t.served).sum::<usize>();
    let (plain, fair) = (served(&without), served(&with));
    assert!(plain.abs_diff(fair) * 100 <= plain, "{plain} and {fair}: nothing is slower");
}

/// P08: under load high bands wait at least 90 % less than normal ones.
#[test]
fn p08_a_higher_band_waits_at_least_nine_tenths_less() {
    let [_, with] = outcomes();
    let wait = |tenant: usize| with.tenants[tenant].p50.secs_f64() - SERVICE.secs_f64();
    assert!(wait(2) <= 0.1 * wait(0), "{with:?}");
}

#[test]
fn the_demonstration_prints_both_runs() {
    let mut text = Vec::new();
    run(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("first come, first served") && text.contains("through Tidegate's queue"));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "it fits a terminal:\n{text}");
}
