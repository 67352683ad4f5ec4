//! D02 to D06 as far as they are pure: how much a reading allows, and that it is never exceeded.

mod accuracy;
mod world;

use proptest::prelude::*;

use crate::budget::{
    Allowance, Basis, Budget, BudgetSettings, GateReading, Refusal, Share, take_all,
};
use crate::{Span, Time};

/// With no time in transit.
const MEASURED: Basis = Basis::Measured { transit: Span::ZERO, all: false };

fn law(baseline: f64) -> BudgetSettings {
    law_of(MEASURED, baseline)
}

fn law_of(basis: Basis, baseline: f64) -> BudgetSettings {
    BudgetSettings::new(basis, baseline, Span::from_secs(10), Span::from_millis(500)).unwrap()
}

fn at(free: f64, system: f64, secs: u64) -> GateReading {
    GateReading { free, system, at: now(secs), lag: Span::ZERO }
}

fn now(secs: u64) -> Time {
    Time::ZERO.after(Span::from_secs(secs))
}

/// How many requests of a size go at once.
fn go(budget: &mut Budget, size: u64, secs: u64) -> u64 {
    (0..10_000).take_while(|_| budget.take(size, now(secs)).is_ok()).count() as u64
}

#[test]
fn d03_the_worked_example_gives_thirty() {
    for basis in [MEASURED, Basis::Stated] {
        let mut budget = Budget::new(law_of(basis, 0.1));
        assert_eq!(budget.allowance(now(0)), Allowance::NoReading);
        budget.read(at(1.0 - 0.3, 5.0 * 10.0, 1));
        assert_eq!(budget.allowance(now(1)), Allowance::Left(30));
        assert_eq!(go(&mut budget, 1, 1), 30);
        assert_eq!(budget.allowance(now(1)), Allowance::Spent);
        assert_eq!((budget.part(), budget.taken()), (30, 30));
    }
}

#[test]
fn d03_at_or_below_the_baseline_nothing_goes() {
    for free in [0.0, 0.05, 0.1, -3.0, -1e300] {
        for basis in [MEASURED, Basis::Stated] {
            let mut budget = Budget::new(law_of(basis, 0.1));
            budget.read(at(free, 1e6, 1));
            assert_eq!(budget.allowance(now(1)), Allowance::Closed, "{free}");
        }
    }
    let mut budget = Budget::new(law(1.0));
    budget.read(at(1.0, 1e6, 1));
    assert_eq!(budget.allowance(now(1)), Allowance::Closed, "all is left to other work");
    let mut budget = Budget::new(law(0.3));
    budget.read(at(0.1 + 0.2, 1e6, 1));
    assert_eq!(budget.allowance(now(1)), Allowance::Closed, "0.1 + 0.2 is a little more than 0.3");
}

/// A reading allows N once, however many callers use it and however often it is reported.
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
    (0..9).for_each(|_| budget.ended(1, now(2)));
    assert_eq!((budget.in_flight(), budget.held()), (0, 0));
}

#[test]
fn d03_a_request_that_ends_frees_its_place_before_the_next_reading() {
    let mut budget = Budget::new(law(0.2));
    budget.read(at(1.0, 100.0, 1));
    assert_eq!(go(&mut budget, 1, 1), 80);
    budget.read(at(0.2, 100.0, 2));
    assert_eq!(budget.allowance(now(2)), Allowance::Spent);
    (0..3).for_each(|_| budget.ended(1, now(3)));
    assert_eq!(go(&mut budget, 1, 3), 3, "three have ended");
}

#[test]
fn d03_excess_load_must_end_first() {
    let mut budget = Budget::new(law(0.2));
    budget.read(at(1.0, 100.0, 1));
    assert_eq!(go(&mut budget, 1, 1), 80);
    // Other clients have added load: ten more than the threshold.
    budget.read(at(0.1, 100.0, 2));
    (0..10).for_each(|_| budget.ended(1, now(3)));
    assert_eq!(budget.allowance(now(3)), Allowance::Spent);
    budget.ended(1, now(3));
    assert_eq!(budget.allowance(now(3)), Allowance::Left(1));
}

