//! The measurements of a run: one record for each request, and the figures that follow from them.
//!
//! The world writes through a `Recorder` and hands back a [`History`]. Figures are exact:
//! percentiles come from sorted values, tokens are counted as they reach the gateway, and what an
//! engine computes a second time after a preemption counts once.

mod ledger;
mod recorder;
mod series;
mod shares;
mod slo;

use flow::{Band, Time};

pub use ledger::{Gap, Ledger};
pub(crate) use recorder::{Arrival, Charges, Recorder};
pub use series::{EngineMoment, Moment, Series};
pub use shares::{Share, Shares};
pub use slo::Slo;

pub use crate::percentile::{Stat, nearest_rank};
use crate::policy::{EngineId, RefusalReason, Tenant};

/// The record of one request. Moments that never came are [`Time::NEVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it reached the gateway.
    pub arrival: Time,
    /// When the gateway last sent it to an engine.
    pub sent: Time,
    /// When its first token reached the gateway.
    pub first: Time,
    /// When it ended, in whatever way.
    pub end: Time,
    /// The number of its tenant.
    pub tenant: u32,
    /// The length of its prompt in tokens.
    pub prompt: u32,
    /// How many tokens its whole answer has.
    pub output: u32,
    /// How many of them reached the gateway.
    pub streamed: u32,
    /// The engine it was last sent to, if it was sent at all.
    pub engine: Option<EngineId>,
    /// Its priority.
    pub band: Band,
    /// How it ended.
    pub outcome: Outcome,
    /// How often it was sent.
    pub attempts: u8,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Not yet; where a run has ended, it was cut off by the limit on its length.
    Open,
    /// It was answered in full.
    Served,
    /// The gateway did not serve it.
    Refused(RefusalReason),
    /// The client went away.
    GaveUp,
    /// Its engine failed it for good.
    Failed,
}

/// The part of a run that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// From here on.
    pub from: Time,
    /// Up to here.
    pub to: Time,
}

/// The tokens and requests that reached the gateway within the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Produced {
    /// Prompt tokens read, counted when the first token of their answer comes.
    pub prompt: u64,
    /// Output tokens.
    pub output: u64,
    /// Requests answered in full.
    pub requests: u64,
}

/// Everything that is known of a run.
#[derive(Clone, Debug)]
pub struct History {
    /// One for each request, in the order of arrival.
    pub records: Vec<Record>,
    /// The tenants, by their numbers.
    pub tenants: Vec<Tenant>,
    /// The part that counts.
    pub window: Window,
    /// What came out within it.
    pub produced: Produced,
    /// Jobs that engines threw back for want of memory, over the whole run.
    pub preemptions: u64,
    /// Prompt tokens that prefix caches saved, and those asked of them, over the whole run.
    pub prefix_hits: (u64, u64),
    /// Seconds of engines within the window, those that started or stopped included.
    pub engine_secs: f64,
    /// What each tenant got, and what it was entitled to.
    pub shares: Shares,
    /// What each tenant was charged for, in the order of the grants.
    pub ledger: Ledger,
    /// The state of the world from second to second.
    pub series: Series,
    /// When the run was over.
    pub ended: Time,
}

// === impl Window ===

impl Window {
    /// Whether a moment lies within it.
    pub fn holds(self, at: Time) -> bool {
        self.from <= at && at < self.to
    }

    /// Its length in seconds.
    pub fn secs(self) -> f64 {
        self.to.since(self.from).secs_f64()
    }
}

#[cfg(test)]
mod tests;
