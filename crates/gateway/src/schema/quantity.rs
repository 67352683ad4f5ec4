//! Durations and sizes, as texts with units.

use std::time::Duration;

use super::tree::Value;

const SIZES: [(&str, u64); 11] = [
    ("pib", 1 << 50),
    ("tib", 1 << 40),
    ("gib", 1 << 30),
    ("mib", 1 << 20),
    ("kib", 1 << 10),
    ("pb", 1_000_000_000_000_000),
    ("tb", 1_000_000_000_000),
    ("gb", 1_000_000_000),
    ("mb", 1_000_000),
    ("kb", 1_000),
    ("b", 1),
];

const TIMES: [(&str, f64); 6] =
    [("d", 86_400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6)];

/// `"30s"`, `"500ms"`, `"1m30s"`, or a number of seconds.
pub(crate) fn duration(value: &Value) -> Option<Duration> {
    let seconds = match value {
        Value::Integer(seconds) => *seconds as f64,
        Value::Float(seconds) => *seconds,
        Value::Text(text) => seconds(text.trim())?,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// `"32MiB"`, `"1MB"`, or a number of bytes.
pub(crate) fn size(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(bytes) => u64::try_from(*bytes).ok(),
        Value::Text(text) => {
            let (number, unit, rest) = amount(text.trim())?;
            let unit = unit.to_ascii_lowercase();
            let (_, factor) = SIZES.into_iter().find(|(name, _)| *name == unit)?;
            let bytes = number * factor as f64;
            (rest.is_empty() && bytes < u64::MAX as f64).then_some(bytes as u64)
        }
        _ => None,
    }
}

/// A duration in its largest unit that keeps it whole.
pub(crate) fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let units = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
    ];
    for (name, unit) in units {
        if nanos > 0 && nanos.is_multiple_of(unit) {
            return format!("{}{name}", nanos / unit);
        }
    }
    format!("{}ms", nanos as f64 / 1e6)
}

/// A size in its largest unit that keeps it whole.
pub(crate) fn show_size(bytes: u64) -> String {
    let units =
        [("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (name, unit) in units {
        if bytes > 0 && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}B")
}

fn seconds(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut sum = 0.0;
    loop {
        let (number, unit, after) = amount(rest)?;
        let (_, factor) = TIMES.into_iter().find(|(name, _)| *name == unit)?;
        sum += number * factor;
        if after.is_empty() {
            return Some(sum);
        }
        rest = after;
    }
}

/// A number, its unit, and what follows.
fn amount(text: &str) -> Option<(f64, &str, &str)> {
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let (number, rest) = text.split_at(text.find(|letter| !is_number(letter))?);
    let rest = rest.trim_start();
    let end = rest.find(is_number).unwrap_or(rest.len());
    Some((number.parse().ok()?, rest[..end].trim_end(), &rest[end..]))
}