/// Where the load of others alone reaches the threshold, no end of ours opens the gate again.
#[test]
fn d03_a_closed_gate_sends_nothing_before_a_newer_reading() {
    let mut budget = Budget::new(law(0.2));
    budget.read(at(0.5, 100.0, 1));
    assert_eq!(go(&mut budget, 1, 1), 30);
    for (free, second) in [(0.2, 2), (-0.09, 3)] {
        budget.read(at(free, 100.0, second));
        assert_eq!(budget.allowance(now(second)), Allowance::Spent, "30 of it are ours");
    }
    budget.read(at(-0.1, 100.0, 4));
    for ended in 0..=30 {
        assert_eq!(budget.allowance(now(4)), Allowance::Closed, "{ended} have ended");
        assert_eq!(go(&mut budget, 1, 4), 0, "{ended} have ended");
        (ended < 30).then(|| budget.ended(1, now(4)));
    }
    budget.read(at(0.3, 100.0, 5));
    assert_eq!(go(&mut budget, 1, 5), 10);
}

#[test]
fn d03_a_system_without_servers_gets_nothing_however_many_of_our_requests_end() {
    let mut budget = Budget::new(law(0.2));
    budget.read(at(1.0, 10.0, 1));
    assert_eq!(go(&mut budget, 1, 1), 8);
    budget.read(at(1.0, 0.0, 2));
    for ended in 0..8 {
        assert_eq!(budget.allowance(now(2)), Allowance::Closed, "{ended} have ended");
        budget.ended(1, now(2));
    }
    assert_eq!(go(&mut budget, 1, 2), 0);
}

#[test]
fn d03_a_stated_number_is_reduced_by_all_of_our_requests() {
    let mut budget = Budget::new(law_of(Basis::Stated, 0.0));
    for second in 1..10 {
        budget.read(at(0.5, 15.0, second));
        go(&mut budget, 1, second);
        assert_eq!(budget.in_flight(), 7, "a level is rounded down, whatever came before");
    }
    budget.read(at(0.2, 15.0, 11));
    assert_eq!(budget.allowance(now(11)), Allowance::Spent);
    (0..5).for_each(|_| budget.ended(1, now(11)));
    assert_eq!(budget.allowance(now(11)), Allowance::Left(1));
    budget.read(at(0.001, 15.0, 12));
    budget.ended(1, now(12));
    budget.ended(1, now(12));
    assert_eq!(budget.allowance(now(12)), Allowance::Left(1), "but never to nothing");
}

/// A reading shows the requests in flight a moment ago, or now; the budget must be the same.
#[test]
fn d03_a_burst_just_before_a_reading_is_counted_once_whether_it_shows_or_not() {
    let sent = Time::from_millis(1990);
    for (shown, expected) in [(0.0, "not yet"), (80.0, "already"), (30.0, "in part")] {
        let mut budget = Budget::new(law(0.2));
        budget.read(at(1.0, 100.0, 1));
        (0..80).for_each(|_| budget.take(1, sent).unwrap());
        let (free, lag) = (1.0 - shown / 100.0, Span::from_millis(50));
        budget.read(GateReading { free, system: 100.0, at: now(2), lag });
        assert_eq!(go(&mut budget, 1, 2), 0, "it shows {expected}");
        (0..80).for_each(|_| budget.ended(1, now(2)));
        assert_eq!(go(&mut budget, 1, 2), 80, "it shows {expected}");
    }
}

#[test]
fn d03_a_request_in_transit_is_counted_once() {
    let basis = Basis::Measured { transit: Span::from_millis(50), all: false };
    let sent = || {
        let mut budget = Budget::new(law_of(basis, 0.2));
        budget.read(at(1.0, 100.0, 1));
        (0..80).for_each(|_| budget.take(1, Time::from_millis(1960)).unwrap());
        budget
    };
    let mut budget = sent();
    budget.read(at(1.0, 100.0, 2));
    assert_eq!(budget.allowance(now(2)), Allowance::Spent, "they had not arrived");
    let mut budget = sent();
    budget.read(at(0.2, 100.0, 3));
    (0..80).for_each(|_| budget.ended(1, Time::from_millis(4040)));
    budget.read(at(1.0, 100.0, 4));
    assert_eq!(budget.allowance(now(4)), Allowance::Left(80), "their end was not known here");
}

