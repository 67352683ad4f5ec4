//! Reserved places: a few places of a pool stay free for asks that must not wait (trunk
//! reservation).
//!
//! A response lasts seconds. If one flow has taken every place of a pool, no other ask can start
//! until a response ends, however critical it is. So an ask is granted only while more places are
//! free than are kept from it. Places are kept from each band for the bands above it, and from a
//! flow that holds more than its share for the flows that hold less. How many are kept follows from
//! what was measured in the last 20 s: see [`sizing`] and [`window`].

mod sizing;
mod window;

use crate::ask::BANDS;
use crate::settings::ReserveLimits;
use crate::time::{Span, Time};
use crate::weight::UNIT;
use window::Window;

pub(crate) use sizing::Demand;
pub(crate) use window::{Arrival, slice_of};

/// How long a count of kept places is used.
const REVISE_EVERY: Span = Span::from_millis(250);
/// While fewer places than this share come free within the window, this share is kept for higher
/// bands at least. A place that is taken then stays taken for long, and the rates say little.
const START_SHARE: u64 = 16;
/// At such a time, so many times as much is kept from flows that hold more than their share.
const START_FLOWS: u32 = 3;

/// The number of free places that are kept from asks of one band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// From every ask of the band, for the bands above.
    pub(crate) from_all: u32,
    /// From flows of the band that hold more than their share.
    pub(crate) from_over_share: u32,
}

/// The asks of one pool and band in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) all: u32,
    /// Those of flow queues that hold more than their share.
    pub(crate) over_share: u32,
}

/// The reserved places of one pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserve {
    kept: [Kept; BANDS],
    /// The places of the pool at the last revision.
    places: u64,
    revise_at: Time,
    window: Window,
    pub(crate) in_flight: [InFlight; BANDS],
}

// === impl Kept ===

impl Kept {
    pub(crate) const fn from(self, over_share: bool) -> u32 {
        if over_share { self.from_over_share } else { self.from_all }
    }
}

// === impl Reserve ===

impl Reserve {
    pub(crate) fn kept(&self, band: usize) -> Kept {
        self.kept[band]
    }

    /// The most places that are kept from any ask: a lower band never has fewer kept from it.
    pub(crate) fn kept_max(&self) -> u32 {
        self.kept[0].from_over_share
    }

    /// Backends or settings have changed, so that the counts no longer hold.
    pub(crate) fn make_due(&mut self) {
        self.revise_at = Time::ZERO;
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        now >= self.revise_at
    }

    pub(crate) fn arrived(&mut self, arrival: Arrival, now: Time) {
        self.window.arrived(arrival, now);
    }

    /// The places of the pool at the last revision.
    pub(crate) fn places(&self) -> u64 {
        self.places
    }

    /// An ask ended, while the pool was half full or not. In an emptier pool neither this end nor
    /// those before it say how soon a place comes free once a flood has taken the others.
    pub(crate) fn ended(&mut self, half_full: bool, now: Time) {
        if half_full {
            self.window.ended(now);
        } else {
            self.window.forget_ends();
        }
    }

    /// The weights of all flow queues of a band of which an ask was admitted lately.
    pub(crate) fn recent_weight(&self, band: usize, now: Time) -> u64 {
        self.window.recent_weight(band, now)
    }

    /// Whether an ask of another flow queue of the band was admitted lately. `own` is when the flow
    /// queue itself was last seen, and its weight.
    pub(crate) fn saw_others(&mut self, band: usize, own: (u64, u32), now: Time) -> bool {
        self.window.saw_others(band, own, now)
    }

    /// Moves the weight of a flow queue to the present slice of the window.
    pub(crate) fn saw(&mut self, band: usize, units: u32, last_seen: u64, now: Time) {
        self.window.saw(band, units, last_seen, now);
    }

    /// Takes the weight of a flow queue out of the window.
    pub(crate) fn forget(&mut self, band: usize, units: u32, last_seen: u64) {
        self.window.forget(band, units, last_seen);
    }

    /// Whether a flow queue holds more places than its share. One newcomer of weight 1 is counted
    /// beside the flow queues that were seen lately, so a flow that is alone has a share of half.
    pub(crate) fn is_over_share(&self, band: usize, holds: u32, units: u32, now: Time) -> bool {
        let weights = self.recent_weight(band, now).max(u64::from(units)) + UNIT;
        self.places > 0
            && u128::from(holds) * u128::from(weights) > u128::from(self.places) * u128::from(units)
    }

    /// Counts the kept places again. Returns whether one of the counts has fallen. With bands
    /// `by_weight` every band has as many places kept from it as the lowest one, and none for
    /// higher bands: a band from which more are kept would get none of those that come free.
    pub(crate) fn revise(
        &mut self,
        places: u64,
        limits: &ReserveLimits,
        by_weight: bool,
        now: Time,
    ) -> bool {
        self.revise_at = now.after(REVISE_EVERY);
        self.places = places;
        self.window.sample(&self.in_flight, now);
        let most = (places as f64 * limits.share_max) as u32;
        let mut sizes = self.sizes(most, limits, now);
        if by_weight {
            let from_over_share = if limits.for_flows { sizes[0].from_over_share } else { 0 };
            sizes = [Kept { from_all: 0, from_over_share }; BANDS];
        }
        let before = std::mem::replace(&mut self.kept, sizes);
        let mut pairs = before.iter().zip(&self.kept);
        pairs
            .any(|(was, is)| was.from_all > is.from_all || was.from_over_share > is.from_over_share)
    }

    fn sizes(&self, most: u32, limits: &ReserveLimits, now: Time) -> [Kept; BANDS] {
        let ends = self.window.ends_per_second(now);
        let start = self.kept_at_start();
        let mut sizes = [Kept::default(); BANDS];
        let (mut above, mut least, mut last) = (Demand::default(), 0, Kept::default());
        for band in (0..BANDS).rev() {
            let from_all = above.places_needed(ends).max(least).max(last.from_all);
            let from_over_share = if limits.for_flows {
                let light = above.plus(self.window.light(band, now));
                light.places_needed(ends).max(from_all).max(START_FLOWS * start)
            } else {
                from_all
            };
            last = Kept {
                from_all: from_all.min(most),
                from_over_share: from_over_share.max(last.from_over_share).min(most),
            };
            sizes[band] = last;
            above = above.plus(self.window.all(band, now));
            if limits.least[band] > 0 {
                least = least.max(limits.least[band]).max(start);
            }
        }
        sizes
    }

    /// The places that are kept while hardly any place comes free.
    fn kept_at_start(&self) -> u32 {
        let few = self.places / START_SHARE;
        if self.window.ends() < few { few.min(1 << 16) as u32 } else { 0 }
    }
}
