//! New configuration while the old one is in force: on SIGHUP, and when the file changes.
//!
//! The folder of the file is watched, not the file: editors replace files, and Kubernetes swaps a
//! symbolic link beside them. A file that cannot be used is told to the log and changes nothing.
//!
//! The log may be a file in that folder: what is written there must not cause a look, and what is
//! found wrong is told once, or each complaint would bring the next.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::{ConfigError, Resolved, Source, read, resolve};

/// The changes of a configuration, one after the other.
#[derive(Debug)]
pub struct Reloads {
    source: Source,
    in_force: Resolved,
    /// What the file said when it was last looked at.
    seen: Option<String>,
    /// What was last found wrong with it, until it is good again.
    told: Option<ConfigError>,
    /// Whether somebody asked for a look.
    asked: bool,
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
    pub fn new(source: Source, in_force: Resolved) -> io::Result<Self> {
        let changed = Arc::new(Notify::new());
        let hangup = signal(SignalKind::hangup())?;
        let watcher = watch(&source, &changed).unwrap_or_else(|error| {
            warn!(%error, "the configuration's folder cannot be watched, SIGHUP reloads it");
            None
        });
        let stale = source.file.is_some();
        let (seen, told) = (None, None);
        let asked = false;
        Ok(Self { source, in_force, seen, told, asked, stale, changed, hangup, _watcher: watcher })
    }

    /// Waits for configuration that differs from what is in force. Nothing is lost when the wait is
    /// given up: the next call finds it.
    pub async fn next(&mut self) -> Resolved {
        loop {
            if !self.stale {
                self.something_happens().await;
                self.stale = true;
                tokio::time::sleep(SETTLING).await;
            }
            let resolved = self.look().await;
            // A change while it was looked at has left its own mark in `changed`.
            self.stale = false;
            if let Some(resolved) = resolved {
                self.in_force = resolved.clone();
                return resolved;
            }
        }
    }

    async fn something_happens(&mut self) {
        tokio::select! {
            () = self.changed.notified() => {}
            _ = self.hangup.recv() => {
                // Whoever asks wants to hear what comes of it, even if that is nothing new.
                (self.seen, self.told, self.asked) = (None, None, true);
            }
        }
    }

    /// What the file says, if that is good and differs from what is in force.
    async fn look(&mut self) -> Option<Resolved> {
        let source = self.source.clone();
        let seen = self.seen.clone();
        // Reading and parsing may take a moment in which others want to go on.
        let looked = spawn_blocking(move || {
            let text = read(&source)?;
            let resolved = (seen.as_ref() != Some(&text)).then(|| resolve(&source, &text));
            Ok((text, resolved))
        });
        let outcome = looked.await.unwrap_or_else(|error| Err(ConfigError::of(error.to_string())));
        let resolved = match outcome {
            Ok((text, resolved)) => {
                self.seen = Some(text);
                resolved?
            }
            Err(error) => {
                // What comes after it is judged anew, even if it is what was there before.
                self.seen = None;
                Err(error)
            }
        };
        match resolved {
            Ok(resolved) => {
                let expected = self.told.take().is_some() || std::mem::take(&mut self.asked);
                let resolved = self.keep_fixed(resolved);
                let news = resolved != self.in_force;
                if expected && !news {
                    info!("the configuration is good, and in force already");
                }
                news.then_some(resolved)
            }
            Err(error) => {
                self.complain(error);
                None
            }
        }
    }

    fn complain(&mut self, wrong: ConfigError) {
        if self.told.as_ref() == Some(&wrong) {
            return;
        }
        error!("the configuration was not reloaded, the old one stays in force");
        for problem in &wrong.problems {
            error!("{problem}");
        }
        self.told = Some(wrong);
    }

    /// Keeps what cannot change while it runs.
    fn keep_fixed(&self, mut new: Resolved) -> Resolved {
        let old = &self.in_force;
        let fixed = [
            ("server.listen", new.server.listen != old.server.listen),
            ("server.workers", new.server.workers != old.server.workers),
            ("admin.listen", new.admin.listen != old.admin.listen),
            ("epp.listen", new.epp.listen != old.epp.listen),
            ("epp.health_listen", new.epp.health_listen != old.epp.health_listen),
            ("epp.metrics_listen", new.epp.metrics_listen != old.epp.metrics_listen),
            ("epp.llm_d_metrics", new.epp.llm_d_metrics != old.epp.llm_d_metrics),
            ("epp.drain", new.epp.drain != old.epp.drain),
            ("log.format", new.log.format != old.log.format),
            ("dbus", new.dbus != old.dbus),
            ("batch", new.batch != old.batch),
            ("dispatch", new.dispatch != old.dispatch),
        ];
        for (key, _) in fixed.into_iter().filter(|(_, differs)| *differs) {
            new.notices.push(format!("{key} has changed: that needs a restart, the old one stays"));
        }
        new.server.listen = old.server.listen;
        new.server.workers = old.server.workers;
        new.admin.listen = old.admin.listen;
        new.epp.listen = old.epp.listen;
        new.epp.health_listen = old.epp.health_listen;
        new.epp.metrics_listen = old.epp.metrics_listen;
        new.epp.drain = old.epp.drain;
        new.epp.llm_d_metrics = old.epp.llm_d_metrics;
        new.fleet.addressed = old.fleet.addressed;
        new.log.format = old.log.format;
        new.dbus = old.dbus;
        new.batch = old.batch.clone();
        new.dispatch = old.dispatch.clone();
        new
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

/// Whether the file may be another now. Opening it to look at it is an event as well, which must
/// not cause another look.
fn is_change(event: &notify::Result<Event>, file: &Path) -> bool {
    let Ok(event) = event else { return true };
    let concerned = event.paths.is_empty() || event.paths.iter().any(|path| concerns(path, file));
    !event.kind.is_access() && concerned
}

/// Whether the file may have changed with what is at this path. Links and folders may lead to it,
/// and what is gone may have; an ordinary file must be it, by name or by a link to it.
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
