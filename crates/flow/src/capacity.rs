//! What may wait: the limits on the queue, and who gives way when it is full.

use crate::ask::{BANDS, Band};
use crate::queue::eviction::EvictionRanking;
use crate::settings::{Admission, Cascade, Settings};
use crate::weight::Weight;

/// The number waiting, by band, and the ranking of victims.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capacity {
    pub(crate) waiting: [u32; BANDS],
    pub(crate) rankings: [EvictionRanking; BANDS],
}

// === impl Capacity ===

impl Capacity {
    pub(crate) fn total(&self) -> u32 {
        self.waiting.iter().sum()
    }

    /// The band from which a newcomer may take a place: the lowest below its own that holds more
    /// than it is protected for. Under a strict cascade no band is protected; under weights each
    /// keeps its share of the total.
    pub(crate) fn band_to_preempt(&self, newcomer: Band, settings: &Settings) -> Option<Band> {
        let mut below = Band::DESCENDING.into_iter().rev().filter(|&band| band < newcomer);
        below.find(|&band| self.waiting[band.index()] > protected(band, settings))
    }

    /// How many newcomers of a band could wait: free places, and what lower bands would yield.
    pub(crate) fn headroom(&self, newcomer: Band, settings: &Settings) -> u32 {
        if settings.admission == Admission::CriticalOnly && newcomer != Band::Critical {
            return 0;
        }
        let below = Band::DESCENDING.into_iter().filter(|&band| band < newcomer);
        let yields =
            |band: Band| self.waiting[band.index()].saturating_sub(protected(band, settings));
        let kept = self.total() - below.map(yields).sum::<u32>();
        settings.capacity().saturating_sub(kept)
    }
}

/// How many waiting asks of a band are safe from preemption.
fn protected(band: Band, settings: &Settings) -> u32 {
    let Cascade::Weighted(weights) = &settings.cascade else { return 0 };
    let units = |weight: &Weight| u64::from(weight.units);
    let sum: u64 = weights.iter().map(units).sum();
    (u64::from(settings.capacity()) * units(&weights[band.index()]) / sum) as u32
}
