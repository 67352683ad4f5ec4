//! Scenario files and the traces they name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use sim::trace::Trace;

use super::{Scenario, TRACES, Traces};

/// No scenario or trace is anywhere near this large.
const BYTES_MAX: u64 = 1 << 30;

/// The files that are named, and those inside folders that are named, in the order of their names.
pub(super) fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed = || format!("cannot read {}", path.display());
        let entries = fs::read_dir(path).with_context(failed)?;
        let inside: Result<Vec<PathBuf>, _> =
            entries.map(|entry| entry.map(|e| e.path())).collect();
        let mut inside = inside.with_context(failed)?;
        inside.retain(|path| path.extension().is_some_and(|end| end == "toml"));
        ensure!(!inside.is_empty(), "no scenario (*.toml) is in {}", path.display());
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

/// The scenario in a file.
pub(super) fn scenario(path: &Path) -> Result<Scenario> {
    let parsed = Scenario::parse(&text(path)?);
    parsed.with_context(|| path.display().to_string())
}

/// The traces that a scenario names, from the folder that is named or the usual one.
pub(super) fn traces(scenario: &Scenario, folder: Option<&Path>) -> Result<Traces> {
    let mut traces = Traces::new();
    for name in scenario.traces() {
        if traces.contains_key(name) {
            continue;
        }
        let folder = folder.unwrap_or(Path::new(TRACES));
        let path = folder.join(name);
        let missing = || {
            anyhow!(
                "the trace {} is missing: name the folder that holds {name} with --traces",
                path.display()
            )
        };
        ensure!(path.is_file(), missing());
        let trace = Trace::parse(&text(&path)?).with_context(|| path.display().to_string())?;
        traces.insert(name.to_owned(), Arc::new(trace));
    }
    Ok(traces)
}

/// The text of a file of a sensible size.
pub(super) fn text(path: &Path) -> Result<String> {
    let failed = || format!("cannot read {}", path.display());
    let length = fs::metadata(path).with_context(failed)?.len();
    ensure!(length <= BYTES_MAX, "{} has {length} bytes, {BYTES_MAX} at most", path.display());
    fs::read_to_string(path).with_context(failed)
}
