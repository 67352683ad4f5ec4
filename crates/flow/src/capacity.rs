//! The limits of the queue: how many asks may wait, and which band loses an ask when the queue is
//! full.

use std::collections::BTreeMap;

use crate::ask::{BANDS, Band};
use crate::queue::eviction::EvictionRanking;
use crate::queue::session_counts::SessionCounts;
use crate::settings::{Admission, Cascade, Settings};
use crate::weight::Weight;

/// The number of waiting asks by band, the rankings of victims, and the sessions that share the
/// capacity of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capacity {
    pub(crate) waiting: [u32; BANDS],
    pub(crate) rankings: [EvictionRanking; BANDS],
    /// By flow and band, in the order `session` only.
    pub(crate) sessions: BTreeMap<(u32, usize), SessionCounts>,
}

// === impl Capacity ===

impl Capacity {
    pub(crate) fn total(&self) -> u32 {
        self.waiting.iter().sum()
    }

    /// An ask of a session begins to wait.
    pub(crate) fn session_joins(&mut self, flow: u32, band: usize, session: u32) {
        self.sessions.entry((flow, band)).or_default().add(session);
    }

    /// An ask of a session waits no longer.
    pub(crate) fn session_leaves(&mut self, flow: u32, band: usize, session: u32) {
        let Some(counts) = self.sessions.get_mut(&(flow, band)) else { return };
        counts.remove(session);
        if counts.is_empty() {
            self.sessions.remove(&(flow, band));
        }
    }

    /// The bands that may lose an ask to a new one, the lowest first: those below its own that have
    /// more waiting asks than are protected, if asks of every band may wait.
    pub(crate) fn bands_to_preempt(
        &self,
        newcomer: Band,
        settings: &Settings,
    ) -> impl Iterator<Item = Band> {
        let below = Band::DESCENDING.into_iter().rev().filter(move |&band| band < newcomer);
        below.filter(move |&band| self.yields(band, newcomer, settings) > 0)
    }

    /// How many asks a band may lose to asks of a higher band.
    fn yields(&self, band: Band, newcomer: Band, settings: &Settings) -> u32 {
        if settings.admission != Admission::All {
            return 0;
        }
        self.waiting[band.index()].saturating_sub(protected(band, newcomer, settings))
    }

    /// How many new asks of a band could wait: the free places, and the places that lower bands
    /// would lose.
    pub(crate) fn headroom(&self, newcomer: Band, settings: &Settings) -> u32 {
        if settings.admission == Admission::CriticalOnly && newcomer != Band::Critical {
            return 0;
        }
        let below = Band::DESCENDING.into_iter().filter(|&band| band < newcomer);
        let yields = below.map(|band| self.yields(band, newcomer, settings));
        let kept = self.total() - yields.sum::<u32>();
        settings.capacity().saturating_sub(kept)
    }
}

/// The number of a band's waiting asks that are protected from preemption. Under a strict cascade
/// no ask is protected; under weights each band keeps its share of the total. No ask is protected
/// from a critical one, which must find room within the capacity of its flow.
fn protected(band: Band, newcomer: Band, settings: &Settings) -> u32 {
    let Cascade::Weighted(weights) = &settings.cascade else { return 0 };
    if newcomer == Band::Critical {
        return 0;
    }
    let units = |weight: &Weight| u64::from(weight.units);
    let sum: u64 = weights.iter().map(units).sum();
    (u64::from(settings.capacity()) * units(&weights[band.index()]) / sum) as u32
}
