//! The numbers of a trace, each with its bounds and the words to refuse it.

use flow::Time;

use super::TOKENS_MAX;

/// About three hundred years: room for seconds since 1970, not for milliseconds.
const SECS_MAX: f64 = 1e10;
const NANOS_PER_SEC: f64 = 1e9;
const QUOTE_CHARS: usize = 60;

/// The beginning of a text, with everything unprintable escaped.
pub(super) fn quote(text: &str) -> String {
    match text.char_indices().nth(QUOTE_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// A count of tokens.
pub(super) fn tokens(text: &str) -> Result<u32, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(not_a_count(text));
    }
    // Digits fail to parse only when they are too many.
    tokens_within(text.parse().unwrap_or(u64::MAX)).map_err(|problem| quote(text) + &problem)
}

/// A count of tokens that is already a number.
pub(super) fn tokens_within(count: u64) -> Result<u32, String> {
    match u32::try_from(count) {
        Ok(0) => Err(" tokens cannot be served: leave the row out".to_owned()),
        Ok(count) if count <= TOKENS_MAX => Ok(count),
        _ => Err(format!(" is more than {TOKENS_MAX} tokens")),
    }
}

/// Says why a text is no count.
pub(super) fn not_a_count(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) if number < 0.0 => format!("{} is negative", quote(text)),
        _ => format!("{} is not a whole number", quote(text)),
    }
}

/// A moment written in seconds.
pub(super) fn seconds(text: &str) -> Result<Time, String> {
    let secs: f64 = text.parse().map_err(|_| format!("{} is not a number", quote(text)))?;
    moment(secs).map_err(|problem| quote(text) + problem)
}

/// A moment this many seconds after the origin.
pub(super) fn moment(secs: f64) -> Result<Time, &'static str> {
    if !secs.is_finite() {
        Err(" is not a finite number")
    } else if secs < 0.0 {
        Err(" is negative")
    } else if secs > SECS_MAX {
        Err(" is centuries away: is it in another unit?")
    } else {
        Ok(Time::from_nanos((secs * NANOS_PER_SEC).round() as u64))
    }
}
