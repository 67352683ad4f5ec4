//! Exactly so many cycles of one subject, for tools that count instructions.
//!
//! Everything up to the first cycle is the same whatever the number of cycles, so that between two
//! runs nothing but cycles differs.

use anyhow::{Result, ensure};
use flow::Order;

use super::cycles::filling;
use super::subject::core::CoreSubject;
use super::subject::floor::FloorSubject;
use super::subject::{Shape, Subject};

/// What to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Which subject.
    pub(crate) which: Which,
    /// How many asks wait.
    pub(crate) queued: u32,
    /// In how many flows.
    pub(crate) flows: u32,
    /// How many cycles are prepared.
    pub(crate) prepared: usize,
    /// How many of them are run.
    pub(crate) cycles: usize,
}

/// The subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The core.
    Core,
    /// The floor.
    Floor,
}

// === impl Counted ===

impl Counted {
    /// Runs the cycles and nothing else.
    pub(crate) fn run(self) -> Result<()> {
        let Self { which, queued, flows, prepared, cycles } = self;
        ensure!(
            queued > 0 && flows > 0 && cycles <= prepared,
            "cannot run {cycles} of {prepared} cycles on {queued} asks in {flows} flows; give at \
             least one ask and one flow, and no more cycles than are prepared"
        );
        let shape = Shape { queued, flows };
        let (mut source, draws) = filling(shape, queued);
        let mut subject: Box<dyn Subject> = match which {
            Which::Core => Box::new(CoreSubject::patient(shape, Order::Fifo, &draws)?),
            Which::Floor => Box::new(FloorSubject::patient(shape, &draws)),
        };
        let draws = source.chance.draws(prepared, flows, queued);
        subject.load(&draws);
        subject.keep(cycles);
        subject.cycle()?;
        subject.check()
    }
}
