//! A controller set up to be measured: one backend, one model, room for everything.

use anyhow::Result;
use flow::{
    BackendId, BackendSupply, CAPACITY_MAX, Controller, Event, FlowClass, FlowId, Hysteresis,
    ModelId, Order, Settings, Ticket, Time, Workload, WorkloadLimits,
};

/// The one model that everything asks for.
pub(crate) const MODEL: ModelId = ModelId(1);
/// How many workloads the `workload` order tells apart.
pub(crate) const WORKLOADS: u32 = 1000;

/// Settings under which a queue of any size waits behind `limit` asks in flight.
pub(crate) fn settings(order: Order, limit: f64) -> Result<Settings> {
    Ok(Settings {
        total_capacity: CAPACITY_MAX,
        order,
        bounds: Hysteresis::limit(limit)?.into(),
        default_class: FlowClass { capacity: CAPACITY_MAX, ..FlowClass::default() },
        workloads: WorkloadLimits { count_max: 2 * WORKLOADS, ..WorkloadLimits::default() },
        idle_flows_max: CAPACITY_MAX,
        ..Settings::default()
    })
}

/// A controller with one backend, which serves [`MODEL`].
pub(crate) fn open(settings: Settings) -> Controller {
    let mut controller = Controller::new(settings);
    let backend = BackendSupply::new(BackendId(1), vec![MODEL]);
    controller.supply(&[backend], Time::ZERO);
    controller
}

pub(crate) fn flows(controller: &mut Controller, count: u32) -> Vec<FlowId> {
    (0..count).map(|at| controller.flow(&format!("flow-{at}"), 0)).collect()
}

/// Workloads with all five criticalities among them.
pub(crate) fn workloads(controller: &mut Controller, count: u32) -> Vec<Workload> {
    let workload = |at: u32| Workload {
        id: controller.workload(&format!("workload-{at}"), Time::ZERO),
        criticality: 1 + (at % 5) as u8,
    };
    (0..count).map(workload).collect()
}

/// The asks granted since one last looked.
pub(crate) fn granted(controller: &mut Controller) -> impl Iterator<Item = Ticket> {
    std::iter::from_fn(|| controller.poll_event()).filter_map(|event| match event {
        Event::Granted { ticket, .. } => Some(ticket),
        Event::Evicted { .. } => None,
    })
}
