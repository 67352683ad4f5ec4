//! What happened, for somebody who has ten seconds.

use std::fmt;
use std::net::SocketAddr;

use super::cast::{Cast, ENGINES, MODEL, TENANTS};
use super::seconds;
use crate::load::{Report, Waits};

/// One half of the demonstration.
#[derive(Debug)]
pub(super) struct Act {
    pub(super) report: Report,
    /// What the engines drew.
    pub(super) joules: f64,
}

/// Both halves.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) without: Act,
    pub(super) with: Act,
}

/// How to try it oneself.
pub(super) struct Invitation(pub(super) SocketAddr);

// === impl Act ===

impl Act {
    fn answered(&self) -> u64 {
        self.report.classes.iter().map(|class| class.ok).sum()
    }

    fn waits(&self, name: &str) -> Waits {
        self.report.class(name).map(|class| class.waits).unwrap_or_default()
    }

    /// How long half, and nine in ten, of a tenant's requests waited.
    fn cell(&self, name: &str) -> String {
        let Waits { half, nine_tenths } = self.waits(name);
        let [half, most] = [half, nine_tenths].map(|span| seconds(span, "no answer"));
        format!("{half:>9} / {most:>9}")
    }

    fn joules_each(&self) -> f64 {
        self.joules / self.answered().max(1) as f64
    }
}

// === impl Story ===

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = |cast: &Cast| format!("{} ({} W)", cast.name, cast.watts);
        let engines: Vec<String> = ENGINES.iter().map(engine).collect();
        let Self { without, with } = self;
        writeln!(f, "\nThe same traffic twice, onto {}.", engines.join(", "))?;
        writeln!(f, "How long half / nine in ten of all requests waited for their first word")?;
        writeln!(f, "(no answer: so many had none when the traffic ended):\n")?;
        writeln!(
            f,
            "  {:10} {:12} {:20} {:>21}   {:>21}",
            "who", "band", "sends", "without Tidegate", "with Tidegate"
        )?;
        for tenant in &TENANTS {
            writeln!(
                f,
                "  {:10} {:12} {:20} {:>21}   {:>21}",
                tenant.name,
                tenant.band,
                tenant.sends,
                without.cell(tenant.name),
                with.cell(tenant.name)
            )?;
        }
        let (answers, energy) = ("answers in all", "energy for each, in joules");
        let label = 10 + 1 + 12 + 1 + 20;
        writeln!(
            f,
            "\n  {answers:label$} {:>21}   {:>21}\n  {energy:label$} {:>21.1}   {:>21.1}",
            without.answered(),
            with.answered(),
            without.joules_each(),
            with.joules_each()
        )?;
        self.moral(f)
    }
}

impl Story {
    /// The table in one sentence.
    fn moral(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = self.with.answered() as f64 / self.without.answered().max(1) as f64;
        let [before, after] =
            [&self.without, &self.with].map(|act| seconds(act.waits("quiet").half, "in vain"));
        writeln!(
            f,
            "\nThe quiet team waits {after} instead of {before}, and the engines give {more:.1} \
             times as many answers."
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
