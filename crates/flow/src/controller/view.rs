//! The current state, for status pages, metrics and tests.

use std::collections::BTreeMap;

use super::Controller;
use super::eligibility::QueueKey;
use crate::ask::{BANDS, BackendId, Band, FlowId, ModelId, Ticket};
use crate::counters::Counters;
use crate::flows::Flow;
use crate::outcome::Stage;
use crate::queue::asks::Phase;
use crate::settings::{Bounds, Settings, StockUnit};
use crate::supply::BackendView;
use crate::time::{Span, Time};
use crate::workload::WorkloadView;

/// The state of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowView<'a> {
    /// Its number, while it is remembered.
    pub number: u32,
    /// Its name.
    pub name: &'a str,
    /// The number of its class.
    pub class: u32,
    /// Asks waiting, from best-effort to critical.
    pub waiting: [u32; BANDS],
    /// Asks in flight.
    pub in_flight: u32,
    /// Asks that were refused or evicted since the flow is remembered.
    pub refused: u32,
}

/// The state of one ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskView {
    /// Its ticket.
    pub ticket: Ticket,
    /// The number of its flow.
    pub flow: u32,
    /// The model it needs.
    pub model: ModelId,
    /// Its priority.
    pub band: Band,
    /// Whether it waits or is at a backend.
    pub stage: Stage,
    /// The stock that it takes while in flight, in the configured unit.
    pub stock: u64,
    /// Its tokens as far as they are known, prompt and output.
    pub tokens: u64,
    /// Its backend, while it is in flight.
    pub backend: Option<BackendId>,
    /// When it arrived, however often it was re-queued since.
    pub arrival: Time,
    /// Whether it waits and can no longer make its objective.
    pub late: bool,
}

// === impl Controller ===

impl Controller {
    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The counters since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Asks waiting, from best-effort to critical.
    pub fn waiting(&self) -> [u32; BANDS] {
        self.capacity.waiting
    }

    /// Asks waiting in all.
    pub fn depth(&self) -> u32 {
        self.capacity.total()
    }

    /// Asks in flight.
    pub fn in_flight(&self) -> u32 {
        (self.asks.alive() as u32) - self.depth()
    }

