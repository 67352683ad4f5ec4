//! N05, R07: how a backend fails and returns, in virtual time.

use flow::{Span, Time};
use proptest::prelude::*;
use std::time::Duration;

use super::super::Attempt;
use super::super::health_state::{
    CheckResult, DownReason, Health, HealthSettings, HealthStatus, Suspicion,
};
use super::super::proofs::CallerHash;
use super::at;

const SETTINGS: HealthSettings = HealthSettings {
    eject_after: 3,
    eject_for: Span::from_secs(5),
    slow_start: Span::from_secs(10),
    check_every: Span::from_secs(5),
};

fn up() -> Health {
    let mut health = Health::new();
    health.checked(CheckResult::Healthy, at(0), at(0));
    health
}

fn fail(health: &mut Health, times: usize, now: Time) {
    (0..times).for_each(|_| health.report(Attempt::Failed, "", &SETTINGS, now));
}

#[test]
fn r07_a_backend_is_starting_until_its_first_good_check() {
    let mut health = Health::new();
    assert_eq!(health.status(at(0)), HealthStatus::Down(DownReason::Starting));
    health.checked(CheckResult::Healthy, at(1), at(2));
    assert_eq!(health.status(at(2)), HealthStatus::Ready);
    assert_eq!(health.handicap(&SETTINGS, at(2)), 0.0, "nothing is slow at first start");
}

#[test]
fn n05_a_refused_connection_takes_a_backend_out_at_once_until_a_good_check() {
    let mut health = up();
    health.report(Attempt::Refused, "", &SETTINGS, at(100));
    assert_eq!(health.status(at(100)), HealthStatus::Down(DownReason::Refused));
    health.report(Attempt::Answered, "", &SETTINGS, at(101));
    assert_eq!(
        health.status(at(60_000)),
        HealthStatus::Down(DownReason::Refused),
        "time heals nothing"
    );
    health.checked(CheckResult::Healthy, at(99), at(102));
    assert!(health.is_down(), "a check from before proves nothing");
    health.checked(CheckResult::Healthy, at(102), at(103));
    assert_eq!(health.status(at(103)), HealthStatus::Ready);
}

#[test]
fn n05_a_passing_check_does_not_lift_an_ejection_before_its_time() {
    let mut health = up();
    fail(&mut health, 2, at(0));
    assert_eq!(health.status(at(0)), HealthStatus::Ready);
    fail(&mut health, 1, at(0));
    assert_eq!(health.status(at(0)), HealthStatus::Ejected(at(5000)));
    health.checked(CheckResult::Healthy, at(10), at(11));
    health.answered(at(0), at(12));
    assert_eq!(health.status(at(4999)), HealthStatus::Ejected(at(5000)));
    assert_eq!(health.next_change(&SETTINGS, at(501)), Some(at(5000)));
    assert_eq!(health.status(at(5000)), HealthStatus::OnTrial);
}

/// Its state says why, and one answer or one failure decides.
#[test]
fn r07_after_an_ejection_a_backend_is_on_trial() {
    let mut health = up();
    for _ in 0..3 {
        health.report(Attempt::Failed, "it answered 500", &SETTINGS, at(0));
    }
    assert_eq!(health.text(at(1000)), "ejected 4.0 s more: it answered 500");
    assert_eq!(health.text(at(5000)), "on trial after an ejection: it answered 500");
    assert!(health.has_failures(), "an answer would change the state");
    health.report(Attempt::Failed, "it answered 502", &SETTINGS, at(5001));
    assert_eq!(health.status(at(5001)), HealthStatus::Ejected(at(15_001)), "one is enough");
    health.report(Attempt::Answered, "", &SETTINGS, at(15_001));
    assert_eq!(health.status(at(15_001)), HealthStatus::Ready);
    assert!(!health.has_failures());
}

