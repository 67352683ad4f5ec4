//! What the core costs, beside the least it could cost.
//!
//! Every figure is a ratio to something measured in the same run (`floor`) or stands beside a
//! published one (`relative`), because nanoseconds alone say more about the machine than about
//! the code.

mod chance;
mod counted_cycles;
mod cycles;
mod fixture;
mod floor;
mod llm_d_grid;
mod memory;
mod report;
mod sample;
mod storms;
mod subject;
mod targets;
mod workload_order;

#[cfg(test)]
mod tests;

use std::io::Write;

use anyhow::Result;
use subject::{FLOWS, Shape};

use crate::runner::{Runner, Selection};

pub(crate) use counted_cycles::{Counted, Which};
pub(crate) use report::Report;

/// Measures the core; says on `progress` what it is at.
pub(crate) fn core(selection: &Selection, progress: &mut dyn Write) -> Result<Report> {
    let mut run = Runner::new(selection, progress);
    let cycles = cycles::measure(&mut run)?;
    let report = Report {
        quick: selection.quick,
        growth: cycles::growth(&cycles),
        scan: workload_order::measure(&mut run)?,
        storms: storms::measure(&mut run)?,
        memory: memory::measure(&mut run)?,
        relative: llm_d_grid::measure(&mut run)?,
        cycles,
        targets: Vec::new(),
    };
    run.check_any(!report.is_empty())?;
    Ok(Report { targets: targets::judge(&report), ..report })
}

// === impl Runner ===

impl Runner<'_> {
    /// The queues worth the time that the plan allows.
    pub(crate) fn shapes(&self) -> Vec<Shape> {
        let sizes: &[u32] =
            if self.selection.quick { &[1_000, 100_000] } else { &[1_000, 100_000, 1_000_000] };
        let shapes = |flows| sizes.iter().map(move |&queued| Shape { queued, flows });
        FLOWS.into_iter().flat_map(shapes).collect()
    }

    /// `full`, or a quarter of it in a quick run.
    pub(crate) fn batches(&self, full: usize) -> usize {
        if self.selection.quick { full / 4 } else { full }
    }
}
