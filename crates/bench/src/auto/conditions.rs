//! What can be different from the main study: load, network, metrics, faults, traffic.
//!
//! A condition that has phases is one run for each: the window is the phase, and nothing arrives
//! after it.

use flow::{Span, Time};
use sim::arrivals::{Lengths, Process};
use sim::world::{Fault, FaultKind, Metrics};

use super::case::{Known, LOAD};
use super::run::Run;

/// When something happens in a run, when it ends, and when the run ends, in seconds.
const STRIKES: u64 = 200;
const PASSES: u64 = 400;
const END: u64 = 600;
/// What comes just after something happened.
const SOON: u64 = 30;
/// The longest run that plays a trace again.
const REPLAY: u64 = 660;
/// The load of such a run: bursts pass what the engine can carry, the whole does not.
const REPLAY_LOAD: f64 = 0.9;
const IDLE_LOAD: f64 = 0.05;
/// Before the traffic changes it may not leave a backlog that lasts until the end.
const SHIFT_TTL: Span = Span::from_secs(10);

/// A condition by its name.
pub(super) struct Condition {
    pub(super) name: &'static str,
    /// Whether there is anything to see without metrics.
    pub(super) blind: bool,
    /// The run for a case, beside another workload on the same engine.
    pub(super) run: fn(&Known, &Known) -> Run,
}

pub(super) const CONDITIONS: [Condition; 21] = [
    plain("load 0.7", |known, _| known.run(0.7, (60, END))),
    plain("load 1.0", |known, _| known.run(1.0, (60, END))),
    plain("load 1.5", |known, _| known.run(1.5, (60, END))),
    plain("4 engines", |known, _| four(known)),
    plain("the trace's own gaps, load 0.9", |known, _| replay(known)),
    plain("network of 10 ms", |known, _| Run {
        network: Span::from_millis(10),
        ..known.run(LOAD, (60, END))
    }),
    plain("half as fast, first 30 s", |known, _| slow(known, (STRIKES, STRIKES + SOON))),
    plain("half as fast, later", |known, _| slow(known, (STRIKES + SOON, PASSES))),
    plain("fast again, first 30 s", |known, _| slow(known, (PASSES, PASSES + SOON))),
    plain("fast again, later", |known, _| slow(known, (PASSES + SOON, END))),
    plain("other workload, first 30 s", |known, other| {
        shift(known, other, (STRIKES, STRIKES + SOON))
    }),
    plain("other workload, later", |known, other| shift(known, other, (STRIKES + SOON, END))),
    plain("load 0.05, then 2: first 10 s", |known, _| wake(known, (STRIKES, STRIKES + 10))),
    plain("load 0.05, then 2: later", |known, _| wake(known, (STRIKES + 10, END))),
    seeing("metrics each 1 s, 1 s old", |known, _| scraped(known, 1)),
    seeing("metrics each 5 s, 1 s old", |known, _| scraped(known, 5)),
    seeing("metrics vanish, first 30 s", |known, _| vanish(known, (STRIKES, STRIKES + SOON))),
    seeing("metrics vanish, later", |known, _| vanish(known, (STRIKES + SOON, END))),
    seeing("metrics come and go", |known, _| flicker(known)),
    plain("half of the answers in one piece", |known, _| whole(known, 0.5)),
    plain("all answers in one piece", |known, _| whole(known, 1.0)),
];

const fn plain(name: &'static str, run: fn(&Known, &Known) -> Run) -> Condition {
    Condition { name, blind: true, run }
}

const fn seeing(name: &'static str, run: fn(&Known, &Known) -> Run) -> Condition {
    Condition { name, blind: false, run }
}

fn four(known: &Known) -> Run {
    let run = known.run(4.0 * LOAD, (60, END));
    Run { engines: vec![known.case.engine.clone(); 4], ..run }
}

/// Lengths without a trace have no gaps of their own: they stay as they are.
fn replay(known: &Known) -> Run {
    let mut run = known.run(REPLAY_LOAD, (60, REPLAY));
    if let Lengths::Trace(trace) = &known.case.lengths {
        let span = trace.rows.last().map_or(0.0, |row| row.at.since(Time::ZERO).secs_f64());
        let speed = REPLAY_LOAD * known.capacity * span / trace.rows.len() as f64;
        let end = ((span / speed) as u64).clamp(61, REPLAY);
        run.window.1 = end;
        run.traffic[0].between.1 = end;
        run.traffic[0].process = Process::Replay { speed };
    }
    run
}

fn fault(secs: u64, what: FaultKind) -> Fault {
    Fault { at: Time::ZERO.after(Span::from_secs(secs)), engine: 0, what }
}

pub(super) fn slow(known: &Known, window: (u64, u64)) -> Run {
    let faults = vec![fault(STRIKES, FaultKind::Slow(2.0)), fault(PASSES, FaultKind::Slow(1.0))];
    Run { faults, ..known.run(LOAD, window) }
}

/// Another workload until it changes.
pub(super) fn shift(known: &Known, other: &Known, window: (u64, u64)) -> Run {
    let mut run = known.run(LOAD, window);
    let mut before = other.run(LOAD, (0, STRIKES)).traffic.remove(0);
    before.ttl = Some(SHIFT_TTL);
    run.traffic[0].between.0 = STRIKES;
    run.traffic.insert(0, before);
    run
}

/// Hardly anything, and then too much.
fn wake(known: &Known, window: (u64, u64)) -> Run {
    let mut run = known.run(LOAD, window);
    let before = known.run(IDLE_LOAD, (0, STRIKES)).traffic.remove(0);
    run.traffic[0].between.0 = STRIKES;
    run.traffic.insert(0, before);
    run
}

fn scraped(known: &Known, every: u64) -> Run {
    let metrics = Metrics { every: Span::from_secs(every), lag: Span::from_secs(1) };
    Run { metrics: Some(metrics), ..known.run(LOAD, (60, END)) }
}

pub(super) fn vanish(known: &Known, window: (u64, u64)) -> Run {
    Run { faults: vec![fault(STRIKES, FaultKind::NoMetrics)], ..known.run(LOAD, window) }
}

/// Twenty seconds without metrics, twenty with them, and so on.
fn flicker(known: &Known) -> Run {
    let turns = [FaultKind::NoMetrics, FaultKind::Metrics].into_iter().cycle();
    let faults = (60..END).step_by(20).zip(turns).map(|(secs, what)| fault(secs, what));
    Run { faults: faults.collect(), ..known.run(LOAD, (60, END)) }
}

fn whole(known: &Known, unstreamed: f64) -> Run {
    Run { unstreamed, ..known.run(LOAD, (60, END)) }
}
