//! The display while the traffic flows: a table that is redrawn, or a line now and then.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use super::seconds;
use super::setup::{ENGINES, TENANTS};
use crate::engine::Running;
use crate::load::{Report, Summary, Waits};
use crate::progress::Progress;

/// One act on the screen.
pub(super) struct Screen<'a, 'b> {
    title: &'static str,
    length: Duration,
    progress: &'a mut Progress<'b>,
    /// Lines that the next drawing goes over.
    drawn: usize,
}

/// How often progress is shown, in a terminal and elsewhere.
const LIVE_EVERY: Duration = Duration::from_millis(250);
const LINE_EVERY: Duration = Duration::from_secs(5);

const BAR: usize = 30;

// === impl Screen ===

impl<'a, 'b> Screen<'a, 'b> {
    pub(super) fn new(
        title: &'static str,
        length: Duration,
        progress: &'a mut Progress<'b>,
    ) -> Self {
        Self { title, length, progress, drawn: 0 }
    }

    pub(super) fn every(&self) -> Duration {
        if self.progress.live { LIVE_EVERY } else { LINE_EVERY }
    }

    pub(super) fn show(&mut self, report: &Report, engines: &[Running]) -> io::Result<()> {
        if !self.progress.live {
            return writeln!(self.progress.out, "{}", self.line(report));
        }
        let page = self.page(report, engines);
        // Up to where the last drawing began, then line by line over it.
        if self.drawn > 0 {
            write!(self.progress.out, "\x1b[{}A", self.drawn)?;
        }
        for line in page.lines() {
            writeln!(self.progress.out, "\x1b[2K{line}")?;
        }
        self.drawn = page.lines().count();
        self.progress.out.flush()
    }

    fn line(&self, report: &Report) -> String {
        let answered: u64 = report.classes.iter().map(|class| class.ok).sum();
        let waiting: u64 = report.classes.iter().map(|class| class.unfinished).sum();
        let quiet = match report.class("quiet") {
            Some(Summary { waits: Waits { half: Some(half), .. }, .. }) => {
                format!("quiet team waits {}", seconds(Some(*half), ""))
            }
            Some(quiet) if quiet.ok > 0 => "quiet team: most have no answer yet".to_owned(),
            _ => "quiet team: no answer yet".to_owned(),
        };
        format!(
            "{}, {:.0} of {:.0} s: {answered} answered, {waiting} waiting, {quiet}",
            self.title,
            report.elapsed.as_secs_f64(),
            self.length.as_secs_f64(),
        )
    }

    fn page(&self, report: &Report, engines: &[Running]) -> String {
        let (now, all) = (report.elapsed.as_secs_f64(), self.length.as_secs_f64());
        let full = ((now / all * BAR as f64) as usize).min(BAR);
        let bar = "█".repeat(full) + &"░".repeat(BAR - full);
        // Writing to a string cannot fail.
        let mut page = format!("\nAct {}  {bar}  {now:.0} of {all:.0} s\n\n", self.title);
        let _ = writeln!(
            page,
            "  {:10} {:12} {:>7} {:>8} {:>8}   first token: p50 / p90",
            "tenant", "band", "sent", "answered", "waiting"
        );
        for (tenant, class) in TENANTS.iter().zip(&report.classes) {
            let _ = writeln!(
                page,
                "  {:10} {:12} {:>7} {:>8} {:>8}   {:>8} / {:>8}",
                tenant.name,
                tenant.band,
                class.sent,
                class.ok,
                class.unfinished,
                seconds(class.waits.half, "none yet"),
                seconds(class.waits.nine_tenths, "none yet"),
            );
        }
        let _ = writeln!(page, "\n  engine      watts   running   in its own queue");
        for (setup, engine) in ENGINES.iter().zip(engines) {
            let seen = engine.control().counters();
            let (running, waiting) = (seen.running, seen.waiting);
            let _ =
                writeln!(page, "  {:10} {:>6} {running:>9} {waiting:>18}", setup.name, setup.watts);
        }
        page
    }
}
