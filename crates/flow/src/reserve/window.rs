//! The last 20 s of a pool: the asks that arrived and ended, and the flow queues that were seen.
//!
//! The window has four slices of five seconds; the oldest is dropped when a new one begins.

use super::InFlight;
use super::sizing::Demand;
use crate::ask::BANDS;
use crate::time::{Span, Time};

const SLICES: usize = 4;
const SLICE: Span = Span::from_secs(5);
/// The first asks say nothing about a rate; they count as if they had come within so many seconds.
const KNOWN_MIN: f64 = 2.0;

/// An ask that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) band: usize,
    /// Whether its flow holds no more than its share, and other flows were seen lately.
    pub(crate) light: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    ends: u64,
    arrivals: [u64; BANDS],
    light_arrivals: [u64; BANDS],
    samples: u64,
    /// Sums over the samples.
    in_flight: [u64; BANDS],
    light_in_flight: [u64; BANDS],
    /// The weights of the flow queues that were last seen in this slice.
    weights: [u64; BANDS],
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    slices: [Slice; SLICES],
    /// The number of the present slice since the origin of time.
    present: u64,
    /// When the first ask arrived.
    since: Option<Time>,
}

/// The number of the slice that a moment lies in; 0 stands for never.
pub(crate) fn slice_of(now: Time) -> u64 {
    now.nanos() / SLICE.nanos() + 1
}

fn place(slice: u64) -> usize {
    slice as usize % SLICES
}

// === impl Window ===

impl Window {
    /// Drops the slices that are over.
    fn advance(&mut self, now: Time) {
        let present = slice_of(now);
        let passed = present.saturating_sub(self.present).min(SLICES as u64);
        for slice in present + 1 - passed..=present {
            self.slices[place(slice)] = Slice::default();
        }
        self.present = self.present.max(present);
    }

    fn now(&mut self, now: Time) -> &mut Slice {
        self.advance(now);
        &mut self.slices[place(self.present)]
    }

    pub(crate) fn arrived(&mut self, arrival: Arrival, now: Time) {
        self.since.get_or_insert(now);
        let slice = self.now(now);
        slice.arrivals[arrival.band] += 1;
        slice.light_arrivals[arrival.band] += u64::from(arrival.light);
    }

    pub(crate) fn ended(&mut self, now: Time) {
        self.now(now).ends += 1;
    }

    /// Forgets the ends.
    pub(crate) fn forget_ends(&mut self) {
        self.slices.iter_mut().for_each(|slice| slice.ends = 0);
    }

    pub(crate) fn sample(&mut self, in_flight: &[InFlight; BANDS], now: Time) {
        let slice = self.now(now);
        slice.samples += 1;
        for (band, count) in in_flight.iter().enumerate() {
            slice.in_flight[band] += u64::from(count.all);
            slice.light_in_flight[band] += u64::from(count.all - count.over_share);
        }
    }

    pub(crate) fn saw(&mut self, band: usize, units: u32, last_seen: u64, now: Time) {
        self.advance(now);
        if last_seen != self.present {
            self.forget(band, units, last_seen);
            self.slices[place(self.present)].weights[band] += u64::from(units);
        }
    }

    pub(crate) fn forget(&mut self, band: usize, units: u32, last_seen: u64) {
        if self.holds(last_seen) {
            self.slices[place(last_seen)].weights[band] -= u64::from(units);
        }
    }

    fn holds(&self, slice: u64) -> bool {
        slice > 0 && slice + SLICES as u64 > self.present
    }

    pub(crate) fn recent_weight(&self, band: usize, now: Time) -> u64 {
        let present = slice_of(now);
        let held = (present + 1).saturating_sub(SLICES as u64)..=self.present;
        held.filter(|&slice| self.holds(slice))
            .map(|slice| self.slices[place(slice)].weights[band])
            .sum()
    }

    pub(crate) fn saw_others(&mut self, band: usize, own: (u64, u32), now: Time) -> bool {
        self.advance(now);
        let (last_seen, units) = own;
        let own = if self.holds(last_seen) { u64::from(units) } else { 0 };
        self.recent_weight(band, now) > own
    }

    pub(crate) fn ends(&self) -> u64 {
        self.slices.iter().map(|slice| slice.ends).sum()
    }

    pub(crate) fn ends_per_second(&self, now: Time) -> f64 {
        self.ends() as f64 / self.length(now)
    }

    /// The load of all asks of a band.
    pub(crate) fn all(&self, band: usize, now: Time) -> Demand {
        self.demand(now, |slice| (slice.arrivals[band], slice.in_flight[band]))
    }

    /// The load of the asks of a band whose flows hold no more than their share.
    pub(crate) fn light(&self, band: usize, now: Time) -> Demand {
        self.demand(now, |slice| (slice.light_arrivals[band], slice.light_in_flight[band]))
    }

    fn demand(&self, now: Time, of: impl Fn(&Slice) -> (u64, u64)) -> Demand {
        let (mut arrivals, mut in_flight, mut samples) = (0, 0, 0);
        for slice in &self.slices {
            let (came, flying) = of(slice);
            arrivals += came;
            in_flight += flying;
            samples += slice.samples;
        }
        Demand {
            arrivals_per_second: arrivals as f64 / self.length(now),
            in_flight: in_flight as f64 / samples.max(1) as f64,
        }
    }

    /// The length of the window in seconds: whole slices and the part of the present one, but not
    /// the time before the first ask.
    fn length(&self, now: Time) -> f64 {
        let part = Span::from_nanos(now.nanos() % SLICE.nanos());
        let whole = SLICE.secs_f64() * (SLICES - 1) as f64 + part.secs_f64();
        let known = now.since(self.since.unwrap_or(now)).secs_f64();
        whole.min(known.max(KNOWN_MIN))
    }
}
