//! The weights of the score's terms, as checked numbers.
//!
//! One point is one millisecond of latency. A boost that is added to every score changes no choice.
//! So a boost sets the price of a watt in milliseconds: the higher the boost, the less power
//! counts. Every other weight gives the value of its term in milliseconds.

use crate::ask::{BANDS, Band};
use crate::range::{Checked, check};

/// The price of a watt at boost 0, in milliseconds. With the source's three backends, the middle
/// one wins between 5.8 and 44.4; this is the geometric mean of the two.
const RATE_AT_ZERO: f64 = 16.0;
/// A boost of this much halves the price of a watt.
const BOOST_TO_HALVE: f64 = 50.0;

const BOOST_KEYS: [&str; BANDS] = [
    "router.priority_scoring.best_effort_penalty",
    "router.priority_scoring.normal_boost",
    "router.priority_scoring.high_boost",
    "router.priority_scoring.critical_boost",
];
/// Keeps the price of a watt within 2^±20 of its value at boost 0.
const BOOST_MAX: f64 = 1000.0;
const POINTS_MAX: f64 = 10_000.0;

/// The weights before they are checked; the default has the values of the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteTerms {
    /// How strongly each band prefers speed to low power, from best-effort to critical.
    pub boosts: [f64; BANDS],
    /// Points lost per ask in flight of the same or a higher band.
    pub depth_penalty: f64,
    /// Whether these points are the same at every backend, however many asks fill it.
    pub flat_depth: bool,
    /// Points lost per request waiting inside the engine.
    pub engine_waiting_penalty: f64,
    /// Points lost by a backend that is at its bound, unless bounds are fixed in requests.
    pub fill_penalty: f64,
    /// Points lost by a backend whose KV cache is full.
    pub kv_penalty: f64,
    /// The use of the KV cache, 0 to 1, up to which no points are lost.
    pub kv_threshold: f64,
    /// Points gained by the home of a session, while no backend is known to have its prompt cached.
    pub prefix_bonus: f64,
    /// Points gained by a backend that has the adapter loaded.
    pub adapter_bonus: f64,
    /// The share of the measured latency against the stated one, 0 to 1.
    pub measured_share: f64,
}

/// Weights that were checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteWeights {
    pub(super) terms: RouteTerms,
    /// The price of a watt in each band, in milliseconds.
    pub(super) rates: [f64; BANDS],
    /// Points lost per unit of KV cache use above the threshold.
    pub(super) kv_slope: f64,
}

// === impl RouteTerms ===

impl Default for RouteTerms {
    fn default() -> Self {
        Self {
            boosts: [-100.0, 0.0, 200.0, 500.0],
            depth_penalty: 50.0,
            flat_depth: false,
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
        // A negative weight would make load attractive, or a warm cache unattractive.
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
        // A higher band with a lower boost would reverse the meaning of the bands.
        for (key, pair) in BOOST_KEYS[1..].iter().zip(self.boosts.windows(2)) {
            check(pair[0] <= pair[1], key, pair[1], "no less than the boost of the band below")?;
        }
        Ok(())
    }
}

// === impl RouteWeights ===

impl RouteWeights {
    /// Checks the terms: boosts lie within ±1000 and do not fall from best-effort to critical,
    /// points lie in 0 to 10000. The error names the configuration key.
    pub fn new(terms: RouteTerms) -> Checked<Self> {
        terms.check()?;
        Ok(Self::of(terms))
    }

    fn of(terms: RouteTerms) -> Self {
        let rate = |boost: f64| RATE_AT_ZERO * (-boost / BOOST_TO_HALVE).exp2();
        let kv_slope = terms.kv_penalty / (1.0 - terms.kv_threshold);
        Self { terms, rates: terms.boosts.map(rate), kv_slope }
    }

    /// The terms.
    pub fn terms(&self) -> &RouteTerms {
        &self.terms
    }

    /// The boost of a band, which `X-Priority-Boost` shows.
    pub fn boost(&self, band: Band) -> f64 {
        self.terms.boosts[band.index()]
    }
}

impl Default for RouteWeights {
    fn default() -> Self {
        Self::of(RouteTerms::default())
    }
}