    /// Every ask that waits or is in flight. It reads as many records as were ever alive at once,
    /// so it is for status pages and metrics, not for the request path.
    pub fn asks(&self) -> impl Iterator<Item = AskView> + '_ {
        self.asks.slots().map(|slot| {
            let record = &self.asks[slot];
            let waits = record.phase == Phase::Waiting;
            AskView {
                ticket: self.asks.ticket(slot),
                flow: self.flow_queues[record.flow_queue].flow,
                model: record.model_id(),
                band: record.band,
                stage: if waits { Stage::Waiting } else { Stage::InFlight },
                stock: record.stock(self.settings.stock),
                tokens: record.stock(StockUnit::Tokens),
                backend: (!waits).then(|| self.supply.backends[record.backend as usize].id),
                arrival: self.first_arrivals.get(&slot).copied().unwrap_or(record.arrival),
                late: waits && record.is_late(self.clock),
            }
        })
    }

    /// The most asks that may wait.
    pub fn capacity(&self) -> u32 {
        self.settings.capacity()
    }

    /// How many more asks of a band may wait, as far as their flows allow: the free places, and the
    /// places that lower bands would lose to them.
    pub fn headroom(&self, band: Band) -> u32 {
        self.capacity.headroom(band, &self.settings)
    }

    /// Every backend that is listed or still has asks in flight.
    pub fn backends(&self) -> impl Iterator<Item = BackendView> + '_ {
        self.supply.backends.iter().zip(0..).map(|(backend, at)| BackendView {
            kept: self.kept_at(at),
            only_kept: backend.ready && self.keeps_places_of(at),
            ..backend.view(self.clock)
        })
    }

    /// The waiting asks as a system without a queue would have them: each at one ready backend
    /// that may take it. The backends of a set have equal parts; what is left over goes where the
    /// part is smallest so far. It takes a step for each flow and band.
    pub fn waiting_by_backend(&self) -> BTreeMap<BackendId, [u32; BANDS]> {
        let mut waiting: BTreeMap<u32, [u32; BANDS]> = BTreeMap::new();
        for flow_queue in self.flow_queues.ids().map(|at| &self.flow_queues[at]) {
            let counts = waiting.entry(flow_queue.pool).or_default();
            counts[flow_queue.band.index()] += flow_queue.waiting;
        }
        let mut parts: BTreeMap<BackendId, [u32; BANDS]> = BTreeMap::new();
        for (pool, counts) in waiting {
            let members = &self.supply.pools[pool as usize].members;
            let members = members.iter().map(|&at| &self.supply.backends[at as usize]);
            let mut ready: Vec<BackendId> =
                members.filter(|backend| backend.ready).map(|backend| backend.id).collect();
            for (band, count) in counts.into_iter().enumerate().rev() {
                divide(count, band, &mut ready, &mut parts);
            }
        }
        parts
    }

    /// Every flow that is remembered.
    pub fn flows(&self) -> impl Iterator<Item = FlowView<'_>> {
        self.flows.slots().map(|slot| {
            let flow = &self.flows[slot];
            let Flow { class, waiting, in_flight, refused, .. } = *flow;
            let name = self.flows.name(slot);
            FlowView { number: slot, name, class, waiting, in_flight, refused }
        })
    }

    /// Every workload that is remembered.
    pub fn workloads(&mut self, now: Time) -> Vec<WorkloadView<'_>> {
        let now = self.advance(now);
        self.registry.views(now)
    }

    /// Lower bound, watermark and upper bound over the ready backends that serve a model. Under
    /// `auto` all three are the stock at which the backends close.
    pub fn bounds(&self, model: ModelId) -> [f64; 3] {
        let members = self.supply.pool_of(model).map(|at| &self.supply.pools[at as usize].members);
        let ready = |&&at: &&u32| self.supply.backends[at as usize].ready;
        let ready = members.into_iter().flatten().filter(ready);
        match self.settings.bounds {
            Bounds::Fixed(hysteresis) => hysteresis.scaled(ready.count()),
            Bounds::Auto => {
                let each = ready.map(|&at| self.supply.backends[at as usize].auto.watermark());
                [each.map(f64::from).sum(); 3]
            }
        }
    }

    /// The cost per second that the domain of a model completes: the backends of the model, and of
    /// models that share backends with it. `None` while no ask waits there: an idle backend
    /// completes little, which says nothing about how fast it is.
    pub fn drain_rate(&self, model: ModelId) -> Option<f64> {
        let pool = self.supply.pool_of(model)?;
        let domain = &self.domains[self.supply.pools[pool as usize].domain as usize];
        (domain.waiting > 0).then(|| domain.drain_rate.at(self.clock)).flatten()
    }

    /// The backend of an ask, if it is in flight.
    pub fn backend_of(&self, ticket: Ticket) -> Option<BackendId> {
        let record = &self.asks[self.asks.find(ticket)?];
        let in_flight = record.phase == Phase::InFlight;
        in_flight.then(|| self.supply.backends[record.backend as usize].id)
    }

    /// The predicted wait of a new ask of this flow; `None` while no rate is known.
    pub fn forecast(&mut self, flow: FlowId, band: Band, model: ModelId) -> Option<Span> {
        let flow = self.flows.resolve(flow)?;
        let pool = self.supply.pool_of(model)?;
        self.predicted_wait(QueueKey { flow, band, pool }, self.clock)
    }
}

/// Adds equal parts of a count to the parts of these backends.
fn divide(
    count: u32,
    band: usize,
    backends: &mut [BackendId],
    parts: &mut BTreeMap<BackendId, [u32; BANDS]>,
) {
    let number = backends.len() as u32;
    let Some(each) = count.checked_div(number) else { return };
    backends.sort_by_key(|id| (parts.get(id).map_or(0, |part| part.iter().sum()), id.0));
    for (at, &id) in (0..).zip(&*backends) {
        parts.entry(id).or_default()[band] += each + u32::from(at < count % number);
    }
}
