//! The numbers of a trace, with their bounds.

use std::fmt;

use flow::Time;

use super::TOKENS_MAX;

/// About three hundred years: room for seconds since 1970, not for milliseconds.
const SECS_MAX: f64 = 1e10;
const NANOS_PER_SEC: f64 = 1e9;
const QUOTE_CHARS: usize = 60;

/// Why a number is refused: the end of a sentence that begins with the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberError {
    NotANumber,
    NotWhole,
    NotFinite,
    Negative,
    NoTokens,
    TooManyTokens,
    TooFar,
}

/// The beginning of a text, with everything unprintable escaped.
pub(super) fn quote(text: &str) -> String {
    match text.char_indices().nth(QUOTE_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// A count of tokens.
pub(super) fn tokens(text: &str) -> Result<u32, NumberError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(NumberError::of_count(text));
    }
    // Digits fail to parse only when they are too many.
    tokens_within(text.parse().unwrap_or(u64::MAX))
}

/// A count of tokens that is already a number.
pub(super) fn tokens_within(count: u64) -> Result<u32, NumberError> {
    match u32::try_from(count) {
        Ok(0) => Err(NumberError::NoTokens),
        Ok(count) if count <= TOKENS_MAX => Ok(count),
        _ => Err(NumberError::TooManyTokens),
    }
}

/// A moment written in seconds.
pub(super) fn seconds(text: &str) -> Result<Time, NumberError> {
    moment(text.parse().map_err(|_| NumberError::NotANumber)?)
}

/// A moment this many seconds after the origin.
pub(super) fn moment(secs: f64) -> Result<Time, NumberError> {
    if !secs.is_finite() {
        Err(NumberError::NotFinite)
    } else if secs < 0.0 {
        Err(NumberError::Negative)
    } else if secs > SECS_MAX {
        Err(NumberError::TooFar)
    } else {
        Ok(Time::from_nanos((secs * NANOS_PER_SEC).round() as u64))
    }
}

// === impl NumberError ===

impl NumberError {
    /// Why a text is not a count.
    pub(super) fn of_count(text: &str) -> Self {
        match text.parse::<f64>() {
            Ok(number) if number < 0.0 => Self::Negative,
            _ => Self::NotWhole,
        }
    }

    /// The error with the text that it is about.
    pub(super) fn about(self, text: &str) -> String {
        format!("{} {self}", quote(text))
    }
}

impl fmt::Display for NumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber => f.write_str("is not a number"),
            Self::NotWhole => f.write_str("is not a whole number"),
            Self::NotFinite => f.write_str("is not a finite number"),
            Self::Negative => f.write_str("is negative"),
            Self::NoTokens => f.write_str("tokens cannot be served: leave the row out"),
            Self::TooManyTokens => write!(f, "is more than {TOKENS_MAX} tokens"),
            Self::TooFar => f.write_str("is centuries away: is it in another unit?"),
        }
    }
}

impl std::error::Error for NumberError {}
