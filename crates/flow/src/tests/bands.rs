//! P01, P03, P04: priority.

use super::fixture::{Fixture, limited_to};
use crate::{Band, Cascade, Settings, Ticket, Weight};

/// P01: four bands, normal by default.
#[test]
fn p01_there_are_four_ordered_bands() {
    assert!(Band::Critical > Band::High && Band::High > Band::Normal);
    assert!(Band::Normal > Band::BestEffort);
    assert_eq!(Band::default(), Band::Normal);
    assert_eq!(Band::DESCENDING.map(|band| band as u8), [3, 2, 1, 0]);
}

/// P03: strict: the highest band with an ask that could go is served first, in any order of
/// arrival.
#[test]
fn p03_strict_bands_serve_the_highest_first() {
    let mut fixture = Fixture::new(limited_to(1.0), 1);
    let running = fixture.start("x");
    let mut expected: Vec<(Band, usize, Ticket)> = Vec::new();
    for (place, band) in Band::DESCENDING.iter().rev().cycle().take(12).enumerate() {
        expected.push((*band, place, fixture.queue("a", *band)));
    }
    expected.sort_by_key(|&(band, place, _)| (std::cmp::Reverse(band), place));
    let order = fixture.run_dry(vec![running]);
    assert_eq!(order, expected.iter().map(|&(_, _, ticket)| ticket).collect::<Vec<_>>());
}

/// P03: a higher band whose backends have no room does not hold a lower one back.
#[test]
fn p03_a_band_that_cannot_go_does_not_block_lower_ones() {
    let backends = [super::fixture::backend(0, &[1, 3]), super::fixture::backend(1, &[2, 3])];
    let mut fixture = Fixture::with(limited_to(1.0), &backends);
    let ask = fixture.ask("a");
    let on = |model, band| crate::Ask { model: crate::ModelId(model), band, ..ask };
    fixture.offer(on(1, Band::Normal));
    let crate::Verdict::Granted { ticket, .. } = fixture.offer(on(2, Band::Normal)) else {
        panic!("an idle backend takes it");
    };
    fixture.offer(on(1, Band::Critical));
    let crate::Verdict::Queued { ticket: low } = fixture.offer(on(2, Band::BestEffort)) else {
        panic!("its backend is full");
    };
    fixture.settle(ticket, 1);
    assert_eq!(fixture.granted(), [low]);
}

/// P04: weighted bands share 70/15/10/5, no band starves, and idle shares go to the other bands.
#[test]
fn p04_weighted_bands_share_by_their_weights() {
    let weights = [5.0, 10.0, 15.0, 70.0].map(|weight| Weight::new(weight).unwrap());
    let settings = Settings {
        cascade: Cascade::Weighted(weights),
        total_capacity: 10_000,
        default_class: crate::FlowClass { capacity: 5000, ..crate::FlowClass::default() },
        ..limited_to(1.0)
    };
    let mut fixture = Fixture::new(settings, 1);
    let mut running = fixture.start("x");
    let mut band_of = std::collections::BTreeMap::new();
    for place in 0..1600 {
        let band = Band::DESCENDING[place % 4];
        band_of.insert(fixture.queue("a", band), band);
    }
    let mut served = [0; 4];
    for _ in 0..500 {
        fixture.settle(running, 1);
        running = fixture.granted()[0];
        served[band_of[&running].index()] += 1;
    }
    for (count, share) in served.into_iter().zip([25, 50, 75, 350]) {
        assert!((share - 2..=share + 2).contains(&count), "{served:?}");
    }
    let rest = fixture.run_dry(vec![running]);
    assert_eq!(rest.len(), 1100, "the shares of empty bands are given away");
}

/// P04: an estimate that was far too high buys its band no credit.
#[test]
fn p04_overestimating_buys_a_band_no_credit() {
    let weights = [10.0, 10.0, 10.0, 70.0].map(|weight| Weight::new(weight).unwrap());
    let settings = Settings {
        cascade: Cascade::Weighted(weights),
        total_capacity: 10_000,
        default_class: crate::FlowClass { capacity: 5000, ..crate::FlowClass::default() },
        ..limited_to(2.0)
    };
    let mut fixture = Fixture::new(settings, 1);
    let sly = crate::Ask { band: Band::BestEffort, cost: 1_000_000, ..fixture.ask("sly") };
    let crate::Verdict::Granted { ticket: inflated, .. } = fixture.offer(sly) else { panic!() };
    let mut running = fixture.start("x");
    fixture.fill("a", Band::BestEffort, 1000);
    let critical: std::collections::BTreeSet<Ticket> =
        (0..1000).map(|_| fixture.queue("a", Band::Critical)).collect();
    // Both bands are present before the refund comes.
    fixture.settle(running, 1);
    running = fixture.granted()[0];
    fixture.settle(inflated, 1);
    fixture.granted();
    let mut served = 0;
    for _ in 0..800 {
        fixture.settle(running, 1);
        running = fixture.granted()[0];
        served += usize::from(critical.contains(&running));
    }
    assert!((690..=710).contains(&served), "seven in eight: {served} of 800");
}