#[test]
fn d03_before_the_load_of_others_is_known_a_reading_shows_the_least() {
    let mut budget = Budget::new(law(0.0));
    budget.read(at(1.0, 10.0, 1));
    (0..10).for_each(|_| budget.take(1, now(2)).unwrap());
    budget.unreadable();
    budget.read(GateReading { free: 0.5, system: 10.0, at: now(2), lag: Span::from_millis(1) });
    (0..3).for_each(|_| budget.ended(1, now(3)));
    assert_eq!(budget.allowance(now(3)), Allowance::Spent, "five may be of others");
    budget.read(at(0.3, 10.0, 4));
    assert_eq!(budget.allowance(now(4)), Allowance::Left(3), "all seven are ours");
}

#[test]
fn d04_rounding_goes_down_but_not_to_zero_and_the_fraction_is_carried() {
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
    let left = Err(Allowance::Left(629_145 - 600 * KIB));
    assert_eq!(budget.take(300 * KIB, now(1)), left);
    assert_eq!(budget.take(100 * KIB, now(1)), left);
    assert!(budget.take(14 * KIB, now(1)).is_ok(), "what fits still goes");
}

#[test]
fn d04_a_request_larger_than_any_budget_goes_alone() {
    for size in [1000, u64::MAX] {
        let mut budget = Budget::new(law(0.0));
        budget.read(at(0.5, 100.0, 1));
        assert!(budget.take(10, now(1)).is_ok());
        assert!(budget.take(size, now(1)).is_err(), "another is under way");
        budget.read(at(0.5, 100.0, 2));
        assert!(budget.take(size, now(2)).is_err(), "it still is");
        budget.ended(10, now(2));
        assert!(budget.take(size, now(2)).is_ok());
        assert_eq!(budget.allowance(now(2)), Allowance::Spent, "and nothing goes beside it");
        budget.ended(size, now(3));
        assert_eq!(budget.allowance(now(3)), Allowance::Left(60));
    }
    let mut closed = Budget::new(law(0.5));
    closed.read(at(0.4, 100.0, 1));
    assert!(closed.take(1000, now(1)).is_err(), "not while it is closed");
}

/// A refusal of a request of size 1 that was sent in this second.
fn refusal(second: u64, retry_after: Option<u64>) -> Refusal {
    Refusal { size: 1, sent: now(second), retry_after: retry_after.map(Span::from_secs) }
}

#[test]
fn d05_after_a_refusal_nothing_goes_before_a_newer_reading() {
    let mut budget = Budget::new(law(0.0));
    budget.read(at(1.0, 10.0, 1));
    assert!(budget.take(1, now(2)).is_ok());
    budget.congested(refusal(2, None), now(2));
    assert_eq!(budget.allowance(now(5)), Allowance::Congested(Span::ZERO));
    budget.read(at(1.0, 10.0, 2));
    assert_eq!(budget.allowance(now(5)), Allowance::Congested(Span::ZERO), "from the same context");
    budget.ended(1, now(3));
    let early = GateReading { lag: Span::from_millis(1500), ..at(1.0, 10.0, 3) };
    budget.read(early);
    assert_eq!(budget.allowance(now(5)), Allowance::Congested(Span::ZERO), "perhaps from before");
    budget.read(at(1.0, 10.0, 4));
    assert_eq!(budget.allowance(now(5)), Allowance::Left(10));
}

#[test]
fn d05_one_refusal_holds_for_the_least_time_and_repeated_ones_for_longer() {
    let mut budget = Budget::new(law(0.0));
    let mut refused = |second: u64| {
        budget.congested(refusal(second, Some(4)), now(second));
        let pause = budget.closed_until().since(now(second));
        budget.read(at(1.0, 10.0, second + 1));
        pause
    };
    // The hold keeps readings from inside the process, which come at once, from flapping.
    let pauses = [10, 20, 30, 40, 50].map(&mut refused);
    let expected = [500, 1000, 2000, 4000, 4000].map(Span::from_millis);
    assert_eq!(pauses, expected, "up to the time that the gateway asks for");
    budget.accepted();
    budget.congested(refusal(60, Some(4)), now(60));
    budget.congested(refusal(59, Some(4)), now(60));
    assert_eq!(budget.closed_until(), now(60).after(Span::from_millis(500)), "short again");
    let soon = now(60).after(Span::from_millis(100));
    budget.read(GateReading { free: 1.0, system: 10.0, at: soon, lag: Span::ZERO });
    assert_eq!(budget.allowance(soon), Allowance::Congested(Span::from_millis(400)));
    assert_eq!(budget.allowance(budget.closed_until()), Allowance::Left(10));
}

