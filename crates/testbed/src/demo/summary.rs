//! The result of the demonstration, short enough for ten seconds.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::seconds;
use super::setup::{DemoEngine, ENGINES, MODEL, TENANTS};
use crate::load::{Report, Waits};

/// One half of the demonstration.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) report: Report,
    /// What the engines drew.
    pub(super) joules: f64,
}

/// Both halves.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) without: Phase,
    pub(super) with: Phase,
}

/// Who is who and what will happen; each act takes so long.
pub(super) struct Prologue(pub(super) Duration);

/// How to try it oneself.
pub(super) struct Invitation(pub(super) SocketAddr);

/// Less than this many times as many answers, or as few, is within chance.
const WORTH_TELLING: f64 = 1.05;

// === impl Phase ===

impl Phase {
    fn answered(&self) -> u64 {
        self.report.classes.iter().map(|class| class.ok).sum()
    }

    fn waits(&self, name: &str) -> Waits {
        self.report.class(name).map(|class| class.waits).unwrap_or_default()
    }

    /// How long half, and nine in ten, of a tenant's requests waited.
    fn cell(&self, name: &str) -> String {
        let Waits { half, nine_tenths } = self.waits(name);
        let [half, most] = [half, nine_tenths].map(|span| seconds(span, "none"));
        format!("{half:>7} / {most:>7}")
    }

    fn joules_each(&self) -> f64 {
        self.joules / self.answered().max(1) as f64
    }
}

// === impl Comparison ===

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = |setup: &DemoEngine| format!("{} ({} W)", setup.name, setup.watts);
        let engines: Vec<String> = ENGINES.iter().map(engine).collect();
        let Self { without, with } = self;
        writeln!(f, "\nThe same traffic twice, onto {}.", engines.join(", "))?;
        writeln!(
            f,
            "Time to the first token, median / 90th percentile, for each tenant's requests."
        )?;
        writeln!(f, "\"none\": that many requests had no token when the traffic ended.\n")?;
        writeln!(
            f,
            "  {:10} {:12} {:12} {:>17}   {:>17}",
            "tenant", "band", "sends", "without Tidegate", "with Tidegate"
        )?;
        for tenant in &TENANTS {
            writeln!(
                f,
                "  {:10} {:12} {:12} {:>17}   {:>17}",
                tenant.name,
                tenant.band,
                tenant.sends,
                without.cell(tenant.name),
                with.cell(tenant.name)
            )?;
        }
        let (answers, energy) = ("answers in all", "energy for each, in joules");
        let label = 10 + 1 + 12 + 1 + 12;
        writeln!(
            f,
            "\n  {answers:label$} {:>17}   {:>17}\n  {energy:label$} {:>17.1}   {:>17.1}\n",
            without.answered(),
            with.answered(),
            without.joules_each(),
            with.joules_each()
        )?;
        writeln!(
            f,
            "nightly may beat flood: bands share by weight here, so that no band starves,"
        )?;
        writeln!(f, "and flood has more requests waiting. By default bands are strict.\n")?;
        self.moral(f)
    }
}

impl Comparison {
    /// The table in a sentence or two.
    fn moral(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = [&self.without, &self.with].map(|act| act.waits("quiet").half);
        let Some(after) = after else {
            return writeln!(f, "This was too short to show a difference: try more --seconds.");
        };
        write!(f, "Half of the quiet team's requests wait at most {}", seconds(Some(after), ""))?;
        match before {
            Some(before) => writeln!(f, " instead of {}.", seconds(Some(before), ""))?,
            None => writeln!(f, ";\nwithout Tidegate most of them had no answer.")?,
        }
        self.compare_answers(f)
    }

    fn compare_answers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = self.with.answered() as f64 / self.without.answered().max(1) as f64;
        if more >= WORTH_TELLING {
            writeln!(f, "The engines give {more:.1} times as many answers.")?;
        }
        if more <= 1.0 / WORTH_TELLING {
            writeln!(f, "The engines give {:.0}% fewer answers.", (1.0 - more) * 100.0)?;
            writeln!(f, "Tidegate begins carefully, and finds out how much each engine can take:")?;
            writeln!(f, "more --seconds show the rate after that.")?;
        }
        Ok(())
    }
}

// === impl Prologue ===

impl fmt::Display for Prologue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.0.as_secs();
        writeln!(
            f,
            "Five teams share three engines: pager (critical), assistant (high), quiet and\n\
             flood (normal), nightly (best-effort); flood and nightly send more than fits.\n\
             For {each} s straight to the engines, in turns; then for {each} s through Tidegate.\n"
        )
    }
}

// === impl Invitation ===

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(address) = self;
        writeln!(
            f,
            "
Engines and gateway go on serving; end them with Ctrl-C. Try:

  curl http://{address}/v1/chat/completions -H 'X-Priority: critical' -H 'X-Team: me' -i \\
    -d '{{\"model\": \"{MODEL}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'
  curl http://{address}/backends
  curl http://{address}/flows
  curl http://{address}/metrics"
        )
    }
}
