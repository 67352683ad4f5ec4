//! Simulated model servers in virtual time: what a gateway would see of a real one, token by token.
//!
//! Three kinds. [`Batch`] works like vLLM V1 (continuous batching over a paged KV cache, with
//! preemption and a prefix cache); [`Ranks`] is several of them in step, like the data-parallel
//! ranks of a mixture of experts; [`Slots`] works like Ollama (a few slots, each at its own pace).
//! An engine never looks at a clock: the world tells it the moment, and asks when it is needed
//! next.

mod batch;
mod blocks;
mod cost;
mod profile;
mod ranks;
pub mod recording;
mod sequence;
mod slots;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use flow::Time;

pub use batch::Batch;
pub use cost::StepCost;
// What an engine says of itself is what the core takes.
pub use flow::EngineReading;
pub use profile::{BadProfile, BatchShape, Policy, Profile, RanksShape, Shape, SlotsShape};
pub use ranks::Ranks;
pub use slots::Slots;

/// Who a job is; the caller chooses, and may use a name again once its job has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// One generation to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// Prompt tokens; 0 is taken as 1, since no engine starts from nothing.
    pub prompt: u32,
    /// Tokens to generate; 0 is taken as 1, since an engine answers with at least one.
    pub output: u32,
    /// Larger goes first; only [`Policy::Priority`] looks at it.
    pub priority: u8,
    /// Names of the prompt's consecutive segments of 512 tokens; jobs that begin with the same
    /// names share that text. Empty: nothing is shared.
    pub prefix: Arc<[u64]>,
}

/// A token came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Whose.
    pub job: JobId,
    /// Output tokens so far; 1 is the first token.
    pub tokens: u32,
    /// It was the last one, and the job is gone.
    pub finished: bool,
    /// Prompt tokens that were in the cache when the job began.
    pub cached: u32,
}

/// Why a job cannot run here, now or ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Prompt and output together exceed the model's context.
    TooLong {
        /// Prompt plus output tokens.
        tokens: u64,
        /// What the model takes.
        limit: u64,
    },
    /// The job would not fit the KV cache even if it were alone.
    TooBig {
        /// Tokens whose keys and values would have to be held at once.
        tokens: u64,
        /// What the cache holds.
        limit: u64,
    },
    /// A job of this name is already here.
    Known(JobId),
}

/// A simulated model server.
///
/// Moments given to one engine must not go back, and everything due before a moment is collected
/// with [`Engine::advance`] before anything else happens at that moment.
#[derive(Clone, Debug)]
pub enum Engine {
    /// Works like vLLM.
    Batch(Box<Batch>),
    /// Works like vLLM with data-parallel ranks.
    Ranks(Box<Ranks>),
    /// Works like Ollama.
    Slots(Box<Slots>),
}

// === impl Engine ===

impl Engine {
    /// An idle, cold engine.
    pub fn new(profile: &Profile) -> Self {
        match profile.shape() {
            Shape::Batch(shape) => Self::Batch(Box::new(Batch::new(*shape))),
            Shape::Ranks(shape) => Self::Ranks(Box::new(Ranks::new(*shape))),
            Shape::Slots(shape) => Self::Slots(Box::new(Slots::new(*shape))),
        }
    }

    /// Takes a job; an idle engine starts on it at once, a busy one sees it after the current step.
    pub fn submit(&mut self, job: Job, now: Time) -> Result<(), Rejected> {
        match self {
            Self::Batch(batch) => batch.submit(job, now),
            Self::Ranks(ranks) => ranks.submit(job, now),
            Self::Slots(slots) => slots.submit(job, now),
        }
    }

    /// The client went away: what the job holds is freed. False when there is no such job.
    pub fn abort(&mut self, job: JobId, now: Time) -> bool {
        match self {
            Self::Batch(batch) => batch.abort(job),
            Self::Ranks(ranks) => ranks.abort(job),
            Self::Slots(slots) => slots.abort(job, now),
        }
    }

    /// When the engine next has something to tell; `None` when it is idle.
    pub fn next_event(&self) -> Option<Time> {
        match self {
            Self::Batch(batch) => batch.next_event(),
            Self::Ranks(ranks) => ranks.next_event(),
            Self::Slots(slots) => slots.next_event(),
        }
    }

    /// Completes what ends at or before `now`, appends what was produced, and goes on.
    pub fn advance(&mut self, now: Time, out: &mut Vec<Progress>) {
        match self {
            Self::Batch(batch) => batch.advance(now, out),
            Self::Ranks(ranks) => ranks.advance(now, out),
            Self::Slots(slots) => slots.advance(now, out),
        }
    }

    /// What its metrics page would say.
    pub fn reading(&self) -> EngineReading {
        match self {
            Self::Batch(batch) => batch.reading(),
            Self::Ranks(ranks) => ranks.reading(),
            Self::Slots(slots) => slots.reading(),
        }
    }

    /// Work that begins from now on takes `factor` times as long as the profile says. The factor
    /// replaces an earlier one; one that is not a positive number is taken as 1.
    pub fn slow_down(&mut self, factor: f64) {
        let sane = factor.is_finite() && factor > 0.0;
        let factor = if sane { factor } else { 1.0 };
        match self {
            Self::Batch(batch) => batch.slow_down(factor),
            Self::Ranks(ranks) => ranks.slow_down(factor),
            Self::Slots(slots) => slots.slow_down(factor),
        }
    }

    /// The process dies: everything in it is lost, and it is empty and cold afterwards, with its
    /// counters at zero. A slow machine stays slow. Returns the lost jobs, running ones first.
    pub fn crash(&mut self) -> Vec<JobId> {
        match self {
            Self::Batch(batch) => batch.crash(),
            Self::Ranks(ranks) => ranks.crash(),
            Self::Slots(slots) => slots.crash(),
        }
    }

    /// Prompt tokens that the prefix cache saved and prompt tokens that were asked of it, over all
    /// jobs ever admitted, crashes included.
    pub fn prefix_hits(&self) -> (u64, u64) {
        match self {
            Self::Batch(batch) => batch.prefix_hits(),
            Self::Ranks(ranks) => ranks.prefix_hits(),
            Self::Slots(_) => (0, 0),
        }
    }
}

// === impl Rejected ===

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { tokens, limit } => write!(
                f,
                "prompt and output make {tokens} tokens, the model takes {limit}: shorten one"
            ),
            Self::TooBig { tokens, limit } => write!(
                f,
                "{tokens} tokens must be held at once, the KV cache holds {limit}: shorten the job"
            ),
            Self::Known(JobId(id)) => {
                write!(f, "a job named {id} is already here: choose another name")
            }
        }
    }
}

impl std::error::Error for Rejected {}