/// A stated number is not made anew by the system, and other requests of ours were accepted.
#[test]
fn d05_after_a_refusal_accepted_requests_are_replaced_under_a_stated_number() {
    let hold = Span::from_secs(100);
    let law = BudgetSettings::new(Basis::Stated, 0.0, Span::from_secs(1000), hold).unwrap();
    let mut budget = Budget::new(law);
    budget.read(at(1.0, 10.0, 1));
    (0..4).for_each(|_| budget.take(1, now(1)).unwrap());
    budget.congested(refusal(1, None), now(2));
    budget.ended(1, now(2));
    budget.read(at(1.0, 10.0, 3));
    let closed = Allowance::Congested(Span::from_secs(99));
    assert_eq!(budget.allowance(now(3)), closed, "three are in flight, three were accepted");
    budget.ended(1, now(3));
    assert_eq!(budget.allowance(now(3)), Allowance::Left(1));
    budget.take(1, now(3)).unwrap();
    budget.congested(refusal(3, None), now(4));
    budget.ended(1, now(4));
    budget.read(at(1.0, 10.0, 5));
    assert!(matches!(budget.allowance(now(5)), Allowance::Congested(_)), "two were accepted");
    budget.ended(1, now(5));
    assert_eq!(budget.allowance(now(5)), Allowance::Left(1));
    assert_eq!(budget.allowance(now(200)), Allowance::Left(9), "the pause is over");
}

#[test]
fn d06_a_gate_that_cannot_be_read_allows_nothing() {
    let mut budget = Budget::new(law(0.0));
    budget.read(at(1.0, 10.0, 1));
    assert_eq!(budget.allowance(now(11)), Allowance::Left(10));
    assert_eq!(budget.allowance(now(12)), Allowance::Stale(Span::from_secs(11)));
    budget.unreadable();
    assert_eq!(budget.allowance(now(2)), Allowance::NoReading);
    for (second, bad) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].into_iter().enumerate() {
        budget.read(at(bad, 10.0, 20 + second as u64));
        assert_eq!(budget.allowance(now(23)), Allowance::Invalid, "{bad}");
        budget.read(at(0.5, bad, 30 + second as u64));
        assert_eq!(budget.allowance(now(33)), Allowance::Invalid, "{bad}");
    }
    budget.read(at(0.5, 0.0, 40));
    assert_eq!(budget.allowance(now(40)), Allowance::Closed, "no server is ready");
    budget.read(at(0.5, 10.0, 41));
    assert_eq!(budget.allowance(now(41)), Allowance::Left(5), "and then it is read again");
}

/// Some sources learn for how long their readings are valid.
#[test]
fn d06_the_age_at_which_a_reading_is_stale_may_change() {
    let mut budget = Budget::new(law(0.1));
    budget.valid_for(Span::from_secs(45));
    budget.read(at(0.7, 50.0, 100));
    assert_eq!(budget.allowance(now(145)), Allowance::Left(30));
    assert_eq!(budget.allowance(now(146)), Allowance::Stale(Span::from_secs(46)));
    budget.valid_for(Span::from_secs(20));
    assert_eq!(budget.allowance(now(121)), Allowance::Stale(Span::from_secs(21)));
    assert_eq!(budget.stale_after(), Span::from_secs(20));
}

/// All gates must allow a request, each in its own unit; if one refuses, none is charged.
#[test]
fn d02_a_request_takes_from_all_gates_or_from_none() {
    let mut requests = Budget::new(law_of(Basis::Stated, 0.0));
    let mut bytes = Budget::new(law(0.5));
    requests.read(at(1.0, 3.0, 1));
    let mut take = |requests: &mut Budget, size: u64| {
        take_all(&mut [(requests, 1), (&mut bytes, size)], now(1)).map_err(|(at, why)| {
            assert_eq!(why, [requests.allowance(now(1)), bytes.allowance(now(1))][at]);
            at
        })
    };
    assert_eq!(take(&mut requests, 10), Err(1), "the second is unread");
    assert_eq!(requests.in_flight(), 0);
    bytes.read(at(1.0, 100.0, 1));
    let mut take = |requests: &mut Budget, size: u64| {
        take_all(&mut [(requests, 1), (&mut bytes, size)], now(1)).map_err(|(at, _)| at)
    };
    assert_eq!(take(&mut requests, 30), Ok(()));
    assert_eq!(take(&mut requests, 30), Err(1), "too large for the second");
    assert_eq!(take(&mut requests, 10), Ok(()));
    assert_eq!(take(&mut requests, 10), Ok(()));
    assert_eq!(take(&mut requests, 0), Err(0), "the first is spent");
    assert_eq!((requests.in_flight(), bytes.in_flight(), bytes.held()), (3, 3, 50));
}

