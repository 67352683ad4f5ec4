//! The figures of the two laws.

use super::{Demand, own_places, refilled_places};

#[test]
fn a_few_places_are_enough_if_others_refill_them() {
    // (1 − ρ)ρ^r / (1 − ρ^(r+1)) at ρ = 1/6: 14 % for r = 1, 2.3 % for 2, 0.39 % for 3.
    assert_eq!(refilled_places(1.0 / 6.0), 3);
    assert_eq!(refilled_places(1.0 / 9.0), 2);
    assert_eq!(refilled_places(0.01), 1);
    // More arrivals than ends: the places are never refilled.
    assert_eq!(refilled_places(1.0), super::PLACES_MAX);
    assert_eq!(refilled_places(f64::INFINITY), super::PLACES_MAX);
}

#[test]
fn the_protected_asks_need_more_places_than_their_mean() {
    // Erlang's B(4, 1) is 1.5 %, B(3, 1) 6.3 %; one of the four is in use on the mean.
    assert_eq!(own_places(1.0), 3);
    assert_eq!(own_places(0.0), 1);
    // B(17, 10) is 1.3 %, B(16, 10) 2.2 %.
    assert_eq!(own_places(10.0), 7);
}

#[test]
fn the_smaller_number_is_enough() {
    let demand = Demand { arrivals_per_second: 1.0, in_flight: 10.0 };
    assert_eq!(demand.places_needed(9.0), 2);
    assert_eq!(demand.places_needed(0.0), 7);
    assert_eq!(Demand::default().places_needed(0.0), 0);
}
