//! `tidegate completions`: scripts by which a shell completes commands and flags.

use std::io::Write;

use anyhow::Result;
use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::{generate, shells};

use super::Cli;

/// Print a script for a shell, so that the shell completes commands and flags.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tidegate completions bash > /etc/bash_completion.d/tidegate
  tidegate completions zsh > \"${fpath[1]}/_tidegate\"
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish")]
pub(super) struct Completions {
    /// The shell.
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

// === impl Completions ===

impl Completions {
    pub(super) fn run(self, out: &mut dyn Write) -> Result<()> {
        let mut command = Cli::command();
        // A buffer, because the generators do not report a reader that has gone.
        let mut script = Vec::new();
        match self.shell {
            Shell::Bash => generate(shells::Bash, &mut command, "tidegate", &mut script),
            Shell::Zsh => generate(shells::Zsh, &mut command, "tidegate", &mut script),
            Shell::Fish => generate(shells::Fish, &mut command, "tidegate", &mut script),
        }
        out.write_all(&script)?;
        Ok(())
    }
}
