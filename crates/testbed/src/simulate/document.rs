//! A document whose tables come from here: what stands between two marks is replaced.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};

use super::{Outcome, read};

const BEGIN: &str = "<!-- begin: tidegate simulate -->\n";
const END: &str = "<!-- end: tidegate simulate -->";

/// Whether the reports could be put there; changes nothing.
pub(super) fn check(path: &Path) -> Result<()> {
    with(path, "")?;
    let opened = File::options().append(true).open(path);
    opened.map(drop).with_context(|| format!("cannot write {}", path.display()))
}

/// Puts the reports between the marks.
pub(super) fn update(path: &Path, outcomes: &[Outcome]) -> Result<()> {
    let reports: Vec<String> = outcomes.iter().map(|outcome| outcome.report.to_string()).collect();
    let replaced = with(path, &reports.join("\n"))?;
    fs::write(path, replaced).with_context(|| format!("cannot write {}", path.display()))
}

fn with(path: &Path, inside: &str) -> Result<String> {
    let text = read::text(path, read::DOCUMENT_BYTES_MAX)?;
    let missing = || format!("{}: no lines `{}` and `{END}`", path.display(), BEGIN.trim_end());
    replace(&text, inside).with_context(missing)
}

/// The text with `inside` between its marks.
pub(super) fn replace(text: &str, inside: &str) -> Option<String> {
    let begin = text.find(BEGIN)? + BEGIN.len();
    let end = begin + text[begin..].find(END)?;
    Some(format!("{}\n{inside}\n{}", &text[..begin], &text[end..]))
}
