//! N05, R07: how a backend goes and comes back, in virtual time.

use flow::{Span, Time};
use proptest::prelude::*;
use std::time::Duration;

use super::super::Attempt;
use super::super::health::{Check, Down, Health, Law, Standing};
use super::at;

const LAW: Law = Law {
    eject_after: 3,
    eject_for: Span::from_secs(5),
    slow_start: Span::from_secs(10),
    check_every: Span::from_secs(5),
};

fn up() -> Health {
    let mut health = Health::new();
    health.checked(Check::Good, at(0), at(0));
    health
}

fn fail(health: &mut Health, times: usize, now: Time) {
    (0..times).for_each(|_| health.report(Attempt::Failed, &LAW, now));
}

#[test]
fn r07_a_backend_is_starting_until_its_first_good_check() {
    let mut health = Health::new();
    assert_eq!(health.standing(at(0)), Standing::Down(Down::Starting));
    health.checked(Check::Good, at(1), at(2));
    assert_eq!(health.standing(at(2)), Standing::Ready);
    assert_eq!(health.handicap(&LAW, at(2)), 0.0, "nothing is slow at first start");
}

#[test]
fn n05_a_refused_connection_takes_a_backend_out_at_once_until_a_good_check() {
    let mut health = up();
    health.report(Attempt::Refused, &LAW, at(100));
    assert_eq!(health.standing(at(100)), Standing::Down(Down::Refused));
    health.report(Attempt::Answered, &LAW, at(101));
    assert_eq!(health.standing(at(60_000)), Standing::Down(Down::Refused), "time heals nothing");
    health.checked(Check::Good, at(99), at(102));
    assert!(health.is_down(), "a check from before proves nothing");
    health.checked(Check::Good, at(102), at(103));
    assert_eq!(health.standing(at(103)), Standing::Ready);
}

#[test]
fn n05_a_passing_check_does_not_lift_an_ejection_before_its_time() {
    let mut health = up();
    fail(&mut health, 2, at(0));
    assert_eq!(health.standing(at(0)), Standing::Ready);
    fail(&mut health, 1, at(0));
    assert_eq!(health.standing(at(0)), Standing::Ejected(at(5000)));
    health.checked(Check::Good, at(10), at(11));
    health.report(Attempt::Answered, &LAW, at(12));
    assert_eq!(health.standing(at(4999)), Standing::Ejected(at(5000)));
    assert_eq!(health.next_change(&LAW, at(12)), Some(at(5000)));
    assert_eq!(health.standing(at(5000)), Standing::Ready);
}

#[test]
fn r07_an_answer_between_failures_begins_the_count_anew() {
    let mut health = up();
    fail(&mut health, 2, at(0));
    assert!(health.is_troubled());
    health.report(Attempt::Answered, &LAW, at(1));
    assert!(!health.is_troubled());
    fail(&mut health, 2, at(2));
    assert_eq!(health.standing(at(2)), Standing::Ready);
}

#[test]
fn r07_ejections_double_up_to_ten_times_and_are_forgotten() {
    let mut health = up();
    let mut now = at(0);
    for secs in [5, 10, 20, 40, 50, 50] {
        fail(&mut health, 3, now);
        let until = now.after(Span::from_secs(secs));
        assert_eq!(health.standing(now), Standing::Ejected(until));
        fail(&mut health, 9, now);
        assert_eq!(health.standing(now), Standing::Ejected(until), "stragglers say nothing new");
        now = until;
    }
    now = now.after(Span::from_secs(51));
    fail(&mut health, 3, now);
    assert_eq!(health.standing(now), Standing::Ejected(now.after(Span::from_secs(5))));
}

/// The source writes a backend off for an hour after one 429.
#[test]
fn n05_a_backend_that_is_full_pauses_shortly_and_is_never_ejected() {
    let mut health = up();
    let mut now = at(0);
    for millis in [250, 500, 1000, 2000, 2000, 2000] {
        for _ in 0..50 {
            health.report(Attempt::Full(None), &LAW, now);
        }
        let until = now.after(Span::from_millis(millis));
        assert_eq!(health.standing(now), Standing::Full(until));
        assert_eq!(health.next_change(&LAW, now), Some(until));
        now = until;
        assert_eq!(health.standing(now), Standing::Ready);
    }
    health.report(Attempt::Answered, &LAW, now);
    health.report(Attempt::Full(None), &LAW, now);
    assert_eq!(health.standing(now), Standing::Full(now.after(Span::from_millis(250))));
    assert_eq!(health.handicap(&LAW, now.after(Span::from_millis(250))), 0.0, "it is not cold");
}

