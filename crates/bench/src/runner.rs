//! Which benchmarks run, and how thoroughly.

use std::io::Write;

use anyhow::{Result, bail};

/// What to measure, and how thoroughly.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Fewer and shorter rounds, and nothing with a million asks but the count of bytes.
    pub(crate) quick: bool,
    /// Only benchmarks whose name contains this.
    pub(crate) only: Option<String>,
}

/// A selection that is being measured, and where progress is reported.
pub(crate) struct Runner<'a> {
    pub(crate) selection: &'a Selection,
    pub(crate) progress: &'a mut dyn Write,
    names: Vec<String>,
}

// === impl Runner ===

impl<'a> Runner<'a> {
    pub(crate) fn new(selection: &'a Selection, progress: &'a mut dyn Write) -> Self {
        Self { selection, progress, names: Vec::new() }
    }

    /// Whether to run the benchmark with this name; if so, reports that it runs.
    pub(crate) fn wants(&mut self, name: &str) -> Result<bool> {
        self.names.push(name.to_owned());
        let wanted = self.selection.only.as_deref().is_none_or(|only| name.contains(only));
        if wanted {
            writeln!(self.progress, "{name}")?;
        }
        Ok(wanted)
    }

    /// Fails if no benchmark was wanted, and lists the names that exist.
    pub(crate) fn check_any(&self, measured: bool) -> Result<()> {
        if !measured {
            let only = self.selection.only.as_deref().unwrap_or_default();
            let names = self.names.join(", ");
            bail!("no benchmark's name contains '{only}'; the names are: {names}");
        }
        Ok(())
    }
}
