//! The stream: its statistics, its order, its determinism.

mod closed_loop;
mod refused;

use std::sync::Arc;

use flow::{Span, Time};

use super::{Arrivals, Lengths, Periods, Process, Request};
use crate::random::Random;
use crate::trace::{Trace, TraceRow};

const FIXED: Lengths = Lengths::Fixed { prompt: 100, output: 10 };

fn stream(process: Process, lengths: Lengths, seed: u64, secs: u64) -> Arrivals {
    let until = Time::ZERO.after(Span::from_secs(secs));
    Arrivals::new(process, lengths, &Random::new(seed), until).unwrap()
}

/// Rate and coefficient of variation of the gaps.
fn gap_statistics(process: Process, seed: u64, secs: u64) -> (f64, f64) {
    let moments: Vec<f64> = stream(process, FIXED, seed, secs)
        .map(|request| request.at.since(Time::ZERO).secs_f64())
        .collect();
    assert!(moments.is_sorted(), "seed {seed}");
    let gaps: Vec<f64> = moments.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    (moments.len() as f64 / secs as f64, variance.sqrt() / mean)
}

fn assert_near(found: f64, wanted: f64, part: f64, what: &str) {
    assert!((found - wanted).abs() <= wanted * part, "{what}: {found}, wanted {wanted}");
}

/// Two clients, five rows; the output tells the row.
fn small_trace() -> Arc<Trace> {
    let row = |index: u32| TraceRow {
        at: Time::from_millis(u64::from(index) * 300),
        client: index % 2,
        prompt: 1000 + index,
        output: 1 + index,
        prefix: Arc::from([u64::from(index)]),
    };
    let clients = vec!["anna".to_owned(), "bert".to_owned()];
    Arc::new(Trace { clients, rows: (0..5).map(row).collect() })
}

fn assert_is_row(request: &Request, trace: &Trace, index: usize) {
    let row = &trace.rows[index];
    let (found, wanted) = (
        (request.client, request.prompt, request.output, &request.prefix),
        (row.client, row.prompt, row.output, &row.prefix),
    );
    assert_eq!(found, wanted);
}

#[test]
fn independent_arrivals_have_their_rate_and_variation() {
    for (rate, secs) in [(0.5, 200_000), (20.0, 5000), (100_000.0, 2)] {
        let (found, cv) = gap_statistics(Process::Poisson { rate }, 1, secs);
        assert_near(found, rate, 0.02, "rate");
        assert_near(cv, 1.0, 0.02, "cv");
    }
}

#[test]
fn gamma_arrivals_have_their_rate_and_variation() {
    for cv_wanted in [0.1, 0.5, 1.0, 2.0, 4.0] {
        let (found, cv) = gap_statistics(Process::Gamma { rate: 20.0, cv: cv_wanted }, 2, 20_000);
        assert_near(found, 20.0, 0.02, &format!("rate at cv {cv_wanted}"));
        assert_near(cv, cv_wanted, 0.03, "cv");
    }
}

#[test]
fn bursty_arrivals_do_not_begin_with_a_burst() {
    let process = Process::Gamma { rate: 10.0, cv: 4.0 };
    let count: usize = (0..4000).map(|seed| stream(process, FIXED, seed, 1).count()).sum();
    assert_near(count as f64 / 4000.0, 10.0, 0.05, "arrivals in the first second");
}

#[test]
fn busy_and_quiet_periods_have_their_mean_rate_and_their_bursts() {
    let (on, off) = (Span::from_secs(3), Span::from_secs(7));
    let process = Process::OnOff { rate: 40.0, quiet_rate: 4.0, on, off, periods: Periods::Random };
    let (rate, cv) = gap_statistics(process, 3, 100_000);
    assert_near(rate, (40.0 * 3.0 + 4.0 * 7.0) / 10.0, 0.02, "rate");
    assert!(cv > 1.5, "cv {cv}");
}

#[test]
fn busy_and_quiet_periods_begin_in_either() {
    let (on, off) = (Span::from_secs(100), Span::from_secs(300));
    let process =
        Process::OnOff { rate: 1000.0, quiet_rate: 0.0, on, off, periods: Periods::Random };
    let at_once = |seed: &u64| {
        let first = stream(process, FIXED, *seed, 1000).next();
        first.is_some_and(|first| first.at < Time::from_millis(100))
    };
    let busy = (0..2000).filter(at_once).count();
    assert_near(busy as f64 / 2000.0, 0.25, 0.1, "streams that begin busy");
}

