//! What the core costs, beside the least it could cost.
//!
//! Every figure is a ratio to something measured in the same run (`floor`) or stands beside a
//! published one (`relative`), because nanoseconds alone say more about the machine than about
//! the code.

mod batch;
mod chance;
mod counted;
mod cycles;
mod epp;
mod floor;
mod gate;
mod gateway;
mod memory;
mod relative;
mod report;
mod sample;
mod scan;
mod storm;
mod subject;
mod target;

#[cfg(test)]
mod tests;

use std::io::Write;

use anyhow::{Result, bail};
use subject::{FLOWS, Shape};

pub use batch::batch;
pub use counted::{Counted, Which};
pub use epp::{Beside, epp};
pub use gateway::{Column, Figures, FloorProxy, GatewayReport, Promise, Row, gateway};
pub use report::Report;
pub use sample::Sample;

/// What to measure, and how thoroughly.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Fewer batches, and nothing with a million asks but the count of bytes.
    pub quick: bool,
    /// Only benchmarks whose name contains this.
    pub only: Option<String>,
}

/// A plan being carried out: the choice of benchmarks, and a place to say which one runs.
pub(crate) struct Run<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) progress: &'a mut dyn Write,
    pub(crate) names: Vec<String>,
}

/// Measures the core; says on `progress` what it is at.
pub fn core(plan: &Plan, progress: &mut dyn Write) -> Result<Report> {
    let mut run = Run { plan, progress, names: Vec::new() };
    let cycles = cycles::measure(&mut run)?;
    let report = Report {
        quick: plan.quick,
        growth: cycles::growth(&cycles),
        scan: scan::measure(&mut run)?,
        storms: storm::measure(&mut run)?,
        memory: memory::measure(&mut run)?,
        relative: relative::measure(&mut run)?,
        cycles,
        targets: Vec::new(),
    };
    if report.is_empty() {
        let only = plan.only.as_deref().unwrap_or_default();
        bail!("no benchmark's name contains '{only}'; the names are: {}", run.names.join(", "));
    }
    Ok(Report { targets: target::judge(&report), ..report })
}

// === impl Run ===

impl Run<'_> {
    /// Whether to run the benchmark with this name; if so, says that it runs.
    pub(crate) fn wants(&mut self, name: &str) -> Result<bool> {
        self.names.push(name.to_owned());
        let wanted = self.plan.only.as_deref().is_none_or(|only| name.contains(only));
        if wanted {
            writeln!(self.progress, "{name}")?;
        }
        Ok(wanted)
    }

    /// The queues worth the time that the plan allows.
    pub(crate) fn shapes(&self) -> Vec<Shape> {
        let sizes: &[u32] =
            if self.plan.quick { &[1_000, 100_000] } else { &[1_000, 100_000, 1_000_000] };
        let shapes = |flows| sizes.iter().map(move |&queued| Shape { queued, flows });
        FLOWS.into_iter().flat_map(shapes).collect()
    }

    /// `full`, or a quarter of it in a quick run.
    pub(crate) fn batches(&self, full: usize) -> usize {
        if self.plan.quick { full / 4 } else { full }
    }
}
