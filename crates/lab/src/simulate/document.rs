//! A document whose tables come from here: what stands between two marks is replaced.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Outcome;

const BEGIN: &str = "<!-- begin: tidegate simulate -->\n";
const END: &str = "<!-- end: tidegate simulate -->";

/// Puts the reports between the marks.
pub(super) fn update(path: &Path, outcomes: &[Outcome]) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let reports: Vec<String> = outcomes.iter().map(|outcome| outcome.report.to_string()).collect();
    let missing = || format!("{}: no lines `{}` and `{END}`", path.display(), BEGIN.trim_end());
    let replaced = replace(&text, &reports.join("\n")).with_context(missing)?;
    fs::write(path, replaced).with_context(|| format!("cannot write {}", path.display()))
}

/// The text with `inside` between its marks.
pub(super) fn replace(text: &str, inside: &str) -> Option<String> {
    let begin = text.find(BEGIN)? + BEGIN.len();
    let end = begin + text[begin..].find(END)?;
    Some(format!("{}\n{inside}\n{}", &text[..begin], &text[end..]))
}
