//! Durations as requests write them: `500ms`, `1m30s`, `7d`, `2.5`.

use flow::Span;

/// A longer text is not a duration.
const TEXT_MAX: usize = 64;

/// Parses numbers with units, one after another. A single number is in seconds.
pub(crate) fn parse(text: &str) -> Option<Span> {
    if text.is_empty() || text.len() > TEXT_MAX {
        return None;
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let (number, after) = cut(rest, |letter| !letter.is_ascii_digit() && letter != '.');
        let (unit, after) = cut(after, |letter| letter.is_ascii_digit() || letter == '.');
        let lone = unit.is_empty() && number.len() == text.len();
        total += number.parse::<f64>().ok()? * if lone { 1.0 } else { seconds(unit)? };
        rest = after;
    }
    Some(Span::from_secs_f64(total))
}

/// Parses the `grpc-timeout` of gRPC: up to eight digits and a letter.
pub(crate) fn parse_grpc(text: &str) -> Option<Span> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let nanos = match unit {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "S" => 1_000_000_000,
        "M" => 60_000_000_000,
        "H" => 3_600_000_000_000_u64,
        _ => return None,
    };
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    Some(Span::from_nanos(number.saturating_mul(nanos)))
}

fn cut(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

fn seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    })
}
