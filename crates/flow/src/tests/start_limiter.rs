//! The start limiter: when it holds back, for how long, and that it always opens again.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::start_limiter::{StartAllowance, StartLimiter, StartLimiterSettings, StartLoad};
use crate::{Span, Time};

fn now(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn start_limiter(rest: f64) -> StartLimiter {
    StartLimiter::new(StartLimiterSettings::new(rest).unwrap())
}

/// This many calm backends, at which a prompt of 1000 tokens takes 50 ms, with interactive traffic.
fn seen(calm: u32, ready: u32) -> StartLoad {
    StartLoad { ready, calm, start: Some((Span::from_millis(50), 1000)), others: true }
}

#[test]
fn d02_one_starts_at_a_calm_backend_and_the_next_after_a_rest() {
    let mut start_limiter = start_limiter(1.0);
    start_limiter.observe(seen(1, 1), now(0));
    assert_eq!(start_limiter.allowance(now(0)), StartAllowance::Allowed(1));
    start_limiter.record_start(now(0));
    assert_eq!(start_limiter.allowance(now(0)), StartAllowance::Resting(Span::from_millis(100)));
    assert_eq!(start_limiter.allowance(now(99)), StartAllowance::Resting(Span::from_millis(1)));
    start_limiter.observe(seen(1, 1), now(100));
    assert_eq!(start_limiter.allowance(now(100)), StartAllowance::Allowed(1));
}

#[test]
fn d02_nothing_starts_while_every_backend_is_busy() {
    let mut start_limiter = start_limiter(0.0);
    start_limiter.observe(seen(0, 2), now(0));
    assert_eq!(start_limiter.allowance(now(0)), StartAllowance::Busy);
    start_limiter.observe(seen(1, 2), now(5));
    assert_eq!(start_limiter.allowance(now(5)), StartAllowance::Allowed(1));
}

/// A rest follows each start, so a claim of more messages would have to be released.
#[test]
fn d02_one_request_starts_before_each_rest_however_many_backends_are_calm() {
    let mut start_limiter = start_limiter(0.0);
    start_limiter.observe(seen(32, 32), now(0));
    assert_eq!(start_limiter.allowance(now(0)), StartAllowance::Allowed(1));
}

#[test]
fn d02_a_stream_that_never_starts_does_not_stop_batch_work_for_ever() {
    let mut start_limiter = start_limiter(0.0);
    for at in (0..=9_999).step_by(101) {
        start_limiter.observe(seen(0, 1), now(at));
        assert_eq!(start_limiter.allowance(now(at)), StartAllowance::Busy, "{at}");
    }
    start_limiter.observe(seen(0, 1), now(10_000));
    assert_eq!(start_limiter.allowance(now(10_000)), StartAllowance::Allowed(1));
    start_limiter.record_start(now(10_000));
    start_limiter.observe(seen(0, 1), now(19_999));
    assert_eq!(start_limiter.allowance(now(19_999)), StartAllowance::Busy, "one in ten seconds");
    start_limiter.observe(seen(0, 1), now(20_000));
    assert_eq!(start_limiter.allowance(now(20_000)), StartAllowance::Allowed(1));
}

#[test]
fn d02_without_a_state_of_the_backends_nothing_is_held_back() {
    let mut start_limiter = start_limiter(1.0);
    start_limiter.observe(seen(0, 1), now(0));
    assert_eq!(start_limiter.allowance(now(0)), StartAllowance::Busy);
    start_limiter.reset();
    assert_eq!(start_limiter.allowance(now(0)), StartAllowance::Unrestricted);
}

/// Of two starts at once, the second needs another calm backend: the first request is still in
/// transit.
#[test]
fn d02_a_start_in_transit_counts_before_it_is_seen() {
    let mut start_limiter = start_limiter(0.0);
    let unknown = StartLoad { start: None, ..seen(2, 4) };
    start_limiter.observe(unknown, now(0));
    assert_eq!(start_limiter.allowance(now(0)), StartAllowance::Allowed(2));
    start_limiter.record_start(now(0));
    assert_eq!(start_limiter.allowance(now(0)), StartAllowance::Allowed(1));
    start_limiter.record_start(now(0));
    assert_eq!(start_limiter.allowance(now(0)), StartAllowance::Busy);
    start_limiter.observe(unknown, now(19));
    assert_eq!(start_limiter.allowance(now(19)), StartAllowance::Busy);
    start_limiter.observe(unknown, now(20));
    assert_eq!(
        start_limiter.allowance(now(20)),
        StartAllowance::Allowed(2),
        "by now they would be seen"
    );
}

#[test]
fn d02_more_backends_rest_for_less_and_long_prompts_for_longer() {
    let rest = |ready: u32, prompt: u64| {
        let mut start_limiter = start_limiter(2.0);
        start_limiter.observe(seen(ready, ready), now(0));
        start_limiter.record_start(now(0));
        start_limiter.record_prompt(prompt, now(0));
        match start_limiter.allowance(now(0)) {
            StartAllowance::Resting(span) => span,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(rest(1, 1000), Span::from_millis(150));
    assert_eq!(rest(3, 1000), Span::from_millis(50));
    assert_eq!(rest(1, 4000), Span::from_millis(600));
    assert_eq!(rest(1, 10), Span::from_millis(150), "a short one takes a step all the same");
    assert_eq!(rest(1, u64::MAX), Span::from_secs(60), "no rest is longer than a minute");
}

/// Compared with prompts of ten tokens, a prompt of three hundred is not thirty times as much work.
#[test]
fn d02_a_prompt_that_fits_a_step_counts_once() {
    let rest = |prompt: u64| {
        let mut start_limiter = start_limiter(0.0);
        let short = StartLoad { start: Some((Span::from_millis(50), 10)), ..seen(1, 1) };
        start_limiter.observe(short, now(0));
        start_limiter.record_start(now(0));
        start_limiter.record_prompt(prompt, now(0));
        start_limiter.allowance(now(0))
    };
    assert_eq!(rest(512), StartAllowance::Resting(Span::from_millis(50)));
    assert_eq!(rest(1024), StartAllowance::Resting(Span::from_millis(100)));
}

#[test]
fn d02_without_interactive_traffic_nothing_is_held_back() {
    let mut start_limiter = start_limiter(1000.0);
    let alone = StartLoad { others: false, ..seen(0, 1) };
    start_limiter.observe(alone, now(0));
    assert_eq!(start_limiter.allowance(now(0)), StartAllowance::Unrestricted);
    start_limiter.record_start(now(0));
    assert_eq!(start_limiter.allowance(now(0)), StartAllowance::Unrestricted);
    start_limiter.observe(seen(0, 1), now(10));
    assert_eq!(start_limiter.allowance(now(10)), StartAllowance::Busy, "a request has come");
    start_limiter.observe(alone, now(60_010));
    assert_ne!(
        start_limiter.allowance(now(60_010)),
        StartAllowance::Unrestricted,
        "and may come again"
    );
    assert_eq!(start_limiter.allowance(now(60_011)), StartAllowance::Unrestricted);
}

#[test]
fn d02_rests_outside_their_range_are_refused() {
    for rest in [-0.1, 1000.1, f64::NAN, f64::INFINITY] {
        assert!(StartLimiterSettings::new(rest).is_err(), "{rest}");
    }
    assert!(StartLimiterSettings::new(0.0).is_ok() && StartLimiterSettings::new(1000.0).is_ok());
}

proptest! {
    /// After any history, a minute after the last start one more request may start at a calm
    /// backend, and the memory stays small.
    #[test]
    fn d02_the_start_limiter_always_opens_again(
        rest in 0.0..1000.0_f64,
        steps in vec((0_u64..200, 0_u32..9, 0_u64..1 << 40, any::<bool>()), 1..60),
    ) {
        let mut start_limiter = start_limiter(rest);
        let mut at = 0;
        for (pause, calm, prompt, others) in steps {
            at += pause;
            let start = Some((Span::from_millis(prompt % 9000), prompt % 77));
            start_limiter.observe(StartLoad { ready: 8, calm, start, others }, now(at));
            if let StartAllowance::Allowed(open) = start_limiter.allowance(now(at)) {
                prop_assert!(open >= 1 && open <= calm.max(1));
                start_limiter.record_start(now(at));
                start_limiter.record_prompt(prompt, now(at));
            }
        }
        at += 60_000;
        start_limiter.observe(seen(1, 8), now(at));
        prop_assert_eq!(start_limiter.allowance(now(at)), StartAllowance::Allowed(1));
    }
}
