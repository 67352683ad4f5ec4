//! Markdown tables with aligned columns, to be read as they are or pasted.

use std::fmt::{Formatter, Result};

/// A figure with so many decimals, or a dash where there is none.
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Writes a table, the first column to the left and the others to the right; none without rows.
pub fn table(f: &mut Formatter<'_>, title: &str, heads: &[&str], rows: Vec<Vec<String>>) -> Result {
    if rows.is_empty() {
        return Ok(());
    }
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([heads[at].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    writeln!(f, "## {title}\n")?;
    line(f, &widths, heads.iter().copied())?;
    let rule = |(at, &width): (usize, &usize)| match at {
        0 => "-".repeat(width),
        _ => "-".repeat(width - 1) + ":",
    };
    let rules: Vec<String> = widths.iter().enumerate().map(rule).collect();
    line(f, &widths, rules.iter().map(String::as_str))?;
    for row in &rows {
        line(f, &widths, row.iter().map(String::as_str))?;
    }
    writeln!(f)
}

fn line<'a>(
    f: &mut Formatter<'_>,
    widths: &[usize],
    cells: impl Iterator<Item = &'a str>,
) -> Result {
    for (at, (cell, &width)) in cells.zip(widths).enumerate() {
        match at {
            0 => write!(f, "| {cell:<width$} |")?,
            _ => write!(f, " {cell:>width$} |")?,
        }
    }
    writeln!(f)
}
