//! Tests of histograms.

use std::time::Duration;

use flow::Span;

use crate::observe::histogram::{Histogram, STEPS};
use crate::observe::size_histogram::SizeHistogram;

#[test]
fn the_buckets_rise_and_their_texts_are_their_bounds() {
    for pair in STEPS.windows(2) {
        assert!(pair[0].0 < pair[1].0);
    }
    for (span, text) in STEPS {
        assert_eq!(text.parse::<f64>().unwrap(), span.secs_f64());
    }
}

#[test]
fn a_duration_counts_in_its_step_and_in_all_larger_ones() {
    let histogram = Histogram::default();
    let step = Span::from_millis(10);
    histogram.add(step);
    histogram.add(Span::from_nanos(step.nanos() + 1));
    histogram.add(Span::ZERO);
    histogram.add(Span::from_secs(601));
    let reading = histogram.read();
    let at = |text: &str| reading.up_to[STEPS.iter().position(|(_, t)| *t == text).unwrap()];
    assert_eq!(at("0.001"), 1, "nothing at all is in the smallest");
    assert_eq!(at("0.005"), 1);
    assert_eq!(at("0.01"), 2, "a step holds what is as long as itself");
    assert_eq!(at("0.025"), 3);
    assert_eq!(at("600.0"), 3, "what is longer than all is only in the last");
    assert_eq!(reading.count, 4);
    assert!((reading.sum_secs - 601.02).abs() < 1e-6, "{}", reading.sum_secs);
}

/// Every count against a naive count, for durations of every size.
#[test]
fn counts_agree_with_counting_by_hand() {
    let histogram = Histogram::default();
    let spans: Vec<Span> = (0..4000_u64).map(|n| Span::from_nanos(n * n * n * 13)).collect();
    spans.iter().for_each(|&span| histogram.add(span));
    let reading = histogram.read();
    for ((most, text), told) in STEPS.into_iter().zip(reading.up_to) {
        let counted = spans.iter().filter(|&&span| span <= most).count() as u64;
        assert_eq!(told, counted, "up to {text}");
    }
    let sum: f64 = spans.iter().map(|span| span.secs_f64()).sum();
    assert_eq!(reading.count, 4000);
    assert!((reading.sum_secs - sum).abs() < 1e-2, "{} against {sum}", reading.sum_secs);
}

/// A scrape comes less often, and a lock for each request would cost more.
#[test]
fn m02_a_bucket_names_one_trace_in_a_second() {
    let histogram = Histogram::default();
    assert_eq!(histogram.exemplars(), None);
    let name = |millis: u64, at: u64, trace: u8| {
        let named = ([trace; 16], Duration::from_millis(at));
        histogram.exemplify(Span::from_millis(millis), named);
    };
    let traces = || {
        let kept = histogram.exemplars().unwrap();
        kept.iter().flatten().map(|exemplar| exemplar.trace[0]).collect::<Vec<_>>()
    };
    for (span, at, trace) in [(1, 5000, 1), (1, 5999, 2), (20, 5999, 3)] {
        name(span, at, trace);
    }
    assert_eq!(traces(), [1, 3], "each bucket has its own");
    name(1, 6000, 4);
    assert_eq!(traces(), [4, 3]);
}

/// A size on a bound belongs to its bucket, and one above it to the next.
#[test]
fn m01_sizes_fall_into_the_buckets_of_powers_of_two() {
    for (size, bucket) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1 << 30, 30)] {
        let sizes = SizeHistogram::default();
        sizes.add(size);
        let reading = sizes.read();
        let first = reading.up_to.iter().position(|&count| count == 1);
        assert_eq!((first, reading.sum), (Some(bucket), size), "{size}");
    }
    let sizes = SizeHistogram::default();
    sizes.add((1 << 30) + 1);
    assert_eq!((sizes.read().up_to[30], sizes.read().count), (0, 1));
}
