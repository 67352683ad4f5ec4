//! The limits of the queue: how many asks may wait, and which band loses an ask when it is full.

use crate::ask::{BANDS, Band};
use crate::queue::eviction::EvictionRanking;
use crate::settings::{Admission, Cascade, Settings};
use crate::weight::Weight;

/// The number of waiting asks by band, and the rankings of victims.
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

    /// The band that loses an ask to a new one: the lowest band below its own that has more waiting
    /// asks than are protected. Under a strict cascade no ask is protected; under weights each band
    /// keeps its share of the total.
    pub(crate) fn band_to_preempt(&self, newcomer: Band, settings: &Settings) -> Option<Band> {
        let mut below = Band::DESCENDING.into_iter().rev().filter(|&band| band < newcomer);
        below.find(|&band| self.waiting[band.index()] > protected(band, settings))
    }

    /// How many new asks of a band could wait: the free places, and the places that lower bands
    /// would lose.
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

/// The number of a band's waiting asks that are protected from preemption.
fn protected(band: Band, settings: &Settings) -> u32 {
    let Cascade::Weighted(weights) = &settings.cascade else { return 0 };
    let units = |weight: &Weight| u64::from(weight.units);
    let sum: u64 = weights.iter().map(units).sum();
    (u64::from(settings.capacity()) * units(&weights[band.index()]) / sum) as u32
}
