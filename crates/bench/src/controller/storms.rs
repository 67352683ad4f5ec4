//! Storms: many clients leave, many asks expire, many asks are preempted.

use anyhow::{Result, ensure};
use flow::Order;

use super::cycles::{against_floor_table, filling, push};
use super::sample::{Effort, Sample, in_turns};
use super::subject::core::CoreSubject;
use super::subject::floor::FloorSubject;
use super::subject::{STORM_NANOS, Shape, Subject};
use crate::report::Table;
use crate::runner::Runner;
use testbed::stopwatch::Stopwatch;

const CANCEL: Effort = Effort { batches: 160, steps: 4096 };
/// Whole storms; each one needs a copy of a full queue.
const STORMS: usize = 20;

type Storm = fn(&Runner<'_>, Shape) -> Result<(Sample, Option<Sample>)>;

const KINDS: [(&str, Storm); 3] =
    [("cancel", cancel), ("expiry", expiry), ("preemption", preemption)];

pub(crate) fn measure(run: &mut Runner<'_>) -> Result<Table> {
    let title = "Storms, for each ask cancelled and replaced, expired or preempted";
    let mut table = against_floor_table(title);
    for (kind, storm) in KINDS {
        for shape in run.shapes() {
            let name = format!("{kind}/{}", shape.name());
            if run.wants(&name)? {
                let (core, floor) = storm(run, shape)?;
                push(&mut table, name, core, floor);
            }
        }
    }
    Ok(table)
}

/// One ask that waits is cancelled and another one offered.
fn cancel(run: &Runner<'_>, shape: Shape) -> Result<(Sample, Option<Sample>)> {
    let (mut source, draws) = filling(shape, shape.queued);
    let mut floor = FloorSubject::patient(shape, &draws);
    let mut core = CoreSubject::patient(shape, Order::Fifo, &draws)?;
    drop(draws);
    let effort = Effort { batches: run.batches(CANCEL.batches), ..CANCEL };
    let subjects: &mut [&mut dyn Subject] = &mut [&mut floor, &mut core];
    let samples = in_turns(subjects, |subject| subject.churn(), &mut source, effort)?;
    Ok((samples[1], Some(samples[0])))
}

/// Everything that waits expires within one second.
fn expiry(run: &Runner<'_>, shape: Shape) -> Result<(Sample, Option<Sample>)> {
    let (_, draws) = filling(shape, STORM_NANOS);
    let (full_floor, full_core) =
        (FloorSubject::hasty(shape, &draws), CoreSubject::hasty(shape, &draws)?);
    let (mut core, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..run.batches(STORMS) {
        floor.push(time_expiry(&mut full_floor.clone(), shape)?);
        core.push(time_expiry(&mut full_core.clone(), shape)?);
    }
    Ok((Sample::of(core), Some(Sample::of(floor))))
}

fn time_expiry(subject: &mut dyn Subject, shape: Shape) -> Result<f64> {
    let watch = Stopwatch::start();
    let expired = subject.expire()?;
    let nanos = watch.nanos();
    ensure!(expired == shape.queued, "{expired} asks expired instead of {}", shape.queued);
    Ok(nanos / f64::from(expired))
}

/// Asks of a high band come to a queue full of best-effort ones until a quarter has been replaced.
fn preemption(run: &Runner<'_>, shape: Shape) -> Result<(Sample, Option<Sample>)> {
    let (mut source, draws) = filling(shape, shape.queued);
    let mut full = CoreSubject::crowded(shape, &draws)?;
    let count = shape.queued / 4;
    full.load(&source.draws(count as usize));
    let mut nanos = Vec::new();
    for _ in 0..run.batches(STORMS) {
        let mut core = full.clone();
        let watch = Stopwatch::start();
        core.preempt()?;
        nanos.push(watch.nanos() / f64::from(count));
    }
    Ok((Sample::of(nanos), None))
}
