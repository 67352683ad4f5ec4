//! The score of each candidate backend for one ask, in points of one millisecond.
//!
//! The terms: latency, power, boost, queue depth, the engine's queue, KV cache, handicap, and
//! affinity (prefix cache and adapter). Latency and power are linear. On logarithmic scales the
//! middle one of three typical backends (55 W and 150 ms, 12 W and 400 ms, 3 W and 800 ms) lies
//! below the line between the other two, and no price of a watt would ever choose it. On linear
//! scales it lies above.

use super::candidate::{Candidate, RoutePreference};
use super::weights::RouteWeights;
use crate::ask::{BANDS, BackendId, Band};

/// Shifts that are the same for all backends and change no choice. With them an idle backend has a
/// positive score, and the fastest of the source's three backends scores 1849 for a critical ask,
/// where the source's chart shows 1850.
const SPEED_SHIFT: f64 = 1000.0;
const ECONOMY_SHIFT: f64 = 500.0;

/// A measured latency counts at most as this many times the stated one, so that a single stall does
/// not exclude a backend.
const MEASURED_MOST: f64 = 10.0;

/// The weight of an ask in flight (column: its band) for an ask of another band (row): 1 for the
/// same and higher bands, less for bands that it overtakes.
static DEPTH_WEIGHTS: [[f64; BANDS]; BANDS] = depth_weights();

/// A score and its terms: `total` is the sum of the next three terms and `affinity`, less the
/// penalties.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RouteScore {
    /// The sum, by which candidates are compared.
    pub total: f64,
    /// 1000 less the expected latency in milliseconds.
    pub speed: f64,
    /// 500 less the power at this ask's price of a watt.
    pub economy: f64,
    /// The boost in force, the same for every backend.
    pub boost: f64,
    /// Lost to asks in flight, weighted by band.
    pub depth_penalty: f64,
    /// Lost to the engine's own queue, and to asks in flight near the bound.
    pub queue_penalty: f64,
    /// Lost to a KV cache that is nearly full.
    pub kv_penalty: f64,
    /// Lost by a backend that has just become ready again.
    pub handicap: f64,
    /// Gained by a cached prompt, less the prompts to compute before it, and by a loaded adapter;
    /// lost by a model that is not loaded.
    pub affinity: f64,
}

/// Scores the candidates of one ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scorer<'a> {
    weights: &'a RouteWeights,
    depth_weights: &'static [f64; BANDS],
    wants_adapter: bool,
    /// The price of a watt, in milliseconds.
    rate: f64,
    boost: f64,
    /// The home of the ask's session, while no candidate is known to have its prompt cached.
    home: Option<BackendId>,
}

const fn depth_weights() -> [[f64; BANDS]; BANDS] {
    let mut weights = [[1.0; BANDS]; BANDS];
    let mut own = 0;
    while own < BANDS {
        let mut other = 0;
        while other < own {
            weights[own][other] = (other + 1) as f64 / (own + 1) as f64;
            other += 1;
        }
        own += 1;
    }
    weights
}

// === impl Scorer ===

impl<'a> Scorer<'a> {
    pub(super) fn new(
        preference: &RoutePreference,
        weights: &'a RouteWeights,
        home: Option<BackendId>,
    ) -> Self {
        let pull = if preference.latency_critical { Band::Critical } else { preference.band };
        let economical = preference.power_efficient && !preference.latency_critical;
        Self {
            weights,
            depth_weights: &DEPTH_WEIGHTS[preference.band.index()],
            wants_adapter: preference.adapter.is_some(),
            rate: weights.rates[if economical { Band::BestEffort } else { pull }.index()],
            boost: weights.boost(pull),
            home,
        }
    }

    /// The score of a candidate whose weighted depth is known.
    pub(super) fn score(&self, candidate: &Candidate, depth: f64) -> RouteScore {
        let terms = &self.weights.terms;
        let waiting = f64::from(candidate.engine_waiting.unwrap_or(0));
        let crowding = candidate.kv_used() - terms.kv_threshold;
        let score = RouteScore {
            total: 0.0,
            speed: SPEED_SHIFT - self.latency(candidate),
            economy: ECONOMY_SHIFT - self.rate * candidate.power(),
            boost: self.boost,
            depth_penalty: terms.depth_penalty * candidate.request_weight() * depth,
            queue_penalty: terms.engine_waiting_penalty * waiting
                + terms.fill_penalty * candidate.fill(),
            kv_penalty: if crowding > 0.0 { self.weights.kv_slope * crowding } else { 0.0 },
            handicap: candidate.handicap(),
            affinity: self.affinity(candidate),
        };
        RouteScore { total: score.without_affinity() + score.affinity, ..score }
    }

    /// `Σ count × min(1, weight / own weight)`, with weights 1 to 4 from best-effort to critical.
    pub(super) fn weighted_depth(&self, candidate: &Candidate) -> f64 {
        let pairs = candidate.pending.iter().zip(self.depth_weights);
        pairs.map(|(&count, weight)| f64::from(count) * weight).sum()
    }

    /// The stated and the measured latency, mixed. The measured latency rises with the load that
    /// routing itself sends, and the depth penalty counts that load already. At full weight it
    /// would make asks oscillate between backends.
    fn latency(&self, candidate: &Candidate) -> f64 {
        let stated = candidate.stated_latency();
        let Some(measured) = candidate.measured_latency() else { return stated };
        // A stated latency of zero cannot bound the measured one.
        let most = if stated > 0.0 { MEASURED_MOST * stated } else { measured };
        let measured = if measured < most { measured } else { most };
        stated + self.weights.terms.measured_share * (measured - stated)
    }

    fn affinity(&self, candidate: &Candidate) -> f64 {
        let terms = &self.weights.terms;
        let at_home = self.home == Some(candidate.backend);
        let adapter = self.wants_adapter && candidate.has_adapter;
        candidate.saved_ms() - candidate.load_ms()
            + if at_home { terms.prefix_bonus } else { 0.0 }
            + if adapter { terms.adapter_bonus } else { 0.0 }
    }
}

// === impl RouteScore ===

impl RouteScore {
    /// Lost to the requests at the backend: those in flight, and the engine's own queue.
    pub const fn queueing(&self) -> f64 {
        self.depth_penalty + self.queue_penalty
    }

    pub(super) fn without_affinity(&self) -> f64 {
        let gained = self.speed + self.economy + self.boost;
        gained - self.depth_penalty - self.queue_penalty - self.kv_penalty - self.handicap
    }
}
