//! D02 to D06 as far as they are pure: what a reading allows, and that it is never overrun.

use proptest::prelude::*;

use crate::budget::{Allowance, Budget, BudgetLaw, GateReading, least};
use crate::{Span, Time};

fn law(baseline: f64) -> BudgetLaw {
    BudgetLaw::new(baseline, Span::from_secs(10), Span::from_millis(500)).unwrap()
}

fn at(free: f64, system: f64, secs: u64) -> GateReading {
    GateReading { free, system, at: now(secs) }
}

fn now(secs: u64) -> Time {
    Time::ZERO.after(Span::from_secs(secs))
}

/// How many of a size go at once.
fn go(budget: &mut Budget, size: u64, secs: u64) -> u64 {
    (0..10_000).take_while(|_| budget.take(size, now(secs)).is_ok()).count() as u64
}

#[test]
fn d03_the_worked_example_gives_thirty() {
    let mut budget = Budget::new(law(0.1));
    assert_eq!(budget.allowance(now(0)), Allowance::Unread);
    budget.read(at(1.0 - 0.3, 5.0 * 10.0, 1));
    assert_eq!(budget.allowance(now(1)), Allowance::Left(30));
    assert_eq!(go(&mut budget, 1, 1), 30);
    assert_eq!(budget.allowance(now(1)), Allowance::Spent);
}

#[test]
fn d03_at_or_below_the_baseline_nothing_goes() {
    for free in [0.0, 0.05, 0.1, -3.0] {
        let mut budget = Budget::new(law(0.1));
        budget.read(at(free, 1e6, 1));
        assert_eq!(budget.allowance(now(1)), Allowance::Closed, "{free}");
    }
}

/// However many look at one reading, and however often it is told again, it allows N once.
#[test]
fn d03_a_reading_is_counted_out_once() {
    let mut budget = Budget::new(law(0.2));
    for _ in 0..100 {
        budget.read(at(1.0, 10.0, 1));
        go(&mut budget, 1, 1);
    }
    assert_eq!(budget.in_flight(), 8);
    budget.read(at(0.3, 10.0, 2));
    assert_eq!(go(&mut budget, 1, 2), 1, "what is under way is in the newer reading");
    (0..9).for_each(|_| budget.ended());
    assert_eq!(budget.in_flight(), 0);
}

#[test]
fn d04_rounding_goes_down_but_never_to_nothing_and_what_is_cut_off_comes_later() {
    let mut budget = Budget::new(law(0.0));
    let sent: Vec<u64> = (1..=10)
        .map(|second| {
            budget.read(at(0.25, 5.0, second));
            go(&mut budget, 1, second)
        })
        .collect();
    assert_eq!(sent.iter().sum::<u64>(), 12, "ten times 1.25 is 12.5: {sent:?}");
    assert!(sent.iter().all(|&count| count == 1 || count == 2), "{sent:?}");
    let mut budget = Budget::new(law(0.5));
    budget.read(at(0.501, 10.0, 1));
    assert_eq!(go(&mut budget, 1, 1), 1, "a hundredth of a request is one");
}

/// The source's example: 614.4 KiB are free, and of 600, 300 and 100 KiB only the first goes.
#[test]
fn d04_in_bytes_a_batch_is_cut_at_a_whole_request() {
    const KIB: u64 = 1024;
    let mut budget = Budget::new(law(0.1));
    budget.read(at(0.7, 1024.0 * 1024.0, 1));
    assert_eq!(budget.allowance(now(1)), Allowance::Left(629_145));
    assert!(budget.take(600 * KIB, now(1)).is_ok());
    assert_eq!(budget.take(300 * KIB, now(1)), Err(Allowance::Left(629_145 - 600 * KIB)));
}

#[test]
fn d04_a_request_larger_than_any_budget_goes_alone() {
    let mut budget = Budget::new(law(0.0));
    budget.read(at(0.5, 100.0, 1));
    assert!(budget.take(10, now(1)).is_ok());
    assert!(budget.take(1000, now(1)).is_err(), "another is under way");
    budget.read(at(0.5, 100.0, 2));
    assert!(budget.take(1000, now(2)).is_err(), "it still is");
    budget.ended();
    assert!(budget.take(1000, now(2)).is_ok());
    assert_eq!(budget.allowance(now(2)), Allowance::Spent, "and nothing goes beside it");
    let mut closed = Budget::new(law(0.5));
    closed.read(at(0.4, 100.0, 1));
    assert!(closed.take(1000, now(1)).is_err(), "not while it is closed");
}

