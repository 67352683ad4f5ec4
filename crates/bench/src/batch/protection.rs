//! What interactive users notice of batch work beside theirs, and what the batch gets.
//!
//! One engine, the gateway with automatic bounds in front of it. Interactive streams come in bursts
//! and lulls, at the same moments in every run; batch requests of the same size fill the rest,
//! without end, by one policy after the other. The best that a fixed budget can do while it keeps
//! interactive users within the limit is what ours is compared with.

mod interactive;

use anyhow::{Context as _, Result};

use std::time::Duration;

use super::api::{Api, chat, lines};
use super::settings::{Gate, engine as backend, work};
use crate::gateway::process::{Process, Ready};
use crate::report::{Table, percentile};
use crate::runner::Bench;
use interactive::Traffic;
use sim::random::Random;
use testbed::engine::{Engine, Pace, Running, Settings};

const PROFILE: &str = "rtx4090-8b";
/// Bytes of a prompt: 300 tokens.
pub(super) const PROMPT: usize = 1200;
/// Output tokens.
const SHORTEST: u64 = 50;
const LONGEST: u64 = 100;
const SEED: u64 = 7;
/// More than can be done in any run.
const LINES: usize = 6000;
const ACCEPTED_WITHIN: Duration = Duration::from_secs(60);
/// Until the automatic bounds know the engine, and the batch is under way.
const WARM: f64 = 6.0;
const P99_RATIO_MAX: f64 = 1.2;
const MISSED_MAX: f64 = 0.1;
const BUDGETS: [usize; 7] = [1, 2, 4, 6, 8, 12, 32];
/// What goes at once where nothing holds it: the dispatcher's workers, as they come.
const UNGATED: usize = 64;
const BUDGETS_QUICK: [usize; 3] = [2, 8, 32];
/// Of the gateway's gate, besides the usual one.
const RESTS: [f64; 2] = [0.0, 3.0];

/// How batch work is let go.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    /// There is none.
    Without,
    /// Through this gate, behind interactive users.
    Through(Gate),
    /// Without a gate, in the band of interactive requests.
    Naive,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Played {
    /// The interactive users' milliseconds to the first token.
    pub(super) first_ms: Vec<f64>,
    pub(super) errors: usize,
    /// Batch requests per second.
    pub(super) batch: f64,
}

/// Batch work beside bursts of interactive streams, by policy.
pub(super) async fn measure(bench: &mut Bench) -> Result<Table> {
    let traffic = Traffic::drawn(bench.is_quick());
    // Once before the others and once after them: the machine is not the same all the time.
    let mut alone = play(bench, Policy::Without, &traffic).await?;
    let mut runs = Vec::new();
    for policy in Policy::all(bench.is_quick()) {
        runs.push((policy, play(bench, policy, &traffic).await?));
    }
    let again = play(bench, Policy::Without, &traffic).await?;
    alone.errors += again.errors;
    alone.first_ms.extend(again.first_ms);
    let limit = P99_RATIO_MAX * alone.p99();
    let kept = |(policy, run): &&(Policy, Played)| policy.is_fixed() && run.p99() <= limit;
    let best = runs.iter().filter(kept).map(|(_, run)| run.batch).fold(0.0, f64::max);
    let columns = [
        ("first token p50 ms", 0),
        ("p99 ms", 0),
        ("p99 over alone", 2),
        ("batch requests/s", 1),
        ("tokens/s", 0),
        ("of the best fixed %", 0),
        ("interactive errors", 0),
    ];
    let title = "Interactive streams in bursts and lulls, batch in the rest";
    let mut table = Table::new(title, &columns);
    let mut push = |policy: Policy, run: &Played| {
        let share = (best > 0.0 && policy != Policy::Without).then(|| 100.0 * run.batch / best);
        let tokens = run.batch * (SHORTEST + LONGEST) as f64 / 2.0;
        let p99 = run.p99();
        let figures = [percentile(&run.first_ms, 500), p99, p99 / alone.p99(), run.batch, tokens];
        let others = [share, Some(run.errors as f64)];
        table.push(policy.name(), figures.map(Some).into_iter().chain(others).collect::<Vec<_>>());
    };
    push(Policy::Without, &alone);
    runs.iter().for_each(|(policy, run)| push(*policy, run));
    let ours = runs.iter().find(|(policy, _)| *policy == Policy::Through(Gate::USUAL));
    let (_, ours) = ours.context("our own gate was not played")?;
    let ratio = ours.p99() / alone.p99();
    table.target("interactive p99 over that without batch", P99_RATIO_MAX, ratio);
    table.target("part missed of the best fixed budget", MISSED_MAX, 1.0 - ours.batch / best);
    Ok(table)
}