#[test]
fn n05_a_backend_says_itself_how_long_it_is_full_within_reason() {
    for (told, paused) in [(1, 1000), (3600, 5000)] {
        let mut health = up();
        let told = Attempt::Full(Some(Duration::from_secs(told)));
        health.report(told, &LAW, at(0));
        assert_eq!(health.standing(at(0)), Standing::Full(at(paused)));
    }
}

#[test]
fn r07_a_bad_check_counts_at_once_and_silence_when_it_lasts() {
    let mut health = up();
    health.checked(Check::Silent, at(0), at(10));
    assert_eq!(health.standing(at(10)), Standing::Ready);
    assert_eq!(health.next_check(&LAW), Span::from_millis(250), "it is in doubt");
    health.checked(Check::Silent, at(20), at(30));
    assert_eq!(health.standing(at(30)), Standing::Down(Down::Silent));
    health.checked(Check::Good, at(40), at(50));
    assert_eq!(health.standing(at(50)), Standing::Ready);
    health.checked(Check::Bad("500".into()), at(60), at(70));
    assert_eq!(health.standing(at(70)), Standing::Down(Down::Bad("500".into())));
}

#[test]
fn r07_checks_come_faster_while_a_backend_is_down() {
    let mut health = up();
    assert_eq!(health.next_check(&LAW), Span::from_secs(5));
    health.report(Attempt::Refused, &LAW, at(0));
    let mut waits = Vec::new();
    for _ in 0..7 {
        health.checked(Check::Refused, at(1), at(1));
        waits.push(health.next_check(&LAW).nanos() / 1_000_000);
    }
    assert_eq!(waits, [250, 500, 1000, 2000, 4000, 5000, 5000]);
    health.checked(Check::Good, at(2), at(2));
    assert_eq!(health.next_check(&LAW), Span::from_secs(5));
}

#[test]
fn r07_a_backend_that_comes_back_starts_slowly() {
    let mut health = up();
    health.report(Attempt::Refused, &LAW, at(0));
    health.checked(Check::Good, at(1), at(1000));
    let mut now = at(1000);
    let mut seen = Vec::new();
    while let Some(next) = health.next_change(&LAW, now) {
        seen.push(health.handicap(&LAW, now));
        assert_eq!(next, now.after(Span::from_secs(1)), "a step each second");
        now = next;
    }
    assert_eq!(seen, [500.0, 450.0, 400.0, 350.0, 300.0, 250.0, 200.0, 150.0, 100.0, 50.0]);
    assert_eq!(health.handicap(&LAW, now), 0.0);
    fail(&mut health, 3, now);
    let back = now.after(Span::from_secs(5));
    assert_eq!(health.handicap(&LAW, back), 500.0, "after an ejection too");
}

fn any_step() -> impl Strategy<Value = (u8, u64)> {
    (0..9u8, 0..4000u64)
}

proptest! {
    /// Whatever happens: with good checks and no more reports it is ready within its longest
    /// ejection, and what changes by time alone is announced.
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
                0 => health.report(Attempt::Answered, &LAW, now),
                1 => health.report(Attempt::Refused, &LAW, now),
                2..=4 => health.report(Attempt::Failed, &LAW, now),
                5 => health.report(Attempt::Full(Some(Duration::from_millis(millis))), &LAW, now),
                6 => health.checked(Check::Silent, began, now),
                7 => health.checked(Check::Refused, began, now),
                _ => health.checked(Check::Good, began, now),
            }
            let (is, points) = (health.standing(now), health.handicap(&LAW, now));
            let next = health.next_change(&LAW, now).unwrap_or(Time::NEVER);
            prop_assert!(next > now);
            let before = Time::from_nanos(next.nanos() - 1);
            prop_assert_eq!(&is, &health.standing(before));
            prop_assert_eq!(points, health.handicap(&LAW, before));
        }
        health.checked(Check::Good, now, now);
        prop_assert_eq!(health.standing(now.after(Span::from_secs(50))), Standing::Ready);
    }
}
