//! A reading of a system: its free share and its capacity at some moment.

use std::time::Duration;

use flow::{Span, Time};

use super::error::ReadError;
use super::settings::Capacity;
use crate::clock::span;

/// How free a system was at some moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// The free share.
    pub(super) free: f64,
    /// The amount of work that the whole system can hold.
    pub(super) capacity: f64,
    /// The latest possible moment of the reading, and how much earlier it may have been.
    pub(super) at: Time,
    pub(super) lag: Span,
    /// How long it counts, if its source knows.
    pub(super) valid_for: Option<Span>,
    /// Whether the source says when the reading was made. Otherwise `at` is when it was read.
    pub(super) is_dated: bool,
    /// The metric or the numbers behind the reading, if they vary; else empty.
    pub(super) by: String,
}

// === impl Reading ===

impl Reading {
    /// A reading that took no time.
    pub(super) fn instant(free: f64, capacity: f64, at: Time) -> Self {
        Self {
            free,
            capacity,
            at,
            lag: Span::ZERO,
            valid_for: None,
            is_dated: true,
            by: String::new(),
        }
    }

    /// The same reading, which was made this long before `at`. `sample` names its source.
    pub(super) fn aged(
        self,
        (sample, age): (&str, Duration),
        stale_after: Duration,
    ) -> Result<Self, ReadError> {
        // Checked here, because a reading may be older than this process and its clock.
        if age > stale_after {
            return Err(ReadError::Stale { sample: sample.to_owned(), age: age.as_secs_f64() });
        }
        let made = self.at.nanos().saturating_sub(span(age).nanos());
        Ok(Self { at: Time::from_nanos(made), ..self })
    }
}

/// The capacity of a system by its settings, given the number of ready servers and the capacity
/// that the source itself knows.
pub(super) fn capacity(
    settings: &Capacity,
    ready: Option<f64>,
    known: Option<f64>,
) -> Result<f64, ReadError> {
    match settings {
        Capacity::Fixed(capacity) => Ok(*capacity),
        Capacity::PerServer { each, .. } => Ok(each * ready.ok_or(ReadError::NoReadyCount)?),
        Capacity::FromSource => known.ok_or(ReadError::NoCapacity),
    }
}

/// Checks that a value is a finite number.
pub(super) fn finite(value: f64, what: &str) -> Result<f64, ReadError> {
    match value.is_finite() {
        true => Ok(value),
        false => Err(ReadError::NotFinite { what: what.to_owned(), value }),
    }
}