/// A busy period of 3 s and a quiet one of 7 s, again and again, from the first moment on.
#[test]
fn fixed_periods_have_their_length_and_begin_busy() {
    let (on, off) = (Span::from_secs(3), Span::from_secs(7));
    let process =
        Process::OnOff { rate: 1000.0, quiet_rate: 0.0, on, off, periods: Periods::Fixed };
    for seed in 0..20 {
        let mut counts = [0u32; 10];
        for request in stream(process, FIXED, seed, 100) {
            counts[(request.at.since(Time::ZERO).secs_f64() % 10.0) as usize] += 1;
        }
        let (busy, quiet) = counts.split_at(3);
        for &count in busy {
            assert_near(f64::from(count), 10_000.0, 0.05, "requests in a busy second");
        }
        assert_eq!(quiet, [0; 7], "seed {seed}");
    }
}

#[test]
fn a_quiet_period_may_be_silent() {
    let (on, off) = (Span::from_secs(1), Span::from_secs(9));
    let process = Process::OnOff { rate: 50.0, quiet_rate: 0.0, on, off, periods: Periods::Random };
    let moments: Vec<Time> = stream(process, FIXED, 4, 100_000).map(|request| request.at).collect();
    let silences = moments.windows(2).filter(|pair| pair[1].since(pair[0]) > Span::from_secs(1));
    // A period of each kind takes 10 s, and e^(-1/9) of the quiet ones last longer than 1 s.
    assert_near(silences.count() as f64, 10_000.0 * (-1.0f64 / 9.0).exp(), 0.05, "silences");
    assert_near(moments.len() as f64 / 100_000.0, 5.0, 0.03, "rate");
}

#[test]
fn periods_of_a_stream_without_end_go_on() {
    let (on, off) = (Span::from_millis(1), Span::from_millis(1));
    let process = Process::OnOff { rate: 10.0, quiet_rate: 0.0, on, off, periods: Periods::Random };
    let endless = Arrivals::new(process, FIXED, &Random::new(5), Time::NEVER).unwrap();
    assert_eq!(endless.take(1000).count(), 1000);
}

#[test]
fn the_stream_stops_before_its_end_and_stays_there() {
    let processes = [
        Process::Poisson { rate: 3.0 },
        Process::Gamma { rate: 3.0, cv: 2.0 },
        Process::OnOff {
            rate: 5.0,
            quiet_rate: 1.0,
            on: Span::from_secs(1),
            off: Span::from_secs(1),
            periods: Periods::Random,
        },
        Process::Replay { speed: 0.5 },
    ];
    for process in processes {
        let mut arrivals = stream(process, Lengths::Trace(small_trace()), 6, 2);
        let last = arrivals.by_ref().last().unwrap();
        assert!(last.at < Time::from_millis(2000), "{process:?}");
        assert!((0..100).all(|_| arrivals.next().is_none()), "{process:?}");
    }
    assert_eq!(stream(processes[0], FIXED, 6, 0).count(), 0);
    let never = Process::Poisson { rate: f64::MIN_POSITIVE };
    assert_eq!(Arrivals::new(never, FIXED, &Random::new(6), Time::NEVER).unwrap().count(), 0);
}

#[test]
fn periods_are_not_walked_through_beyond_the_end() {
    let (on, off) = (Span::from_millis(1), Span::from_millis(1));
    let process = Process::OnOff {
        rate: f64::MIN_POSITIVE,
        quiet_rate: 0.0,
        on,
        off,
        periods: Periods::Random,
    };
    assert_eq!(stream(process, FIXED, 6, 10).count(), 0);
}

#[test]
fn one_seed_gives_one_stream() {
    let process = Process::Gamma { rate: 10.0, cv: 2.0 };
    let lengths = Lengths::Trace(small_trace());
    let draw = |seed| stream(process, lengths.clone(), seed, 50).collect::<Vec<_>>();
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}

