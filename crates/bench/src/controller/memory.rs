//! Bytes for each waiting ask, counted by the allocator.
//!
//! Counting replaces the allocator of the whole program, so it is behind the feature `memory`.

use anyhow::Result;

use crate::report::Table;
use crate::runner::Runner;

/// The bytes, and a note where the program cannot count them.
pub(crate) fn measure(run: &mut Runner<'_>) -> Result<(Table, Option<String>)> {
    if !run.wants("memory")? {
        return Ok((Table::default(), None));
    }
    #[cfg(feature = "memory")]
    return Ok((count::measure()?, None));
    #[cfg(not(feature = "memory"))]
    Ok((Table::default(), Some("Bytes: build with --features memory to count.".to_owned())))
}

/// Fills core and floor while the allocator counts.
#[cfg(feature = "memory")]
mod count {
    use anyhow::Result;
    use flow::{Ask, Order, Time};

    use crate::controller::cycles::filling;
    use crate::controller::fixture::{self, MODEL, settings};
    use crate::controller::floor::Floor;
    use crate::controller::subject::{IN_FLIGHT, Shape, TTL_NANOS};
    use crate::report::Table;

    const SHAPE: Shape = Shape { queued: 1_000_000, flows: 10 };
    const BYTES_MAX: f64 = 128.0;

    pub(super) fn measure() -> Result<Table> {
        let (_, draws) = filling(SHAPE, SHAPE.queued);
        let core = counted(|| {
            let mut controller = fixture::open(settings(Order::Fifo, f64::from(IN_FLIGHT))?);
            let flows = fixture::flows(&mut controller, SHAPE.flows);
            for draw in &draws {
                let ask = Ask::new(flows[draw.flow as usize], MODEL);
                controller.offer(Ask { cost: u64::from(draw.cost), ..ask }, Time::ZERO);
            }
            Ok(controller)
        })?;
        let floor = counted(|| {
            let mut floor = Floor::new(SHAPE.flows);
            for draw in &draws {
                floor.offer(draw.flow, draw.cost, TTL_NANOS);
            }
            Ok(floor)
        })?;
        let title = "Memory: bytes for each ask of a million that wait";
        let mut table = Table::new(title, &[("held", 1), ("peak", 1)]);
        table.push_all("core", core);
        table.push_all("floor", floor);
        table.target("bytes per waiting ask", BYTES_MAX, core[0]);
        Ok(table)
    }

    /// Bytes for each waiting ask that `fill` holds when it is done, and held at its peak.
    fn counted<T>(fill: impl FnOnce() -> Result<T>) -> Result<[f64; 2]> {
        let mut filled = None;
        let info = allocation_counter::measure(|| filled = Some(fill()));
        filled.transpose()?;
        let each = |bytes: f64| bytes / f64::from(SHAPE.queued);
        Ok([each(info.bytes_current as f64), each(info.bytes_max as f64)])
    }
}
