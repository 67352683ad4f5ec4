//! The conformance suite on the embedded engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::conformance::{Fixture, conformance};
use crate::{SqliteStore, Store};

/// A folder that is deleted with this value.
pub(crate) struct Folder(PathBuf);

/// A queue in a folder of its own.
struct Embedded {
    store: Arc<SqliteStore>,
    folder: Folder,
}

conformance!(Embedded);

// === impl Folder ===

impl Folder {
    /// In memory if possible: most tests do not depend on the disk.
    pub(crate) fn new() -> Self {
        let memory = PathBuf::from("/dev/shm");
        Self::inside(if memory.is_dir() { memory } else { std::env::temp_dir() })
    }

    /// On a disk.
    pub(crate) fn on_disk() -> Self {
        Self::inside(std::env::temp_dir())
    }

    fn inside(root: PathBuf) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("tidegate-store-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of the SQLite file.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("queue.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

// === impl Embedded ===

impl Fixture for Embedded {
    const OWNED: bool = true;
    const CANCELS_AT_ONCE: bool = true;

    async fn fresh() -> Self {
        let folder = Folder::new();
        Self { store: SqliteStore::open(folder.file()).unwrap(), folder }
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn reopen(self) -> Self {
        let Self { store, folder } = self;
        drop(store);
        Self { store: SqliteStore::open(folder.file()).unwrap(), folder }
    }
}
