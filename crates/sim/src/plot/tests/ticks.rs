//! Ticks stand on round numbers with short labels that differ.

use crate::plot::ruler::Ruler;
use crate::plot::{Axis, Scale, Unit};
use crate::random::Random;

fn labels(ruler: &Ruler) -> Vec<String> {
    ruler.ticks().into_iter().map(|tick| tick.label).collect()
}

fn across(axis: Axis, low: f64, high: f64) -> Vec<String> {
    labels(&Ruler::across(&axis, [low, high].into_iter(), 6))
}

fn up(axis: Axis, low: f64, high: f64) -> Vec<String> {
    labels(&Ruler::up(&axis, [low, high].into_iter(), 6))
}

fn plain() -> Axis {
    Axis::linear("", Unit::Plain)
}

fn seconds() -> Axis {
    Axis::linear("", Unit::Seconds)
}

#[test]
fn a_horizontal_axis_ends_where_its_data_ends() {
    assert_eq!(across(plain(), 0.6, 2.0), ["1.0", "1.5", "2.0"]);
    assert_eq!(across(plain(), 0.0, 10.0), ["0", "2", "4", "6", "8", "10"]);
    assert_eq!(across(plain(), -3.0, 2.0), ["−3", "−2", "−1", "0", "1", "2"]);
    let ruler = Ruler::across(&plain(), [0.6, 2.0].into_iter(), 6);
    assert_eq!((ruler.place(0.6), ruler.place(2.0)), (Some(0.0), Some(1.0)));
}

#[test]
fn a_vertical_axis_opens_to_round_numbers_and_to_a_zero_that_is_near() {
    assert_eq!(up(plain(), 3.0, 97.0), ["0", "20", "40", "60", "80", "100"]);
    assert_eq!(up(plain(), 90.0, 97.0), ["90", "92", "94", "96", "98"]);
    assert_eq!(up(plain(), -97.0, -3.0), ["−100", "−80", "−60", "−40", "−20", "0"]);
    // Opening makes the range longer; its ends keep their ticks all the same.
    assert_eq!(
        up(plain(), -230.0, 370.0),
        ["−300", "−200", "−100", "0", "100", "200", "300", "400"]
    );
}

#[test]
fn numbers_are_short() {
    assert_eq!(up(plain(), 0.0, 7000.0)[..3], ["0", "2000", "4000"]);
    assert_eq!(up(plain(), 0.0, 9000.0), ["0", "2k", "4k", "6k", "8k", "10k"]);
    assert_eq!(up(plain(), 0.0, 2.5e6), ["0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"]);
    assert_eq!(up(plain(), 0.0, 3e20), ["0", "5e19", "1e20", "1.5e20", "2e20", "2.5e20", "3e20"]);
    assert_eq!(up(plain(), 0.0, 3e-7), ["0", "5e-8", "1e-7", "1.5e-7", "2e-7", "2.5e-7", "3e-7"]);
    assert_eq!(across(plain(), 20_000.0, 20_010.0)[..2], ["20000", "20002"]);
    let share = Axis::linear("", Unit::Share);
    assert_eq!(up(share, 0.0, 1.0), ["0%", "20%", "40%", "60%", "80%", "100%"]);
}

#[test]
fn times_have_readable_units() {
    assert_eq!(across(seconds(), 0.0, 150.0), ["0", "30s", "1m", "1m30s", "2m", "2m30s"]);
    assert_eq!(across(seconds(), 0.0, 1.0), ["0", "0.2s", "0.4s", "0.6s", "0.8s", "1.0s"]);
    assert_eq!(across(seconds(), 0.0, 0.01), ["0", "2ms", "4ms", "6ms", "8ms", "10ms"]);
    assert_eq!(across(seconds(), 0.0, 2e-5), ["0", "5µs", "10µs", "15µs", "20µs"]);
    assert_eq!(across(seconds(), 0.0, 7200.0), ["0", "30m", "1h", "1h30m", "2h"]);
    assert_eq!(across(seconds(), 0.0, 2.0 * 86_400.0), ["0", "12h", "1d", "1d12h", "2d"]);
    assert_eq!(
        across(seconds(), 0.0, 30.0 * 86_400.0),
        ["0", "5d", "10d", "15d", "20d", "25d", "30d"]
    );
    assert_eq!(across(seconds(), 119.8, 120.2), ["1m59.8s", "1m59.9s", "2m", "2m0.1s", "2m0.2s"]);
}

