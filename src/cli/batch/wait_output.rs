//! What `batch submit --wait` and `batch status --watch` print while they wait.
//!
//! On a terminal this is a progress bar on standard error. Elsewhere it is one line for each change
//! of status and for each tenth of the requests.

use std::io::{IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const BYTES: &str = "{msg} [{wide_bar}] {bytes}/{total_bytes} {eta}";
const REQUESTS: &str = "{msg} [{wide_bar}] {pos}/{len} {eta}";
/// Used while the total is unknown: a bar would look complete.
const UNCOUNTED: &str = "{msg}";

/// The progress of an upload or of a batch.
#[derive(Debug)]
pub(super) struct Progress {
    /// Hidden unless standard error is a terminal.
    bar: ProgressBar,
    is_terminal: bool,
    /// The status and the tenth that were printed last.
    printed: Option<(String, u64)>,
}

/// Prints a line to standard error.
pub(super) fn say(text: &str) {
    // A closed standard error leaves no place to report that it is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

// === impl Progress ===

impl Progress {
    /// The progress of an upload, in bytes.
    pub(super) fn bytes(total: u64, what: &str) -> Self {
        let progress = Self::new(BYTES);
        progress.bar.set_length(total);
        progress.bar.set_message(what.to_owned());
        progress
    }

    /// The progress of a batch, in requests.
    pub(super) fn requests() -> Self {
        Self::new(REQUESTS)
    }

    fn new(template: &str) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let target =
            if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let progress = Self { bar, is_terminal, printed: None };
        progress.style(template);
        progress
    }

    fn style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
    }

    /// The bar, which a thread that uploads can advance.
    pub(super) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Shows the status, the number of ended requests and a note.
    pub(super) fn show(&mut self, status: &str, done: u64, total: u64, note: &str) {
        self.style(if total == 0 { UNCOUNTED } else { REQUESTS });
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_message(format!("{status}{note}"));
        let tenth = done.saturating_mul(10).checked_div(total).unwrap_or_default();
        let now = (status.to_owned(), tenth);
        if !self.is_terminal && self.printed.as_ref() != Some(&now) {
            self.say(&match total {
                0 => format!("{status}{note}"),
                _ => format!("{status}: {done} of {total}{note}"),
            });
            self.printed = Some(now);
        }
    }

    /// Prints a line without damaging the bar.
    pub(super) fn say(&self, text: &str) {
        self.bar.suspend(|| say(text));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d10_counts_beyond_every_limit_are_shown_without_an_overflow() {
        let mut progress = Progress::requests();
        for (done, total) in [(u64::MAX, u64::MAX), (u64::MAX, 1), (1, u64::MAX), (1, 0)] {
            progress.show("in_progress", done, total, "");
        }
    }
}
