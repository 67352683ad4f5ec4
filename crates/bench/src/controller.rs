//! The cost of the core, against the least that it could cost.
//!
//! Every figure is a ratio to something measured in the same run (`floor`) or stands beside a
//! published one (`llm_d_grid`), because nanoseconds alone say more about the machine than about
//! the code.

mod counted_cycles;
mod cycles;
mod draw;
mod fixture;
mod floor;
mod llm_d_grid;
mod memory;
mod paper_scale;
mod prefix_index;
mod sample;
mod storms;
mod subject;
mod workload_order;

#[cfg(test)]
mod tests;

use std::io::Write;

use anyhow::Result;
use subject::{FLOWS, Shape};

use crate::report::Report;
use crate::runner::{Runner, Selection};

pub(crate) use counted_cycles::CountedCycles;

/// Measures the core; reports on `progress` which benchmark runs.
pub(crate) fn measure(selection: &Selection, progress: &mut dyn Write) -> Result<Report> {
    let mut run = Runner::new(selection, progress);
    let mut tables = cycles::measure(&mut run)?;
    tables.push(workload_order::measure(&mut run)?);
    tables.push(storms::measure(&mut run)?);
    tables.push(prefix_index::measure(&mut run)?);
    tables.push(paper_scale::measure(&mut run)?);
    let (memory, note) = memory::measure(&mut run)?;
    tables.extend(memory);
    tables.push(llm_d_grid::measure(&mut run)?);
    run.report(note.into_iter().collect(), tables)
}

// === impl Runner ===

impl Runner<'_> {
    /// The queues worth the time that the selection allows.
    fn shapes(&self) -> Vec<Shape> {
        let sizes: &[u32] =
            if self.selection.quick { &[1_000, 100_000] } else { &[1_000, 100_000, 1_000_000] };
        let shapes = |flows| sizes.iter().map(move |&queued| Shape { queued, flows });
        FLOWS.into_iter().flat_map(shapes).collect()
    }

    /// `full`, or a quarter of it in a quick run.
    fn batches(&self, full: usize) -> usize {
        if self.selection.quick { full / 4 } else { full }
    }
}
