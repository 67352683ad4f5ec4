//! Scalar values of a body, which some servers take for another type.

use super::body_key::KeyProblem;
use super::json_body::hash;
use super::json_scanner::{JsonScanner, JsonValue, ScanError};
use super::prompt_size::{Place, PromptSize};

/// A scalar value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar {
    Bool(bool),
    Number(u64),
    /// The hash of a string.
    Text(u64),
    /// A negative number, or an empty string.
    None,
    /// No scalar at all, or null: no server makes another type of it.
    Other,
}

/// Reads the next value as a scalar.
pub(super) fn small(scanner: &mut JsonScanner<'_>) -> Result<Scalar, ScanError> {
    Ok(match scanner.value()? {
        JsonValue::Bool(bool_value) => Scalar::Bool(bool_value),
        JsonValue::Number(number) => Scalar::of(number),
        JsonValue::String(text) => match &*text.read() {
            "" => Scalar::None,
            text => Scalar::Text(hash(text)),
        },
        value => {
            PromptSize::default().add(Place::Text, value, scanner)?;
            Scalar::Other
        }
    })
}

// === impl Scalar ===

impl Scalar {
    fn of(number: &str) -> Self {
        let whole = number.parse().ok();
        // A negative number means no limit, where a server accepts it at all.
        let float = || number.parse().ok().filter(|&number: &f64| number >= 0.0);
        let number = whole.or_else(|| float().map(|number| number as u64));
        number.map_or(Self::None, Self::Number)
    }

    /// The value of a key for a boolean. Some servers take the text "true" or the number 1 for one.
    pub(super) fn bool_value(self, key: &'static str) -> Result<Option<bool>, ScanError> {
        match self {
            Self::Bool(bool_value) => Ok(Some(bool_value)),
            Self::Other => Ok(None),
            _ => Err(ScanError::Key(KeyProblem::NoBool(key))),
        }
    }

    /// The value of a key for a number. Some servers take the text "8" for one, or `true`.
    pub(super) fn number(self, key: &'static str) -> Result<Option<u64>, ScanError> {
        match self {
            Self::Number(number) => Ok(Some(number)),
            Self::None | Self::Other => Ok(None),
            Self::Bool(_) | Self::Text(_) => Err(ScanError::Key(KeyProblem::NoNumber(key))),
        }
    }

    pub(super) fn text(self) -> Option<u64> {
        if let Self::Text(hash) = self { Some(hash) } else { None }
    }
}
