//! Batch work beside interactive users in virtual time, on many engines and mixes of traffic.
//!
//! What [`super::protection`] measures through real processes takes a minute for each policy, and a
//! machine of its own. Here the simulated engines alone are played to, so that a quarter of an hour
//! of each mix takes a moment and every figure can be had again. The start limiter is the gateway's
//! own; the gate before it is as simple as can be: four fifths of the KV cache.

mod yard;

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use sim::engine::{Profile, Shape};

use super::Bench;
use crate::gateway::report::quantile;
use crate::gateway::{Column, Figures, Promise, Row};
use yard::Yard;

/// How long each mix is played.
const SECONDS: f64 = 880.0;
const BUDGETS: [usize; 8] = [1, 2, 4, 6, 8, 12, 16, 24];
const P99_RATIO_MAX: f64 = 1.2;
/// What the gateway does unless it is told otherwise.
const REST: f64 = 1.0;

/// Interactive requests in bursts and lulls, and batch requests without end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) name: &'static str,
    pub(super) profile: &'static str,
    /// Interactive requests a second.
    pub(super) burst: f64,
    pub(super) lull: f64,
    pub(super) interactive: Size,
    pub(super) batch: Size,
}

/// Tokens of a prompt, and tokens of an answer on average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) prompt: u32,
    pub(super) output: u32,
}

/// What lets the batch go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Policy {
    Without,
    Fixed(usize),
    /// As the gateway does, with so long a rest.
    StartLimiter(f64),
}

/// What came of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) p99_ms: f64,
    /// Batch requests per second.
    pub(super) batch: f64,
}

/// Our start limiter beside the best that a fixed budget can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    pub(super) alone_ms: f64,
    /// The most that any fixed budget gets while it keeps interactive users within the limit.
    pub(super) best_fixed: f64,
    pub(super) ours: Came,
}

const SHORT: Size = Size { prompt: 300, output: 75 };
const MIDDLE: Size = Size { prompt: 500, output: 150 };
const LARGE: Size = Size { prompt: 800, output: 150 };

/// The first is that of [`super::protection`].
pub(super) const MIXES: [Mix; 9] = [
    Mix::new("as measured above", "rtx4090-8b", (14.0, 2.0), SHORT, SHORT),
    Mix::new("busier", "rtx4090-8b", (20.0, 5.0), SHORT, SHORT),
    Mix::new("quieter", "rtx4090-8b", (6.0, 1.0), SHORT, SHORT),
    Mix::new(
        "long batch prompts",
        "rtx4090-8b",
        (14.0, 2.0),
        SHORT,
        Size { prompt: 2000, ..SHORT },
    ),
    Mix::new("long batch answers", "rtx4090-8b", (14.0, 2.0), SHORT, Size { output: 400, ..SHORT }),
    Mix::new("32B on two cards", "pro6000x2-32b", (6.0, 1.0), MIDDLE, MIDDLE),
    Mix::new("overloaded in bursts", "pro6000-8b", (25.0, 4.0), MIDDLE, MIDDLE),
    Mix::new("a fast engine", "h100-8b", (40.0, 6.0), LARGE, LARGE),
    Mix::new(
        "a fast engine, long batch",
        "h100-8b",
        (40.0, 6.0),
        LARGE,
        Size { prompt: 6000, output: 300 },
    ),
];

/// All mixes.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(Figures, Vec<Promise>)> {
    let mut rows = Vec::new();
    let mut first = None;
    for mix in MIXES {
        writeln!(bench.progress, "  {}", mix.name)?;
        let compared = mix.compare(if bench.quick { SECONDS / 4.0 } else { SECONDS })?;
        first.get_or_insert(compared);
        rows.push(compared.row(&mix));
    }
    let first = first.context("there is no mix")?;
    let promises = vec![
        Promise::new(
            "interactive p99 over that without batch, in virtual time",
            P99_RATIO_MAX,
            first.ratio(),
        ),
        Promise::new(
            "part missed of the best fixed budget, in virtual time",
            0.1,
            1.0 - first.ours.batch / first.best_fixed,
        ),
    ];
    let title = "The start limiter and the best fixed budget, in virtual time".to_owned();
    Ok((Figures { name: "rehearsal", title, columns: columns(), rows }, promises))
}

fn columns() -> Vec<Column> {
    let column = |head, decimals| Column { head, decimals };
    vec![
        column("p99 alone ms", 0),
        column("p99 over alone", 2),
        column("batch requests/s", 2),
        column("best fixed/s", 2),
        column("of the best fixed %", 0),
    ]
}

// === impl Mix ===

impl Mix {
    const fn new(
        name: &'static str,
        profile: &'static str,
        (burst, lull): (f64, f64),
        interactive: Size,
        batch: Size,
    ) -> Self {
        Self { name, profile, burst, lull, interactive, batch }
    }

    /// Plays everybody for so many seconds.
    pub(super) fn compare(&self, seconds: f64) -> Result<Compared> {
        let alone = self.play(Policy::Without, seconds)?;
        let within = |came: &Came| came.p99_ms <= P99_RATIO_MAX * alone.p99_ms;
        let mut best_fixed = 0.0;
        for budget in BUDGETS {
            let came = self.play(Policy::Fixed(budget), seconds)?;
            best_fixed = if within(&came) { came.batch.max(best_fixed) } else { best_fixed };
        }
        let ours = self.play(Policy::StartLimiter(REST), seconds)?;
        Ok(Compared { alone_ms: alone.p99_ms, best_fixed, ours })
    }

    pub(super) fn play(&self, policy: Policy, seconds: f64) -> Result<Came> {
        let profile = Profile::named(self.profile).context("there is no such engine")?;
        let Shape::Batch(shape) = *profile.shape() else {
            anyhow::bail!("the engine has no KV cache");
        };
        let mut yard = Yard::new(self, policy, &profile, shape.kv_tokens)?;
        yard.play(seconds)?;
        Ok(Came { p99_ms: quantile(&yard.first_ms, 0.99), batch: yard.done as f64 / seconds })
    }
}

// === impl Compared ===

impl Compared {
    pub(super) fn ratio(&self) -> f64 {
        self.ours.p99_ms / self.alone_ms
    }

    fn row(&self, mix: &Mix) -> Row {
        let share = 100.0 * self.ours.batch / self.best_fixed;
        let mut who = String::new();
        _ = write!(who, "{}: {}", mix.profile, mix.name);
        let figures =
            [self.alone_ms, self.ratio(), self.ours.batch, self.best_fixed, share].map(|figure| {
                // No fixed budget may have kept the limit.
                Some(figure).filter(|figure| figure.is_finite())
            });
        Row::new(&who, figures.to_vec())
    }
}
