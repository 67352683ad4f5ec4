//! New configuration while the old one is in force: on SIGHUP, and when the file changes.
//!
//! The folder of the file is watched, not the file: editors replace files, and Kubernetes swaps a
//! symbolic link beside them. A file that cannot be used is told to the log and changes nothing.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::{ConfigError, Settled, Source, read, settle};

/// The changes of a configuration, one after the other.
#[derive(Debug)]
pub struct Reloads {
    source: Source,
    in_force: Settled,
    /// What the file said when it was last looked at.
    seen: Option<String>,
    /// Whether there may be something that was not looked at.
    stale: bool,
    changed: Arc<Notify>,
    hangup: Signal,
    /// Watches for as long as it is kept.
    _watcher: Option<RecommendedWatcher>,
}

/// Writers change a file in several steps; looking after a moment finds them all done.
const SETTLING: Duration = Duration::from_millis(100);

// === impl Reloads ===

impl Reloads {
    /// Begins to watch. What has changed since `in_force` was loaded is the first change.
    pub fn new(source: Source, in_force: Settled) -> io::Result<Self> {
        let changed = Arc::new(Notify::new());
        let hangup = signal(SignalKind::hangup())?;
        let watcher = watch(&source, &changed).unwrap_or_else(|error| {
            warn!(%error, "the configuration's folder cannot be watched, SIGHUP reloads it");
            None
        });
        let stale = source.file.is_some();
        Ok(Self { source, in_force, seen: None, stale, changed, hangup, _watcher: watcher })
    }

    /// Waits for configuration that differs from what is in force. Nothing is lost when the wait is
    /// given up: the next call finds it.
    pub async fn next(&mut self) -> Settled {
        loop {
            if !self.stale {
                self.something_happens().await;
                self.stale = true;
                tokio::time::sleep(SETTLING).await;
            }
            let settled = self.look().await;
            // A change while it was looked at has left its own mark in `changed`.
            self.stale = false;
            if let Some(settled) = settled {
                self.in_force = settled.clone();
                return settled;
            }
        }
    }

    async fn something_happens(&mut self) {
        tokio::select! {
            () = self.changed.notified() => {}
            _ = self.hangup.recv() => info!("SIGHUP: looking at the configuration"),
        }
    }

    /// What the file says, if that is good and differs from what is in force.
    async fn look(&mut self) -> Option<Settled> {
        let source = self.source.clone();
        let seen = self.seen.clone();
        // Reading and parsing may take a moment in which others want to go on.
        let looked = spawn_blocking(move || {
            let text = read(&source)?;
            let settled = (seen.as_ref() != Some(&text)).then(|| settle(&source, &text));
            Ok((text, settled))
        });
        let outcome = looked.await.unwrap_or_else(|error| Err(ConfigError::of(error.to_string())));
        let settled = outcome.and_then(|(text, settled)| {
            self.seen = Some(text);
            settled.transpose()
        });
        match settled {
            Ok(settled) => settled.map(|settled| self.keep_fixed(settled)).filter(|settled| {
                let news = *settled != self.in_force;
                if news {
                    info!("the configuration has changed");
                }
                news
            }),
            Err(error) => {
                complain(&error);
                None
            }
        }
    }

    /// Keeps what cannot change while it runs.
    fn keep_fixed(&self, mut new: Settled) -> Settled {
        let old = &self.in_force;
        let fixed = [
            ("server.listen", new.server.listen != old.server.listen),
            ("server.workers", new.server.workers != old.server.workers),
            ("admin.listen", new.admin.listen != old.admin.listen),
            ("log.format", new.log.format != old.log.format),
        ];
        for (key, _) in fixed.into_iter().filter(|(_, differs)| *differs) {
            new.notices.push(format!("{key} has changed: that needs a restart, the old one stays"));
        }
        new.server.listen = old.server.listen;
        new.server.workers = old.server.workers;
        new.admin.listen = old.admin.listen;
        new.log.format = old.log.format;
        new
    }
}

fn watch(source: &Source, changed: &Arc<Notify>) -> notify::Result<Option<RecommendedWatcher>> {
    let Some(file) = &source.file else { return Ok(None) };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let changed = Arc::clone(changed);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if is_change(&event) {
            changed.notify_one();
        }
    })?;
    watcher.watch(folder.unwrap_or(Path::new(".")), RecursiveMode::NonRecursive)?;
    Ok(Some(watcher))
}

/// Opening the file to look at it is an event as well; it must not cause another look.
fn is_change(event: &notify::Result<Event>) -> bool {
    !matches!(event, Ok(event) if event.kind.is_access())
}

fn complain(error: &ConfigError) {
    error!("the configuration was not reloaded, the old one stays in force");
    for problem in &error.problems {
        error!("{problem}");
    }
}

#[cfg(test)]
mod tests;
