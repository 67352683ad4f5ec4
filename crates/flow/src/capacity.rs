//! What may wait: the limits on the queue, and who gives way when it is full.

use crate::ask::{BANDS, Band};
use crate::queue::evict::Ranking;
use crate::settings::{Cascade, Settings};

/// The number waiting, by band, and the ranking of victims.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capacity {
    pub(crate) waiting: [u32; BANDS],
    pub(crate) rankings: [Ranking; BANDS],
}

// === impl Capacity ===

impl Capacity {
    pub(crate) fn total(&self) -> u32 {
        self.waiting.iter().sum()
    }

    /// Bands from which a newcomer may take a place, the lowest first.
    ///
    /// Under a strict cascade that is every lower band with something waiting. Under weights a
    /// band keeps its share of the total: only what it holds beyond that can be taken.
    pub(crate) fn yielding(&self, newcomer: Band, settings: &Settings) -> Option<Band> {
        let below = Band::DESCENDING.into_iter().rev().filter(|&band| band < newcomer);
        below.into_iter().find(|&band| self.waiting[band.index()] > protected(band, settings))
    }
}

/// How many waiting asks of a band are safe from preemption.
fn protected(band: Band, settings: &Settings) -> u32 {
    let Cascade::Weighted(weights) = &settings.cascade else { return 0 };
    let sum: f64 = weights.iter().map(|weight| weight.value()).sum();
    let share = weights[band.index()].value() / sum;
    (f64::from(settings.capacity()) * share) as u32
}
