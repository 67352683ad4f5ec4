//! Reloading: the file is read again on SIGHUP and when it changes.
//!
//! A file with problems is reported in the log and changes nothing. The files with keys that the
//! configuration names are watched, too. The log may be a file in the watched folder, so the same
//! problems are reported once: each report would cause the next otherwise.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::RecommendedWatcher;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tracing::{error, info, warn};

use super::{Config, ConfigError, Source, read, resolve, resolve_table, secrets, with_secrets};
use crate::file_watch;
use crate::schema::{Finding, Report};
use crate::task;

/// Waits for changes of a configuration.
#[derive(Debug)]
pub struct Reloads {
    source: Source,
    in_force: Config,
    /// The text of the file when it was last read, and those of the files with keys.
    seen: Option<(String, Vec<Option<String>>)>,
    /// The problems that were last reported, until the file is good again.
    reported: Option<Vec<String>>,
    problems: ReloadProblems,
    /// Whether a signal asked for a reload, which is always answered in the log.
    asked: bool,
    /// Whether the file may have changed since it was last read.
    stale: bool,
    changed: Arc<Notify>,
    hangup: Signal,
    /// The files that are watched, and what watches for as long as it is kept.
    watched: Vec<PathBuf>,
    _watcher: Option<RecommendedWatcher>,
}

/// The problems for which the last change is not in force; none after a good one.
pub type ReloadProblems = Arc<Mutex<Vec<String>>>;

/// Editors change a file in several steps. After this delay they are done.
const SETTLING: Duration = Duration::from_millis(100);

// === impl Reloads ===

impl Reloads {
    /// Begins to watch. A change since `in_force` was loaded is the first change.
    pub fn new(source: Source, in_force: Config) -> io::Result<Self> {
        let changed = Arc::new(Notify::new());
        let hangup = signal(SignalKind::hangup())?;
        let watched = watched_files(&source, &in_force);
        Ok(Self {
            stale: source.file.is_some(),
            source,
            in_force,
            seen: None,
            reported: None,
            problems: ReloadProblems::default(),
            asked: false,
            _watcher: watch_or_warn(&watched, &changed),
            changed,
            hangup,
            watched,
        })
    }

    /// Shows the problems of the last change to others.
    pub fn showing(self, problems: ReloadProblems) -> Self {
        Self { problems, ..self }
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
                self.watch_again();
                return config;
            }
        }
    }

    /// Watches the files that the configuration in force names.
    fn watch_again(&mut self) {
        let watched = watched_files(&self.source, &self.in_force);
        if watched != self.watched {
            self._watcher = watch_or_warn(&watched, &self.changed);
            self.watched = watched;
            // One of them may have changed before it was watched.
            self.changed.notify_one();
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
        let files = secrets::files(&self.in_force);
        // Reading and parsing would block the other tasks of this thread.
        let looked = task::blocking(move || {
            let read = (read(&source)?, secrets::contents(&files));
            let config = (seen.as_ref() != Some(&read)).then(|| resolve(&source, &read.0));
            Ok((read, config))
        });
        let outcome = looked.await.unwrap_or_else(|error| Err(ConfigError::Interrupted(error)));
        let config = match outcome {
            Ok((read, config)) => {
                self.seen = Some(read);
                config?
            }
            Err(error) => {
                // The next text is resolved in any case, even if it is the last one again.
                self.seen = None;
                Err(error)
            }
        };
        let kept = config.and_then(|config| self.keep_locked(config));
        let kept = kept.and_then(|config| self.keep_fixed(config));
        match kept.and_then(|config| with_secrets(&self.source, config)) {
            Ok(config) => {
                self.show(Vec::new());
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

    fn show(&self, problems: Vec<String>) {
        *self.problems.lock().unwrap_or_else(PoisonError::into_inner) = problems;
    }

    fn report(&mut self, error: &ConfigError) {
        let problems = error.lines();
        self.show(problems.clone());
        if self.reported.as_ref() == Some(&problems) {
            return;
        }
        error!("the configuration was not reloaded, the old one stays in force");
        for problem in &problems {
            error!("{problem}");
        }
        self.reported = Some(problems);
    }

    /// Refuses a configuration without tenants if there were some: a file that is half written
    /// must not open the gateway to clients without keys.
    fn keep_locked(&self, new: Config) -> Result<Config, ConfigError> {
        if self.in_force.tenants.is_empty() || !new.tenants.is_empty() {
            return Ok(new);
        }
        let report = Report::new(self.source.file.clone());
        let text = "there are no tenants any more, so requests would need no key: that needs a \
                    restart";
        report.add_problem(Finding::elsewhere(text.into()));
        report.finish().map(|_| new)
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
            new.awaits_restart.push(key);
        }
        // Not a key: the endpoint picker sets it when it starts.
        new.fleet.addressed = old.fleet.addressed;
        Ok(new)
    }
}

/// The file of the configuration and the files with keys.
fn watched_files(source: &Source, config: &Config) -> Vec<PathBuf> {
    source.file.iter().cloned().chain(secrets::files(config)).collect()
}

fn watch_or_warn(files: &[PathBuf], changed: &Arc<Notify>) -> Option<RecommendedWatcher> {
    watch(files, changed).unwrap_or_else(|error| {
        warn!(%error, "a folder of the configuration cannot be watched, SIGHUP reloads it");
        None
    })
}

fn watch(files: &[PathBuf], changed: &Arc<Notify>) -> notify::Result<Option<RecommendedWatcher>> {
    if files.is_empty() { Ok(None) } else { file_watch::watch(files.to_vec(), changed).map(Some) }
}

#[cfg(test)]
mod tests;
