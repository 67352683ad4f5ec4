//! Numbers as people write them: short, with the digits that tell ticks apart and no more.

use super::Unit;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// From here on days are written as a plain number.
const DAYS_MAX: f64 = 10_000.0;

/// A coordinate, with the tenth of a pixel that an eye could see.
pub(super) fn px(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// The label of `value` on an axis with ticks `step` apart and `top` as its greatest magnitude.
pub(super) fn label(value: f64, step: f64, top: f64, unit: Unit) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    let size = value.abs();
    let digits = match unit {
        Unit::Plain => plain(size, step, top),
        Unit::Share => plain(size * 100.0, step * 100.0, top * 100.0) + "%",
        Unit::Seconds => seconds(size, step, top),
    };
    format!("{sign}{digits}")
}

fn plain(value: f64, step: f64, top: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e15).contains(&top) {
        return exponent(value);
    }
    for (size, name, from) in [(1e12, "T", 1e12), (1e9, "G", 1e9), (1e6, "M", 1e6), (1e3, "k", 1e4)]
    {
        // Ticks much closer than the unit would need more digits with it than without.
        if top >= from && step >= size / 100.0 {
            return fixed(value / size, step / size) + name;
        }
    }
    fixed(value, step)
}

fn exponent(value: f64) -> String {
    let written = format!("{value:.7e}");
    match written.split_once('e') {
        Some((digits, power)) => {
            format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        None => written,
    }
}

/// As many decimals as `step` has.
fn fixed(value: f64, step: f64) -> String {
    format!("{value:.*}", decimals(step))
}

fn decimals(step: f64) -> usize {
    // A logarithm may be a hair less than it should, and that differs between machines.
    (-(step.log10() + 1e-9).floor()).clamp(0.0, 17.0) as usize
}

fn seconds(value: f64, step: f64, top: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let (size, name) = match top {
        _ if top >= MINUTE as f64 => return clock(value, step, top),
        _ if top >= 1.0 => (1.0, "s"),
        _ if top >= 1e-3 => (1e-3, "ms"),
        _ if top >= 1e-6 => (1e-6, "µs"),
        _ => (1e-9, "ns"),
    };
    plain(value / size, step / size, top / size) + name
}

/// Days, hours, minutes and seconds, without those that are zero.
fn clock(value: f64, step: f64, top: f64) -> String {
    let in_days = |seconds: f64| seconds / DAY as f64;
    if in_days(top) >= DAYS_MAX {
        return plain(in_days(value), in_days(step), in_days(top)) + "d";
    }
    let places = decimals(step).min(9);
    // Whole numbers of the last decimal: a remainder of floats could read 59.999 for a minute.
    let parts = 10u64.pow(places as u32);
    let total = (value * parts as f64).round() as u64;
    let (whole, rest) = (total / parts, total % parts);
    let mut text = String::new();
    for (amount, name) in
        [(whole / DAY, "d"), (whole % DAY / HOUR, "h"), (whole % HOUR / MINUTE, "m")]
    {
        if amount > 0 {
            text += &format!("{amount}{name}");
        }
    }
    let left = (whole % MINUTE * parts + rest) as f64 / parts as f64;
    if left > 0.0 { text + &format!("{left:.places$}s") } else { text }
}
