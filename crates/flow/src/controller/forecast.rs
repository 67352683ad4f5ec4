//! Predicts how long an ask will wait: the cost ahead of it over the rate at which cost completes.
//!
//! Ahead of a new ask are the higher bands. In its own band, fair queueing bounds the cost ahead:
//! while the backlog of its own flow is served, every other flow is served in proportion to its
//! weight, and no flow is served more than its backlog.

use super::Controller;
use super::eligibility::QueueKey;
use crate::ask::Ticket;
use crate::queue::asks::Phase;
use crate::queue::flow_queue::FlowQueue;
use crate::queue::ordered_asks::OrderContext;
use crate::queue::urgency::{self, UrgencyTerms};
use crate::settings::{Cascade, Order};
use crate::time::{Span, Time};

/// The forecast for one waiting ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitForecast {
    /// Its position, from 1, among the asks of its flow that wait for the same backends, in the
    /// order in which they would go if no other arrived and no time passed.
    pub position: u32,
    /// Whether it is late: fresh asks of its flow that come later go before it.
    pub late: bool,
    /// Whether it will be late before its turn comes, at the present rate.
    pub becomes_late: bool,
    /// The predicted remaining wait, if a rate is known and the ask is not and will not be late.
    pub wait: Option<Span>,
    /// The least remaining wait, if a rate is known: at the highest rate of late, behind the asks
    /// that will not leave before their turn.
    pub least: Option<Span>,
}

// === impl Controller ===

impl Controller {
    /// The forecast for a waiting ask. It reads the records of all asks and sorts those of its flow
    /// queue, so call it rarely.
    pub fn wait_forecast(&mut self, ticket: Ticket, now: Time) -> Option<WaitForecast> {
        let now = self.advance(now);
        let slot = self.asks.find(ticket)?;
        if self.asks[slot].phase != Phase::Waiting {
            return None;
        }
        let ahead = self.ahead_of(slot, now);
        let own = &self.asks[slot];
        let late = own.is_late(now);
        let FlowQueue { flow, band, pool, .. } = self.flow_queues[own.flow_queue];
        let key = QueueKey { flow, band, pool };
        let wait = self.wait_behind(key, self.cost_of(&ahead), now);
        let becomes_late = !late && wait.is_some_and(|wait| own.is_late(now.after(wait)));
        let least = wait.and_then(|wait| self.least_wait(&ahead, (key, wait), now));
        let wait = wait.filter(|_| !late && !becomes_late);
        let position = ahead.len() as u32 + 1;
        Some(WaitForecast { position, late, becomes_late, wait, least })
    }

    /// The terms of the urgency of an ask, if flows are in the order `workload`.
    pub fn urgency(&mut self, ticket: Ticket, now: Time) -> Option<UrgencyTerms> {
        if self.settings.order != Order::Workload {
            return None;
        }
        let now = self.advance(now);
        let slot = self.asks.find(ticket)?;
        let context =
            OrderContext { now, weights: &self.settings.urgency, registry: &mut self.registry };
        Some(urgency::terms(&self.asks[slot], context))
    }

    /// The asks of its flow queue that go before a waiting ask.
    fn ahead_of(&mut self, slot: u32, now: Time) -> Vec<u32> {
        let at = self.asks[slot].flow_queue;
        let waits = |&other: &u32| {
            let other = &self.asks[other];
            other.phase == Phase::Waiting && other.flow_queue == at
        };
        let waiting = self.asks.slots().filter(waits).collect();
        let context =
            OrderContext { now, weights: &self.settings.urgency, registry: &mut self.registry };
        self.flow_queues[at].ordered.before(slot, waiting, (&self.asks, context))
    }

    fn cost_of(&self, slots: &[u32]) -> u64 {
        slots.iter().map(|&slot| u64::from(self.asks[slot].cost)).sum()
    }

    /// The least wait of an ask whose predicted wait is known: asks of its flow that leave before
    /// its turn, and asks of other flows, may not delay it.
    fn least_wait(&self, ahead: &[u32], (key, wait): (QueueKey, Span), now: Time) -> Option<Span> {
        let turn = now.after(wait);
        let stays = |&slot: &u32| self.asks[slot].deadline > turn;
        let stay: Vec<u32> = ahead.iter().copied().filter(stays).collect();
        let domain = self.supply.pools[key.pool as usize].domain;
        let rate = self.domains[domain as usize].drain_rate.highest(now)?;
        Some(Span::from_secs_f64(self.cost_of(&stay) as f64 / rate).min(wait))
    }

    /// The predicted wait of a new ask; `None` before a rate is known.
    pub(super) fn predicted_wait(&self, key: QueueKey, now: Time) -> Option<Span> {
        self.wait_behind(key, self.fresh_cost(key), now)
    }

    /// The waiting cost of a flow that is ahead of a new ask: late asks are behind it.
    pub(super) fn fresh_cost(&self, key: QueueKey) -> u64 {
        let flow_queue = self.find_flow_queue(key).map(|at| &self.flow_queues[at]);
        flow_queue.map_or(0, |queue| queue.fresh().cost)
    }

    /// The predicted time until this much of a flow's own backlog has been served.
    pub(super) fn wait_behind(&self, key: QueueKey, own: u64, now: Time) -> Option<Span> {
        let domain = self.supply.pools[key.pool as usize].domain;
        let rate = self.domains[domain as usize].drain_rate.at(now)?;
        Some(Span::from_secs_f64(self.cost_ahead(key, own) / rate))
    }

    pub(super) fn cost_ahead(&self, key: QueueKey, own: u64) -> f64 {
        let QueueKey { flow, band, pool } = key;
        let flow_queue = self.find_flow_queue(key).map(|at| &self.flow_queues[at]);
        let weight =
            flow_queue.map_or(self.flows.policy(flow).weight, |flow_queue| flow_queue.weight);
        let active = flow_queue.is_some_and(|flow_queue| flow_queue.active);
        let domain = self.supply.pools[pool as usize].domain;
        let units = self.fair_queues[pool as usize][band.index()].clock.weight();
        let others = units.saturating_sub(if active { u64::from(weight.units) } else { 0 });
        let shared = 1.0 + others as f64 / f64::from(weight.units);
        let own_band = self.band_cost(domain, band.index());
        let fair = (own as f64 * shared).max(1.0).min(own_band);
        match &self.settings.cascade {
            Cascade::Strict => {
                fair + (band.index() + 1..crate::BANDS)
                    .map(|b| self.band_cost(domain, b))
                    .sum::<f64>()
            }
            Cascade::Weighted(weights) => {
                let waits = |b: &usize| *b == band.index() || self.band_cost(domain, *b) > 0.0;
                let sum: f64 = (0..crate::BANDS).filter(waits).map(|b| weights[b].value()).sum();
                let all: f64 = (0..crate::BANDS).map(|b| self.band_cost(domain, b)).sum();
                (fair * sum / weights[band.index()].value()).min(all)
            }
        }
    }

    pub(super) fn band_cost(&self, domain: u32, band: usize) -> f64 {
        let pools = &self.supply.domains[domain as usize];
        pools.iter().map(|&pool| self.fair_queues[pool as usize][band].cost_waiting as f64).sum()
    }
}
