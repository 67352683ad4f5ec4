//! Whether this machine has the folder and the file that a configuration names.
//!
//! Only `tidegate check` asks: a start finds it out by itself, and a reload must not fail because
//! of a disk. The folder is tried as a start would use it, and nothing of that is left behind.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::settings::Config;
use super::values::Values;
use crate::schema::{Finding, Report};

/// Adds notices about the paths; a folder that cannot be used is a problem.
pub(super) fn check(config: &Config, report: &Report) {
    let file = config.fleet.endpoints_file.as_deref();
    if file.is_some_and(|file| !file.exists()) {
        let what = "does not exist yet: until then it lists no backend";
        report.add_notice(finding(&config.values, "discovery.endpoints_file", what));
    }
    if let Some(folder) = &config.batch.folder
        && let Err(why) = try_folder(folder)
    {
        let what = format!("is {}, which {why}", folder.display());
        report.add_problem(finding(&config.values, "batch.folder", &what));
    }
}

fn finding(values: &Values, key: &str, what: &str) -> Finding {
    Finding::of(values.origin(key), format!("{key} {what}"))
}

/// Creates a file in the folder, or the folder if it is missing, and removes it again.
fn try_folder(folder: &Path) -> Result<(), String> {
    match folder.metadata() {
        Ok(found) if found.is_dir() => {
            try_file(folder).map_err(|error| format!("cannot be written by this user: {error}"))
        }
        Ok(_) => Err("is a file, not a folder".into()),
        Err(_) => {
            try_creation(folder).map_err(|error| format!("cannot be created by this user: {error}"))
        }
    }
}

fn try_file(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".tidegate-check-{}", std::process::id()));
    File::create_new(&path)?;
    fs::remove_file(path)
}

/// Creates the outermost of the missing folders. Those inside it would be our own.
fn try_creation(folder: &Path) -> io::Result<()> {
    let folder = std::path::absolute(folder)?;
    let missing = folder.ancestors().take_while(|ancestor| !ancestor.exists()).last();
    let Some(missing) = missing else { return Ok(()) };
    fs::create_dir(missing)?;
    fs::remove_dir(missing)
}
