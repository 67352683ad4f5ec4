//! The choice of a backend: soft filters of latency and power, then the score, then turns among
//! equal scores.

use super::candidate::{Candidate, RoutePreference};
use super::reason::{RouteReason, Standing};
use super::score::{RouteScore, Scorer};
use super::weights::RouteWeights;
use crate::ask::{BANDS, BackendId};

/// If no backend is within the latency limit, those within this factor of the fastest count as
/// equally fast. Otherwise a tiny difference in measured latency would send every ask to one of two
/// equal backends.
const FASTEST_WITHIN: f64 = 1.1;

/// Totals that differ by more are different millionths, also if the products are rounded.
const CLEAR_LEAD: f64 = 1e-4;

/// A chosen backend, and the reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteChoice {
    /// The caller's number for it.
    pub at: u32,
    /// Why it was chosen.
    pub reason: RouteReason,
    /// Its score.
    pub score: RouteScore,
    /// Asks in flight there before this one.
    pub depth: u32,
    /// The same, from best-effort to critical.
    pub pending: [u32; BANDS],
    /// Asks in flight, weighted as in the depth penalty.
    pub weighted_depth: f64,
    /// Its stated power.
    pub power_watts: f64,
    /// The tokens of the prompt that are believed to be in its prefix cache.
    pub cached_tokens: u64,
    /// Its latency, measured if it is known, else stated; `None` if its properties are not
    /// configured.
    pub latency_ms: Option<f64>,
}

/// The order of candidates: the higher total first, then the one whose last grant is longer ago.
#[derive(Clone, Copy, Debug)]
struct Merit {
    total: f64,
    last_granted: u64,
}

/// The best candidate, and the extremes of all candidates.
#[derive(Clone, Copy, Debug)]
struct Survey {
    best: Candidate,
    score: RouteScore,
    depth: f64,
    /// The candidate that would be best without affinity.
    plain: u32,
    plain_merit: Merit,
    count: u32,
    depth_least: f64,
    power_least: f64,
    power_most: f64,
}

/// The candidate with the highest score. Of equal scores, the candidate whose last grant is longest
/// ago goes first, then the first in the list. The result is `None` only without candidates: no
/// penalty, limit or broken measurement leaves an ask without a backend.
///
/// The iterator is read up to three times, so it should compute the candidates lazily.
///
/// ```
/// use flow::{BackendId, Band, Candidate, RouteWeights, BackendTraits, RoutePreference, choose};
///
/// let backend = |at, power_watts, latency_ms| Candidate {
///     traits: BackendTraits { power_watts, latency_ms },
///     ..Candidate::new(at, BackendId(at))
/// };
/// let field = [backend(0, 55.0, 150.0), backend(1, 12.0, 400.0), backend(2, 3.0, 800.0)];
/// let preference = RoutePreference { band: Band::BestEffort, ..RoutePreference::default() };
/// let choice = choose(&preference, &RouteWeights::default(), field.into_iter()).unwrap();
/// assert_eq!((choice.at, choice.reason.text()), (2, "best-effort-power-efficient"));
/// ```
pub fn choose(
    preference: &RoutePreference,
    weights: &RouteWeights,
    candidates: impl Iterator<Item = Candidate> + Clone,
) -> Option<RouteChoice> {
    let strain = |candidate: &Candidate| preference.strain(candidate);
    let ceiling = if preference.has_limit() {
        ceiling(candidates.clone().map(|at| strain(&at)))
    } else {
        1.0
    };
    let unmet = ceiling > 1.0;
    let eligible = candidates.clone().filter(|candidate| strain(candidate) <= ceiling);
    // If no backend is within the limit, only speed counts, and power no longer does.
    let preference =
        RoutePreference { latency_critical: preference.latency_critical || unmet, ..*preference };
    let power_max = preference.power_max.map(f64::from);
    let power_ceiling = power_max.map(|limit| power_ceiling(limit, eligible.clone()));
    let power_unmet = power_ceiling > power_max;
    let eligible = eligible
        .filter(|candidate| power_ceiling.is_none_or(|ceiling| candidate.power() <= ceiling));
    let scorer = Scorer::new(&preference, weights, home(&preference, eligible.clone()));
    let survey = survey_candidates(&scorer, eligible)?;
    let reason = if unmet {
        RouteReason::LimitUnmet
    } else if power_unmet {
        RouteReason::PowerLimitUnmet
    } else if survey.count == 1 {
        let others = candidates.take(2).count() > 1;
        RouteReason::of_only(&preference, others)
    } else {
        survey.reason(&preference)
    };
    Some(survey.choice(reason))
}

