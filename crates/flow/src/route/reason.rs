//! The reason of a choice, as the response header `X-Routing-Reason` gives it.

use crate::ask::Band;

use super::candidate::RoutePreference;

/// Why a backend was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteReason {
    /// It was the only candidate.
    OnlyBackend,
    /// It was the only candidate: other backends are ready, but have no room for the ask.
    OnlyWithRoom,
    /// It was the only one of several candidates within the ask's latency limit.
    OnlyWithinLimit,
    /// No candidate was within the ask's latency limit: it is among the fastest.
    LimitUnmet,
    /// It was the only one of several candidates within the ask's power limit.
    OnlyWithinPowerLimit,
    /// No candidate was within the ask's power limit: none draws less.
    PowerLimitUnmet,
    /// An ask that prefers economy: no candidate draws less power, and some draw more.
    PowerEfficient,
    /// It is believed to have the prompt or the adapter in memory, and would not have been chosen
    /// otherwise.
    Affinity,
    /// A critical ask: no candidate has a shorter queue.
    CriticalLowQueue,
    /// A critical ask: fast enough to be worth its longer queue.
    CriticalFastest,
    /// A latency-critical ask: no candidate has a shorter queue.
    LatencyCriticalLowQueue,
    /// A latency-critical ask: fast enough to be worth its longer queue.
    LatencyCriticalFastest,
    /// A high ask: no candidate has a shorter queue.
    HighLowQueue,
    /// A high ask: fast enough to be worth its longer queue.
    HighFastest,
    /// A normal ask: the best balance of speed, economy and queue.
    NormalBalanced,
    /// A best-effort ask: no candidate draws less power, and some draw more.
    BestEffortPowerEfficient,
    /// A best-effort ask: power did not decide.
    BestEffortBalanced,
}

/// How the chosen backend compares with the other candidates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) shortest_queue: bool,
    pub(super) most_economical: bool,
}

// === impl RouteReason ===

impl RouteReason {
    /// All reasons, each at the place of its number.
    pub const ALL: [Self; 17] = [
        Self::OnlyBackend,
        Self::OnlyWithRoom,
        Self::OnlyWithinLimit,
        Self::LimitUnmet,
        Self::OnlyWithinPowerLimit,
        Self::PowerLimitUnmet,
        Self::PowerEfficient,
        Self::Affinity,
        Self::CriticalLowQueue,
        Self::CriticalFastest,
        Self::LatencyCriticalLowQueue,
        Self::LatencyCriticalFastest,
        Self::HighLowQueue,
        Self::HighFastest,
        Self::NormalBalanced,
        Self::BestEffortPowerEfficient,
        Self::BestEffortBalanced,
    ];

    /// The text in the header.
    pub const fn text(self) -> &'static str {
        match self {
            Self::OnlyBackend => "only-backend",
            Self::OnlyWithRoom => "only-backend-with-room",
            Self::OnlyWithinLimit => "only-backend-within-latency-limit",
            Self::LimitUnmet => "latency-limit-unmet-fastest",
            Self::OnlyWithinPowerLimit => "only-backend-within-power-limit",
            Self::PowerLimitUnmet => "power-limit-unmet-most-economical",
            Self::PowerEfficient => "power-efficient",
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

    /// The reason of the only candidate, or of the only one of several within the limits.
    pub(super) fn of_only(preference: &RoutePreference, others: bool) -> Self {
        match preference.has_limit() {
            _ if !others => Self::OnlyBackend,
            false => Self::OnlyWithinPowerLimit,
            true => Self::OnlyWithinLimit,
        }
    }

    /// The reason of a choice by score.
    pub(super) fn of(preference: &RoutePreference, standing: Standing) -> Self {
        let short = standing.shortest_queue;
        let economical = preference.power_efficient && !preference.latency_critical;
        match preference.band {
            _ if economical && standing.most_economical => Self::PowerEfficient,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_stands_at_the_place_of_its_number() {
        for (at, reason) in RouteReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
        }
    }
}
