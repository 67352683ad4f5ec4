//! Fills core and floor while the allocator counts.

use anyhow::Result;
use flow::{Ask, Controller, Order, Time};

use crate::controller::chance::Draw;
use crate::controller::cycles::filling;
use crate::controller::fixture::{self, MODEL, settings};
use crate::controller::floor::Floor;
use crate::controller::report::{Bytes, Memory};
use crate::controller::subject::{IN_FLIGHT, Shape, TTL_NANOS};

const SHAPE: Shape = Shape { queued: 1_000_000, flows: 10 };

pub(super) fn count() -> Result<Memory> {
    let (_, draws) = filling(SHAPE, SHAPE.queued);
    let core = counted(|| fill_core(&draws))?;
    let floor = counted(|| Ok(fill_floor(&draws)))?;
    Ok(Memory::Counted { queued: SHAPE.queued, core, floor })
}

/// Bytes for each waiting ask that `fill` holds when it is done, and held at its peak.
fn counted<T>(fill: impl FnOnce() -> Result<T>) -> Result<Bytes> {
    let mut filled = None;
    let info = allocation_counter::measure(|| filled = Some(fill()));
    filled.transpose()?;
    let each = |bytes: f64| bytes / f64::from(SHAPE.queued);
    Ok(Bytes { held: each(info.bytes_current as f64), peak: each(info.bytes_max as f64) })
}

fn fill_core(draws: &[Draw]) -> Result<Controller> {
    let mut controller = fixture::open(settings(Order::Fifo, f64::from(IN_FLIGHT))?);
    let flows = fixture::flows(&mut controller, SHAPE.flows);
    for draw in draws {
        let ask = Ask::new(flows[draw.flow as usize], MODEL);
        controller.offer(Ask { cost: u64::from(draw.cost), ..ask }, Time::ZERO);
    }
    Ok(controller)
}

fn fill_floor(draws: &[Draw]) -> Floor {
    let mut floor = Floor::new(SHAPE.flows);
    for draw in draws {
        floor.offer(draw.flow, draw.cost, TTL_NANOS);
    }
    floor
}
