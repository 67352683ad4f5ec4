//! Scenarios: a simulated cluster, the policies to run it with, and the expectations of each.
//!
//! A scenario is a TOML text. Reading one gives values that can be run or an error that names the
//! key; where the traces lie and how many threads run the cells is the caller's business. A *cell*
//! is one policy under one load with one seed.

mod build;
mod cases;
mod check;
mod duration;
mod expect;
mod figure;
mod file;
mod policy;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use flow::{BANDS, Band, Span};

use crate::arrivals::{Periods, SharedText};
use crate::autoscaler::Scaling;
use crate::engine::Profile;
use crate::measure::{History, Slo};
use crate::policy::Tenant;
use crate::trace::Trace;
use crate::world::{self, Fault, Metrics};

pub use cases::Case;
pub(crate) use expect::Sample;
pub use expect::{Expectation, Range, Verdict};
pub(crate) use figure::BAND_NAMES;
pub use figure::{Figure, Measure, Point, Scope};
pub use policy::{PolicyConfig, PolicyKind};

/// How much of a line an error shows: a list of all keys that could be meant, and little more.
const SHOWN_MAX: usize = 296;

/// The traces that a scenario names, by their names.
pub type Traces = BTreeMap<String, Arc<Trace>>;

/// A simulated cluster, the policies to run it with, and the expectations of each.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it shows, in one line.
    pub title: String,
    /// Why, in a paragraph.
    pub about: String,
    /// How long requests arrive.
    pub duration: Span,
    /// How long the run goes on before it counts.
    pub warm_up: Span,
    /// How long open requests may take after the last arrival.
    pub drain: Span,
    /// The time between gateway and engine, each way.
    pub network: Span,
    /// How engines tell how they are; nothing where they do not.
    pub metrics: Option<Metrics>,
    /// How engines come and go, under the policies that say by what.
    pub scaling: Option<Scaling>,
    /// The engines; the most of them, where they come and go.
    pub engines: Vec<Profile>,
    /// The traffic.
    pub traffic: Vec<Traffic>,
    /// Tenants with weights of their own.
    pub tenants: Vec<Tenant>,
    /// The faults.
    pub faults: Vec<Fault>,
    /// The policies between clients and engines.
    pub policies: Vec<PolicyConfig>,
    /// By what all rates are multiplied.
    pub loads: Vec<f64>,
    /// One history for each.
    pub seeds: Vec<u64>,
    /// The objective of a good response.
    pub slo: Slo,
    /// What its table shows besides what every table shows.
    pub columns: Vec<Column>,
    /// The expectations.
    pub expected: Vec<Expectation>,
}

/// A column that a scenario adds to its table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What stands above it.
    pub head: String,
    /// What stands in it.
    pub figure: Figure,
}

/// One stream of requests.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// When it begins, and when it ends if not with the run.
    from: Span,
    until: Option<Span>,
    /// The trace its lengths come from, by name.
    trace: Option<String>,
    lengths: Lengths,
    /// What prompts have in front of their own text.
    shared: Option<SharedText>,
    rhythm: Rhythm,
    /// One tenant for all, or each of the trace's clients its own.
    tenant: Option<String>,
    bands: [f64; BANDS],
    patience: Option<Span>,
    ttl: Option<Span>,
}

/// Lengths without a trace: means and coefficients of variation, the latter 0 where all are alike.
#[derive(Clone, Copy, Debug, Default)]
struct Lengths {
    prompt: f64,
    prompt_cv: f64,
    output: f64,
    output_cv: f64,
}

/// When requests arrive at load 1.
#[derive(Clone, Copy, Debug)]
enum Rhythm {
    Poisson { rate: f64 },
    Gamma { rate: f64, cv: f64 },
    OnOff { rate: f64, quiet_rate: f64, on: Span, off: Span, periods: Periods },
    Replay { speed: f64 },
    Closed { outstanding: u32, think: Span, pause: Option<Span> },
}

/// One run of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The policy, by its place in the scenario.
    pub policy: usize,
    /// By what all rates are multiplied.
    pub load: f64,
    /// The source of all chance.
    pub seed: u64,
}

/// The problem of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The key, such as `traffic[0].rate`; empty where the message shows the place.
    pub key: String,
    /// The problem and its remedy.
    pub message: String,
}

// === impl Scenario ===

impl Scenario {
    /// Reads a scenario.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let file: file::File = toml::from_str(text)
            .map_err(|error| ScenarioError::new("", error.to_string().trim_end()))?;
        check::scenario(file)
    }

    /// Whether it can be run in sensible time and memory. Parsing checks this; check again after a
    /// change of loads or seeds.
    pub fn check_work(&self) -> Result<(), ScenarioError> {
        check::work(self)
    }

    /// The names of the traces it needs.
    pub fn traces(&self) -> impl Iterator<Item = &str> {
        self.traffic.iter().filter_map(|traffic| traffic.trace.as_deref())
    }

    /// Every run it consists of.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for policy in 0..self.policies.len() {
            for &load in &self.loads {
                cells.extend(self.seeds.iter().map(|&seed| Cell { policy, load, seed }));
            }
        }
        cells
    }

    /// Whether requests of this band are sent.
    pub(crate) fn sends(&self, band: Band) -> bool {
        self.traffic.iter().any(|traffic| traffic.bands[band as usize] > 0.0)
    }

    /// Plays one cell.
    pub fn run(&self, traces: &Traces, cell: Cell) -> Result<History, ScenarioError> {
        let policy = &self.policies[cell.policy];
        let setup = build::setup(self, traces, cell)?;
        let mut policy = policy.build(&setup.tenants)?;
        Ok(world::run(setup, policy.as_mut()))
    }
}

/// The beginning of a line: what a file says is echoed, and a file can say anything.
fn cut(line: &str) -> String {
    match line.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

// === impl ScenarioError ===

impl ScenarioError {
    pub(crate) fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let lines: Vec<String> = message.lines().map(cut).collect();
        Self { key: key.into(), message: lines.join("\n") }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => f.write_str(&self.message),
            key => write!(f, "{key}: {}", self.message),
        }
    }
}

impl std::error::Error for ScenarioError {}

#[cfg(test)]
mod tests;
