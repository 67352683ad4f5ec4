//! Where the ticks of an axis stand: on round numbers, few enough to read.

use super::Unit;

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Steps of a clock above one second; days go on in ones, twos and fives.
const CLOCK: [f64; 17] = [
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    15.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
];

/// Products of round numbers are not exact; this part of a step is forgiven.
const SLACK: f64 = 1e-9;

/// The smallest round step that needs at most `most` steps for `range`.
pub(super) fn step(range: f64, most: usize, unit: Unit) -> f64 {
    let least = range / most as f64 * (1.0 - SLACK);
    match unit {
        Unit::Seconds if least > DAY / 2.0 => DAY * round_up(least / DAY),
        Unit::Seconds if least > 0.5 => {
            CLOCK.into_iter().find(|step| *step >= least).unwrap_or(DAY)
        }
        _ => round_up(least),
    }
}

/// The multiples of `step` from `low` to `high`.
pub(super) fn multiples(step: f64, low: f64, high: f64) -> impl Iterator<Item = f64> {
    let first = (low / step - SLACK).ceil() as i64;
    let last = (high / step + SLACK).floor() as i64;
    (first..=last).map(move |index| index as f64 * step)
}

/// The range from `low` to `high`, opened to whole steps.
pub(super) fn opened(step: f64, low: f64, high: f64) -> (f64, f64) {
    ((low / step + SLACK).floor() * step, (high / step - SLACK).ceil() * step)
}

/// The range from `low` to `high`, opened to round numbers of a log axis that differ.
pub(super) fn opened_log(low: f64, high: f64, unit: Unit) -> (f64, f64) {
    let rungs = rungs(low, high, unit);
    let below = |rung: &&f64| **rung <= low * (1.0 + SLACK);
    let above = |rung: &&f64| **rung >= high * (1.0 - SLACK);
    let bottom = rungs.iter().rev().find(below).copied().unwrap_or(low);
    let top = rungs.iter().find(above).copied().unwrap_or(high);
    if bottom < top {
        return (bottom, top);
    }
    let next = rungs.iter().find(|rung| **rung > top).copied();
    let last = rungs.iter().rev().find(|rung| **rung < bottom).copied();
    (last.unwrap_or(bottom / 2.0), next.unwrap_or(top * 2.0))
}

/// At most `most` round numbers from `low` to `high`: ones, twos and fives where there is room,
/// powers of ten where not, and only some of these on a very long axis.
pub(super) fn log(low: f64, high: f64, most: usize, unit: Unit) -> Vec<f64> {
    let inside = |rung: &f64| *rung >= low * (1.0 - SLACK) && *rung <= high * (1.0 + SLACK);
    let fine: Vec<f64> = rungs(low, high, unit).into_iter().filter(inside).collect();
    let decades = exponents(low, high).map(|power| rung(power, unit)).filter(inside);
    let decades: Vec<f64> = decades.collect();
    let ticks = if fine.len() <= most || decades.is_empty() { fine } else { decades };
    ticks.iter().copied().step_by(ticks.len().div_ceil(most).max(1)).collect()
}

/// One, two, five or ten times a power of ten, not less than `least`.
fn round_up(least: f64) -> f64 {
    let base = power_of_ten(least.log10().floor() as i32);
    let found = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * base).find(|step| *step >= least);
    found.unwrap_or(10.0 * base)
}

/// Round numbers around the range, rising.
fn rungs(low: f64, high: f64, unit: Unit) -> Vec<f64> {
    let times = |rung: f64| [rung, 2.0 * rung, 5.0 * rung];
    exponents(low, high).flat_map(|power| times(rung(power, unit))).collect()
}

fn exponents(low: f64, high: f64) -> impl Iterator<Item = i32> {
    (low.log10().floor() as i32 - 1)..=(high.log10().ceil() as i32 + 1)
}

/// The round number near a power of ten: seconds go over to minutes, hours and days.
fn rung(power: i32, unit: Unit) -> f64 {
    match (unit, power) {
        (Unit::Seconds, 2) => MINUTE,
        (Unit::Seconds, 3) => 10.0 * MINUTE,
        (Unit::Seconds, 4) => HOUR,
        (Unit::Seconds, 5..) => DAY * power_of_ten(power - 5),
        _ => power_of_ten(power),
    }
}

/// Read from its digits: the nearest number there is, the same on every machine.
fn power_of_ten(power: i32) -> f64 {
    format!("1e{power}").parse().unwrap_or(f64::MIN_POSITIVE)
}
