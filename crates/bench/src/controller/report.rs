//! The outcome of a run, as values; [`text`] turns them into tables.

mod text;

use serde::Serialize;

use super::sample::Sample;

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Whether corners were cut to save time.
    pub(crate) quick: bool,
    /// The steady state.
    pub(crate) cycles: Vec<Cell>,
    /// The steady state of the largest queue over that of the smallest.
    pub(crate) growth: Vec<Growth>,
    /// The `workload` order by itself.
    pub(crate) scan: Option<Scan>,
    /// Cancellation, expiry and preemption in numbers.
    pub(crate) storms: Vec<Cell>,
    /// Bytes for each waiting ask.
    pub(crate) memory: Option<Memory>,
    /// The grid of the nearest relative.
    pub(crate) relative: Vec<Relative>,
    /// What was promised, and whether it is kept.
    pub(crate) targets: Vec<Target>,
}

/// One benchmark of the core, beside the floor where the floor can do the same.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    /// Its name.
    pub(crate) name: String,
    /// Nanoseconds per step of the core.
    pub(crate) core: Sample,
    /// Nanoseconds per step of the floor.
    pub(crate) floor: Option<Sample>,
    /// The core over the floor, least by least and median by median.
    pub(crate) ratio: Option<Sample>,
}

/// How much dearer a step becomes from the smallest queue to the largest.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Growth {
    /// The larger benchmark.
    pub(crate) name: String,
    /// For the core.
    pub(crate) core: f64,
    /// For the floor.
    pub(crate) floor: Option<f64>,
}

/// The cost of choosing among workloads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Scan {
    /// How many workloads wait in one flow.
    pub(crate) workloads: u32,
    /// Nanoseconds from a settlement until the next grant.
    pub(crate) dequeue: Sample,
    /// The same with a single workload.
    pub(crate) alone: Sample,
    /// Nanoseconds for one more workload.
    pub(crate) score: f64,
}

/// Memory of a full queue.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Memory {
    /// The program was built without the counting allocator.
    NotCounted,
    /// Bytes for each waiting ask.
    #[cfg_attr(not(feature = "memory"), expect(dead_code, reason = "needs the feature"))]
    Counted {
        /// How many wait.
        queued: u32,
        /// The core's.
        core: Bytes,
        /// The floor's.
        floor: Bytes,
    },
}

/// Bytes for each waiting ask.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Bytes {
    /// When the queue is full.
    pub(crate) held: f64,
    /// At most, on the way there.
    pub(crate) peak: f64,
}

/// One coordinate of the relative's grid, in dispatches per second.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Relative {
    /// Its name.
    pub(crate) name: String,
    /// Ours, in the median batch.
    pub(crate) ours: f64,
    /// Ours, in the best batch.
    pub(crate) ours_best: f64,
    /// Theirs, where they published it.
    pub(crate) published: Option<f64>,
}

/// A promise.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Target {
    /// What is limited.
    pub(crate) what: &'static str,
    /// The limit.
    pub(crate) limit: f64,
    /// The worst that was measured.
    pub(crate) worst: f64,
    /// Where.
    pub(crate) name: String,
    /// Whether the promise is kept.
    pub(crate) met: bool,
}

// === impl Report ===

impl Report {
    /// The report for programs.
    pub(crate) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// Whether nothing was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.cycles.is_empty()
            && self.scan.is_none()
            && self.storms.is_empty()
            && self.memory.is_none()
            && self.relative.is_empty()
    }
}

// === impl Cell ===

impl Cell {
    pub(crate) fn new(name: String, core: Sample, floor: Option<Sample>) -> Self {
        let over = |floor: Sample| Sample {
            min: core.min / floor.min,
            median: core.median / floor.median,
        };
        Self { name, core, floor, ratio: floor.map(over) }
    }
}

// === impl Growth ===

impl Growth {
    pub(crate) fn between(small: &Cell, large: &Cell) -> Self {
        let floors = large.floor.zip(small.floor);
        Self {
            name: large.name.clone(),
            core: large.core.min / small.core.min,
            floor: floors.map(|(large, small)| large.min / small.min),
        }
    }
}

// === impl Relative ===

impl Relative {
    pub(crate) fn new(name: String, nanos: Sample, published: Option<f64>) -> Self {
        Self { name, ours: 1e9 / nanos.median, ours_best: 1e9 / nanos.min, published }
    }
}
