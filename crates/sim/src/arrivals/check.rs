//! What may be asked for: every number has bounds, and an error names its key.

use std::error::Error;
use std::fmt;

use flow::Span;

use super::{Lengths, Process};
use crate::trace::{TOKENS_MAX, Trace};

const RATE_MAX: f64 = 1e5;
/// Far more variation than any trace has, and little enough for sums to stay exact.
const CV_MIN: f64 = 0.01;
const CV_MAX: f64 = 20.0;
const SPEED_MAX: f64 = 1e6;
/// Shorter periods would be walked through one by one for nothing: no queue can see them.
const PERIOD_MIN: Span = Span::from_millis(1);

/// Why there is no such stream of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalsError {
    /// The setting at fault.
    pub key: &'static str,
    /// The problem.
    pub message: String,
}

// === impl ArrivalsError ===

impl ArrivalsError {
    pub(super) fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, message: message.into() }
    }
}

impl fmt::Display for ArrivalsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.key, self.message)
    }
}

impl Error for ArrivalsError {}

// === impl Process ===

impl Process {
    pub(super) fn check(&self) -> Result<(), ArrivalsError> {
        match *self {
            Self::Poisson { rate } => above_zero("rate", rate, RATE_MAX),
            Self::Gamma { rate, cv } => {
                above_zero("rate", rate, RATE_MAX)?;
                within("cv", cv, CV_MIN, CV_MAX)
            }
            Self::OnOff { rate, quiet_rate, on, off, .. } => {
                above_zero("rate", rate, RATE_MAX)?;
                within("quiet_rate", quiet_rate, 0.0, RATE_MAX)?;
                period("on", on)?;
                period("off", off)
            }
            Self::Replay { speed } => above_zero("speed", speed, SPEED_MAX),
            Self::OnDemand => Ok(()),
        }
    }
}

// === impl Lengths ===

impl Lengths {
    pub(super) fn check(&self) -> Result<(), ArrivalsError> {
        let tokens = |key, count| within(key, count, 1.0, f64::from(TOKENS_MAX));
        match self {
            Self::Fixed { prompt, output } => {
                tokens("prompt", f64::from(*prompt))?;
                tokens("output", f64::from(*output))
            }
            Self::Lognormal { prompt_mean, prompt_cv, output_mean, output_cv } => {
                tokens("prompt_mean", *prompt_mean)?;
                within("prompt_cv", *prompt_cv, CV_MIN, CV_MAX)?;
                tokens("output_mean", *output_mean)?;
                within("output_cv", *output_cv, CV_MIN, CV_MAX)
            }
            Self::Trace(trace) => playable(trace),
        }
    }
}

/// A trace that was read is playable; one that was put together by hand may not be.
fn playable(trace: &Trace) -> Result<(), ArrivalsError> {
    if trace.rows.is_empty() {
        Err(ArrivalsError::new("trace", "has no rows"))
    } else if !trace.rows.is_sorted_by_key(|row| row.at) {
        Err(ArrivalsError::new("trace", "has rows that arrive before the row above them"))
    } else {
        Ok(())
    }
}

fn above_zero(key: &'static str, value: f64, most: f64) -> Result<(), ArrivalsError> {
    if value > 0.0 && value <= most {
        return Ok(());
    }
    Err(ArrivalsError::new(key, format!("{value} is not above 0 and at most {most}")))
}

fn within(key: &'static str, value: f64, least: f64, most: f64) -> Result<(), ArrivalsError> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(ArrivalsError::new(key, format!("{value} is not within {least} and {most}")))
}

fn period(key: &'static str, mean: Span) -> Result<(), ArrivalsError> {
    if mean >= PERIOD_MIN {
        return Ok(());
    }
    let (found, least) = (mean.nanos(), PERIOD_MIN.nanos());
    Err(ArrivalsError::new(key, format!("{found} ns is shorter than {least} ns, the shortest")))
}
