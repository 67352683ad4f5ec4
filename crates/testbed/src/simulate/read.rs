//! Scenario files and the traces they name.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use sim::scenario::Case;
use sim::trace::Trace;

use super::{Scenario, TRACES, Traces};

/// Nothing sensible is anywhere near these sizes.
const SCENARIO_BYTES_MAX: u64 = 1 << 20;
/// The largest trace that is read.
pub const TRACE_BYTES_MAX: u64 = 512 << 20;
pub(super) const DOCUMENT_BYTES_MAX: u64 = 16 << 20;

/// The scenarios in a folder, by name.
fn scenarios_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("cannot read {}", folder.display());
    let entries = fs::read_dir(folder).with_context(failed)?;
    let files: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|e| e.path())).collect();
    let mut files = files.with_context(failed)?;
    files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    ensure!(!files.is_empty(), "no scenario (*.toml) is in {}", folder.display());
    files.sort();
    Ok(files)
}

/// The files that are named, and those inside folders that are named, in the order of their names;
/// each once, however often it is named.
pub(super) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => files.extend(scenarios_in(path)?),
            false => files.push(path.clone()),
        }
    }
    let mut seen = BTreeSet::new();
    files.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    Ok(files)
}

/// The scenarios in a file, each with the name of its case.
pub(super) fn scenarios(path: &Path) -> Result<Vec<Case>> {
    let parsed = Scenario::parse_cases(&text(path, SCENARIO_BYTES_MAX)?);
    parsed.with_context(|| path.display().to_string())
}

/// The traces that a scenario names, from the folder that is named or the usual one.
pub(super) fn traces(scenario: &Scenario, folder: Option<&Path>) -> Result<Traces> {
    let mut traces = Traces::new();
    for name in scenario.traces() {
        if traces.contains_key(name) {
            continue;
        }
        let trace = trace(folder.unwrap_or(Path::new(TRACES)), name)?;
        traces.insert(name.to_owned(), Arc::new(trace));
    }
    Ok(traces)
}

fn trace(folder: &Path, name: &str) -> Result<Trace> {
    let path = folder.join(name);
    ensure!(
        path.exists(),
        "the trace {} is missing: name the folder that holds {name} with --traces",
        path.display()
    );
    let text = text(&path, TRACE_BYTES_MAX)?;
    Trace::parse(&text).with_context(|| path.display().to_string())
}

/// The text of a regular file of at most so many bytes. What a file is comes before it is opened:
/// to open a pipe could wait for ever.
pub fn text(path: &Path, most: u64) -> Result<String> {
    let failed = || format!("cannot read {}", path.display());
    let found = fs::metadata(path).with_context(failed)?;
    ensure!(!found.is_dir(), "{} is a folder, not a regular file", path.display());
    ensure!(found.is_file(), "{} is not a regular file", path.display());
    let long = || format!("{} has more than {most} bytes", path.display());
    ensure!(found.len() <= most, long());
    bounded(File::open(path).with_context(failed)?, most).with_context(failed)?.with_context(long)
}

/// All that is read, or nothing where it is more than so many bytes, whatever was promised before.
pub(super) fn bounded(file: impl Read, most: u64) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Ok(None);
    }
    String::from_utf8(bytes).map(Some).map_err(io::Error::other)
}