#[test]
fn log_ticks_are_ones_twos_and_fives_while_there_is_room() {
    let log = |low, high| up(Axis::log("", Unit::Plain), low, high);
    assert_eq!(log(0.03, 0.9), ["0.02", "0.05", "0.1", "0.2", "0.5", "1"]);
    assert_eq!(log(3.0, 4.0), ["2", "5"]);
    assert_eq!(log(10.0, 10.0), ["5", "10", "20"]);
    assert_eq!(log(0.5, 20_000.0), ["1", "10", "100", "1000", "10k"]);
    assert!(log(1e-90, 1e90).len() <= 6);
    let time = |low, high| up(Axis::log("", Unit::Seconds), low, high);
    assert_eq!(time(0.01, 1000.0), ["10ms", "100ms", "1s", "10s", "1m", "10m"]);
    assert_eq!(time(40.0, 400.0), ["20s", "50s", "1m", "2m", "5m", "10m"]);
}

#[test]
fn an_axis_without_a_range_makes_one() {
    assert_eq!(up(plain(), 0.0, 0.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    assert_eq!(up(plain(), 5.0, 5.0), ["0", "1", "2", "3", "4", "5"]);
    assert_eq!(up(plain(), -5.0, -5.0)[0], "−5");
    assert_eq!(across(plain(), 8.0, 8.0), ["4", "6", "8", "10", "12"]);
    assert_eq!(across(plain(), 0.0, 0.0).len(), 6);
    assert!(!labels(&Ruler::up(&plain(), std::iter::empty(), 6)).is_empty());
    assert!(!labels(&Ruler::up(&Axis::log("", Unit::Plain), std::iter::empty(), 6)).is_empty());
}

#[test]
fn ticks_can_be_taken_away_but_not_all() {
    let mut ruler = Ruler::across(&plain(), [0.0, 9.0].into_iter(), 3);
    assert_eq!(labels(&ruler), ["0", "5"]);
    assert!(ruler.thin_out() && ruler.thin_out() && !ruler.thin_out() && !ruler.thin_out());
    assert_eq!(labels(&ruler), ["0"]);
}

#[test]
fn values_below_measurable_size_are_shown_as_zero() {
    let least = f64::from_bits(1);
    assert_eq!(up(plain(), 0.0, least), up(plain(), 0.0, 0.0));
    assert_eq!(across(plain(), -least, least), across(plain(), 0.0, 0.0));
    assert!(Ruler::up(&Axis::log("", Unit::Plain), [1.0].into_iter(), 6).place(least).is_none());
}

#[test]
fn ticks_of_any_range_rise_inside_it_and_differ() {
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let mut any = || (random.unit() - 0.5) * 10f64.powi(random.below(30) as i32 - 15);
        let (one, other) = (any(), any());
        let scale = if random.below(2) == 0 { Scale::Linear } else { Scale::Log };
        let unit = [Unit::Plain, Unit::Seconds, Unit::Share][random.below(3) as usize];
        let axis = Axis { label: String::new(), scale, unit };
        let most = 1 + random.below(12) as usize;
        let values = || [one, other].into_iter();
        for (ruler, least) in
            [(Ruler::across(&axis, values(), most), 0), (Ruler::up(&axis, values(), most), 1)]
        {
            let ticks = ruler.ticks();
            let said = format!("seed {seed}: {:?} of {one} to {other}", labels(&ruler));
            assert!(ticks.len() >= least && ticks.len() <= most + 3, "{said}");
            assert!(ticks.iter().all(|tick| (-1e-6..1.0 + 1e-6).contains(&tick.at)), "{said}");
            let differ = |pair: &[_]| -> bool {
                let [one, next]: &[crate::plot::ruler::Tick; 2] = pair.try_into().unwrap();
                one.at < next.at && one.label != next.label
            };
            assert!(ticks.windows(2).all(differ), "{said}");
            assert!(ticks.iter().all(|tick| tick.label.chars().count() <= 16), "{said}");
        }
    }
}
