//! What is studied: engines under workloads, and the best fixed watermark of each pair.
//!
//! The best one is the smallest that keeps 97 % of the most that any gives at twice the load that
//! the engine can carry: beyond it nothing is won, and those who are urgent wait longer.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use sim::arrivals::Lengths;
use sim::engine::Profile;

use super::run::{Figures, Run, Stock};
use super::{Effort, cores};

/// The load of the main study, in times of what the engine can carry.
pub(super) const LOAD: f64 = 2.0;
/// What a watermark must keep of the most that any gives.
const ENOUGH: f64 = 0.97;
/// A further part of the grid is looked at while the one before it gave this much more.
const STILL_GROWS: f64 = 1.005;
/// Watermarks to look at, each about 1.4 times the one before; the last is beyond every engine.
const GRID: [u32; 20] =
    [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024];
const STRIDE: usize = 5;
/// Between two watermarks this near to each other nobody could tell.
const APART: f64 = 0.03;

/// The seed, watermarks and seconds that tell what an engine can carry.
const SEED: u64 = 0;
const WATERMARKS: [f64; 3] = [16.0, 64.0, 256.0];
const WINDOW: (u64, u64) = (30, 150);
/// The first load to try, and how much more each time it was no overload.
const RATE_FIRST: f64 = 4.0;
const RATE_STEP: f64 = 4.0;
const OVERLOAD: f64 = 0.6;

/// An engine under a workload.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) engine: Profile,
    pub(super) workload: String,
    pub(super) lengths: Lengths,
}

/// A case with its best fixed watermark.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) case: Case,
    /// Requests a second that the engine can carry.
    pub(super) capacity: f64,
    pub(super) knee: Knee,
}

/// The best fixed watermark.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Knee {
    /// The watermark.
    pub(crate) watermark: u32,
    /// What it gives.
    pub(crate) figures: Figures,
    /// Tokens a second at the watermark that gives most.
    pub(crate) most: f64,
}

/// What each watermark gives, as far as it was looked at.
struct Search<'a> {
    run: Run,
    effort: &'a Effort,
    seen: BTreeMap<u32, Figures>,
}

// === impl Case ===

impl Case {
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.engine.name(), self.workload)
    }

    /// Finds what the engine can carry and its best fixed watermark.
    pub(super) fn know(self, effort: &Effort) -> Result<Known> {
        let capacity = self.capacity()?;
        let rate = LOAD * capacity;
        let run = Run::new(&self.engine, &self.lengths, rate, effort.window);
        let knee = Search { run, effort, seen: BTreeMap::new() }.knee()?;
        Ok(Known { case: self, capacity, knee })
    }

    /// The most requests a second that come out under a load that is more than enough.
    fn capacity(&self) -> Result<f64> {
        let mut rate = RATE_FIRST;
        loop {
            let run = Run::new(&self.engine, &self.lengths, rate, WINDOW);
            let runs = WATERMARKS.map(|watermark| run.with(Stock::Fixed(watermark), SEED));
            let figures = cores::each(&runs, Run::figures)?;
            let most = figures.iter().map(|figures| figures.requests).fold(0.0, f64::max);
            if most < OVERLOAD * rate {
                return Ok(most);
            }
            rate *= RATE_STEP;
        }
    }
}

// === impl Known ===

impl Known {
    /// The case under this many times what its engine can carry.
    pub(super) fn run(&self, load: f64, window: (u64, u64)) -> Run {
        Run::new(&self.case.engine, &self.case.lengths, load * self.capacity, window)
    }

    pub(super) fn fixed(&self) -> Stock {
        Stock::Fixed(f64::from(self.knee.watermark))
    }
}

// === impl Search ===

impl Search<'_> {
    fn knee(mut self) -> Result<Knee> {
        self.climb()?;
        self.look_beside_the_best()?;
        let enough = ENOUGH * self.most().1;
        let first = |seen: &BTreeMap<u32, Figures>| {
            seen.iter().find(|(_, figures)| figures.tokens >= enough).map(|(&at, _)| at)
        };
        let mut good = first(&self.seen).unwrap_or_default();
        let mut bad = self.seen.range(..good).next_back().map_or(0, |(&at, _)| at);
        while f64::from(good - bad) > (APART * f64::from(good)).max(1.0) {
            let middle = bad.midpoint(good);
            self.look(&[middle])?;
            let kept = self.seen[&middle].tokens >= enough;
            (bad, good) = if kept { (bad, middle) } else { (middle, good) };
        }
        Ok(Knee { watermark: good, figures: self.seen[&good], most: self.most().1 })
    }

    /// Looks at the grid from below, until a part of it gives no more than those before.
    fn climb(&mut self) -> Result<()> {
        for part in GRID.chunks(STRIDE) {
            let before = self.most().1;
            self.look(part)?;
            if self.most().1 < STILL_GROWS * before {
                break;
            }
        }
        Ok(())
    }

    /// Where memory is short the peak is sharp, and may lie between two points of the grid.
    fn look_beside_the_best(&mut self) -> Result<()> {
        let best = self.most().0;
        let below = self.seen.range(..best).next_back().map_or(best, |(&at, _)| at);
        let above = self.seen.range(best + 1..).next().map_or(best, |(&at, _)| at);
        self.look(&[below.midpoint(best), best.midpoint(above)])
    }

    fn most(&self) -> (u32, f64) {
        let tokens = self.seen.iter().map(|(&at, figures)| (at, figures.tokens));
        tokens.max_by(|(_, one), (_, other)| one.total_cmp(other)).unwrap_or((0, 0.0))
    }

    fn look(&mut self, watermarks: &[u32]) -> Result<()> {
        let fresh: Vec<u32> =
            watermarks.iter().copied().filter(|at| !self.seen.contains_key(at)).collect();
        let stocks: Vec<Stock> = fresh.iter().map(|&at| Stock::Fixed(f64::from(at))).collect();
        let runs: Vec<Run> = stocks.iter().map(|&stock| self.run.with(stock, 0)).collect();
        let figures = self.effort.means(&runs)?;
        self.seen.extend(fresh.into_iter().zip(figures));
        Ok(())
    }
}
