//! The steady state: settle the oldest, grant the next, offer one more.

use anyhow::Result;
use flow::Order;
use sim::random::Random;

use super::draw::Draw;
use super::fixture::WORKLOADS;
use super::sample::{Effort, Sample, Source, in_turns};
use super::subject::core::CoreSubject;
use super::subject::floor::FloorSubject;
use super::subject::{FLOWS, IN_FLIGHT, Shape, Subject, power};
use crate::report::Table;
use crate::runner::Runner;

const FIFO: Effort = Effort { batches: 400, steps: 4096 };
/// A dequeue compares up to a thousand lines, so that a shorter batch is long enough.
const WORKLOAD: Effort = Effort { batches: 120, steps: 256 };

/// The steady state, and how much dearer it becomes from the smallest queue to the largest.
pub(crate) fn measure(run: &mut Runner<'_>) -> Result<Vec<Table>> {
    let title = "Steady state: settle the oldest, grant the next, offer one more";
    let mut table = against_floor_table(title);
    for shape in run.shapes() {
        let name = format!("cycle/fifo/{}", shape.name());
        if run.wants(&name)? {
            let effort = Effort { batches: run.batches(FIFO.batches), ..FIFO };
            let (core, floor) = against_floor(shape, effort)?;
            push(&mut table, name, core, Some(floor));
        }
    }
    for shape in run.shapes() {
        let name = format!("cycle/workload/{}", shape.name());
        if run.wants(&name)? {
            let effort = Effort { batches: run.batches(WORKLOAD.batches), ..WORKLOAD };
            push(&mut table, name, alone(shape, effort)?, None);
        }
    }
    let growth = growth(&table);
    Ok(vec![table, growth])
}

/// A table of steps of the core and of the floor: the least and the median batch of each.
pub(crate) fn against_floor_table(title: &str) -> Table {
    let heads = [("core", 0), ("median", 0), ("floor", 0), ("median", 0)];
    let ratios = [("ratio", 2), ("median", 2)];
    Table { subject: "ns per step", ..Table::new(title, &[&heads[..], &ratios].concat()) }
}

pub(crate) fn push(table: &mut Table, name: String, core: Sample, floor: Option<Sample>) {
    let [least, median] = [floor.map(|floor| floor.min), floor.map(|floor| floor.median)];
    let ratios = [least.map(|floor| core.min / floor), median.map(|floor| core.median / floor)];
    table.push(name, [Some(core.min), Some(core.median), least, median, ratios[0], ratios[1]]);
}

fn growth(cycles: &Table) -> Table {
    let mut table = Table::new("Growth: times the cost at 1e3", &[("core", 2), ("floor", 2)]);
    table.subject = "steady state";
    let of = |order: &str, queued: &str, flows: u32| {
        let shape = format!("cycle/{order}/{queued}x{}", power(flows));
        cycles.rows.iter().find(|(name, _)| *name == shape)
    };
    for (order, flows) in ["fifo", "workload"].into_iter().flat_map(|o| FLOWS.map(|f| (o, f))) {
        let small = of(order, "1e3", flows);
        let large = of(order, "1e6", flows).or_else(|| of(order, "1e5", flows));
        if let (Some((_, small)), Some((name, large))) = (small, large) {
            let times = |at: usize| large[at].zip(small[at]).map(|(large, small)| large / small);
            table.push(name.clone(), [times(0), times(2)]);
        }
    }
    table
}

/// What fills a queue of this shape: as many draws as wait and are in flight.
pub(crate) fn filling(shape: Shape, picks: u32) -> (Source, Vec<Draw>) {
    let mut source = Source { random: Random::new(1), flows: shape.flows, picks };
    let count = (shape.queued + IN_FLIGHT) as usize;
    let draws = source.draws(count);
    (source, draws)
}

fn against_floor(shape: Shape, effort: Effort) -> Result<(Sample, Sample)> {
    let (mut source, draws) = filling(shape, shape.queued);
    let mut floor = FloorSubject::patient(shape, &draws);
    let mut core = CoreSubject::patient(shape, Order::Fifo, &draws)?;
    drop(draws);
    let subjects: &mut [&mut dyn Subject] = &mut [&mut floor, &mut core];
    let samples = in_turns(subjects, |subject| subject.cycle(), &mut source, effort)?;
    Ok((samples[1], samples[0]))
}

fn alone(shape: Shape, effort: Effort) -> Result<Sample> {
    let (mut source, draws) = filling(shape, WORKLOADS);
    let mut core = CoreSubject::patient(shape, Order::Workload, &draws)?;
    drop(draws);
    let samples = in_turns(&mut [&mut core], |subject| subject.cycle(), &mut source, effort)?;
    Ok(samples[0])
}
