//! How far something is: a bar where somebody looks, and a line now and then where nobody does.

use std::io::{IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const BYTES: &str = "{msg} [{wide_bar}] {bytes}/{total_bytes} {eta}";
const REQUESTS: &str = "{msg} [{wide_bar}] {pos}/{len} {eta}";
/// While nobody knows yet how many there are, a bar would be full.
const UNCOUNTED: &str = "{msg}";

/// How far something is.
#[derive(Debug)]
pub(super) struct Meter {
    /// Invisible where nobody looks.
    bar: ProgressBar,
    is_seen: bool,
    /// The tenth that was last told, and of what.
    told: Option<(String, u64)>,
}

// === impl Meter ===

impl Meter {
    /// Of bytes.
    pub(super) fn bytes(total: u64, what: &str) -> Self {
        let meter = Self::new(BYTES);
        meter.bar.set_length(total);
        meter.bar.set_message(what.to_owned());
        meter
    }

    /// Of requests.
    pub(super) fn requests() -> Self {
        Self::new(REQUESTS)
    }

    fn new(template: &str) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        let target =
            if is_seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let meter = Self { bar: ProgressBar::with_draw_target(None, target), is_seen, told: None };
        meter.style(template);
        meter
    }

    fn style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
    }

    /// The bar itself, for another thread to move.
    pub(super) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// It stands like this, having come so far of so much.
    pub(super) fn show(&mut self, status: &str, done: u64, total: u64, note: &str) {
        self.style(if total == 0 { UNCOUNTED } else { REQUESTS });
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_message(format!("{status}{note}"));
        let tenth = done.saturating_mul(10).checked_div(total).unwrap_or_default();
        let now = (status.to_owned(), tenth);
        if !self.is_seen && self.told.as_ref() != Some(&now) {
            self.say(&match total {
                0 => format!("{status}{note}"),
                _ => format!("{status}: {done} of {total}{note}"),
            });
            self.told = Some(now);
        }
    }

    /// Tells something besides.
    pub(super) fn say(&self, text: &str) {
        self.bar.suspend(|| {
            // There is nobody to tell if this fails.
            let _ = writeln!(std::io::stderr(), "{text}");
        });
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d10_counts_that_nobody_has_are_told_all_the_same() {
        let mut meter = Meter::requests();
        for (done, total) in [(u64::MAX, u64::MAX), (u64::MAX, 1), (1, u64::MAX), (1, 0)] {
            meter.show("in_progress", done, total, "");
        }
    }
}
