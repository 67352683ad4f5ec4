//! The demonstration: three engines and mixed traffic on one machine, without Tidegate and with it.
//!
//! The engines are stand-ins of different speed and power, the gateway is the real one, the
//! traffic is the same both times: first straight to the engines in turns, as a plain load
//! balancer would send it, then through the gateway.

mod screen;
mod setup;
mod summary;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use gateway::Gateway;
use tokio::runtime::{self, Runtime};

use crate::engine::Running;
use crate::load;
use crate::progress::Progress;

use screen::Screen;
use summary::{Comparison, Phase};

/// How the demonstration is played.
#[derive(Clone, Copy, Debug)]
pub struct DemoOptions {
    /// How long it takes in all.
    pub length: Duration,
    /// Whether everything goes on serving at the end.
    pub keep: bool,
    /// The seed of the random traffic.
    pub seed: u64,
}

/// Engines, and a runtime for the clients.
struct Stage {
    engines: Vec<Running>,
    runtime: Runtime,
    options: DemoOptions,
}

/// In a shorter one, the first seconds count for too much: Tidegate begins carefully, and finds out
/// how much each engine can take.
const LENGTH_MIN: Duration = Duration::from_secs(40);

/// The share of an act in which nothing is sent and answers may still come.
const DRAIN_SHARE: u32 = 10;

/// Plays both acts, shows progress, and prints what happened.
pub fn run(options: &DemoOptions, out: &mut dyn Write, mut progress: Progress<'_>) -> Result<()> {
    ensure!(options.length >= LENGTH_MIN, "a demonstration takes at least 40 seconds");
    // Other messages of the gateway would run through the table.
    gateway::log::init_warnings();
    write!(progress.out, "{}", summary::Prologue(options.length / 2))?;
    let (story, gateway, stage) = play(options, &mut progress)?;
    write!(out, "{story}")?;
    if options.keep {
        write!(out, "{}", summary::Invitation(gateway.address()))?;
        out.flush()?;
        gateway.run_until_signal()?;
    } else {
        gateway.shut_down();
        gateway.join();
    }
    drop(stage);
    Ok(())
}

fn play(
    options: &DemoOptions,
    progress: &mut Progress<'_>,
) -> Result<(Comparison, Gateway, Stage)> {
    let engines = setup::engines(options.seed)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let stage = Stage { engines, runtime, options: *options };
    let addresses = stage.engines.iter().map(Running::address).collect();
    let without = stage.act("1 of 2, without Tidegate", addresses, progress)?;
    let gateway = Gateway::start_with(setup::config(&stage.engines)?, None)?;
    let with = stage.act("2 of 2, through Tidegate", vec![gateway.address()], progress)?;
    Ok((Comparison { without, with }, gateway, stage))
}

// === impl Stage ===

impl Stage {
    /// Sends the traffic to `targets` for half of the time.
    fn act(
        &self,
        title: &'static str,
        targets: Vec<SocketAddr>,
        progress: &mut Progress<'_>,
    ) -> Result<Phase> {
        let half = self.options.length / 2;
        let drain = half / DRAIN_SHARE;
        let before = self.joules();
        let mut screen = Screen::new(title, half, progress);
        let load = load::LoadPlan {
            targets,
            classes: setup::classes(),
            duration: half - drain,
            drain,
            progress_every: screen.every(),
            seed: self.options.seed,
        };
        let mut shown = Ok(());
        let show = |report: &load::Report| {
            if shown.is_ok() {
                shown = screen.show(report, &self.engines);
            }
        };
        let report = self.runtime.block_on(load::run(load, show))?;
        shown?;
        self.empty();
        Ok(Phase { report, joules: self.joules() - before })
    }

    /// Waits until the engines have noticed the clients that were cut off.
    fn empty(&self) {
        let busy = || self.engines.iter().any(|engine| engine.control().counters().in_flight > 0);
        self.runtime.block_on(async {
            let mut ticks = tokio::time::interval(Duration::from_millis(10));
            let patience = tokio::time::sleep(Duration::from_secs(5));
            tokio::pin!(patience);
            while busy() {
                tokio::select! {
                    _ = ticks.tick() => {}
                    () = &mut patience => break,
                }
            }
        });
    }

    fn joules(&self) -> f64 {
        self.engines.iter().map(|engine| engine.control().counters().energy_joules).sum()
    }
}

/// A duration in seconds, or another text where there is none.
fn seconds(span: Option<Duration>, otherwise: &str) -> String {
    span.map_or(otherwise.to_owned(), |span| format!("{:.1} s", span.as_secs_f64()))
}
