//! The views of the controller, compared with the calls that were made.

use std::collections::BTreeMap;

use super::fixture::{Dice, Fixture, MODEL, backend, limited_to};
use crate::{
    Admission, Ask, BANDS, BackendId, Band, Cascade, FlowClass, Settings, Span, Stage, StockUnit,
    Ticket, Verdict, Weight,
};

/// No backend is ready, so that every admitted ask waits.
fn closed(settings: Settings) -> Fixture {
    let default_class = FlowClass { capacity: 1000, ..FlowClass::default() };
    let mut listed = backend(0, &[MODEL.0]);
    listed.ready = false;
    Fixture::with(Settings { default_class, ..settings }, &[listed])
}

/// How many more asks of a band can be queued, found by queueing them.
fn tried(fixture: &Fixture, band: Band) -> u32 {
    let mut gate = fixture.gate.clone();
    let ask = Ask { band, ..Ask::new(gate.flow("newcomer", 0), MODEL) };
    let mut taken = 0;
    while let Verdict::Queued { .. } = gate.offer(ask, fixture.now) {
        taken += 1;
    }
    taken
}

/// C11: headroom is the number of asks that would be admitted, for any queue and any cascade.
#[test]
fn c11_headroom_is_how_many_more_of_a_band_would_be_taken() {
    let shares = [5.0, 10.0, 15.0, 70.0].map(|weight| Weight::new(weight).unwrap());
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let settings = Settings {
            total_capacity: dice.below(40) as u32,
            enabled: !dice.chance(5),
            cascade: if dice.chance(50) { Cascade::Weighted(shares) } else { Cascade::Strict },
            admission: match dice.below(10) {
                0 | 1 => Admission::CriticalOnly,
                2 | 3 => Admission::UntilFull,
                _ => Admission::All,
            },
            ..Settings::default()
        };
        let mut fixture = closed(settings);
        for _ in 0..dice.below(60) {
            let band = Band::DESCENDING[dice.below(BANDS as u64) as usize];
            fixture.send(["a", "b", "c"][dice.below(3) as usize], band);
        }
        for band in Band::DESCENDING {
            let told = fixture.gate.headroom(band);
            assert_eq!(told, tried(&fixture, band), "seed {seed}, {band:?}");
            assert!(told <= fixture.gate.capacity(), "seed {seed}");
        }
    }
}

/// Each waiting ask counts at one ready backend, the higher bands first.
#[test]
fn r06_waiting_asks_are_divided_among_the_ready_backends() {
    let mut gone = backend(2, &[MODEL.0]);
    gone.ready = false;
    let [one, two] = [0, 1].map(|id| backend(id, &[MODEL.0]));
    let mut fixture = Fixture::with(limited_to(1.0), &[one, two, gone]);
    assert!(fixture.gate.waiting_by_backend().values().flatten().all(|&count| count == 0));
    fixture.start("a");
    fixture.start("b");
    for band in [Band::Normal, Band::Normal, Band::Normal, Band::Critical] {
        fixture.queue("a", band);
    }
    let parts = [(BackendId(0), [0, 1, 0, 1]), (BackendId(1), [0, 2, 0, 0])];
    assert_eq!(fixture.gate.waiting_by_backend(), parts.into());
}

/// Every ask is shown once, with its stage and its backend's stock.
#[test]
fn every_live_ask_is_shown_with_its_stage_and_its_stock() {
    let default_class = FlowClass { capacity: 1000, ..FlowClass::default() };
    let settings = Settings { stock: StockUnit::Tokens, default_class, ..limited_to(10.0) };
    let mut fixture = Fixture::new(settings, 1);
    let mut dice = Dice(7);
    let mut sent: BTreeMap<Ticket, (Band, u64)> = BTreeMap::new();
    for step in 0..400_u64 {
        let band = Band::DESCENDING[dice.below(BANDS as u64) as usize];
        let tokens = 1 + dice.below(6);
        let ask = Ask { band, tokens, ..fixture.ask("a") };
        if let Verdict::Granted { ticket, .. } | Verdict::Queued { ticket } = fixture.offer(ask) {
            sent.insert(ticket, (band, tokens));
        }
        if dice.chance(60) {
            let at = dice.below(sent.len() as u64) as usize;
            let ticket = *sent.keys().nth(at).unwrap();
            fixture.gate.cancel(ticket, fixture.now).unwrap();
            fixture.collect();
            sent.remove(&ticket);
        }
        fixture.pass(Span::from_millis(1));
        let shown: BTreeMap<Ticket, _> =
            fixture.gate.asks().map(|ask| (ask.ticket, (ask.band, ask.stock))).collect();
        assert_eq!(shown, sent, "step {step}");
        let waits = fixture.gate.asks().filter(|ask| ask.stage == Stage::Waiting).count();
        assert_eq!(waits, fixture.gate.depth() as usize);
        let at_backends = fixture.gate.asks().filter(|ask| ask.stage == Stage::InFlight);
        let stock: u64 = at_backends.map(|ask| ask.stock).sum();
        assert_eq!(stock, fixture.gate.backends().map(|backend| backend.stock).sum());
        assert!(fixture.gate.asks().all(|ask| ask.arrival < fixture.now && ask.model == MODEL));
    }
}
