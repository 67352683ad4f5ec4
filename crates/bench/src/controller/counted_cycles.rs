//! An exact number of cycles of one subject, for tools that count instructions.
//!
//! Everything up to the first cycle is the same whatever the number of cycles, so that between two
//! runs nothing but cycles differs.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use flow::Order;
use sim::random::Random;

use super::cycles::filling;
use super::sample::Source;
use super::subject::core::CoreSubject;
use super::subject::floor::FloorSubject;
use super::subject::served::{Prompts, Served};
use super::subject::{Shape, Subject};

/// More offers than this are not needed until the backends are full.
const FILLING_MAX: usize = 1000;

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
    /// What the prompts have in common, for the subject `served`.
    #[arg(long, value_enum, default_value_t)]
    prompts: Prompts,
    /// How many cycles to run.
    #[arg(long)]
    cycles: usize,
    /// How many cycles to prepare; as many as are run unless given.
    #[arg(long)]
    prepared: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SubjectName {
    /// The core with bounds that are fixed and no prompts.
    Core,
    /// The core with the default configuration of the program.
    Served,
    /// The bare structure that the core is compared with.
    Floor,
}

// === impl CountedCycles ===

impl CountedCycles {
    /// Runs the cycles and nothing else.
    pub(crate) fn run(self) -> Result<()> {
        let Self { subject, queued, flows, prompts, cycles, prepared } = self;
        let prepared = prepared.unwrap_or(cycles);
        ensure!(
            (queued > 0 || subject == SubjectName::Served) && flows > 0 && cycles <= prepared,
            "cannot run {cycles} of {prepared} cycles on {queued} asks in {flows} flows; give at \
             least one ask and one flow, and no more cycles than are prepared"
        );
        let shape = Shape { queued, flows };
        if subject == SubjectName::Served {
            let mut source = Source { random: Random::new(1), flows, picks: 1 };
            let draws = [queued as usize + FILLING_MAX, prepared].map(|count| source.draws(count));
            return Served::new(shape, prompts, (&draws[0], &draws[1]))?.cycle(cycles);
        }
        let (mut source, draws) = filling(shape, queued);
        let mut subject: Box<dyn Subject> = match subject {
            SubjectName::Floor => Box::new(FloorSubject::patient(shape, &draws)),
            _ => Box::new(CoreSubject::patient(shape, Order::Fifo, &draws)?),
        };
        let draws = source.draws(prepared);
        subject.load(&draws);
        subject.keep(cycles);
        subject.cycle()?;
        subject.check()
    }
}
