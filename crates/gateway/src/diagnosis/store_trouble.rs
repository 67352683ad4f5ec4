//! A file or a store that cannot be used, for the rules about full disks and failing stores.

use serde::Serialize;

/// A file or a store that cannot be used.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct StoreTrouble {
    /// The setting, or what it is.
    pub(crate) name: &'static str,
    /// The file or folder that the setting names.
    pub(crate) path: Option<String>,
    pub(crate) error: String,
    /// Whether the disk is full.
    pub(crate) full: bool,
}

// === impl StoreTrouble ===

impl StoreTrouble {
    /// A full disk is known by the words of the system and of SQLite.
    pub(crate) fn new(name: &'static str, error: String) -> Self {
        let full = ["is full", "No space left"].iter().any(|words| error.contains(words));
        Self { name, path: None, error, full }
    }

    /// A disk without room.
    pub(crate) fn full(name: &'static str, error: String) -> Self {
        Self { name, path: None, error, full: true }
    }

    /// Adds the file or folder that the setting names.
    pub(crate) fn at(mut self, path: &std::path::Path) -> Self {
        // An operator's shell is in another folder than the gateway.
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.path = Some(whole.display().to_string());
        self
    }
}