#[test]
fn lengths_do_not_disturb_the_moments() {
    let process = Process::Poisson { rate: 10.0 };
    let drawn = Lengths::Lognormal {
        prompt_mean: 500.0,
        prompt_cv: 1.0,
        output_mean: 100.0,
        output_cv: 1.0,
    };
    let moments = |lengths| stream(process, lengths, 9, 60).map(|request| request.at);
    assert!(moments(FIXED).eq(moments(drawn)));
    assert!(moments(FIXED).eq(moments(Lengths::Trace(small_trace()))));
}

#[test]
fn the_arrival_time_is_independent_of_the_length() {
    let lengths = Lengths::Lognormal {
        prompt_mean: 1000.0,
        prompt_cv: 0.5,
        output_mean: 1000.0,
        output_cv: 0.5,
    };
    let late = |seed: u64| {
        let first = stream(Process::Poisson { rate: 1.0 }, lengths.clone(), seed, 1000).next();
        first.map(|first| (first.at > Time::from_millis(693), first.prompt > 894))
    };
    // Both lie above their medians in a quarter of all streams.
    let both = (0..4000).filter_map(late).filter(|pair| *pair == (true, true)).count();
    assert_near(both as f64 / 4000.0, 0.25, 0.1, "late and long");
}

#[test]
fn drawn_lengths_have_their_means_and_variations() {
    let lengths = Lengths::Lognormal {
        prompt_mean: 1155.0,
        prompt_cv: 1.1,
        output_mean: 211.0,
        output_cv: 0.7,
    };
    let requests: Vec<Request> =
        stream(Process::Poisson { rate: 1000.0 }, lengths, 10, 200).collect();
    let statistics = |of: fn(&Request) -> u32| {
        let values: Vec<f64> = requests.iter().map(|request| f64::from(of(request))).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
        (mean, (square - mean * mean).sqrt() / mean)
    };
    let (prompt, output) = (statistics(|r| r.prompt), statistics(|r| r.output));
    assert_near(prompt.0, 1155.0, 0.02, "mean prompt");
    assert_near(prompt.1, 1.1, 0.04, "cv of the prompts");
    assert_near(output.0, 211.0, 0.02, "mean output");
    assert_near(output.1, 0.7, 0.04, "cv of the outputs");
}

#[test]
fn drawn_lengths_stay_within_their_bounds() {
    let lengths =
        Lengths::Lognormal { prompt_mean: 1.0, prompt_cv: 20.0, output_mean: 1e7, output_cv: 20.0 };
    let requests: Vec<Request> =
        stream(Process::Poisson { rate: 1000.0 }, lengths, 11, 20).collect();
    assert_eq!(requests.iter().map(|request| request.prompt).min(), Some(1));
    assert_eq!(requests.iter().map(|request| request.output).max(), Some(10_000_000));
}

#[test]
fn fixed_lengths_come_from_one_client_without_a_prefix() {
    let request = stream(Process::Poisson { rate: 10.0 }, FIXED, 12, 60).next().unwrap();
    assert_eq!((request.client, request.prompt, request.output), (0, 100, 10));
    assert!(request.prefix.is_empty());
}

#[test]
fn rows_of_a_trace_go_round_from_a_start_that_the_seed_chooses() {
    let trace = small_trace();
    let mut starts = [0; 5];
    for seed in 0..200 {
        let process = Process::Poisson { rate: 10.0 };
        let requests: Vec<Request> =
            stream(process, Lengths::Trace(Arc::clone(&trace)), seed, 10).take(12).collect();
        let start = requests[0].output as usize - 1;
        starts[start] += 1;
        for (turn, request) in requests.iter().enumerate() {
            assert_is_row(request, &trace, (start + turn) % 5);
        }
    }
    assert!(starts.iter().all(|count| *count > 20), "{starts:?}");
}

#[test]
fn a_replay_plays_the_trace_once_at_its_speed() {
    let trace = small_trace();
    for (speed, gap) in [(1.0, 300), (2.0, 150), (0.5, 600)] {
        let process = Process::Replay { speed };
        let lengths = Lengths::Trace(Arc::clone(&trace));
        let replay = Arrivals::new(process, lengths, &Random::new(13), Time::NEVER).unwrap();
        let requests: Vec<Request> = replay.collect();
        assert_eq!(requests.len(), 5);
        for (index, request) in requests.iter().enumerate() {
            assert_eq!(request.at, Time::from_millis(gap * index as u64));
            assert_is_row(request, &trace, index);
        }
    }
}
