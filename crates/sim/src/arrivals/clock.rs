//! The moments of arrival, drawn one after the other.
//!
//! Every process begins in its steady state rather than with an arrival at zero: a bursty one would
//! otherwise send `(cv² - 1) / 2` requests too many at the start. Periods of fixed length are the
//! exception: they begin with a whole busy period.

use flow::{Span, Time};

use super::{ArrivalsError, Periods, Process};
use crate::random::Random;

/// Draws moments.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    random: Random,
    now: Time,
    pace: Pace,
}

#[derive(Clone, Debug)]
enum Pace {
    Poisson { rate: f64 },
    Gamma { shape: f64, scale_secs: f64, begun: bool },
    OnOff { phase: Phase, other: Phase, ends: Time },
    OnDemand,
}

#[derive(Clone, Copy, Debug)]
struct Phase {
    rate: f64,
    mean: Span,
    periods: Periods,
}

// === impl Clock ===

impl Clock {
    /// Starts at zero. A replay has no clock of its own.
    pub(super) fn new(process: Process, mut random: Random) -> Result<Self, ArrivalsError> {
        let pace = match process {
            Process::Poisson { rate } => Pace::Poisson { rate },
            Process::Gamma { rate, cv } => {
                let variance = cv * cv;
                Pace::Gamma { shape: 1.0 / variance, scale_secs: variance / rate, begun: false }
            }
            Process::OnOff { rate, quiet_rate, on, off, periods } => {
                let busy = Phase { rate, mean: on, periods };
                let quiet = Phase { rate: quiet_rate, mean: off, periods };
                Pace::on_off(busy, quiet, &mut random)
            }
            Process::OnDemand => Pace::OnDemand,
            Process::Replay { .. } => {
                return Err(ArrivalsError::new("speed", "a replay needs the lengths of a trace"));
            }
        };
        Ok(Self { random, now: Time::ZERO, pace })
    }

    /// The next moment, unless it is `until` or later; then there is none, now and ever after.
    pub(super) fn next(&mut self, until: Time) -> Option<Time> {
        let Self { random, now, pace } = self;
        match pace {
            Pace::Poisson { rate } => *now = now.after(exponential(*rate, random)),
            Pace::Gamma { shape, scale_secs, begun } => {
                let gap = if *begun {
                    random.gamma(*shape)
                } else {
                    // The rest of a gap into which a random moment falls: such gaps are long ones,
                    // with the density weighted by length.
                    random.unit() * random.gamma(*shape + 1.0)
                };
                *begun = true;
                *now = now.after(Span::from_secs_f64(gap * *scale_secs));
            }
            Pace::OnOff { phase, other, ends } => loop {
                let at = now.after(exponential(phase.rate, random));
                if at < *ends || *ends >= until {
                    *now = at;
                    break;
                }
                // The exponential distribution has no memory, so the gap is drawn anew.
                *now = *ends;
                std::mem::swap(phase, other);
                *ends = now.after(phase.length(random));
            },
            Pace::OnDemand => {}
        }
        (*now < until).then_some(*now)
    }
}

// === impl Pace ===

impl Pace {
    fn on_off(busy: Phase, quiet: Phase, random: &mut Random) -> Self {
        let (on, off) = (busy.mean.secs_f64(), quiet.mean.secs_f64());
        let begins_busy = busy.periods == Periods::Fixed || random.unit() < on / (on + off);
        let (phase, other) = if begins_busy { (busy, quiet) } else { (quiet, busy) };
        Self::OnOff { phase, other, ends: Time::ZERO.after(phase.length(random)) }
    }
}

// === impl Phase ===

impl Phase {
    fn length(&self, random: &mut Random) -> Span {
        match self.periods {
            Periods::Random => Span::from_secs_f64(random.exponential() * self.mean.secs_f64()),
            Periods::Fixed => self.mean,
        }
    }
}

/// A gap at this rate; at a rate of zero the longest there is.
fn exponential(rate: f64, random: &mut Random) -> Span {
    let gap = random.exponential();
    if rate > 0.0 { Span::from_secs_f64(gap / rate) } else { Span::from_nanos(u64::MAX) }
}
