//! Checks that a number lies within its range.

/// A number outside its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutOfRange {
    /// The name of the setting.
    pub what: &'static str,
    /// The value given.
    pub value: f64,
    /// The allowed range.
    pub allowed: &'static str,
}

/// A checked value, or the error.
pub(crate) type Checked<T> = Result<T, OutOfRange>;

pub(crate) fn check(
    good: bool,
    what: &'static str,
    value: f64,
    allowed: &'static str,
) -> Checked<()> {
    if good { Ok(()) } else { Err(OutOfRange { what, value, allowed }) }
}

// === impl OutOfRange ===

impl std::fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {}, allowed is {}", self.what, self.value, self.allowed)
    }
}

impl std::error::Error for OutOfRange {}