#[test]
fn d03_impossible_baselines_are_refused() {
    for baseline in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let law = BudgetSettings::new(MEASURED, baseline, Span::from_secs(1), Span::ZERO);
        assert!(law.is_err(), "{baseline}");
    }
}

#[test]
fn d08_a_budget_too_small_for_all_goes_to_the_first() {
    let mut budget = Budget::new(law(0.0));
    budget.share(Share::new(1, 2));
    budget.read(at(0.1, 10.0, 1));
    assert_eq!(budget.allowance(now(1)), Allowance::NoShare);
    assert!(budget.take(1, now(1)).is_err(), "not even alone");
    budget.share(Share::new(0, 2));
    assert_eq!(budget.allowance(now(1)), Allowance::Left(1));
    assert!(budget.take(1, now(1)).is_ok());
    budget.read(at(0.9, 10.0, 2));
    budget.ended(1, now(2));
    budget.share(Share::new(2, 2));
    assert_eq!(budget.allowance(now(2)), Allowance::NoShare, "no member has this rank");
    assert_eq!(Share::new(0, 0), Share::WHOLE);
}

#[test]
fn d03_with_no_request_in_flight_nothing_is_held() {
    let mut budget = Budget::new(law(0.0));
    budget.read(at(1.0, 100.0, 1));
    budget.take(30, now(1)).unwrap();
    budget.take(30, now(1)).unwrap();
    budget.ended(50, now(1));
    assert_eq!((budget.in_flight(), budget.held()), (1, 10));
    budget.ended(2, now(1));
    assert_eq!((budget.in_flight(), budget.held()), (0, 0));
    budget.ended(7, now(1));
    assert_eq!((budget.in_flight(), budget.held()), (0, 0));
}

/// One event in the history of a budget.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read(f64, f64),
    Take(u64),
    End(usize),
    Congested,
    Unreadable,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (-0.5..1.1_f64, 0.0..100.0_f64).prop_map(|(free, system)| Step::Read(free, system)),
        6 => (1..20_u64).prop_map(Step::Take),
        4 => any::<usize>().prop_map(Step::End),
        1 => Just(Step::Congested),
        1 => Just(Step::Unreadable),
    ]
}

/// A budget counted from scratch: every request taken and ended, by time.
#[derive(Debug, Default)]
struct Naive {
    reading: Option<GateReading>,
    congested: Option<Time>,
    taken: Vec<(Time, i64)>,
    under_way: Vec<u64>,
}

impl Naive {
    fn may_go(&self, law: &BudgetSettings, basis: Basis, size: u64) -> bool {
        let Some(reading) = self.reading else { return false };
        if self.congested.is_some_and(|at| reading.at <= at) {
            return false;
        }
        let since = if basis == MEASURED { reading.at } else { Time::ZERO };
        let net: i64 = self.taken.iter().filter(|(at, _)| *at > since).map(|(_, size)| size).sum();
        let exact = law.allows(&reading).unwrap();
        let debt = basis == MEASURED || exact > 0.0;
        let most = exact.max(if exact > 0.0 { 1.0 } else { exact }) + 1.0 - net as f64;
        // A fraction may have been carried here, so that one more may go than is free.
        debt && (size as f64 <= most || (self.under_way.is_empty() && most > 0.0))
    }
}

