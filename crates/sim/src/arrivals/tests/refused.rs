//! Streams that cannot be, and the key that is to blame.

use std::sync::Arc;

use flow::{Span, Time};

use super::super::{Arrivals, Lengths, Periods, Process};
use super::{FIXED, small_trace};
use crate::random::Random;
use crate::trace::Trace;

const SECOND: Span = Span::from_secs(1);
const POISSON: Process = Process::Poisson { rate: 1.0 };

fn refusal(process: Process, lengths: Lengths) -> String {
    Arrivals::new(process, lengths, &Random::new(1), Time::NEVER).unwrap_err().to_string()
}

#[test]
fn a_rate_that_is_none_is_refused() {
    let (on, off) = (SECOND, SECOND);
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 100_001.0] {
        let wanted = format!("rate: {rate} is not above 0 and at most 100000");
        assert_eq!(refusal(Process::Poisson { rate }, FIXED), wanted);
        assert_eq!(refusal(Process::Gamma { rate, cv: 1.0 }, FIXED), wanted);
        assert_eq!(
            refusal(
                Process::OnOff { rate, quiet_rate: 1.0, on, off, periods: Periods::Random },
                FIXED
            ),
            wanted
        );
    }
    for quiet_rate in [-1.0, f64::NAN, f64::INFINITY, 100_001.0] {
        let process = Process::OnOff { rate: 1.0, quiet_rate, on, off, periods: Periods::Random };
        let wanted = format!("quiet_rate: {quiet_rate} is not within 0 and 100000");
        assert_eq!(refusal(process, FIXED), wanted);
    }
}

#[test]
fn a_variation_that_is_none_is_refused() {
    for cv in [0.0, -1.0, f64::NAN, f64::INFINITY, 21.0] {
        let wanted = format!("cv: {cv} is not within 0.01 and 20");
        assert_eq!(refusal(Process::Gamma { rate: 1.0, cv }, FIXED), wanted);
    }
}

#[test]
fn a_period_without_length_is_refused() {
    let process =
        |on, off| Process::OnOff { rate: 1.0, quiet_rate: 0.0, on, off, periods: Periods::Random };
    let wanted = "0 ns is shorter than 1000000 ns, the shortest";
    assert_eq!(refusal(process(Span::ZERO, SECOND), FIXED), format!("on: {wanted}"));
    assert_eq!(refusal(process(SECOND, Span::ZERO), FIXED), format!("off: {wanted}"));
}

#[test]
fn a_replay_without_speed_or_trace_is_refused() {
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let wanted = format!("speed: {speed} is not above 0 and at most 1000000");
        assert_eq!(refusal(Process::Replay { speed }, Lengths::Trace(small_trace())), wanted);
    }
    let wanted = "speed: a replay needs the lengths of a trace";
    assert_eq!(refusal(Process::Replay { speed: 1.0 }, FIXED), wanted);
}

#[test]
fn lengths_out_of_bounds_are_refused() {
    let fixed = |prompt, output| refusal(POISSON, Lengths::Fixed { prompt, output });
    assert_eq!(fixed(0, 1), "prompt: 0 is not within 1 and 10000000");
    assert_eq!(fixed(1, 10_000_001), "output: 10000001 is not within 1 and 10000000");
    let drawn = |prompt_mean, prompt_cv, output_mean, output_cv| {
        let lengths = Lengths::Lognormal { prompt_mean, prompt_cv, output_mean, output_cv };
        refusal(POISSON, lengths)
    };
    assert_eq!(drawn(0.5, 1.0, 9.0, 1.0), "prompt_mean: 0.5 is not within 1 and 10000000");
    assert_eq!(drawn(9.0, 0.0, 9.0, 1.0), "prompt_cv: 0 is not within 0.01 and 20");
    assert_eq!(drawn(9.0, 1.0, f64::NAN, 1.0), "output_mean: NaN is not within 1 and 10000000");
    assert_eq!(drawn(9.0, 1.0, 9.0, -1.0), "output_cv: -1 is not within 0.01 and 20");
}

#[test]
fn a_trace_that_cannot_be_played_is_refused() {
    let empty = Lengths::Trace(Arc::default());
    assert_eq!(refusal(POISSON, empty.clone()), "trace: has no rows");
    assert_eq!(refusal(Process::Replay { speed: 1.0 }, empty), "trace: has no rows");
    let mut upset = Trace::clone(&small_trace());
    upset.rows.swap(1, 3);
    let wanted = "trace: has rows that arrive before the row above them";
    assert_eq!(refusal(POISSON, Lengths::Trace(Arc::new(upset))), wanted);
}
