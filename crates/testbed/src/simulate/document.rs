//! A document whose tables come from here: what stands between two marks is replaced.
//!
//! The marks name the paths that were played, so that one document can hold the tables of several
//! folders. The cases of one file are one table.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sim::report::{CaseTable, GoalTable};

use super::{Outcome, read};

/// Whether the reports could be put there; changes nothing.
pub(super) fn check(path: &Path, played: &[PathBuf]) -> Result<()> {
    with(path, played, "")?;
    let opened = File::options().append(true).open(path);
    opened.map(drop).with_context(|| format!("cannot write {}", path.display()))
}

/// Puts the reports between the marks of the played paths.
pub(super) fn update(path: &Path, played: &[PathBuf], outcomes: &[Outcome]) -> Result<()> {
    let replaced = with(path, played, &tables(outcomes))?;
    fs::write(path, replaced).with_context(|| format!("cannot write {}", path.display()))
}

/// One report for each scenario, one table for each file with cases, and the goals of all.
pub(super) fn tables(outcomes: &[Outcome]) -> String {
    let same_file = |one: &Outcome, other: &Outcome| one.file == other.file;
    let texts = outcomes.chunk_by(same_file).flat_map(|file| {
        let cases = file.iter().filter(|outcome| !outcome.case.is_empty());
        let cases = cases.map(|outcome| (outcome.case.as_str(), &outcome.report));
        match CaseTable::new(cases.collect()) {
            Some(table) => vec![table.to_string()],
            None => file.iter().map(|outcome| outcome.report.to_string()).collect(),
        }
    });
    let goals = goals(outcomes).map(|goals| goals.to_string());
    texts.chain(goals).collect::<Vec<_>>().join("\n")
}

/// The goals of all scenarios, if any has one.
pub(super) fn goals(outcomes: &[Outcome]) -> Option<GoalTable<'_>> {
    GoalTable::new(outcomes.iter().map(|outcome| (outcome.name.as_str(), &outcome.report)))
}

fn with(path: &Path, played: &[PathBuf], inside: &str) -> Result<String> {
    let text = read::text(path, read::DOCUMENT_BYTES_MAX)?;
    let [begin, end] = marks(played);
    let missing = || format!("{}: no lines `{}` and `{end}`", path.display(), begin.trim_end());
    replace(&text, played, inside).with_context(missing)
}

/// The line before the tables of these paths, and the one after them.
fn marks(played: &[PathBuf]) -> [String; 2] {
    let names: Vec<String> = played.iter().map(|path| path.display().to_string()).collect();
    let command = format!("tidegate simulate {}", names.join(" "));
    [format!("<!-- begin: {command} -->\n"), format!("<!-- end: {command} -->")]
}

/// The text with `inside` between the marks of the played paths.
pub(super) fn replace(text: &str, played: &[PathBuf], inside: &str) -> Option<String> {
    let [begin, end] = marks(played);
    let begin = text.find(&begin)? + begin.len();
    let end = begin + text[begin..].find(&end)?;
    Some(format!("{}\n{inside}\n{}", &text[..begin], &text[end..]))
}
