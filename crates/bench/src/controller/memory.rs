//! Bytes for each waiting ask and for each workload, counted by the allocator.
//!
//! Counting replaces the allocator of the whole program, so it is behind the feature `memory`.

use anyhow::Result;

use crate::report::Table;
use crate::runner::Runner;

/// The bytes, and a note where the program cannot count them.
pub(crate) fn measure(run: &mut Runner<'_>) -> Result<(Vec<Table>, Option<String>)> {
    if !run.wants("memory")? {
        return Ok((Vec::new(), None));
    }
    #[cfg(feature = "memory")]
    return Ok((vec![count::waiting_asks()?, count::workloads()?], None));
    #[cfg(not(feature = "memory"))]
    Ok((Vec::new(), Some("Bytes: build with --features memory to count.".to_owned())))
}

/// Fills core and floor while the allocator counts.
#[cfg(feature = "memory")]
mod count {
    use anyhow::Result;
    use flow::identity::NAME_MAX;
    use flow::{Ask, Order, Time, Workload};

    use crate::controller::cycles::filling;
    use crate::controller::fixture::{self, MODEL, settings};
    use crate::controller::floor::Floor;
    use crate::controller::subject::{IN_FLIGHT, Shape, TTL_NANOS};
    use crate::report::Table;

    const SHAPE: Shape = Shape { queued: 1_000_000, flows: 10 };
    const BYTES_MAX: f64 = 128.0;
    const WORKLOADS: usize = 1000;
    const WORKLOADS_MEGABYTES_MAX: f64 = 10.0;

    /// A million asks that wait, in the core and in the floor.
    pub(super) fn waiting_asks() -> Result<Table> {
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

    /// A thousand workloads in the registry of a controller: ids of the length of a UUID and of the
    /// greatest length, idle and each with a waiting ask.
    pub(super) fn workloads() -> Result<Table> {
        let title = "Memory: a thousand workloads, each in KB";
        let mut table = Table::new(title, &[("held", 2), ("peak", 2), ("all, MB", 3)]);
        let plain = bytes(0, 0)?;
        let cases = [
            ("ids of 36 bytes", 36, 0),
            ("ids of the greatest length", NAME_MAX, 0),
            ("the same, each with a waiting ask", NAME_MAX, WORKLOADS),
        ];
        for (who, length, asks) in cases {
            let [held, peak] = bytes(length, asks)?;
            let [held, peak] = [held - plain[0], peak - plain[0]];
            let each = [held, peak].map(|bytes| bytes / WORKLOADS as f64 / 1e3);
            table.push_all(who, [each[0], each[1], peak / 1e6]);
        }
        let most = table.rows.iter().filter_map(|(_, figures)| figures[2]).fold(0.0, f64::max);
        table.target("a thousand workloads at their peak, MB", WORKLOADS_MEGABYTES_MAX, most);
        Ok(table)
    }

    /// Bytes of a controller with a thousand workloads whose ids have this length, none for 0, and
    /// with so many waiting asks: held, and at the peak.
    fn bytes(length: usize, asks: usize) -> Result<[f64; 2]> {
        measured(|| {
            let mut controller = fixture::open(settings(Order::Workload, 1.0)?);
            let flow = fixture::flows(&mut controller, 1)[0];
            let names = (0..WORKLOADS).filter(|_| length > 0).map(|at| format!("{at:0length$}"));
            let ids: Vec<_> = names.map(|name| controller.workload(&name, Time::ZERO)).collect();
            for &id in ids.iter().cycle().take(asks) {
                let workload = Workload { id, criticality: 3 };
                controller.offer(Ask { workload, ..Ask::new(flow, MODEL) }, Time::ZERO);
            }
            Ok(controller)
        })
    }

    /// Bytes for each waiting ask that `fill` holds when it is done, and held at its peak.
    fn counted<T>(fill: impl FnOnce() -> Result<T>) -> Result<[f64; 2]> {
        Ok(measured(fill)?.map(|bytes| bytes / f64::from(SHAPE.queued)))
    }

    /// Bytes that `fill` holds when it is done, and held at its peak.
    fn measured<T>(fill: impl FnOnce() -> Result<T>) -> Result<[f64; 2]> {
        let mut filled = None;
        let info = allocation_counter::measure(|| filled = Some(fill()));
        filled.transpose()?;
        Ok([info.bytes_current as f64, info.bytes_max as f64])
    }
}
