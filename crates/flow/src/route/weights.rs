//! How much each consideration counts, as checked numbers.
//!
//! One point is one millisecond of latency. A boost that is added to every backend's score alike
//! changes nothing, so here it sets what a watt is worth in milliseconds: the higher the boost, the
//! less economy counts. Every other term says how many milliseconds something is worth.

use crate::ask::{BANDS, Band};
use crate::range::{Checked, check};

/// What a watt is worth at boost 0, in milliseconds. For the source's three backends the middle
/// one wins between 5.8 and 44.4; this is the geometric mean of the two.
const RATE_AT_ZERO: f64 = 16.0;
/// The boost that halves what a watt is worth.
const BOOST_TO_HALVE: f64 = 50.0;

const BOOST_KEYS: [&str; BANDS] = [
    "router.priority_scoring.best_effort_penalty",
    "router.priority_scoring.normal_boost",
    "router.priority_scoring.high_boost",
    "router.priority_scoring.critical_boost",
];
/// Keeps a watt's worth within 2^±20 of the usual.
const BOOST_MAX: f64 = 1000.0;
const POINTS_MAX: f64 = 10_000.0;

/// The numbers of a [`RouteWeights`] before they are checked; the default has the source's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteTerms {
    /// How strongly each band prefers speed to economy, from best-effort to critical.
    pub boosts: [f64; BANDS],
    /// Points lost per pending ask of the same or a higher band.
    pub depth_penalty: f64,
    /// Points lost per request that waits inside the engine.
    pub engine_waiting_penalty: f64,
    /// Points lost by a backend that is at its bound.
    pub fill_penalty: f64,
    /// Points lost by a backend whose KV cache is full.
    pub kv_penalty: f64,
    /// The part of the KV cache, 0 to 1, up to which nothing is lost.
    pub kv_threshold: f64,
    /// Points gained by a backend that is believed to hold the whole prompt.
    pub prefix_bonus: f64,
    /// Points gained by a backend that has the adapter loaded.
    pub adapter_bonus: f64,
    /// How much a measured latency counts against the stated one, 0 to 1.
    pub measured_share: f64,
}

/// The law that scores follow: [`RouteTerms`] that were checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteWeights {
    pub(super) terms: RouteTerms,
    /// What a watt is worth in each band, in milliseconds.
    pub(super) rates: [f64; BANDS],
    /// Points lost per part of the KV cache above the threshold.
    pub(super) kv_slope: f64,
}

// === impl RouteTerms ===

impl Default for RouteTerms {
    fn default() -> Self {
        Self {
            boosts: [-100.0, 0.0, 200.0, 500.0],
            depth_penalty: 50.0,
            engine_waiting_penalty: 100.0,
            fill_penalty: 50.0,
            kv_penalty: 200.0,
            kv_threshold: 0.8,
            prefix_bonus: 100.0,
            adapter_bonus: 150.0,
            measured_share: 0.5,
        }
    }
}

impl RouteTerms {
    fn check(&self) -> Checked<()> {
        self.check_boosts()?;
        // Below zero load would attract, or a warm cache repel.
        let points = [
            ("router.queue_depth_penalty_per_request", self.depth_penalty),
            ("router.engine_waiting_penalty_per_request", self.engine_waiting_penalty),
            ("router.fill_penalty", self.fill_penalty),
            ("router.kv_penalty", self.kv_penalty),
            ("router.prefix_bonus", self.prefix_bonus),
            ("router.adapter_bonus", self.adapter_bonus),
        ];
        for (key, value) in points {
            check((0.0..=POINTS_MAX).contains(&value), key, value, "0 to 10000")?;
        }
        let threshold = self.kv_threshold;
        let open = (0.0..1.0).contains(&threshold);
        check(open, "router.kv_threshold", threshold, "0 or more, less than 1")?;
        let share = self.measured_share;
        check((0.0..=1.0).contains(&share), "router.measured_latency_share", share, "0 to 1")
    }

    fn check_boosts(&self) -> Checked<()> {
        for (key, boost) in BOOST_KEYS.into_iter().zip(self.boosts) {
            let good = (-BOOST_MAX..=BOOST_MAX).contains(&boost);
            check(good, key, boost, "-1000 to 1000")?;
        }
        // A higher band that cares less for speed would turn the meaning of the bands around.
        for (key, pair) in BOOST_KEYS[1..].iter().zip(self.boosts.windows(2)) {
            check(pair[0] <= pair[1], key, pair[1], "no less than the boost of the band below")?;
        }
        Ok(())
    }
}

// === impl RouteWeights ===

impl RouteWeights {
    /// The law with these terms. Boosts lie within ±1000 and do not fall from best-effort to
    /// critical, points lie in 0 to 10000; what does not is named by its key.
    pub fn new(terms: RouteTerms) -> Checked<Self> {
        terms.check()?;
        Ok(Self::of(terms))
    }

    fn of(terms: RouteTerms) -> Self {
        let rate = |boost: f64| RATE_AT_ZERO * (-boost / BOOST_TO_HALVE).exp2();
        let kv_slope = terms.kv_penalty / (1.0 - terms.kv_threshold);
        Self { terms, rates: terms.boosts.map(rate), kv_slope }
    }

    /// The terms it was made from.
    pub fn terms(&self) -> &RouteTerms {
        &self.terms
    }

    /// The boost of a band: what `X-Priority-Boost` shows.
    pub fn boost(&self, band: Band) -> f64 {
        self.terms.boosts[band.index()]
    }
}

impl Default for RouteWeights {
    fn default() -> Self {
        Self::of(RouteTerms::default())
    }
}
