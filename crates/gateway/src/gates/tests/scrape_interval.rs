//! The interval of scrapes, by samples in virtual time.

use crate::gates::prometheus::promql::Sample;
use crate::gates::prometheus::scrape_interval::{LOOK_BACK, ScrapeInterval};

/// Reads the oldest sample of targets that are scraped every `every` seconds, each at its own
/// offset, once a second for this long. Returns the largest age that was seen.
fn follow(scrapes: &mut ScrapeInterval, every: f64, offsets: &[f64], seconds: u32) -> f64 {
    let mut most = 0.0_f64;
    for second in 0..seconds {
        let now = 1_000_000.0 + 0.3 + f64::from(second);
        let taken = |offset: &f64| ((now - offset) / every).floor() * every + offset;
        let taken = offsets.iter().map(taken).fold(f64::INFINITY, f64::min);
        scrapes.note(Sample { value: 0.5, taken, age: now - taken });
        most = most.max(now - taken);
    }
    most
}

#[test]
fn d06_the_interval_of_scrapes_is_learnt_from_their_samples() {
    for every in [1.0, 5.0, 15.0, 60.0] {
        for offsets in [&[0.0][..], &[0.0, every / 2.0], &[0.0, 0.2, every * 0.4, every * 0.9]] {
            let mut scrapes = ScrapeInterval::default();
            assert_eq!(scrapes.stale_after(5.0), LOOK_BACK, "nothing is known yet");
            let most = follow(&mut scrapes, every, offsets, 200);
            let stale = scrapes.stale_after(5.0);
            // No sample of a healthy target is stale, and a few missed scrapes are noticed.
            assert!(stale > most, "every {every} s at {offsets:?}: {stale} s, seen {most} s");
            assert!(stale <= (3.0 * every + 3.0).clamp(5.0, LOOK_BACK), "{stale} of {every}");
        }
    }
}

#[test]
fn d06_an_outage_of_a_target_does_not_make_its_samples_live_longer() {
    let mut scrapes = ScrapeInterval::default();
    let sample = |taken, age| Sample { value: 0.5, taken, age };
    // It was away for four minutes when the gate was opened.
    scrapes.note(sample(1000.0, 240.0));
    scrapes.note(sample(1240.0, 0.0));
    assert_eq!(scrapes.stale_after(5.0), LOOK_BACK);
    for scrape in 1..3 {
        scrapes.note(sample(1240.0 + 15.0 * f64::from(scrape), 0.0));
    }
    assert_eq!(scrapes.stale_after(5.0), 45.0);
    scrapes.note(sample(1270.0, 100.0));
    scrapes.note(sample(1370.0, 0.0));
    assert_eq!(scrapes.stale_after(5.0), 45.0, "the next outage counts no more");
    assert_eq!(scrapes.stale_after(120.0), 120.0, "not below the intervals of the readings");
    assert_eq!(scrapes.stale_after(1e9), LOOK_BACK);
}
