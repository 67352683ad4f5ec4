//! What the controller shows of itself, held against what was done to it.

use std::collections::BTreeMap;

use super::bench::{Bench, Dice, MODEL, backend, limited_to};
use crate::{
    Admission, Ask, BANDS, Band, Cascade, FlowClass, Settings, Span, Stage, StockUnit, Ticket,
    Verdict, Weight,
};

/// No backend is ready, so that whatever is taken waits.
fn closed(settings: Settings) -> Bench {
    let default_class = FlowClass { capacity: 1000, ..FlowClass::default() };
    let mut listed = backend(0, &[MODEL.0]);
    listed.ready = false;
    Bench::with(Settings { default_class, ..settings }, &[listed])
}

/// How many more of a band can be queued, found out by doing it.
fn tried(bench: &Bench, band: Band) -> u32 {
    let mut gate = bench.gate.clone();
    let ask = Ask { band, ..Ask::new(gate.flow("newcomer", 0), MODEL) };
    let mut taken = 0;
    while let Verdict::Queued { .. } = gate.offer(ask, bench.now) {
        taken += 1;
    }
    taken
}

/// C11: headroom is the number that would be taken, whatever waits and however bands share.
#[test]
fn c11_headroom_is_how_many_more_of_a_band_would_be_taken() {
    let shares = [5.0, 10.0, 15.0, 70.0].map(|weight| Weight::new(weight).unwrap());
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let settings = Settings {
            total_capacity: dice.below(40) as u32,
            enabled: !dice.chance(5),
            cascade: if dice.chance(50) { Cascade::Weighted(shares) } else { Cascade::Strict },
            admission: if dice.chance(20) { Admission::CriticalOnly } else { Admission::All },
            ..Settings::default()
        };
        let mut bench = closed(settings);
        for _ in 0..dice.below(60) {
            let band = Band::DESCENDING[dice.below(BANDS as u64) as usize];
            bench.send(["a", "b", "c"][dice.below(3) as usize], band);
        }
        for band in Band::DESCENDING {
            let told = bench.gate.headroom(band);
            assert_eq!(told, tried(&bench, band), "seed {seed}, {band:?}");
            assert!(told <= bench.gate.capacity(), "seed {seed}");
        }
    }
}

/// Every ask is shown once, as what it is and where it is.
#[test]
fn every_living_ask_is_shown_with_its_stage_and_its_stock() {
    let settings = Settings { stock: StockUnit::Tokens, ..limited_to(10.0) };
    let mut bench = Bench::new(settings, 1);
    let mut dice = Dice(7);
    let mut sent: BTreeMap<Ticket, (Band, u64)> = BTreeMap::new();
    for step in 0..400_u64 {
        let band = Band::DESCENDING[dice.below(BANDS as u64) as usize];
        let tokens = 1 + dice.below(6);
        let ask = Ask { band, tokens, ..bench.ask("a") };
        if let Verdict::Granted { ticket, .. } | Verdict::Queued { ticket } = bench.offer(ask) {
            sent.insert(ticket, (band, tokens));
        }
        if dice.chance(60) {
            let at = dice.below(sent.len() as u64) as usize;
            let ticket = *sent.keys().nth(at).unwrap();
            bench.gate.cancel(ticket, bench.now).unwrap();
            bench.collect();
            sent.remove(&ticket);
        }
        bench.pass(Span::from_millis(1));
        let shown: BTreeMap<Ticket, _> =
            bench.gate.asks().map(|ask| (ask.ticket, (ask.band, ask.stock))).collect();
        assert_eq!(shown, sent, "step {step}");
        let waits = bench.gate.asks().filter(|ask| ask.stage == Stage::Waiting).count();
        assert_eq!(waits, bench.gate.depth() as usize);
        let at_backends = bench.gate.asks().filter(|ask| ask.stage == Stage::InFlight);
        let stock: u64 = at_backends.map(|ask| ask.stock).sum();
        assert_eq!(stock, bench.gate.backends().map(|backend| backend.stock).sum());
        assert!(bench.gate.asks().all(|ask| ask.arrival < bench.now && ask.model == MODEL));
    }
}
