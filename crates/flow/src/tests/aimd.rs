//! The AIMD window: how it grows, how it is cut, and that it stays within its bounds.

use proptest::prelude::*;

use crate::aimd::{Aimd, AimdSettings};
use crate::{Span, Time};

fn aimd(min: u32, max: u32) -> Aimd {
    Aimd::new(AimdSettings::new(min, max, Span::from_secs(1)).unwrap())
}

fn now(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// One window of successful responses while the window is full.
fn round(aimd: &mut Aimd) {
    (0..aimd.window()).for_each(|_| aimd.good(u64::from(aimd.window())));
}

#[test]
fn d02_the_window_doubles_until_the_first_refusal_and_then_grows_by_one() {
    let mut aimd = aimd(1, 1000);
    let sizes: Vec<u32> = (0..6)
        .map(|_| {
            round(&mut aimd);
            aimd.window()
        })
        .collect();
    assert_eq!(sizes, [2, 4, 8, 16, 32, 64]);
    assert!(aimd.congested(now(0), now(10)));
    assert_eq!(aimd.window(), 32);
    for _ in 0..10 {
        let before = aimd.window();
        round(&mut aimd);
        // The window grows during the round trip, so that it gains slightly less than one.
        aimd.good(u64::from(before));
        assert_eq!(aimd.window(), before + 1);
    }
}

#[test]
fn d05_many_refusals_cut_the_window_once() {
    let mut aimd = aimd(1, 1000);
    (0..7).for_each(|_| round(&mut aimd));
    assert_eq!(aimd.window(), 128);
    (0..50).for_each(|_| _ = aimd.congested(now(0), now(100)));
    assert_eq!(aimd.window(), 64);
    assert!(!aimd.congested(now(150), now(1099)), "within the hold");
    assert!(!aimd.congested(now(99), now(5000)), "it was sent before the cut");
    assert_eq!(aimd.window(), 64);
    assert!(aimd.congested(now(101), now(1100)));
    assert_eq!(aimd.window(), 32);
}

#[test]
fn d02_a_window_that_is_not_used_does_not_grow() {
    let mut aimd = aimd(8, 100);
    (0..1000).for_each(|_| aimd.good(3));
    assert_eq!(aimd.window(), 8);
    aimd.good(4);
    assert_eq!(aimd.window(), 9);
}

#[test]
fn d02_the_window_stops_at_its_maximum() {
    let mut aimd = aimd(1, 5);
    (0..100).for_each(|_| aimd.good(5));
    assert_eq!(aimd.window(), 5);
}

#[test]
fn d02_impossible_windows_are_refused() {
    for (min, max) in [(0, 5), (6, 5), (0, 0)] {
        assert!(AimdSettings::new(min, max, Span::ZERO).is_err(), "{min} to {max}");
    }
}

proptest! {
    #[test]
    fn d02_the_window_stays_within_its_bounds(
        min in 1..50_u32,
        more in 0..200_u32,
        steps in prop::collection::vec((any::<bool>(), 0..3000_u64), 0..300),
    ) {
        let mut aimd = aimd(min, min + more);
        let mut time = 0;
        for (good, pause) in steps {
            time += pause;
            if good {
                aimd.good(u64::from(aimd.window()));
            } else {
                aimd.congested(now(time), now(time));
            }
            prop_assert!((min..=min + more).contains(&aimd.window()));
        }
    }
}
