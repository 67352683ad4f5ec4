//! The report as Markdown that is also a table to the eye.

use std::fmt::{self, Display, Formatter};

use super::{Heading, Report, ReportRow, Verdict, number};

pub(super) const NOTHING: &str = "–";
const LEGEND: &str = "TTFT is p50 / p99 in seconds, wait in seconds, TPOT in milliseconds; goodput \
    is answers per second within the objective.";

// === impl Report ===

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n", self.title)?;
        if !self.about.is_empty() {
            writeln!(f, "{}\n", self.about)?;
        }
        grid(f, &self.cells())?;
        writeln!(f, "\n{} {LEGEND}", self.runs)?;
        let judged = |verdict: &&Verdict| verdict.limited || verdict.goal.is_some();
        let limited: Vec<&Verdict> = self.verdicts.iter().filter(judged).collect();
        if limited.is_empty() {
            return Ok(());
        }
        let mut cells = vec![["expected", "came out", "kept"].map(str::to_owned).to_vec()];
        // One row for each expectation, however many loads it was judged under.
        let same = |one: &&Verdict, other: &&Verdict| one.expected == other.expected;
        cells.extend(limited.chunk_by(same).map(verdict_row));
        writeln!(f)?;
        grid(f, &cells)
    }
}

/// The range of what came out, and where it was not what was expected.
fn verdict_row(verdicts: &[&Verdict]) -> Vec<String> {
    let write = |verdict: &Verdict| verdict.value.map_or_else(|| NOTHING.to_owned(), number::any);
    let order = |one: &&Verdict, other: &&Verdict| {
        let value = |verdict: &Verdict| verdict.value.unwrap_or(f64::NEG_INFINITY);
        value(one).total_cmp(&value(other))
    };
    let verdicts = || verdicts.iter().copied();
    let least = verdicts().min_by(order).map(write).unwrap_or_default();
    let most = verdicts().max_by(order).map(write).unwrap_or_default();
    let range = if least == most { least } else { format!("{least} to {most}") };
    let kept = at_loads("**NO**", verdicts().filter(|verdict| !verdict.kept));
    let missed = at_loads("goal missed", verdicts().filter(|verdict| verdict.misses_goal()));
    let kept = match (kept, missed) {
        (None, None) => "yes".to_owned(),
        (kept, missed) => [kept, missed].into_iter().flatten().collect::<Vec<_>>().join("; "),
    };
    let expected = verdicts().next().map_or(String::new(), |verdict| verdict.expected.clone());
    vec![expected, range, kept]
}

/// The word, with the loads of the verdicts that it is about; nothing if there are none.
fn at_loads<'a>(word: &str, verdicts: impl Iterator<Item = &'a Verdict>) -> Option<String> {
    let loads: Vec<Option<f64>> = verdicts.map(|verdict| verdict.load).collect();
    let named: Vec<String> = loads.iter().flatten().map(f64::to_string).collect();
    match (loads.is_empty(), named.is_empty()) {
        (true, _) => None,
        (false, true) => Some(word.to_owned()),
        (false, false) => Some(format!("{word} at load {}", named.join(", "))),
    }
}

impl Report {
    /// The table with its head, without columns that have nothing in them.
    fn cells(&self) -> Vec<Vec<String>> {
        let shown: Vec<usize> = (0..self.headings.len()).filter(|&at| self.says(at)).collect();
        let loads = self.rows.iter().any(|row| row.load != 1.0);
        let heads = shown.iter().map(|&at| self.headings[at].text.clone());
        let mut cells = vec![["policy".to_owned()].into_iter().chain(heads).collect::<Vec<_>>()];
        for row in &self.rows {
            let values = shown.iter().map(|&at| self.headings[at].cell(&row.values[at]));
            cells.push([row.policy.clone()].into_iter().chain(values).collect());
        }
        if loads {
            cells[0].insert(1, "load".to_owned());
            for (cells, row) in cells.iter_mut().skip(1).zip(&self.rows) {
                cells.insert(1, row.load.to_string());
            }
        }
        cells
    }

    fn says(&self, at: usize) -> bool {
        let zero_is_nothing = self.headings[at].zero_is_nothing;
        let says = |value: &f64| !(zero_is_nothing && *value == 0.0);
        self.rows.iter().flat_map(|row: &ReportRow| row.values[at].iter().flatten()).any(says)
    }
}

// === impl Heading ===

impl Heading {
    fn cell(&self, values: &[Option<f64>]) -> String {
        let write = |value: &Option<f64>| value.map_or_else(|| NOTHING.to_owned(), self.write);
        values.iter().map(write).collect::<Vec<_>>().join(" / ")
    }
}

/// Writes a Markdown table with aligned columns: the first row is the head, the first column is
/// aligned to the left and the others to the right. All rows must have equally many cells.
pub fn grid(f: &mut Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    // A bare bar would part the cell.
    let escaped = |row: &Vec<String>| row.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(escaped).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for (number, row) in rows.iter().enumerate() {
        for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            match at {
                0 => write!(f, "| {cell:<width$} |")?,
                _ => write!(f, " {cell:>width$} |")?,
            }
        }
        writeln!(f)?;
        if number == 0 {
            rule(f, &widths)?;
        }
    }
    Ok(())
}

fn rule(f: &mut Formatter<'_>, widths: &[usize]) -> fmt::Result {
    for (at, &width) in widths.iter().enumerate() {
        match at {
            0 => write!(f, "| {} |", "-".repeat(width))?,
            _ => write!(f, " {}: |", "-".repeat(width.saturating_sub(1)))?,
        }
    }
    writeln!(f)
}
