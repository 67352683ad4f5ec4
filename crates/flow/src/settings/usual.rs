//! What a gateway has whose operator has set nothing. The simulator has it too, so that a scenario
//! without further keys shows what a user gets.

use super::{Bounds, ReserveLimits, Settings};
use crate::ask::{BANDS, Band};
use crate::time::Span;

/// The objective of requests in order of arrival, chosen for chats.
pub const SLO_TTFT: Span = Span::from_secs(2);

// === impl Settings ===

impl Settings {
    /// The settings without any configuration: automatic bounds, and costs in requests.
    pub fn usual() -> Self {
        Self {
            objectives: Self::objectives(SLO_TTFT),
            reserve: ReserveLimits::usual(Bounds::Auto, Self::KEPT_LEAST),
            cache_tokens: 2_000_000,
            cache_slack: 4,
            cache_reorder: 256,
            cache_delay: Span::from_secs(3),
            model_stay: Span::from_secs(10),
            model_slack: 64,
            ..Self::default()
        }
    }

    /// One objective for all bands but best-effort, which has none.
    pub fn objectives(objective: Span) -> [Span; BANDS] {
        let mut objectives = [objective; BANDS];
        objectives[Band::BestEffort.index()] = Span::FOREVER;
        objectives
    }

    /// The fewest places that are kept for each band, where any are kept.
    pub const KEPT_LEAST: [u32; BANDS] = [0, 0, 0, 1];
}
