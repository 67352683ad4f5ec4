//! What one look at a system gives, and how much the system can have.

use flow::{Span, Time};

use crate::config::resolved::dispatch::System;

/// How free a system was at some moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// The free share.
    pub(super) free: f64,
    /// What the whole system can have at once.
    pub(super) system: f64,
    /// When that was, at the latest, and by how much it may have been earlier.
    pub(super) at: Time,
    pub(super) lag: Span,
    /// What said so, where that is not always the same.
    pub(super) by: String,
}

/// The size of a system by what is configured, given the number of servers that are ready and what
/// the source itself knows.
pub(super) fn size(system: &System, ready: Option<f64>, known: Option<f64>) -> Result<f64, String> {
    match system {
        System::Fixed(size) => Ok(*size),
        System::PerServer { each, .. } => {
            let ready = ready.ok_or("nothing says how many servers are ready")?;
            Ok(each * ready)
        }
        System::Known => known.ok_or_else(|| "nothing says how large the system is".into()),
    }
}

/// A number that counts or measures something.
pub(super) fn sound(value: f64, what: &str) -> Result<f64, String> {
    match value.is_finite() {
        true => Ok(value),
        false => Err(format!("{what} is {value}")),
    }
}
