//! Every engine under every workload at twice its load.

use anyhow::Result;

use super::case::{Known, LOAD};
use super::report::Row;
use super::run::{Run, Stock};
use super::workloads::Workloads;
use super::{Effort, Study};

/// The default of the design that the queue comes from, and a number that often stands in
/// configurations.
pub(super) const CONSTANTS: [f64; 2] = [2.0, 64.0];

pub(super) fn measure(study: &mut Study<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &engine in study.engines() {
        for workload in Workloads::NAMES {
            let fits = Workloads::fit(engine, workload);
            if fits && study.wants(&format!("case/{engine}/{workload}"))? {
                let known = study.know(engine, workload)?;
                rows.push(row(&known, &study.effort)?);
            }
        }
    }
    Ok(rows)
}

/// `auto` and the constants beside the best fixed watermark.
pub(super) fn row(known: &Known, effort: &Effort) -> Result<Row> {
    let run = known.run(LOAD, effort.window);
    let blind = Run { metrics: None, ..run.clone() };
    let constant = CONSTANTS.map(|watermark| run.with(Stock::Fixed(watermark), 0));
    let [two, many] = constant;
    let figures = effort.means(&[run, blind, two, many])?;
    Ok(Row {
        case: known.case.name(),
        capacity: known.capacity,
        knee: known.knee,
        metrics: figures[0],
        blind: figures[1],
        constants: [figures[2], figures[3]],
    })
}