#[test]
fn d05_after_a_refusal_nothing_goes_before_a_newer_reading() {
    let mut budget = Budget::new(law(0.0));
    budget.read(at(1.0, 10.0, 1));
    assert!(budget.take(1, now(2)).is_ok());
    budget.congested(None, now(2));
    assert_eq!(budget.allowance(now(5)), Allowance::Congested);
    budget.read(at(1.0, 10.0, 2));
    assert_eq!(budget.allowance(now(5)), Allowance::Congested, "from the same moment");
    budget.read(at(1.0, 10.0, 3));
    assert_eq!(budget.allowance(now(5)), Allowance::Left(10));
}

#[test]
fn d05_a_refusal_holds_for_its_time_and_for_the_least_time() {
    let mut budget = Budget::new(law(0.0));
    budget.congested(Some(Span::from_secs(4)), now(10));
    budget.congested(None, now(11));
    budget.read(at(1.0, 10.0, 12));
    assert_eq!(budget.allowance(now(13)), Allowance::Congested, "come back in four seconds");
    assert_eq!(budget.allowance(now(14)), Allowance::Left(10));
    // Readings from inside the process come at once: the hold keeps it from flapping.
    budget.congested(None, now(20));
    let soon = now(20).after(Span::from_millis(100));
    budget.read(GateReading { free: 1.0, system: 10.0, at: soon });
    assert_eq!(budget.allowance(soon), Allowance::Congested);
    assert_eq!(budget.allowance(now(20).after(Span::from_millis(500))), Allowance::Left(10));
}

#[test]
fn d06_what_cannot_be_read_allows_nothing() {
    let mut budget = Budget::new(law(0.0));
    budget.read(at(1.0, 10.0, 1));
    assert_eq!(budget.allowance(now(11)), Allowance::Left(10));
    assert_eq!(budget.allowance(now(12)), Allowance::Stale(Span::from_secs(11)));
    budget.unreadable();
    assert_eq!(budget.allowance(now(2)), Allowance::Unread);
    for (second, bad) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().enumerate() {
        budget.read(at(bad, 10.0, 20 + second as u64));
        assert_eq!(budget.allowance(now(23)), Allowance::Closed, "{bad}");
        budget.read(at(0.5, bad, 30 + second as u64));
        assert_eq!(budget.allowance(now(33)), Allowance::Closed, "{bad}");
    }
}

#[test]
fn d02_of_several_gates_the_least_decides() {
    let both = least(&[Some(at(0.9, 50.0, 7)), Some(at(0.4, 80.0, 5))]).unwrap();
    assert_eq!(both, at(0.4, 50.0, 5));
    assert_eq!(least(&[Some(at(0.9, 50.0, 7)), None]), None);
    assert_eq!(least(&[]), None);
    let broken = least(&[Some(at(0.9, 50.0, 7)), Some(at(f64::NAN, 50.0, 7))]).unwrap();
    assert_eq!(law(0.0).allows(&broken), 0.0);
    let broken = least(&[Some(at(f64::NAN, 50.0, 7)), Some(at(0.9, 50.0, 7))]).unwrap();
    assert_eq!(law(0.0).allows(&broken), 0.0);
}

#[test]
fn d03_impossible_baselines_are_refused() {
    for baseline in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        assert!(BudgetLaw::new(baseline, Span::from_secs(1), Span::ZERO).is_err(), "{baseline}");
    }
}

proptest! {
    /// Over any run of readings no more goes than they allow together, but for the one that goes
    /// where a reading allows less than one; and what they allow does go.
    #[test]
    fn d03_d04_all_that_is_allowed_goes_and_nothing_more(
        readings in prop::collection::vec((0.0..1.0_f64, 0.0..100.0_f64), 1..60),
        baseline in 0.0..0.9_f64,
    ) {
        let law = law(baseline);
        let mut budget = Budget::new(law);
        let (mut exact, mut sent, mut small) = (0.0, 0, 0);
        for (second, &(free, system)) in (1..).zip(&readings) {
            let reading = at(free, system, second);
            budget.read(reading);
            let allows = law.allows(&reading);
            let went = go(&mut budget, 1, second);
            prop_assert_eq!(went == 0, allows == 0.0);
            exact += allows;
            sent += went;
            small += u64::from(allows > 0.0 && allows < 1.0);
            // A closed reading forgets what was carried, which is less than one.
            exact -= if allows == 0.0 { exact.fract() } else { 0.0 };
        }
        prop_assert!(sent as f64 <= exact + small as f64 + 1.0, "{} of {}", sent, exact);
        prop_assert!(sent as f64 > exact - readings.len() as f64 - 1.0, "{} of {}", sent, exact);
    }
}
