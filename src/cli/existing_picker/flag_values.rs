//! The values of the existing picker's flags. One that its program would refuse is refused here as
//! well, also where the flag has no effect.

use anyhow::{Result, bail};

/// The levels of a stack trace, and the formats of a time.
const STACK_LEVELS: [&str; 3] = ["info", "error", "panic"];
const TIME_ENCODINGS: [&str; 6] = ["epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"];
const SCHEMES: [&str; 2] = ["http", "https"];
/// The units of a duration and of a size.
const TIME_UNITS: [&str; 7] = ["ns", "us", "\u{b5}s", "ms", "s", "m", "h"];
const SIZE_UNITS: [&str; 12] = ["", "k", "M", "G", "Ki", "Mi", "Gi", "B", "KB", "MB", "KiB", "MiB"];

/// What a value looks like.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Text,
    Number,
    Duration,
    Size,
    Scheme,
    StackLevel,
    TimeEncoding,
}

/// The value of a switch.
pub(super) fn boolean(flag: &str, value: &str) -> Result<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => bail!("{flag} is {value:?}, allowed are true and false"),
    }
}

/// The level of the log for a verbosity: its debug is 4 and its trace is 5.
pub(super) fn verbosity(flag: &str, value: &str) -> Result<&'static str> {
    Ok(match value.parse::<i64>() {
        Ok(..=3) => "info",
        Ok(4) => "debug",
        Ok(5..) => "trace",
        Err(_) => bail!("{flag} is {value:?}, allowed is a number"),
    })
}

/// The level of the log, as a word or as a verbosity.
pub(super) fn level(flag: &str, value: &str) -> Result<&'static str> {
    Ok(match value {
        "debug" => "debug",
        "info" => "info",
        "error" | "panic" => "error",
        _ if value.parse::<i64>().is_ok() => verbosity(flag, value)?,
        _ => bail!("{flag} is {value:?}, allowed are debug, info, error, panic and a number"),
    })
}

/// Whether a text is numbers, each with one of these units.
fn has_units(text: &str, units: &[&str]) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (number, after) = rest.split_at(number.unwrap_or(rest.len()));
        let unit = after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        if number.parse::<f64>().is_err() || !units.contains(&unit) {
            return false;
        }
        rest = after;
    }
    !text.is_empty()
}

// === impl Form ===

impl Form {
    /// Refuses a value that no flag of this form has.
    pub(super) fn check(self, flag: &str, value: &str) -> Result<()> {
        let (is_good, allowed) = match self {
            Self::Text => return Ok(()),
            Self::Number => (value.parse::<i64>().is_ok(), "is a number".to_owned()),
            Self::Duration => (
                value == "0" || has_units(value, &TIME_UNITS),
                "is a duration such as 500ms or 2s".to_owned(),
            ),
            Self::Size => (
                has_units(value, &SIZE_UNITS),
                "is a number of bytes such as 4194304 or 10MiB".to_owned(),
            ),
            Self::Scheme => one_of(value, &SCHEMES),
            Self::StackLevel => one_of(value, &STACK_LEVELS),
            Self::TimeEncoding => one_of(value, &TIME_ENCODINGS),
        };
        if !is_good {
            bail!("{flag} is {value:?}, allowed {allowed}");
        }
        Ok(())
    }
}

/// Whether a value is one of these words, and the words.
fn one_of(value: &str, words: &[&str]) -> (bool, String) {
    (words.contains(&value), format!("are {}", words.join(", ")))
}
