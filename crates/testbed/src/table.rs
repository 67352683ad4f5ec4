//! Markdown tables under a heading.

use std::fmt::{Formatter, Result};

use sim::report::grid;

/// A figure with this many decimals, or a dash where there is none.
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Writes a table with its title; nothing where there are no rows.
pub fn table(f: &mut Formatter<'_>, title: &str, heads: &[&str], rows: Vec<Vec<String>>) -> Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f, "## {title}\n")?;
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    grid(f, &[vec![heads], rows].concat())?;
    writeln!(f)
}
