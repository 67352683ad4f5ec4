//! Notices changes of files.
//!
//! The folder of a file is watched, not the file, because editors replace files, and Kubernetes
//! swaps a symbolic link beside them. The log may be a file in the same folder: a write to it is no
//! change of a watched file.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// Watches files for as long as the watcher is kept. `changed` is notified when one of them may
/// have changed.
pub(crate) fn watch(
    files: Vec<PathBuf>,
    changed: &Arc<Notify>,
) -> notify::Result<RecommendedWatcher> {
    let mut folders: Vec<PathBuf> = files.iter().map(|file| folder(file)).collect();
    folders.sort();
    folders.dedup();
    let changed = Arc::clone(changed);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if files.iter().any(|file| is_change(&event, file)) {
            changed.notify_one();
        }
    })?;
    for folder in folders {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

fn folder(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Whether the file may have changed. Reading it is an event as well, which must not cause another
/// reading.
pub(crate) fn is_change(event: &notify::Result<Event>, file: &Path) -> bool {
    let Ok(event) = event else { return true };
    let concerned = event.paths.is_empty() || event.paths.iter().any(|path| concerns(path, file));
    !event.kind.is_access() && concerned
}

/// Whether a change at this path may change the file. A link or a folder may lead to it, and so may
/// a path that no longer exists. An ordinary file must be the file itself, by name or by a link.
fn concerns(path: &Path, file: &Path) -> bool {
    if path.file_name() == file.file_name() {
        return true;
    }
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => {
            file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (found.dev(), found.ino()))
        }
        _ => true,
    }
}