/// A response that begins proves nothing about those that broke off before.
#[test]
fn r07_broken_responses_in_a_row_eject_a_backend() {
    let mut health = up();
    let break_off = |health: &mut Health, now| {
        health.answered(now, now);
        health.broke_off("it closed the connection".into(), &SETTINGS, now);
    };
    (0..2).for_each(|_| break_off(&mut health, at(0)));
    health.completed();
    (0..2).for_each(|_| break_off(&mut health, at(1)));
    assert_eq!(health.status(at(1)), HealthStatus::Ready, "a whole response came in between");
    break_off(&mut health, at(1));
    assert_eq!(health.text(at(2001)), "ejected 3.0 s more: it closed the connection");
    break_off(&mut health, at(5001));
    assert_eq!(health.status(at(5001)), HealthStatus::Ejected(at(15_001)), "one is enough");
    health.answered(at(15_001), at(15_001));
    health.completed();
    break_off(&mut health, at(15_002));
    assert_eq!(health.status(at(15_002)), HealthStatus::Ready, "a whole response ends the series");
}

/// The only backend of a model is tried during its ejection, ever more rarely.
#[test]
fn r07_trials_during_an_ejection_come_with_growing_pauses() {
    let mut health = up();
    fail(&mut health, 3, at(0));
    let mut now = at(0);
    let mut pauses = Vec::new();
    for _ in 0..3 {
        assert!(!health.may_be_tried(now));
        let next = health.next_change(&SETTINGS, now).unwrap();
        pauses.push(next.since(now));
        now = next;
        assert!(health.may_be_tried(now));
        fail(&mut health, 1, now);
    }
    assert_eq!(pauses, [500, 1000, 2000].map(Span::from_millis));
    now = now.after(Span::from_secs(4));
    health.report(Attempt::Answered, "", &SETTINGS, now);
    assert_eq!(health.status(now), HealthStatus::Ready, "a trial that is answered ends it");
}

/// A failure that other requests share is not the fault of a request.
#[test]
fn n05_a_backend_fails_others_until_it_answers() {
    let mut health = up();
    assert!(!health.fails_others(0));
    fail(&mut health, 1, at(0));
    assert!(health.fails_others(0) && !health.fails_others(1), "its own failure does not count");
    fail(&mut health, 2, at(0));
    assert!(health.fails_others(1), "it is ejected");
    health.report(Attempt::Answered, "", &SETTINGS, at(6000));
    assert!(!health.fails_others(0));
}

/// One caller alone ejects no backend that serves others, and neither does a request that fails
/// elsewhere too. Several callers do, and so does one if others were served long ago.
#[test]
fn r07_one_caller_ejects_no_backend_that_serves_others() {
    let fails = |health: &mut Health, caller: u64, served: Option<u64>, elsewhere: bool| {
        let suspicion = Suspicion {
            caller: CallerHash(caller),
            failed_elsewhere: elsewhere,
            others_served_at: served.map(at),
        };
        for _ in 0..5 {
            health.failed_for(&suspicion, "", &SETTINGS, at(20_000));
        }
        health.status(at(20_000))
    };
    let ejected = HealthStatus::Ejected(at(25_000));
    for (served, expected) in [(Some(10_001), HealthStatus::Ready), (Some(10_000), ejected.clone())]
    {
        assert_eq!(fails(&mut up(), 1, served, false), expected);
        assert_eq!(fails(&mut up(), 1, served, true), expected);
    }
    assert_eq!(fails(&mut up(), 1, None, false), ejected, "nobody else was served");
    let mut health = up();
    fails(&mut health, 1, Some(20_000), false);
    health.answered(at(20_000), at(20_000));
    assert_eq!(fails(&mut health, 2, Some(20_000), false), HealthStatus::Ready);
    assert_eq!(fails(&mut health, 1, Some(20_000), true), HealthStatus::Ready);
    assert!(health.has_failures());
    assert_eq!(fails(&mut health, 1, Some(20_000), false), ejected, "two callers in a row");
}

