//! An exact number of cycles of one subject, for tools that count instructions.
//!
//! Everything up to the first cycle is the same whatever the number of cycles, so that between two
//! runs nothing but cycles differs.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use flow::Order;

use super::cycles::filling;
use super::subject::core::CoreSubject;
use super::subject::floor::FloorSubject;
use super::subject::{Shape, Subject};

/// Which cycles to run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct CountedCycles {
    /// What to run.
    #[arg(long, value_enum)]
    subject: SubjectName,
    /// How many asks wait.
    #[arg(long, default_value_t = 1000)]
    queued: u32,
    /// In how many flows.
    #[arg(long, default_value_t = 10)]
    flows: u32,
    /// How many cycles to run.
    #[arg(long)]
    cycles: usize,
    /// How many cycles to prepare; as many as are run unless given.
    #[arg(long)]
    prepared: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SubjectName {
    /// The core.
    Core,
    /// The bare structure that the core is compared with.
    Floor,
}

// === impl CountedCycles ===

impl CountedCycles {
    /// Runs the cycles and nothing else.
    pub(crate) fn run(self) -> Result<()> {
        let Self { subject, queued, flows, cycles, prepared } = self;
        let prepared = prepared.unwrap_or(cycles);
        ensure!(
            queued > 0 && flows > 0 && cycles <= prepared,
            "cannot run {cycles} of {prepared} cycles on {queued} asks in {flows} flows; give at \
             least one ask and one flow, and no more cycles than are prepared"
        );
        let shape = Shape { queued, flows };
        let (mut source, draws) = filling(shape, queued);
        let mut subject: Box<dyn Subject> = match subject {
            SubjectName::Core => Box::new(CoreSubject::patient(shape, Order::Fifo, &draws)?),
            SubjectName::Floor => Box::new(FloorSubject::patient(shape, &draws)),
        };
        let draws = source.draws(prepared);
        subject.load(&draws);
        subject.keep(cycles);
        subject.cycle()?;
        subject.check()
    }
}
