//! The measured subjects: the core and the floor behind the same verbs.
//!
//! A subject is filled once and then driven in batches. The needs of a batch are worked out by
//! [`Subject::load`], outside the measured time, from draws that both subjects share.
//!
//! Filling means: everything is offered, cancelled in random order, and offered again. A slab that
//! was only ever filled from one end to the other lies in memory in the order in which it will be
//! served, which no queue does that has been in use for a while; the cost per cycle would depend on
//! how long one measures.

pub(crate) mod core;
pub(crate) mod floor;
pub(crate) mod served;

use anyhow::Result;

use super::draw::Draw;

/// Numbers of flows: a few tenants, and one flow for almost every client.
pub(crate) const FLOWS: [u32; 2] = [10, 10_000];
/// How many asks are in flight throughout.
pub(crate) const IN_FLIGHT: u32 = 8;
/// Virtual time between two steps: a hundred thousand asks per second.
pub(crate) const STEP_NANOS: u64 = 10_000;
/// How long an ask may wait: the core's default. No benchmark but the expiry storm lasts as long.
pub(crate) const TTL_NANOS: u64 = 30_000_000_000;
/// Deadlines of the expiry storm are spread over this long.
pub(crate) const STORM_NANOS: u32 = 1_000_000_000;

/// Seed of the order in which a filled queue is emptied.
const AGE_SEED: u64 = 2;

/// How large a queue is and how it is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) queued: u32,
    pub(crate) flows: u32,
}

/// A queue under measurement.
pub(crate) trait Subject {
    /// Prepares a batch.
    fn load(&mut self, draws: &[Draw]);

    /// Shortens the batch to this many steps.
    fn keep(&mut self, steps: usize);

    /// Runs the batch as a steady state: settle the oldest, grant the next, offer one more.
    fn cycle(&mut self) -> Result<()>;

    /// Runs the batch as clients that leave: cancel one that waits, offer another.
    fn churn(&mut self) -> Result<()>;

    /// Lets time pass until everything that waits has expired; returns how many did.
    fn expire(&mut self) -> Result<u32>;

    /// Says whether the queue is as large as it was made.
    fn check(&self) -> Result<()>;
}

// === impl Shape ===

impl Shape {
    /// The shape as it appears in the name of a benchmark: `1e5x10`.
    pub(crate) fn name(self) -> String {
        format!("{}x{}", power(self.queued), power(self.flows))
    }
}

/// Powers of ten above a hundred in the short form.
pub(crate) fn power(value: u32) -> String {
    let exponent = value.checked_ilog10().unwrap_or(0);
    match exponent {
        3.. if value == 10u32.pow(exponent) => format!("1e{exponent}"),
        _ => value.to_string(),
    }
}