/// A server that was down and is back is a new one.
#[test]
fn n05_a_check_proves_nothing_but_a_return_does() {
    let mut health = up();
    health.checked(CheckResult::Healthy, at(12), at(12));
    assert!(!health.is_back_since(at(10)), "a check is no request");
    health.report(Attempt::Refused, "", &SETTINGS, at(20));
    assert!(!health.is_back_since(at(20)));
    health.checked(CheckResult::Healthy, at(21), at(21));
    assert!(health.is_back_since(at(20)) && !health.is_back_since(at(21)));
}

#[test]
fn r07_a_response_between_failures_resets_the_count() {
    let mut health = up();
    fail(&mut health, 2, at(0));
    assert!(health.has_failures());
    health.report(Attempt::Answered, "", &SETTINGS, at(1));
    assert!(!health.has_failures());
    fail(&mut health, 2, at(2));
    assert_eq!(health.status(at(2)), HealthStatus::Ready);
}

#[test]
fn r07_ejections_double_up_to_ten_times_and_are_forgotten() {
    let mut health = up();
    let mut now = at(0);
    for secs in [5, 10, 20, 40, 50, 50] {
        fail(&mut health, 3, now);
        let until = now.after(Span::from_secs(secs));
        assert_eq!(health.status(now), HealthStatus::Ejected(until));
        fail(&mut health, 9, now);
        assert_eq!(health.status(now), HealthStatus::Ejected(until), "stragglers say nothing new");
        now = until;
    }
    now = now.after(Span::from_secs(51));
    fail(&mut health, 3, now);
    assert_eq!(health.status(now), HealthStatus::Ejected(now.after(Span::from_secs(5))));
}

/// The source removes a backend for an hour after one 429.
#[test]
fn n05_a_backend_that_is_full_pauses_shortly_and_is_never_ejected() {
    let mut health = up();
    let mut now = at(0);
    for millis in [250, 500, 1000, 2000, 2000, 2000] {
        for _ in 0..50 {
            health.report(Attempt::Full(None), "", &SETTINGS, now);
        }
        let until = now.after(Span::from_millis(millis));
        assert_eq!(health.status(now), HealthStatus::Full(until));
        assert_eq!(health.next_change(&SETTINGS, now), Some(until));
        now = until;
        assert_eq!(health.status(now), HealthStatus::Ready);
    }
    health.report(Attempt::Answered, "", &SETTINGS, now);
    health.report(Attempt::Full(None), "", &SETTINGS, now);
    assert_eq!(health.status(now), HealthStatus::Full(now.after(Span::from_millis(250))));
    assert_eq!(
        health.handicap(&SETTINGS, now.after(Span::from_millis(250))),
        0.0,
        "it is not cold"
    );
}

#[test]
fn n05_retry_after_of_a_backend_is_followed_up_to_a_limit() {
    for (told, paused) in [(1, 1000), (3600, 5000)] {
        let mut health = up();
        let told = Attempt::Full(Some(Duration::from_secs(told)));
        health.report(told, "", &SETTINGS, at(0));
        assert_eq!(health.status(at(0)), HealthStatus::Full(at(paused)));
    }
}

#[test]
fn r07_a_failed_check_counts_at_once_and_a_timeout_when_repeated() {
    let mut health = up();
    health.checked(CheckResult::NoResponse, at(0), at(10));
    assert_eq!(health.status(at(10)), HealthStatus::Ready);
    assert_eq!(health.next_check(&SETTINGS), Span::from_millis(250), "it is in doubt");
    health.checked(CheckResult::NoResponse, at(20), at(30));
    assert_eq!(health.status(at(30)), HealthStatus::Down(DownReason::NoResponse));
    health.checked(CheckResult::Healthy, at(40), at(50));
    assert_eq!(health.status(at(50)), HealthStatus::Ready);
    health.checked(CheckResult::Unhealthy("500".into()), at(60), at(70));
    assert_eq!(health.status(at(70)), HealthStatus::Down(DownReason::Unhealthy("500".into())));
    let mut unnamed = up();
    unnamed.checked(CheckResult::NoAddress, at(0), at(10));
    assert_eq!(unnamed.status(at(10)), HealthStatus::Ready, "the DNS may fail for a moment");
    unnamed.checked(CheckResult::NoAddress, at(20), at(30));
    assert_eq!(unnamed.status(at(30)), HealthStatus::Down(DownReason::NoAddress));
}