/// The latency up to which candidates are eligible, over the limit: 1 if a candidate is within it,
/// otherwise a little above the fastest.
fn ceiling(strains: impl Iterator<Item = f64>) -> f64 {
    let least = strains.fold(f64::INFINITY, f64::min);
    if least <= 1.0 { 1.0 } else { least * FASTEST_WITHIN }
}

/// The power up to which candidates are eligible: the limit if a candidate is within it, otherwise
/// the least.
fn power_ceiling(limit: f64, candidates: impl Iterator<Item = Candidate>) -> f64 {
    let least = candidates.map(|candidate| candidate.power()).fold(f64::INFINITY, f64::min);
    if least <= limit { limit } else { least }
}

/// The home backend of a session, while no candidate is known to have any of its prompt cached. It
/// is found by rendezvous hashing, so it stays the same when other backends come and go.
fn home(
    preference: &RoutePreference,
    candidates: impl Iterator<Item = Candidate> + Clone,
) -> Option<BackendId> {
    let session = preference.session?;
    if candidates.clone().any(|candidate| candidate.cached_tokens > 0) {
        return None;
    }
    let ids = candidates.map(|candidate| candidate.backend);
    ids.max_by_key(|id| (mixed(session ^ mixed(u64::from(id.0))), *id))
}

/// A hash whose bits all depend on all bits of the seed (the finaliser of SplitMix64).
fn mixed(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn survey_candidates(
    scorer: &Scorer<'_>,
    mut candidates: impl Iterator<Item = Candidate>,
) -> Option<Survey> {
    let mut survey = Survey::of(scorer, candidates.next()?);
    for candidate in candidates {
        survey.join(scorer, &candidate);
    }
    Some(survey)
}

fn millionths(points: f64) -> i64 {
    (points * 1e6).round() as i64
}

// === impl Merit ===

impl Merit {
    fn beats(self, other: Self) -> bool {
        let lead = self.total - other.total;
        // Two totals this far apart are different millionths. Rounding both would cost more than
        // the rest of the comparison.
        if lead.abs() > CLEAR_LEAD {
            return lead > 0.0;
        }
        // Totals that differ only by rounding are equal.
        let equal = lead == 0.0 || millionths(self.total) == millionths(other.total);
        if equal { self.last_granted < other.last_granted } else { lead > 0.0 }
    }
}

// === impl Survey ===

impl Survey {
    fn of(scorer: &Scorer<'_>, first: Candidate) -> Self {
        let depth = scorer.weighted_depth(&first);
        let score = scorer.score(&first, depth);
        let power = first.power();
        let plain = Merit { total: score.without_affinity(), last_granted: first.last_granted };
        Self {
            best: first,
            score,
            depth,
            plain: first.at,
            plain_merit: plain,
            count: 1,
            depth_least: depth,
            power_least: power,
            power_most: power,
        }
    }

    fn join(&mut self, scorer: &Scorer<'_>, next: &Candidate) {
        let depth = scorer.weighted_depth(next);
        let score = scorer.score(next, depth);
        let merit = |total| Merit { total, last_granted: next.last_granted };
        let lead = Merit { total: self.score.total, last_granted: self.best.last_granted };
        if merit(score.total).beats(lead) {
            (self.best, self.score, self.depth) = (*next, score, depth);
        }
        let plain = merit(score.without_affinity());
        if plain.beats(self.plain_merit) {
            (self.plain, self.plain_merit) = (next.at, plain);
        }
        let power = next.power();
        self.count = self.count.saturating_add(1);
        self.depth_least = self.depth_least.min(depth);
        self.power_least = self.power_least.min(power);
        self.power_most = self.power_most.max(power);
    }

    fn reason(&self, preference: &RoutePreference) -> RouteReason {
        if self.plain != self.best.at {
            return RouteReason::Affinity;
        }
        let power = self.best.power();
        let standing = Standing {
            shortest_queue: self.depth <= self.depth_least,
            most_economical: power <= self.power_least && power < self.power_most,
        };
        RouteReason::of(preference, standing)
    }

    fn choice(&self, reason: RouteReason) -> RouteChoice {
        RouteChoice {
            at: self.best.at,
            reason,
            score: self.score,
            depth: self.best.depth(),
            pending: self.best.pending,
            weighted_depth: self.depth,
            power_watts: self.best.power(),
            cached_tokens: self.best.cached_tokens,
            latency_ms: self.best.expected_latency(),
        }
    }
}
