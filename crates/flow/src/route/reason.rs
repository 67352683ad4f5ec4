//! Why a backend was chosen, in the words of `X-Routing-Reason`.

use crate::ask::Band;

use super::candidate::RoutePreference;

/// Why a backend was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteReason {
    /// It was the only one that could take the ask.
    OnlyBackend,
    /// It was the only one of several that keeps the ask's latency limit.
    OnlyWithinLimit,
    /// None keeps the ask's latency limit: it is among the fastest.
    LimitUnmet,
    /// It is believed to hold the prompt or the adapter, and would not have been chosen otherwise.
    Affinity,
    /// A critical ask, and nobody has less ahead of it.
    CriticalLowQueue,
    /// A critical ask: fast enough to be worth its longer queue.
    CriticalFastest,
    /// An ask for which latency is critical, and nobody has less ahead of it.
    LatencyCriticalLowQueue,
    /// An ask for which latency is critical: fast enough to be worth its longer queue.
    LatencyCriticalFastest,
    /// A high ask, and nobody has less ahead of it.
    HighLowQueue,
    /// A high ask: fast enough to be worth its longer queue.
    HighFastest,
    /// A normal ask: the best balance of speed, economy and queue.
    NormalBalanced,
    /// A best-effort ask: nobody draws less power, and some draw more.
    BestEffortPowerEfficient,
    /// A best-effort ask that economy did not decide.
    BestEffortBalanced,
}

/// What the chosen backend is among those it was chosen from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) shortest_queue: bool,
    pub(super) most_economical: bool,
}

// === impl Reason ===

impl RouteReason {
    /// As it stands in the header.
    pub const fn text(self) -> &'static str {
        match self {
            Self::OnlyBackend => "only-backend",
            Self::OnlyWithinLimit => "only-backend-within-latency-limit",
            Self::LimitUnmet => "latency-limit-unmet-fastest",
            Self::Affinity => "cache-affinity",
            Self::CriticalLowQueue => "critical-priority-low-queue",
            Self::CriticalFastest => "critical-priority-fastest",
            Self::LatencyCriticalLowQueue => "latency-critical-low-queue",
            Self::LatencyCriticalFastest => "latency-critical-fastest",
            Self::HighLowQueue => "high-priority-low-queue",
            Self::HighFastest => "high-priority-fastest",
            Self::NormalBalanced => "normal-balanced",
            Self::BestEffortPowerEfficient => "best-effort-power-efficient",
            Self::BestEffortBalanced => "best-effort-balanced",
        }
    }

    /// The reason of a choice that the scores made.
    pub(super) fn of(preference: &RoutePreference, standing: Standing) -> Self {
        let short = standing.shortest_queue;
        match preference.band {
            Band::Critical if short => Self::CriticalLowQueue,
            Band::Critical => Self::CriticalFastest,
            _ if preference.latency_critical && short => Self::LatencyCriticalLowQueue,
            _ if preference.latency_critical => Self::LatencyCriticalFastest,
            Band::High if short => Self::HighLowQueue,
            Band::High => Self::HighFastest,
            Band::Normal => Self::NormalBalanced,
            Band::BestEffort if standing.most_economical => Self::BestEffortPowerEfficient,
            Band::BestEffort => Self::BestEffortBalanced,
        }
    }
}

impl std::fmt::Display for RouteReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}
