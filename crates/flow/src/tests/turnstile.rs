//! The turnstile: for whose sake it holds back, for how long, and that it always opens again.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::turnstile::{Beginnings, Passage, Turnstile, TurnstileLaw};
use crate::{Span, Time};

fn now(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn turnstile(rest: f64) -> Turnstile {
    Turnstile::new(TurnstileLaw::new(rest).unwrap())
}

/// Calm backends of so many, at which a prompt of 1000 tokens takes 50 ms; others are there.
fn seen(calm: u32, ready: u32) -> Beginnings {
    Beginnings { ready, calm, start: Some((Span::from_millis(50), 1000)), others: true }
}

#[test]
fn d02_one_begins_at_a_calm_backend_and_the_next_one_after_a_rest() {
    let mut turnstile = turnstile(1.0);
    turnstile.see(seen(1, 1), now(0));
    assert_eq!(turnstile.passage(now(0)), Passage::Open(1));
    turnstile.pass(now(0));
    assert_eq!(turnstile.passage(now(0)), Passage::Rests(Span::from_millis(100)));
    assert_eq!(turnstile.passage(now(99)), Passage::Rests(Span::from_millis(1)));
    turnstile.see(seen(1, 1), now(100));
    assert_eq!(turnstile.passage(now(100)), Passage::Open(1));
}

#[test]
fn d02_nothing_begins_where_others_are_about_to() {
    let mut turnstile = turnstile(0.0);
    turnstile.see(seen(0, 2), now(0));
    assert_eq!(turnstile.passage(now(0)), Passage::Busy);
    turnstile.see(seen(1, 2), now(5));
    assert_eq!(turnstile.passage(now(5)), Passage::Open(1));
}

/// A rest follows each: to claim more would be to hand them back.
#[test]
fn d02_however_many_backends_are_calm_one_goes_before_the_rest() {
    let mut turnstile = turnstile(0.0);
    turnstile.see(seen(32, 32), now(0));
    assert_eq!(turnstile.passage(now(0)), Passage::Open(1));
}

#[test]
fn d02_a_stream_that_never_starts_does_not_stop_batch_work_for_ever() {
    let mut turnstile = turnstile(0.0);
    for at in (0..=9_999).step_by(101) {
        turnstile.see(seen(0, 1), now(at));
        assert_eq!(turnstile.passage(now(at)), Passage::Busy, "{at}");
    }
    turnstile.see(seen(0, 1), now(10_000));
    assert_eq!(turnstile.passage(now(10_000)), Passage::Open(1));
    turnstile.pass(now(10_000));
    turnstile.see(seen(0, 1), now(19_999));
    assert_eq!(turnstile.passage(now(19_999)), Passage::Busy, "one in ten seconds");
    turnstile.see(seen(0, 1), now(20_000));
    assert_eq!(turnstile.passage(now(20_000)), Passage::Open(1));
}

#[test]
fn d02_where_nothing_is_known_of_the_backends_any_more_nothing_is_held_back() {
    let mut turnstile = turnstile(1.0);
    turnstile.see(seen(0, 1), now(0));
    assert_eq!(turnstile.passage(now(0)), Passage::Busy);
    turnstile.forget();
    assert_eq!(turnstile.passage(now(0)), Passage::Free);
}

/// Of two that pass at once the second must find a calm backend besides that of the first, which is
/// on its way there.
#[test]
fn d02_who_is_on_the_way_counts_before_being_seen() {
    let mut turnstile = turnstile(0.0);
    let unknown = Beginnings { start: None, ..seen(2, 4) };
    turnstile.see(unknown, now(0));
    assert_eq!(turnstile.passage(now(0)), Passage::Open(2));
    turnstile.pass(now(0));
    assert_eq!(turnstile.passage(now(0)), Passage::Open(1));
    turnstile.pass(now(0));
    assert_eq!(turnstile.passage(now(0)), Passage::Busy);
    turnstile.see(unknown, now(19));
    assert_eq!(turnstile.passage(now(19)), Passage::Busy);
    turnstile.see(unknown, now(20));
    assert_eq!(turnstile.passage(now(20)), Passage::Open(2), "by now they would be seen");
}

#[test]
fn d02_more_backends_rest_for_less_and_long_prompts_for_longer() {
    let rest = |ready: u32, prompt: u64| {
        let mut turnstile = turnstile(2.0);
        turnstile.see(seen(ready, ready), now(0));
        turnstile.pass(now(0));
        turnstile.weigh(prompt, now(0));
        match turnstile.passage(now(0)) {
            Passage::Rests(span) => span,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(rest(1, 1000), Span::from_millis(150));
    assert_eq!(rest(3, 1000), Span::from_millis(50));
    assert_eq!(rest(1, 4000), Span::from_millis(600));
    assert_eq!(rest(1, 10), Span::from_millis(150), "a short one takes a step all the same");
    assert_eq!(rest(1, u64::MAX), Span::from_secs(60), "no rest is longer than a minute");
}

/// Beside prompts of ten tokens one of three hundred is not thirty times as much work.
#[test]
fn d02_a_prompt_that_fits_a_step_counts_once() {
    let rest = |prompt: u64| {
        let mut turnstile = turnstile(0.0);
        let short = Beginnings { start: Some((Span::from_millis(50), 10)), ..seen(1, 1) };
        turnstile.see(short, now(0));
        turnstile.pass(now(0));
        turnstile.weigh(prompt, now(0));
        turnstile.passage(now(0))
    };
    assert_eq!(rest(512), Passage::Rests(Span::from_millis(50)));
    assert_eq!(rest(1024), Passage::Rests(Span::from_millis(100)));
}

#[test]
fn d02_without_others_nothing_is_held_back() {
    let mut turnstile = turnstile(1000.0);
    let alone = Beginnings { others: false, ..seen(0, 1) };
    turnstile.see(alone, now(0));
    assert_eq!(turnstile.passage(now(0)), Passage::Free);
    turnstile.pass(now(0));
    assert_eq!(turnstile.passage(now(0)), Passage::Free);
    turnstile.see(seen(0, 1), now(10));
    assert_eq!(turnstile.passage(now(10)), Passage::Busy, "somebody has come");
    turnstile.see(alone, now(60_010));
    assert_ne!(turnstile.passage(now(60_010)), Passage::Free, "and may come again");
    assert_eq!(turnstile.passage(now(60_011)), Passage::Free);
}

#[test]
fn d02_rests_outside_their_range_are_refused() {
    for rest in [-0.1, 1000.1, f64::NAN, f64::INFINITY] {
        assert!(TurnstileLaw::new(rest).is_err(), "{rest}");
    }
    assert!(TurnstileLaw::new(0.0).is_ok() && TurnstileLaw::new(1000.0).is_ok());
}

proptest! {
    /// Whatever is seen and passed, a minute after the last pass one more may begin at a calm
    /// backend, and what is remembered stays small.
    #[test]
    fn d02_the_turnstile_always_opens_again(
        rest in 0.0..1000.0_f64,
        steps in vec((0_u64..200, 0_u32..9, 0_u64..1 << 40, any::<bool>()), 1..60),
    ) {
        let mut turnstile = turnstile(rest);
        let mut at = 0;
        for (pause, calm, prompt, others) in steps {
            at += pause;
            let start = Some((Span::from_millis(prompt % 9000), prompt % 77));
            turnstile.see(Beginnings { ready: 8, calm, start, others }, now(at));
            if let Passage::Open(open) = turnstile.passage(now(at)) {
                prop_assert!(open >= 1 && open <= calm.max(1));
                turnstile.pass(now(at));
                turnstile.weigh(prompt, now(at));
            }
        }
        at += 60_000;
        turnstile.see(seen(1, 8), now(at));
        prop_assert_eq!(turnstile.passage(now(at)), Passage::Open(1));
    }
}
