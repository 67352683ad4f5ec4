//! The outcome of a study, as values; [`text`] turns them into tables.

mod text;

use anyhow::Result;
use serde::Serialize;

use super::case::Knee;
use super::ramp::AFTER;
use super::run::Figures;

/// What `auto` should keep of the best fixed watermark's throughput, and the most by which it may
/// exceed its wait.
pub(super) const KEEP: f64 = 0.95;
pub(super) const EXCEED: f64 = 1.2;
/// The share of all cases in which it should do both, with metrics.
pub(super) const GOAL: f64 = 0.85;
/// Below this a stock has collapsed.
pub(super) const COLLAPSE: f64 = 0.7;

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Whether corners were cut to save time.
    pub(crate) quick: bool,
    /// The seeds over which figures are means.
    pub(crate) seeds: Vec<u64>,
    /// Each engine under each workload.
    pub(crate) rows: Vec<Row>,
    /// The same over all cases, for each stock.
    pub(crate) summary: Vec<Summary>,
    /// When things are not as they should be.
    pub(crate) robust: Vec<Robust>,
    /// Unlike engines behind one queue.
    pub(crate) mixed: Vec<Mixed>,
    /// How fast the stock grows.
    pub(crate) ramps: Vec<Ramp>,
}

/// One engine under one workload at twice its load.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Engine and workload.
    pub(crate) case: String,
    /// Requests a second that the engine can carry.
    pub(crate) capacity: f64,
    /// The best fixed watermark.
    pub(crate) knee: Knee,
    /// `auto` with metrics.
    pub(crate) metrics: Figures,
    /// `auto` without metrics.
    pub(crate) blind: Figures,
    /// Watermarks of 2 and of 64.
    pub(crate) constants: [Figures; 2],
}

/// Something over the best fixed watermark.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ratio {
    /// Engine and workload.
    pub(crate) case: String,
    /// Of tokens a second.
    pub(crate) tokens: f64,
    /// Of the 99th percentile of the critical requests' time to the first token.
    pub(crate) critical: f64,
}

/// Ratios over several cases.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Spread {
    /// How many cases there are.
    pub(crate) cases: usize,
    /// In how many of them both goals are met.
    pub(crate) met: usize,
    /// The least throughput.
    pub(crate) tokens_min: f64,
    /// Where that is.
    pub(crate) tokens_min_case: String,
    /// The mean throughput.
    pub(crate) tokens_mean: f64,
    /// The mean wait of critical requests.
    pub(crate) critical_mean: f64,
    /// The longest.
    pub(crate) critical_max: f64,
    /// Where that is.
    pub(crate) critical_max_case: String,
}

/// One kind of stock over all cases.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    /// Which.
    pub(crate) stock: &'static str,
    /// Against the best fixed watermark.
    pub(crate) spread: Spread,
}

/// One condition over several cases.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Robust {
    /// Which.
    pub(crate) condition: &'static str,
    /// `auto` with metrics.
    pub(crate) metrics: Spread,
    /// `auto` without metrics, where the condition is not about them.
    pub(crate) blind: Option<Spread>,
}

/// One stock before unlike engines.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mixed {
    /// Which.
    pub(crate) stock: String,
    /// Throughput over the sum of what each engine gives at its own best watermark.
    pub(crate) tokens: f64,
    /// The 99th percentile of the critical requests' time to the first token, in seconds.
    pub(crate) critical: f64,
}

/// Requests in flight after 1, 3, 10 and 20 seconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ramp {
    /// Engine and workload.
    pub(crate) case: String,
    /// The best fixed watermark.
    pub(crate) watermark: u32,
    /// `auto` with metrics.
    pub(crate) metrics: [u32; AFTER.len()],
    /// `auto` without metrics.
    pub(crate) blind: [u32; AFTER.len()],
}

/// All stocks over these cases.
pub(super) fn summary(rows: &[Row]) -> Vec<Summary> {
    if rows.is_empty() {
        return Vec::new();
    }
    let over = |stock: &'static str, pick: fn(&Row) -> &Figures| {
        let ratio = |row: &Row| Ratio::of(row.case.clone(), pick(row), &row.knee.figures);
        Summary { stock, spread: Spread::of(&rows.iter().map(ratio).collect::<Vec<_>>()) }
    };
    vec![
        over("auto with metrics", |row| &row.metrics),
        over("auto without metrics", |row| &row.blind),
        over("2 for each engine", |row| &row.constants[0]),
        over("64 for each engine", |row| &row.constants[1]),
    ]
}

// === impl Report ===

impl Report {
    /// The report as JSON, for other programs.
    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
            && self.robust.is_empty()
            && self.mixed.is_empty()
            && self.ramps.is_empty()
    }
}

// === impl Ratio ===

impl Ratio {
    pub(super) fn of(case: String, figures: &Figures, best: &Figures) -> Self {
        let tokens = figures.tokens / best.tokens;
        Self { case, tokens, critical: figures.critical / best.critical }
    }

    pub(super) fn is_met(&self) -> bool {
        self.tokens >= KEEP && self.critical <= EXCEED
    }
}

// === impl Spread ===

impl Spread {
    pub(super) fn of(ratios: &[Ratio]) -> Self {
        let mean = |pick: fn(&Ratio) -> f64| {
            ratios.iter().map(pick).sum::<f64>() / ratios.len().max(1) as f64
        };
        let least = ratios.iter().min_by(|one, other| one.tokens.total_cmp(&other.tokens));
        let longest = ratios.iter().max_by(|one, other| one.critical.total_cmp(&other.critical));
        Self {
            cases: ratios.len(),
            met: ratios.iter().filter(|ratio| ratio.is_met()).count(),
            tokens_min: least.map_or(0.0, |ratio| ratio.tokens),
            tokens_min_case: least.map_or(String::new(), |ratio| ratio.case.clone()),
            tokens_mean: mean(|ratio| ratio.tokens),
            critical_mean: mean(|ratio| ratio.critical),
            critical_max: longest.map_or(0.0, |ratio| ratio.critical),
            critical_max_case: longest.map_or(String::new(), |ratio| ratio.case.clone()),
        }
    }
}
