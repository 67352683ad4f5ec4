//! The steady state: settle the oldest, grant the next, offer one more.

use anyhow::Result;
use flow::Order;

use super::chance::{Chance, Draw};
use super::fixture::WORKLOADS;
use super::report::{Cell, Growth};
use super::sample::{Effort, Source, in_turns};
use super::subject::core::CoreSubject;
use super::subject::floor::FloorSubject;
use super::subject::{FLOWS, IN_FLIGHT, Shape, Subject, power};
use crate::runner::Runner;

const FIFO: Effort = Effort { batches: 400, steps: 4096 };
/// A dequeue compares up to a thousand lines, so that a shorter batch is long enough.
const WORKLOAD: Effort = Effort { batches: 120, steps: 256 };

pub(crate) fn measure(run: &mut Runner<'_>) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for shape in run.shapes() {
        let name = format!("cycle/fifo/{}", shape.name());
        if run.wants(&name)? {
            let effort = Effort { batches: run.batches(FIFO.batches), ..FIFO };
            cells.push(against_floor(name, shape, effort)?);
        }
    }
    for shape in run.shapes() {
        let name = format!("cycle/workload/{}", shape.name());
        if run.wants(&name)? {
            let effort = Effort { batches: run.batches(WORKLOAD.batches), ..WORKLOAD };
            cells.push(alone(name, shape, effort)?);
        }
    }
    Ok(cells)
}

/// How much dearer a cycle becomes from the smallest queue to the largest.
pub(crate) fn growth(cells: &[Cell]) -> Vec<Growth> {
    let of = |order: &str, queued: &str, flows: u32| {
        let shape = format!("cycle/{order}/{queued}x{}", power(flows));
        cells.iter().find(|cell| cell.name == shape)
    };
    let mut rows = Vec::new();
    for (order, flows) in ["fifo", "workload"].into_iter().flat_map(|o| FLOWS.map(|f| (o, f))) {
        let small = of(order, "1e3", flows);
        let large = of(order, "1e6", flows).or_else(|| of(order, "1e5", flows));
        if let (Some(small), Some(large)) = (small, large) {
            rows.push(Growth::between(small, large));
        }
    }
    rows
}

/// What fills a queue of this shape: as many draws as wait and are in flight.
pub(crate) fn filling(shape: Shape, picks: u32) -> (Source, Vec<Draw>) {
    let mut source = Source { chance: Chance::new(1), flows: shape.flows, picks };
    let draws = source.chance.draws((shape.queued + IN_FLIGHT) as usize, shape.flows, picks);
    (source, draws)
}

fn against_floor(name: String, shape: Shape, effort: Effort) -> Result<Cell> {
    let (mut source, draws) = filling(shape, shape.queued);
    let mut floor = FloorSubject::patient(shape, &draws);
    let mut core = CoreSubject::patient(shape, Order::Fifo, &draws)?;
    drop(draws);
    let subjects: &mut [&mut dyn Subject] = &mut [&mut floor, &mut core];
    let samples = in_turns(subjects, |subject| subject.cycle(), &mut source, effort)?;
    Ok(Cell::new(name, samples[1], Some(samples[0])))
}

fn alone(name: String, shape: Shape, effort: Effort) -> Result<Cell> {
    let (mut source, draws) = filling(shape, WORKLOADS);
    let mut core = CoreSubject::patient(shape, Order::Workload, &draws)?;
    drop(draws);
    let samples = in_turns(&mut [&mut core], |subject| subject.cycle(), &mut source, effort)?;
    Ok(Cell::new(name, samples[0], None))
}