proptest! {
    /// Over any run of readings, exactly as much goes as they allow together, apart from the one
    /// request that goes if a reading allows less than one.
    #[test]
    fn d03_d04_exactly_the_allowed_number_goes(
        readings in prop::collection::vec((0.0..1.0_f64, 0.0..100.0_f64), 1..60),
        baseline in 0.0..0.9_f64,
    ) {
        let law = law(baseline);
        let mut budget = Budget::new(law);
        let (mut exact, mut sent, mut small) = (0.0, 0, 0);
        for (second, &(free, system)) in (1..).zip(&readings) {
            let reading = at(free, system, second);
            budget.read(reading);
            let allows = law.allows(&reading).unwrap().max(0.0);
            let went = go(&mut budget, 1, second);
            prop_assert_eq!(went == 0, allows == 0.0);
            exact += allows;
            sent += went;
            small += u64::from(allows > 0.0 && allows < 1.0);
            // A closed reading drops the carried fraction, which is less than one.
            exact -= if allows == 0.0 { exact.fract() } else { 0.0 };
        }
        prop_assert!(sent as f64 <= exact + small as f64 + 1.0, "{} of {}", sent, exact);
        prop_assert!(sent as f64 > exact - readings.len() as f64 - 1.0, "{} of {}", sent, exact);
    }

    /// In any order of readings, refusals, takes and ends, nothing goes that a count from scratch
    /// does not allow, and at the end nothing is held.
    #[test]
    fn d03_d05_any_history_agrees_with_a_count_from_scratch_and_leaks_nothing(
        steps in prop::collection::vec(step(), 1..120),
        stated in any::<bool>(),
        baseline in 0.0..0.9_f64,
    ) {
        let basis = if stated { Basis::Stated } else { MEASURED };
        let law = BudgetSettings::new(basis, baseline, Span::from_secs(1000), Span::ZERO).unwrap();
        let (mut budget, mut naive, mut is_closed) = (Budget::new(law), Naive::default(), false);
        for (second, step) in (1..).zip(steps) {
            match step {
                Step::Read(free, system) => {
                    budget.read(at(free, system, second));
                    naive.reading = Some(at(free, system, second));
                    is_closed = budget.allowance(now(second)) == Allowance::Closed;
                }
                Step::Take(size) => if budget.take(size, now(second)).is_ok() {
                    prop_assert!(!is_closed, "before a newer reading at {}", second);
                    prop_assert!(naive.may_go(&law, basis, size), "{} at {}", size, second);
                    naive.taken.push((now(second), size as i64));
                    naive.under_way.push(size);
                },
                Step::End(which) => if !naive.under_way.is_empty() {
                    let size = naive.under_way.swap_remove(which % naive.under_way.len());
                    budget.ended(size, now(second));
                    naive.taken.push((now(second), -(size as i64)));
                },
                Step::Congested => {
                    budget.congested(refusal(second, None), now(second));
                    naive.congested = Some(now(second));
                }
                Step::Unreadable => {
                    budget.unreadable();
                    naive.reading = None;
                }
            }
            let under_way = (naive.under_way.len() as u64, naive.under_way.iter().sum::<u64>());
            prop_assert_eq!((budget.in_flight(), budget.held()), under_way);
        }
        naive.under_way.drain(..).for_each(|size| budget.ended(size, now(500)));
        budget.read(at(1.0, 100.0, 501));
        let mut fresh = Budget::new(law);
        fresh.read(at(1.0, 100.0, 501));
        let (left, full) = (budget.allowance(now(501)), fresh.allowance(now(501)));
        // The carried fraction may add one.
        prop_assert!(left == full || left == Allowance::Left(fresh.part() as u64 + 1), "{left:?}");
    }

    #[test]
    fn d08_the_parts_of_all_add_up(total in -1_000_000..1_000_000_i64, of in 1..50_u32) {
        let parts: Vec<i64> = (0..of).map(|rank| Share::new(rank, of).part(total)).collect();
        prop_assert_eq!(parts.iter().sum::<i64>(), total);
        let (least, most) = (parts.iter().min(), parts.iter().max());
        prop_assert!(most.unwrap() - least.unwrap() <= 1);
    }
}

#[test]
fn d03_load_that_shows_up_late_is_not_sent_twice() {
    let basis = Basis::Measured { transit: Span::ZERO, all: true };
    let mut budget = Budget::new(law_of(basis, 0.2));
    // The reading goes on to show an empty system, whatever is sent.
    for secs in 1..10 {
        budget.read(at(1.0, 100.0, secs));
        while budget.take(1, now(secs)).is_ok() {}
        assert_eq!(budget.held(), 80, "ours alone reach the threshold");
    }
    budget.ended(1, now(10));
    budget.read(at(1.0, 100.0, 11));
    assert_eq!(budget.allowance(now(11)), Allowance::Left(1));
}
