//! The demand for backends: what arrives, what waits, and what one backend carries.

use std::collections::BTreeSet;

use super::Controller;
use crate::ask::ModelId;
use crate::demand::{Demand, DemandMeter};
use crate::links::NONE;
use crate::queue::asks::{AskRecord, Phase};
use crate::settings::{Bounds, StockUnit};
use crate::supply::Backend;
use crate::time::Time;

// === impl Controller ===

impl Controller {
    /// The demand for the backends of a model, and of models that share backends with it. `None`
    /// if no backend lists the model and no ask may wait for it.
    pub fn demand(&mut self, model: ModelId, now: Time) -> Option<Demand> {
        let now = self.advance(now);
        let pool = self.supply.pool_of(model)?;
        self.demand_of(self.supply.pools[pool as usize].domain, now)
    }

    /// The demands of all domains: of the backends that share no model with each other.
    pub fn demands(&mut self, now: Time) -> Vec<Demand> {
        let now = self.advance(now);
        (0..self.domains.len() as u32).filter_map(|at| self.demand_of(at, now)).collect()
    }

    /// The tokens of the asks in flight, prompt and output, at the backends of a model or at all.
    /// It reads the records of all asks, so call it rarely.
    pub fn tokens_in_flight(&self, model: Option<ModelId>) -> u64 {
        let domain = |model| Some(self.supply.pools[self.supply.pool_of(model)? as usize].domain);
        let wanted = model.map(|model| domain(model).unwrap_or(NONE));
        let counts = |record: &&AskRecord| {
            let at = || self.supply.backends[record.backend as usize].domain;
            record.phase == Phase::InFlight && wanted.is_none_or(|domain| domain == at())
        };
        let records = self.asks.slots().map(|slot| &self.asks[slot]).filter(counts);
        records.map(|record| record.stock(StockUnit::Tokens)).sum()
    }

    fn demand_of(&mut self, at: u32, now: Time) -> Option<Demand> {
        let places = self.places_each(at);
        let domain = self.domains.get_mut(at as usize)?;
        domain.demand.places = places.or(domain.demand.places);
        let waits = domain.waiting > 0;
        let domain = &self.domains[at as usize];
        let members = || self.supply.backends.iter().filter(|backend| backend.domain == at);
        Some(Demand {
            arriving: domain.demand.arriving(now),
            backlog: (0..crate::BANDS).map(|band| self.band_cost(at, band)).sum(),
            waiting: domain.waiting,
            in_flight: members().map(Backend::in_flight_total).sum(),
            ready: members().filter(|backend| backend.ready).count() as u32,
            carried: domain.demand.carried(),
            places: domain.demand.places,
            draining: waits.then(|| domain.drain_rate.at(now)).flatten(),
            stalled: domain.drain_rate.elapsed(now),
            since_arrival: domain.demand.since_arrival(now),
        })
    }

    /// The asks of the present size that fill one backend of a domain, on the mean.
    fn places_each(&self, domain: u32) -> Option<f64> {
        let members = || {
            self.supply.backends.iter().filter(|backend| backend.domain == domain && backend.ready)
        };
        match self.settings.bounds {
            Bounds::Fixed(hysteresis) => {
                let [_, watermark, _] = hysteresis.scaled(1);
                let in_flight: u32 = members().map(Backend::in_flight_total).sum();
                let stock: u64 = members().map(|backend| backend.stock).sum();
                match self.settings.stock {
                    StockUnit::Requests => Some(watermark),
                    StockUnit::Tokens if stock == 0 => None,
                    StockUnit::Tokens => Some(watermark * f64::from(in_flight) / stock as f64),
                }
            }
            Bounds::Auto => {
                let known: Vec<f64> = members().filter_map(|at| at.auto.full_at()).collect();
                (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
            }
        }
    }

    /// An ask arrived for a pool.
    pub(super) fn note_demand(&mut self, pool: u32, cost: u32, now: Time) {
        self.domain_of(pool).demand.arrived(cost, now);
    }

    /// An ask of a domain completed, which says how fast its backends are if others wait.
    pub(super) fn note_completed(&mut self, at: u32, cost: u32, now: Time) {
        let domain = &mut self.domains[at as usize];
        if domain.waiting == 0 {
            return;
        }
        domain.drain_rate.completed(cost, now);
        let backends = &self.supply.backends;
        let ready = || {
            backends.iter().filter(|backend| backend.domain == at && backend.ready).count() as u32
        };
        domain.demand.completed(cost, now, ready);
    }

    /// The demand of each model, before its domain is computed again.
    pub(super) fn kept_demands(&self) -> Vec<Option<(u32, DemandMeter)>> {
        let of = |&pool: &u32| {
            let domain = self.supply.pools.get(pool as usize)?.domain;
            Some((domain, self.domains.get(domain as usize)?.demand))
        };
        self.supply.by_model.iter().map(of).collect()
    }

    /// Gives each new domain the demand of its models.
    pub(super) fn restore_demands(&mut self, before: &[Option<(u32, DemandMeter)>]) {
        let now = self.clock;
        let mut given: BTreeSet<(u32, u32)> = BTreeSet::new();
        for (model, known) in before.iter().enumerate() {
            let Some((was, demand)) = known else { continue };
            let Some(pool) = self.supply.pool_of(ModelId(model as u32)) else { continue };
            let domain = self.supply.pools[pool as usize].domain;
            // Several models of one domain have the same demand, which counts once.
            if given.insert((domain, *was)) {
                self.domains[domain as usize].demand.join(demand, now);
            }
        }
    }
}
