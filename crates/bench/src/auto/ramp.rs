//! From an empty engine with a full queue: how fast the stock grows.

use anyhow::Result;
use flow::Span;
use sim::arrivals::Process;

use super::case::Known;
use super::report::Ramp;
use super::run::{Run, Stock};
use super::{Study, cores};

/// When to look, in seconds.
pub(super) const AFTER: [usize; 4] = [1, 3, 10, 20];
const ENGINES: [&str; 5] = super::ENGINES;
const WORKLOADS: [&str; 2] = ["conv", "m-large"];
/// Requests a second, far more than any engine takes.
const FLOOD: f64 = 2000.0;
const LENGTH: u64 = 21;

pub(super) fn measure(study: &mut Study<'_>) -> Result<Vec<Ramp>> {
    let mut ramps = Vec::new();
    for engine in ENGINES {
        for workload in WORKLOADS {
            if study.wants(&format!("ramp/{engine}/{workload}"))? {
                let known = study.know(engine, workload)?;
                ramps.push(ramp(&known, study.effort.seeds[0])?);
            }
        }
    }
    Ok(ramps)
}

pub(super) fn ramp(known: &Known, seed: u64) -> Result<Ramp> {
    let run = flood(known, Stock::Auto, seed);
    let blind = Run { metrics: None, ..run.clone() };
    let grown = cores::each(&[run, blind], in_flight)?;
    Ok(Ramp {
        case: known.case.name(),
        watermark: known.knee.watermark,
        metrics: grown[0],
        blind: grown[1],
    })
}

/// A queue that is full from the first moment on.
pub(super) fn flood(known: &Known, stock: Stock, seed: u64) -> Run {
    let mut run = known.run(1.0, (0, LENGTH)).with(stock, seed);
    run.traffic[0].process = Process::Poisson { rate: FLOOD };
    run
}

/// Requests in flight at each of the moments.
fn in_flight(run: &Run) -> Result<[u32; AFTER.len()]> {
    let moments = run.history(Span::ZERO)?.series.moments;
    Ok(AFTER.map(|secs| moments.get(secs).map_or(0, |moment| moment.engines[0].in_flight)))
}
