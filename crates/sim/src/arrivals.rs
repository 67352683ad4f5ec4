//! Requests as they arrive: a lazy stream drawn from a seed, or a trace played again.
//!
//! When requests come and how long they are is drawn from two generators, so that another choice of
//! lengths leaves the moments of arrival as they were and two runs can be compared.

mod check;
mod clock;
mod closed_loop;
mod shared_text;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use flow::{Span, Time};

use crate::random::Random;
use crate::trace::{TOKENS_MAX, Trace, TraceRow};

pub use check::ArrivalsError;
pub use closed_loop::ClosedLoop;
pub use shared_text::{PromptWriter, SharedText};

use clock::Clock;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrives.
    pub at: Time,
    /// Who sends it: an index into the clients of the trace, 0 where there is no trace.
    pub client: u32,
    /// Tokens of its prompt.
    pub prompt: u32,
    /// Tokens of its answer.
    pub output: u32,
    /// Ids of its prompt's segments, as in [`crate::trace::TraceRow::prefix`].
    pub prefix: Arc<[u64]>,
}

/// When requests arrive. Rates are in requests a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Process {
    /// Independently of each other.
    Poisson {
        /// The mean rate.
        rate: f64,
    },
    /// With gaps from a gamma distribution, in bursts where `cv` is above 1.
    Gamma {
        /// The mean rate.
        rate: f64,
        /// The coefficient of variation of the gaps.
        cv: f64,
    },
    /// In busy periods between quiet ones, independently within them.
    OnOff {
        /// The rate in a busy period.
        rate: f64,
        /// The rate in a quiet period, which may be 0.
        quiet_rate: f64,
        /// The mean length of a busy period.
        on: Span,
        /// The mean length of a quiet period.
        off: Span,
        /// How the lengths vary.
        periods: Periods,
    },
    /// At the moments of the trace, once through. Needs [`Lengths::Trace`].
    Replay {
        /// How many times faster than the trace.
        speed: f64,
    },
    /// Whenever a client of a [`ClosedLoop`] sends. The stream has no end, and all its requests
    /// carry the time zero: the world decides when each one is sent.
    OnDemand,
}

/// How the periods of [`Process::OnOff`] vary in length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Periods {
    /// Each has an exponential length; the run begins in either.
    #[default]
    Random,
    /// Each has exactly its mean length; the run begins with a whole busy one.
    Fixed,
}

/// How long requests are, and who sends them.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// All alike.
    Fixed {
        /// Tokens of each prompt.
        prompt: u32,
        /// Tokens of each answer.
        output: u32,
    },
    /// Drawn independently from lognormal distributions, rounded and kept within 1 and
    /// [`TOKENS_MAX`], which lifts the mean of very short lengths a little.
    Lognormal {
        /// Mean tokens of a prompt.
        prompt_mean: f64,
        /// Their coefficient of variation.
        prompt_cv: f64,
        /// Mean tokens of an answer.
        output_mean: f64,
        /// Their coefficient of variation.
        output_cv: f64,
    },
    /// The rows of a trace in their order, each with its client, lengths and prefix. A replay
    /// begins with the first; the other processes begin where the seed says and go round.
    Trace(Arc<Trace>),
}

/// The requests of one run, in the order of their arrival.
#[derive(Clone, Debug)]
pub struct Arrivals {
    source: Source,
    until: Time,
}

#[derive(Clone, Debug)]
enum Source {
    Replayed { trace: Arc<Trace>, speed: f64, next: usize },
    Drawn { clock: Clock, lengths: Lengths, random: Random, next: usize },
}

// === impl Arrivals ===

impl Arrivals {
    /// The requests before `until`; with [`Time::NEVER`] a replay plays its whole trace and the
    /// other processes go on without end.
    pub fn new(
        process: Process,
        lengths: Lengths,
        random: &Random,
        until: Time,
    ) -> Result<Self, ArrivalsError> {
        process.check()?;
        lengths.check()?;
        let rows = match &lengths {
            Lengths::Trace(trace) => trace.rows.len() as u64,
            _ => 1,
        };
        let source = match (process, lengths) {
            (Process::Replay { speed }, Lengths::Trace(trace)) => {
                Source::Replayed { trace, speed, next: 0 }
            }
            (process, lengths) => {
                let clock = Clock::new(process, random.fork("moments"))?;
                let next = random.fork("start").below(rows) as usize;
                Source::Drawn { clock, lengths, random: random.fork("lengths"), next }
            }
        };
        Ok(Self { source, until })
    }
}

impl Iterator for Arrivals {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        match &mut self.source {
            Source::Replayed { trace, speed, next } => {
                let row = trace.rows.get(*next)?;
                let at = Time::from_nanos((row.at.nanos() as f64 / *speed) as u64);
                *next += 1;
                (at < self.until).then(|| Request::from_row(at, row))
            }
            Source::Drawn { clock, lengths, random, next } => {
                let at = clock.next(self.until)?;
                lengths.request(at, random, next)
            }
        }
    }
}

// === impl Lengths ===

impl Lengths {
    /// The request that arrives at `at`; `next` is the row of the trace to take.
    fn request(&self, at: Time, random: &mut Random, next: &mut usize) -> Option<Request> {
        match self {
            Self::Fixed { prompt, output } => Some(Request::plain(at, *prompt, *output)),
            Self::Lognormal { prompt_mean, prompt_cv, output_mean, output_cv } => {
                let prompt = tokens(random.lognormal(*prompt_mean, *prompt_cv));
                let output = tokens(random.lognormal(*output_mean, *output_cv));
                Some(Request::plain(at, prompt, output))
            }
            Self::Trace(trace) => {
                let row = trace.rows.get(*next)?;
                *next = (*next + 1) % trace.rows.len();
                Some(Request::from_row(at, row))
            }
        }
    }
}

// === impl Request ===

impl Request {
    fn plain(at: Time, prompt: u32, output: u32) -> Self {
        Self { at, client: 0, prompt, output, prefix: Arc::default() }
    }

    fn from_row(at: Time, row: &TraceRow) -> Self {
        let TraceRow { client, prompt, output, .. } = *row;
        Self { at, client, prompt, output, prefix: Arc::clone(&row.prefix) }
    }
}

fn tokens(drawn: f64) -> u32 {
    (drawn.round() as u32).clamp(1, TOKENS_MAX)
}