/// One run, on an engine and a gateway of its own.
async fn play(bench: &mut Bench, policy: Policy, traffic: &Traffic) -> Result<Played> {
    let engine = Engine::start(Settings {
        models: vec!["m".to_owned()],
        pace: Pace::Profile(PROFILE.to_owned()),
        ..Settings::default()
    })?;
    let gateway = start(bench, policy, &engine).await?;
    if policy != Policy::Without {
        // Of many lengths: equal ones would end, and begin, in step.
        let mut random = Random::new(SEED).fork("batch");
        let file = lines(LINES, || chat(PROMPT, tokens(&mut random), false));
        Api::at(gateway.address).await?.begin(&file, ACCEPTED_WITHIN).await?;
    }
    traffic.lull(gateway.address, bench.seconds(WARM)).await?;
    let completed = || engine.control().counters().completed;
    let (before, mut after) = (completed(), 0);
    let seen = traffic.play(gateway.address, || after = completed()).await?;
    let batch = (after - before) as f64 - seen.within as f64;
    drop(gateway);
    Ok(Played {
        batch: batch.max(0.0) / traffic.lasts().as_secs_f64(),
        first_ms: seen.first_ms,
        errors: seen.errors,
    })
}

async fn start(bench: &mut Bench, policy: Policy, engine: &Running) -> Result<Process> {
    let (gate, band) = match policy {
        Policy::Without => (Gate::OPEN, "best-effort"),
        Policy::Through(gate) => (gate, "best-effort"),
        Policy::Naive => (Gate::Fixed(UNGATED), "high"),
    };
    let folder = bench.fixture.file("batches");
    let config = work(&folder, gate, band, None) + &backend(engine.address());
    let (config, log) = (bench.fixture.written(&config)?, bench.fixture.file("log"));
    let mut command = bench.fixture.cores.command(&bench.fixture.tidegate);
    command.args(["serve", "--config", &config, "--listen", "127.0.0.1:0"]);
    Process::start("gateway", &mut command, &log, Ready::Says).await
}

/// How many tokens a request wants.
fn tokens(random: &mut Random) -> u64 {
    SHORTEST + random.below(LONGEST - SHORTEST + 1)
}

// === impl Policy ===

impl Policy {
    fn all(quick: bool) -> Vec<Self> {
        let budgets: &[usize] = if quick { &BUDGETS_QUICK } else { &BUDGETS };
        let fixed = budgets.iter().map(|&budget| Self::Through(Gate::Fixed(budget)));
        let others = RESTS.map(|rest| Self::Through(Gate::Gateway { baseline: 0.2, rest }));
        fixed.chain([Self::Through(Gate::USUAL)]).chain(others).chain([Self::Naive]).collect()
    }

    fn is_fixed(self) -> bool {
        matches!(self, Self::Through(Gate::Fixed(_)))
    }

    fn name(self) -> String {
        match self {
            Self::Without => "no batch".to_owned(),
            Self::Naive => format!("naive: {UNGATED} at once like anybody"),
            Self::Through(Gate::Fixed(budget)) => format!("fixed budget of {budget}"),
            Self::Through(Gate::USUAL) => "gateway".to_owned(),
            Self::Through(Gate::Gateway { rest, .. }) => format!("gateway, rest {rest}"),
            Self::Through(Gate::Scrape { .. }) => "scrape".to_owned(),
        }
    }
}

// === impl Played ===

impl Played {
    fn p99(&self) -> f64 {
        percentile(&self.first_ms, 990)
    }
}