#[test]
fn r07_checks_come_faster_while_a_backend_is_down() {
    let mut health = up();
    assert_eq!(health.next_check(&SETTINGS), Span::from_secs(5));
    health.report(Attempt::Refused, "", &SETTINGS, at(0));
    let mut waits = Vec::new();
    for _ in 0..7 {
        health.checked(CheckResult::Refused, at(1), at(1));
        waits.push(health.next_check(&SETTINGS).nanos() / 1_000_000);
    }
    assert_eq!(waits, [250, 500, 1000, 2000, 4000, 5000, 5000]);
    health.checked(CheckResult::Healthy, at(2), at(2));
    assert_eq!(health.next_check(&SETTINGS), Span::from_secs(5));
}

#[test]
fn r07_a_backend_that_comes_back_starts_slowly() {
    let mut health = up();
    health.report(Attempt::Refused, "", &SETTINGS, at(0));
    health.checked(CheckResult::Healthy, at(1), at(1000));
    let mut now = at(1000);
    let mut seen = Vec::new();
    while let Some(next) = health.next_change(&SETTINGS, now) {
        seen.push(health.handicap(&SETTINGS, now));
        assert_eq!(next, now.after(Span::from_secs(1)), "a step each second");
        now = next;
    }
    assert_eq!(seen, [500.0, 450.0, 400.0, 350.0, 300.0, 250.0, 200.0, 150.0, 100.0, 50.0]);
    assert_eq!(health.handicap(&SETTINGS, now), 0.0);
    fail(&mut health, 3, now);
    let back = now.after(Span::from_secs(5));
    assert_eq!(health.handicap(&SETTINGS, back), 500.0, "after an ejection too");
}

fn any_step() -> impl Strategy<Value = (u8, u64)> {
    (0..9u8, 0..4000u64)
}

proptest! {
    /// After any history, successful checks without further reports make a backend ready within its
    /// longest ejection, and every change by time alone is announced.
    #[test]
    fn r07_every_backend_recovers_and_every_change_is_announced(
        steps in proptest::collection::vec(any_step(), 0..60),
    ) {
        let mut health = Health::new();
        let mut now = at(0);
        for (step, millis) in steps {
            let began = now;
            now = now.after(Span::from_millis(millis));
            match step {
                0 => health.report(Attempt::Answered, "", &SETTINGS, now),
                1 => health.report(Attempt::Refused, "", &SETTINGS, now),
                2..=4 => health.report(Attempt::Failed, "", &SETTINGS, now),
                5 => {
                    let retry_after = Some(Duration::from_millis(millis));
                    health.report(Attempt::Full(retry_after), "", &SETTINGS, now);
                }
                6 => health.checked(CheckResult::NoResponse, began, now),
                7 => health.checked(CheckResult::Refused, began, now),
                _ => health.checked(CheckResult::Healthy, began, now),
            }
            let (is, points) = (health.status(now), health.handicap(&SETTINGS, now));
            let next = health.next_change(&SETTINGS, now).unwrap_or(Time::NEVER);
            prop_assert!(next > now);
            let before = Time::from_nanos(next.nanos() - 1);
            prop_assert_eq!(&is, &health.status(before));
            prop_assert_eq!(points, health.handicap(&SETTINGS, before));
        }
        health.checked(CheckResult::Healthy, now, now);
        now = now.after(Span::from_secs(50));
        let status = health.status(now);
        prop_assert!(matches!(status, HealthStatus::Ready | HealthStatus::OnTrial), "{:?}", status);
        health.report(Attempt::Answered, "", &SETTINGS, now);
        prop_assert_eq!(health.status(now), HealthStatus::Ready);
    }
}
