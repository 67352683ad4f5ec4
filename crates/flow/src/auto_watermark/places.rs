//! The bounds of `auto`, counted in asks.

use super::{AutoBound, AutoState, Tally, UNSTARTED};

// === impl AutoState ===

impl AutoState {
    /// The number of asks in flight at which the backend closes, if further asks have the present
    /// mean size and none starts: the backend is closed exactly while so many are in flight.
    pub(crate) fn watermark(&self) -> u32 {
        let Tally { in_flight, tokens, .. } = self.tally;
        let allowed = if self.starts_are_short() { f64::from(self.known_room()) } else { 0.0 };
        let by_starts = if self.knows_only_places() {
            f64::INFINITY
        } else {
            (f64::from(self.started_now()) + self.caps.unstarted.ceil()).max(allowed)
        };
        // Not a number while no ask is in flight, which `min` ignores.
        let by_tokens = (self.caps.tokens * f64::from(in_flight) / tokens as f64).ceil();
        let by_count = self.slots().min(self.caps.pace).floor();
        by_starts.min(by_count).min(by_tokens).max(1.0) as u32
    }

    /// The number of asks of the present mean size that fill the backend; `None` while no bound is
    /// known.
    pub(crate) fn full_at(&self) -> Option<f64> {
        let size = self.tally.tokens as f64 / f64::from(self.tally.in_flight);
        let full = self.slots().min(self.caps.pace).min(self.caps.tokens / size);
        Some(full.max(1.0)).filter(|full| full.is_finite())
    }

    /// Whether the backend is filled to no more than this share; an unknown bound leaves room.
    pub(crate) fn is_filled_to(&self, share: f64) -> bool {
        self.full_at().is_none_or(|full| f64::from(self.tally.in_flight) <= share * full)
    }

    /// The places of the backend, if the metrics of its engine have shown them or the operator says
    /// how many there are: the asks of the present mean size that fill it. A bound that follows the
    /// streams is found by filling it, and would fall if some of it stayed free.
    pub(crate) fn known_places(&self) -> Option<u32> {
        let known = self.by_metrics || self.told.is_some();
        self.full_at().filter(|_| known).map(|full| full as u32)
    }

    /// The bound on asks in flight by slots. The operator's number is its upper limit.
    pub(super) fn slots(&self) -> f64 {
        self.caps.slots.min(self.told.map_or(f64::INFINITY, f64::from))
    }

    /// The operator says how many requests the engine runs at once, or no longer does. What the
    /// metrics have shown stays; without metrics what runs now is all that is known to fit.
    pub(crate) fn tell_places(&mut self, places: Option<u32>) {
        if self.told.is_some() && places.is_none() && !self.by_metrics {
            self.caps.slots = f64::from(self.tally.in_flight.max(UNSTARTED as u32));
        }
        self.told = places;
    }

    /// Whether the operator's number is all that is known: without metrics and without streams
    /// nothing shows which asks have started, so it alone bounds them.
    pub(super) fn knows_only_places(&self) -> bool {
        self.told.is_some() && !self.by_metrics && !self.first_token.is_known()
    }

    /// The bound that would close the backend if no places were kept free, if it may grow. With
    /// kept places slots are never full. They grow only up to what the engine is known to run:
    /// beyond that a try would need the places that are kept.
    pub(crate) fn held_by(&self) -> Option<AutoBound> {
        let known = f64::from(self.most_running);
        match self.nearest()? {
            AutoBound::Slots if self.slots() >= known => None,
            bound => Some(bound),
        }
    }

    /// The bound that the backend is nearest to; `None` while no bound is known.
    fn nearest(&self) -> Option<AutoBound> {
        let size = self.tally.tokens as f64 / f64::from(self.tally.in_flight);
        let by_tokens = self.caps.tokens / size;
        let full = self.full_at()?;
        Some(match full {
            full if full >= self.slots() => AutoBound::Slots,
            full if full >= by_tokens => AutoBound::Tokens,
            _ => AutoBound::Pace,
        })
    }
}
