//! The report of every benchmark: tables of figures, and targets beside what was found.

use std::fmt::{Display, Formatter};

use anyhow::Result;
use serde::Serialize;
use sim::measure::nearest_rank;
use testbed::table::{number, table};

/// Everything that one command measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    /// Whether rounds were fewer and shorter than usual.
    pub(crate) quick: bool,
    /// What the figures do not show.
    pub(crate) notes: Vec<String>,
    /// One for each benchmark.
    pub(crate) tables: Vec<Table>,
}

/// The figures of one benchmark.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Table {
    /// What was measured.
    pub(crate) title: String,
    /// The head of the first column.
    pub(crate) subject: &'static str,
    /// The other columns: their heads, and how many decimals they show.
    pub(crate) columns: Vec<(&'static str, usize)>,
    /// One for each subject; a figure is missing where nothing was measured.
    pub(crate) rows: Vec<(String, Vec<Option<f64>>)>,
    /// What a reader of the figures must know.
    pub(crate) note: &'static str,
    /// The limits that the project set itself.
    pub(crate) targets: Vec<Target>,
}

/// A limit, and what was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Target {
    /// The limited quantity.
    pub(crate) what: String,
    /// The most that it should be.
    pub(crate) limit: f64,
    /// What was found.
    pub(crate) found: f64,
    /// Whether it is within the limit.
    pub(crate) met: bool,
}

// === impl Report ===

impl Report {
    /// Prints the report for programs or for people.
    pub(crate) fn print(&self, json: bool, out: &mut dyn std::io::Write) -> Result<()> {
        match json {
            true => writeln!(out, "{}", serde_json::to_string_pretty(self)?)?,
            false => write!(out, "{self}")?,
        }
        Ok(())
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        if self.quick {
            writeln!(f, "A quick run: fewer and shorter rounds.\n")?;
        }
        for note in &self.notes {
            writeln!(f, "{note}\n")?;
        }
        for one in &self.tables {
            one.fmt(f)?;
        }
        let targets = self.tables.iter().flat_map(|table| &table.targets);
        let row = |target: &Target| {
            let [limit, found] = [target.limit, target.found].map(|it| number(Some(it), 2));
            vec![target.what.clone(), limit, found, if target.met { "yes" } else { "NO" }.into()]
        };
        table(f, "Targets", &["target", "at most", "found", "met"], targets.map(row).collect())
    }
}

// === impl Table ===

impl Table {
    /// A table without rows.
    pub(crate) fn new(title: impl Into<String>, columns: &[(&'static str, usize)]) -> Self {
        Self { title: title.into(), subject: "who", columns: columns.to_vec(), ..Self::default() }
    }

    pub(crate) fn push(&mut self, who: impl Into<String>, figures: impl Into<Vec<Option<f64>>>) {
        self.rows.push((who.into(), figures.into()));
    }

    /// A row in which every figure was measured.
    pub(crate) fn push_all<const COUNT: usize>(
        &mut self,
        who: impl Into<String>,
        figures: [f64; COUNT],
    ) {
        self.push(who, figures.map(Some));
    }

    /// The figure in a column of the row of `who`; not a number where there is none.
    pub(crate) fn figure(&self, who: &str, column: usize) -> f64 {
        let row = self.rows.iter().find(|(name, _)| name == who);
        row.and_then(|(_, figures)| figures[column]).unwrap_or(f64::NAN)
    }

    pub(crate) fn target(&mut self, what: impl Into<String>, limit: f64, found: f64) {
        self.targets.push(Target { what: what.into(), limit, found, met: found <= limit });
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let heads: Vec<&str> =
            [self.subject].into_iter().chain(self.columns.iter().map(|(head, _)| *head)).collect();
        let row = |(who, figures): &(String, Vec<Option<f64>>)| {
            let cells = figures.iter().zip(&self.columns);
            let cells = cells.map(|(figure, (_, decimals))| number(*figure, *decimals));
            [who.clone()].into_iter().chain(cells).collect()
        };
        table(f, &self.title, &heads, self.rows.iter().map(row).collect())?;
        if self.note.is_empty() { Ok(()) } else { writeln!(f, "{}\n", self.note) }
    }
}

/// The nearest rank of `per_mille`; not a number where there are no values.
pub(crate) fn percentile(values: &[f64], per_mille: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    nearest_rank(&sorted, per_mille).unwrap_or(f64::NAN)
}

/// The value in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 500)
}
