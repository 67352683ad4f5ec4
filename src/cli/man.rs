//! `tidegate man`: manual pages, made from the help texts.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory as _};
use clap_mangen::Man;

use super::Cli;

/// Print the manual page, or write the pages of all commands into a folder.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate man | man -l -
  tidegate man --out /usr/local/share/man/man1")]
pub(super) struct ManPages {
    /// The folder for the pages, one for each command. The folder is created if it does not exist.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

// === impl ManPages ===

impl ManPages {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let Some(folder) = self.out else {
            Man::new(Cli::command()).render(&mut &mut *out)?;
            return Ok(());
        };
        let failed = || format!("cannot write the pages into {}", folder.display());
        fs::create_dir_all(&folder).with_context(failed)?;
        clap_mangen::generate_to(Cli::command(), &folder).with_context(failed)?;
        writeln!(out, "wrote the manual pages into {}", folder.display())?;
        Ok(())
    }
}
