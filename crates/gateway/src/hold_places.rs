//! Places for requests that wait for a model without a backend, which may take long. If all are
//! taken, a request of a higher band takes that of the youngest request of the lowest band, as in
//! the queue.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow::Band;
use tokio::sync::Notify;

/// The places that are taken.
#[derive(Debug, Default)]
pub(crate) struct HoldPlaces(Arc<Mutex<Held>>);

/// The place of one request, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct HoldPlace {
    held: Arc<Mutex<Held>>,
    rank: Rank,
    lost: Arc<Notify>,
}

/// The first one is the first to lose its place.
type Rank = (Band, Reverse<u64>);

#[derive(Debug, Default)]
struct Held {
    taken: u64,
    by_rank: BTreeMap<Rank, Arc<Notify>>,
}

/// How many places are taken, of how many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlacesUsage {
    pub(crate) taken: usize,
    pub(crate) capacity: usize,
}

fn locked(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl HoldPlaces ===

impl HoldPlaces {
    /// Takes a place, if fewer than `capacity` are taken, or if `evicts` and a request of a lower
    /// band has one.
    pub(crate) fn take(&self, capacity: usize, band: Band, evicts: bool) -> Option<HoldPlace> {
        let mut held = locked(&self.0);
        if held.by_rank.len() >= capacity {
            let is_lower = |lowest: Rank| evicts && lowest.0 < band;
            let lowest = held.by_rank.first_entry().filter(|lowest| is_lower(*lowest.key()))?;
            lowest.remove().notify_one();
        }
        held.taken += 1;
        let (rank, lost) = ((band, Reverse(held.taken)), Arc::<Notify>::default());
        held.by_rank.insert(rank, Arc::clone(&lost));
        drop(held);
        Some(HoldPlace { held: Arc::clone(&self.0), rank, lost })
    }

    pub(crate) fn usage(&self, capacity: usize) -> PlacesUsage {
        PlacesUsage { taken: locked(&self.0).by_rank.len(), capacity }
    }
}

// === impl HoldPlace ===

impl HoldPlace {
    /// Resolves when a request of a higher band has taken the place; never without a place.
    pub(crate) async fn lost(place: Option<&Self>) {
        match place {
            Some(place) => place.lost.notified().await,
            None => pending().await,
        }
    }
}

impl Drop for HoldPlace {
    fn drop(&mut self) {
        // If it was lost, another request has it.
        locked(&self.held).by_rank.remove(&self.rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_lost(place: &HoldPlace) -> bool {
        let mut lost = std::pin::pin!(HoldPlace::lost(Some(place)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        lost.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn p07_the_youngest_of_the_lowest_band_loses_its_place() {
        let places = HoldPlaces::default();
        let [first, second, other] = [Band::BestEffort, Band::BestEffort, Band::Normal]
            .map(|band| places.take(3, band, true).unwrap());
        assert!(places.take(3, Band::BestEffort, true).is_none(), "an equal band takes nothing");
        assert!(places.take(3, Band::Critical, false).is_none(), "nothing is taken away");
        let critical = places.take(3, Band::Critical, true).unwrap();
        assert!(is_lost(&second) && !is_lost(&first) && !is_lost(&other));
        drop(second);
        assert_eq!(places.usage(3).taken, 3, "a lost place is given back once");
        let normal = places.take(3, Band::Normal, true).unwrap();
        assert!(is_lost(&first) && places.take(3, Band::Normal, true).is_none());
        drop(critical);
        assert!(places.take(3, Band::BestEffort, true).is_some());
        drop((first, other, normal));
        assert_eq!(places.usage(3).taken, 0);
        assert!(places.take(0, Band::Critical, true).is_none());
    }
}
