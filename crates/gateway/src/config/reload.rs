//! Reloading: the file is read again on SIGHUP and when it changes.
//!
//! The folder of the file is watched, not the file, because editors replace files, and Kubernetes
//! swaps a symbolic link beside them. A file with problems is reported in the log and changes
//! nothing.
//!
//! The log may be a file in the watched folder. A write to it must not cause a reload, and the same
//! problems are reported once, because each report would cause the next otherwise.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tracing::{error, info, warn};

use super::{Config, ConfigError, Source, read, resolve, resolve_table};
use crate::schema::{Finding, Report};
use crate::task;

/// Waits for changes of a configuration.
#[derive(Debug)]
pub struct Reloads {
    source: Source,
    in_force: Config,
    /// The text of the file when it was last read.
    seen: Option<String>,
    /// The problems that were last reported, until the file is good again.
    reported: Option<Vec<String>>,
    /// Whether a signal asked for a reload, which is always answered in the log.
    asked: bool,
    /// Whether the file may have changed since it was last read.
    stale: bool,
    changed: Arc<Notify>,
    hangup: Signal,
    /// Watches for as long as it is kept.
    _watcher: Option<RecommendedWatcher>,
}

/// Editors change a file in several steps. After this delay they are done.
const SETTLING: Duration = Duration::from_millis(100);

// === impl Reloads ===

impl Reloads {
    /// Begins to watch. A change since `in_force` was loaded is the first change.
    pub fn new(source: Source, in_force: Config) -> io::Result<Self> {
        let changed = Arc::new(Notify::new());
        let hangup = signal(SignalKind::hangup())?;
        let watcher = watch(&source, &changed).unwrap_or_else(|error| {
            warn!(%error, "the configuration's folder cannot be watched, SIGHUP reloads it");
            None
        });
        let stale = source.file.is_some();
        let (seen, reported) = (None, None);
        let asked = false;
        Ok(Self {
            source,
            in_force,
            seen,
            reported,
            asked,
            stale,
            changed,
            hangup,
            _watcher: watcher,
        })
    }

    /// Waits for a configuration that differs from the one in force. If the future is dropped, the
    /// next call finds the change.
    pub async fn next(&mut self) -> Config {
        loop {
            if !self.stale {
                self.await_cause().await;
                self.stale = true;
                tokio::time::sleep(SETTLING).await;
            }
            let config = self.look().await;
            // A change during the reading has notified `changed` again.
            self.stale = false;
            if let Some(config) = config {
                self.in_force = config.clone();
                return config;
            }
        }
    }

    /// Waits for a change of the folder or a signal.
    async fn await_cause(&mut self) {
        tokio::select! {
            () = self.changed.notified() => {}
            _ = self.hangup.recv() => {
                // The operator expects an answer in the log, even if nothing has changed.
                (self.seen, self.reported, self.asked) = (None, None, true);
            }
        }
    }

    /// The new configuration, if it has no problems and differs from the one in force.
    async fn look(&mut self) -> Option<Config> {
        let source = self.source.clone();
        let seen = self.seen.clone();
        // Reading and parsing would block the other tasks of this thread.
        let looked = task::blocking(move || {
            let text = read(&source)?;
            let config = (seen.as_ref() != Some(&text)).then(|| resolve(&source, &text));
            Ok((text, config))
        });
        let outcome = looked.await.unwrap_or_else(|error| Err(ConfigError::Interrupted(error)));
        let config = match outcome {
            Ok((text, config)) => {
                self.seen = Some(text);
                config?
            }
            Err(error) => {
                // The next text is resolved in any case, even if it is the last one again.
                self.seen = None;
                Err(error)
            }
        };
        match config.and_then(|config| self.keep_fixed(config)) {
            Ok(config) => {
                let expected = self.reported.take().is_some() || std::mem::take(&mut self.asked);
                let news = config != self.in_force;
                if expected && !news {
                    info!("the configuration is good, and in force already");
                }
                news.then_some(config)
            }
            Err(error) => {
                self.report(&error);
                None
            }
        }
    }

    fn report(&mut self, error: &ConfigError) {
        let problems = error.lines();
        if self.reported.as_ref() == Some(&problems) {
            return;
        }
        error!("the configuration was not reloaded, the old one stays in force");
        for problem in &problems {
            error!("{problem}");
        }
        self.reported = Some(problems);
    }

    /// Keeps the values that only a restart can change, with a notice for each that has changed.
    fn keep_fixed(&self, new: Config) -> Result<Config, ConfigError> {
        let old = &self.in_force;
        let (table, changed) = new.values.keeping(&old.values);
        let mut new = if changed.is_empty() {
            new
        } else {
            resolve_table(&self.source, table, Report::new(self.source.file.clone()))?
        };
        for key in changed {
            let text = format!("{key} has changed: that needs a restart, the old one stays");
            new.notices.push(Finding::elsewhere(text));
        }
        // Not a key: the endpoint picker sets it when it starts.
        new.fleet.addressed = old.fleet.addressed;
        Ok(new)
    }
}

fn watch(source: &Source, changed: &Arc<Notify>) -> notify::Result<Option<RecommendedWatcher>> {
    let Some(file) = &source.file else { return Ok(None) };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let (changed, ours) = (Arc::clone(changed), file.clone());
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if is_change(&event, &ours) {
            changed.notify_one();
        }
    })?;
    watcher.watch(folder.unwrap_or(Path::new(".")), RecursiveMode::NonRecursive)?;
    Ok(Some(watcher))
}

/// Whether the file may have changed. Reading it is an event as well, which must not cause another
/// reading.
fn is_change(event: &notify::Result<Event>, file: &Path) -> bool {
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

#[cfg(test)]
mod tests;
