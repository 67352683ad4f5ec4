//! Configuration in two stages: what a file says, and what that means.
//!
//! `file` knows the spelling, `settled` is what everyone else uses. Between them every value is
//! checked, so that a wrong one is refused before anything runs.

pub mod settled;

use std::path::PathBuf;

pub use settled::Settled;

/// Where configuration comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file, TOML or YAML by its ending.
    pub file: Option<PathBuf>,
    /// Backends given as flags: `URL` or `ID=URL`.
    pub backends: Vec<String>,
    /// The listener's address given as a flag.
    pub listen: Option<String>,
}

/// Configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Each problem names its key, what is wrong with it, and what would be right.
    pub problems: Vec<String>,
}

/// Reads and checks the configuration.
pub fn load(source: &Source) -> Result<Settled, ConfigError> {
    let _ = source;
    Ok(Settled::default())
}

// === impl ConfigError ===

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for ConfigError {}
