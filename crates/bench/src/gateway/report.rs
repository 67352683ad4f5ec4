//! What came of it: tables of figures, and what was promised beside what was found.

use std::fmt::{Display, Formatter};

use anyhow::Result;
use serde::Serialize;

use testbed::table::{number, table};

/// Everything that was measured of the gateway.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GatewayReport {
    /// Whether corners were cut to save time.
    pub(crate) quick: bool,
    /// What the figures do not show.
    pub(crate) notes: Vec<String>,
    /// One for each benchmark.
    pub(crate) tables: Vec<Figures>,
    /// What was promised, and whether it is kept.
    pub(crate) targets: Vec<Promise>,
}

/// The figures of one benchmark.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    /// Its name, for `--only`.
    pub(crate) name: &'static str,
    /// What was measured.
    pub(crate) title: String,
    /// What the figures are.
    pub(crate) columns: Vec<Column>,
    /// One for each of those who were measured.
    pub(crate) rows: Vec<Row>,
}

/// One kind of figure.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Column {
    /// What it is, with its unit.
    pub(crate) head: &'static str,
    /// How many decimals mean something.
    pub(crate) decimals: usize,
}

/// The figures of one who was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Who.
    pub(crate) who: String,
    /// In the order of the columns; nothing where there is none.
    pub(crate) figures: Vec<Option<f64>>,
}

/// What was promised, and what was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Promise {
    /// What was promised.
    pub(crate) what: &'static str,
    /// At most this.
    pub(crate) limit: f64,
    /// What was found.
    pub(crate) found: f64,
    /// Whether it is kept.
    pub(crate) met: bool,
}

// === impl GatewayReport ===

impl GatewayReport {
    /// The report for programs.
    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

impl Display for GatewayReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        if self.quick {
            writeln!(f, "A quick run: fewer and shorter rounds.\n")?;
        }
        for note in &self.notes {
            writeln!(f, "{note}\n")?;
        }
        for figures in &self.tables {
            let heads = figures.columns.iter().map(|column| column.head);
            let heads: Vec<&str> = ["who"].into_iter().chain(heads).collect();
            let row = |row: &Row| {
                let cells = row.figures.iter().zip(&figures.columns);
                let cells = cells.map(|(figure, column)| number(*figure, column.decimals));
                [row.who.clone()].into_iter().chain(cells).collect()
            };
            table(f, &figures.title, &heads, figures.rows.iter().map(row).collect())?;
        }
        let row = |promise: &Promise| {
            let verdict = if promise.met { "yes" } else { "NO" };
            let figures = [promise.limit, promise.found].map(|figure| number(Some(figure), 2));
            let [limit, found] = figures;
            vec![promise.what.to_owned(), limit, found, verdict.to_owned()]
        };
        let heads = ["target", "at most", "found", "met"];
        table(f, "Targets", &heads, self.targets.iter().map(row).collect())
    }
}

// === impl Row ===

impl Row {
    pub(crate) fn new(who: &str, figures: Vec<Option<f64>>) -> Self {
        Self { who: who.to_owned(), figures }
    }
}

// === impl Promise ===

impl Promise {
    pub(crate) fn new(what: &'static str, limit: f64, found: f64) -> Self {
        Self { what, limit, found, met: found <= limit }
    }
}

/// The value that `share` of the others do not exceed; not a number where there is none.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The value in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}
