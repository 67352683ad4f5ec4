//! A report as Markdown tables with aligned columns, to be read as they are or pasted.

use std::fmt::{Display, Formatter, Result};

use super::{Cell, Memory, Relative, Report, Scan};
use testbed::table::{number, table};

// === impl Report ===

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.quick {
            writeln!(f, "A quick run: fewer batches, and no queue of a million.\n")?;
        }
        cells(f, "Steady state: settle the oldest, grant the next, offer one more", &self.cycles)?;
        growth(f, self)?;
        if let Some(scan) = &self.scan {
            scanned(f, scan)?;
        }
        cells(
            f,
            "Storms, for each ask cancelled and replaced, expired or preempted",
            &self.storms,
        )?;
        if let Some(memory) = &self.memory {
            bytes(f, memory)?;
        }
        relative(f, &self.relative)?;
        targets(f, self)
    }
}

fn cells(f: &mut Formatter<'_>, title: &str, cells: &[Cell]) -> Result {
    let heads = ["ns per step", "core", "median", "floor", "median", "ratio", "median"];
    let rows = cells.iter().map(|cell| {
        let floor = |pick: fn(super::Sample) -> f64| number(cell.floor.map(pick), 0);
        let ratio = |pick: fn(super::Sample) -> f64| number(cell.ratio.map(pick), 2);
        vec![
            cell.name.clone(),
            number(Some(cell.core.min), 0),
            number(Some(cell.core.median), 0),
            floor(|sample| sample.min),
            floor(|sample| sample.median),
            ratio(|sample| sample.min),
            ratio(|sample| sample.median),
        ]
    });
    table(f, title, &heads, rows.collect())
}

fn growth(f: &mut Formatter<'_>, report: &Report) -> Result {
    let row = |growth: &super::Growth| {
        vec![growth.name.clone(), number(Some(growth.core), 2), number(growth.floor, 2)]
    };
    let rows = report.growth.iter().map(row).collect();
    table(f, "Growth: times the cost at 1e3", &["steady state", "core", "floor"], rows)
}

fn scanned(f: &mut Formatter<'_>, scan: &Scan) -> Result {
    let row = |what: String, min: f64, median: Option<f64>| {
        vec![what, number(Some(min), 1), number(median, 1)]
    };
    let rows = vec![
        row(
            format!("dequeue among {} workloads", scan.workloads),
            scan.dequeue.min,
            Some(scan.dequeue.median),
        ),
        row("dequeue among one".to_owned(), scan.alone.min, Some(scan.alone.median)),
        row("one score".to_owned(), scan.score, None),
    ];
    table(
        f,
        "The workload order: from a settlement to the next grant",
        &["ns", "least", "median"],
        rows,
    )
}

fn bytes(f: &mut Formatter<'_>, memory: &Memory) -> Result {
    let title = "Memory: bytes for each waiting ask";
    let Memory::Counted { queued, core, floor } = memory else {
        return writeln!(f, "## {title}\n\nBuild with --features memory to count.\n");
    };
    let row = |what: &str, bytes: &super::Bytes| {
        vec![what.to_owned(), number(Some(bytes.held), 1), number(Some(bytes.peak), 1)]
    };
    let heads = [&*format!("{queued} waiting"), "held", "peak"];
    table(f, title, &heads, vec![row("core", core), row("floor", floor)])
}

fn relative(f: &mut Formatter<'_>, rows: &[Relative]) -> Result {
    let thousands = |rate: f64| number(Some(rate / 1000.0), 0);
    let row = |at: &Relative| {
        vec![
            at.name.clone(),
            thousands(at.ours),
            thousands(at.ours_best),
            number(at.published.map(|rate| rate / 1000.0), 1),
            number(at.published.map(|rate| at.ours / rate), 1),
        ]
    };
    let heads = ["thousand dispatches per second", "ours", "best", "published", "times"];
    let title = "The grid of llm-d-router's flow controller benchmark";
    table(f, title, &heads, rows.iter().map(row).collect())?;
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "Ours is the core alone on one thread; theirs is 14 processors and includes waking a \
         goroutine for each dispatch (its pull request 2456).\n\
         We have 4 bands, so of 8 priorities p falls into band p/2.\n"
    )
}

fn targets(f: &mut Formatter<'_>, report: &Report) -> Result {
    let row = |target: &super::Target| {
        vec![
            target.what.to_owned(),
            number(Some(target.limit), 1),
            number(Some(target.worst), 2),
            target.name.clone(),
            if target.met { "yes" } else { "NO" }.to_owned(),
        ]
    };
    let heads = ["target", "at most", "worst", "where", "met"];
    table(f, "Targets", &heads, report.targets.iter().map(row).collect())
}
