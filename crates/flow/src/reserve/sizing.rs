//! How many free places a stream of asks needs so that few of them find none.
//!
//! Two laws give a number, and the smaller number is enough:
//!
//! * Places that other responses free refill the reserve. The free places rise at the rate of ends
//!   D, and fall at the rate of protected arrivals λ. With ρ = λ/D, an ask finds none of r places
//!   free with probability (1 − ρ)ρ^r / (1 − ρ^(r+1)) (trunk reservation).
//! * Even if no other response ends, places that carry the protected asks alone are enough. With a
//!   such asks in flight on the mean, one of them finds all of n places taken with probability
//!   B(n, a) (Erlang's formula). a of the n places are in use already.

/// The share of protected asks that may find no free place.
const BLOCKED_MAX: f64 = 0.02;
/// No more places are ever asked for.
const PLACES_MAX: u32 = 64;

/// The load of protected asks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Demand {
    pub(crate) arrivals_per_second: f64,
    /// The mean number in flight.
    pub(crate) in_flight: f64,
}

// === impl Demand ===

impl Demand {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            arrivals_per_second: self.arrivals_per_second + other.arrivals_per_second,
            in_flight: self.in_flight + other.in_flight,
        }
    }

    /// The free places that these asks need while places come free at this rate.
    pub(crate) fn places_needed(self, ends_per_second: f64) -> u32 {
        if self.arrivals_per_second <= 0.0 {
            return 0;
        }
        let refilled = refilled_places(self.arrivals_per_second / ends_per_second);
        refilled.min(own_places(self.in_flight))
    }
}

/// The places that are enough if others refill them; `ratio` is arrivals over ends.
fn refilled_places(ratio: f64) -> u32 {
    if ratio >= 1.0 {
        return PLACES_MAX;
    }
    let (mut power, mut sum, mut places) = (1.0, 1.0, 0);
    while power > BLOCKED_MAX * sum && places < PLACES_MAX {
        places += 1;
        power *= ratio;
        sum += power;
    }
    places
}

/// The places beyond the mean that are enough if no other ask frees one.
fn own_places(in_flight: f64) -> u32 {
    let (mut blocked, mut places) = (1.0, 0u32);
    while blocked > BLOCKED_MAX && places < PLACES_MAX + in_flight as u32 {
        places += 1;
        blocked = in_flight * blocked / (f64::from(places) + in_flight * blocked);
    }
    places.saturating_sub(in_flight as u32)
}

#[cfg(test)]
mod tests;
