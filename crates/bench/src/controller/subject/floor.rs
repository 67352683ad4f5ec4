//! The floor as a subject.

use std::collections::VecDeque;

use anyhow::{Context as _, Result};
use sim::random::Random;

use super::{AGE_SEED, IN_FLIGHT, STEP_NANOS, STORM_NANOS, Shape, Subject, TTL_NANOS};
use crate::controller::draw::{Draw, shuffle};
use crate::controller::floor::Floor;

#[derive(Clone, Debug)]
pub(crate) struct FloorSubject {
    floor: Floor,
    waiting: Vec<u32>,
    in_flight: VecDeque<u32>,
    steps: Vec<Draw>,
    expired: Vec<u32>,
    now: u64,
}

// === impl FloorSubject ===

impl FloorSubject {
    /// A queue of this shape with asks that expire long after the measurement.
    pub(crate) fn patient(shape: Shape, draws: &[Draw]) -> Self {
        Self::filled(shape, draws, |_| TTL_NANOS)
    }

    /// A queue of this shape whose asks all expire within a second.
    pub(crate) fn hasty(shape: Shape, draws: &[Draw]) -> Self {
        Self::filled(shape, draws, |draw| u64::from(draw.pick % STORM_NANOS))
    }

    fn filled(shape: Shape, draws: &[Draw], ttl: impl Fn(&Draw) -> u64) -> Self {
        let mut floor = Floor::new(shape.flows);
        let (first, rest) = draws.split_at(IN_FLIGHT as usize);
        // Those that will be in flight are offered and granted before the others come.
        for draw in first {
            floor.offer(draw.flow, draw.cost, ttl(draw));
        }
        let in_flight = std::iter::from_fn(|| floor.grant()).collect();
        let offer_all = |floor: &mut Floor| -> Vec<u32> {
            rest.iter().map(|draw| floor.offer(draw.flow, draw.cost, ttl(draw))).collect()
        };
        let mut waiting = offer_all(&mut floor);
        shuffle(&mut Random::new(AGE_SEED), &mut waiting);
        waiting.into_iter().for_each(|at| floor.cancel(at));
        let waiting = offer_all(&mut floor);
        Self { floor, waiting, in_flight, steps: Vec::new(), expired: Vec::new(), now: 0 }
    }
}

#[cfg(test)]
impl FloorSubject {
    pub(crate) fn waiting_by_flow(&self) -> Vec<u32> {
        self.floor.waiting_by_flow()
    }
}

impl Subject for FloorSubject {
    fn load(&mut self, draws: &[Draw]) {
        self.steps.clear();
        self.steps.extend_from_slice(draws);
    }

    fn keep(&mut self, steps: usize) {
        self.steps.truncate(steps);
    }

    fn cycle(&mut self) -> Result<()> {
        self.floor.wake(self.now, &mut self.expired);
        for step in &self.steps {
            self.now += STEP_NANOS;
            let oldest = self.in_flight.pop_front().context("nothing is in flight")?;
            self.floor.settle(oldest, step.actual);
            self.in_flight.extend(self.floor.grant());
            self.floor.offer(step.flow, step.cost, self.now + TTL_NANOS);
        }
        Ok(())
    }

    fn churn(&mut self) -> Result<()> {
        for step in &self.steps {
            self.now += STEP_NANOS;
            let place = &mut self.waiting[step.pick as usize];
            self.floor.cancel(*place);
            *place = self.floor.offer(step.flow, step.cost, self.now + TTL_NANOS);
        }
        Ok(())
    }

    fn expire(&mut self) -> Result<u32> {
        let mut gone = 0;
        for millis in 0..=u64::from(STORM_NANOS) / 1_000_000 + 2 {
            self.floor.wake(millis * 1_000_000, &mut self.expired);
            gone += self.expired.drain(..).count() as u32;
        }
        Ok(gone)
    }

    fn check(&self) -> Result<()> {
        anyhow::ensure!(self.expired.is_empty(), "asks expired while cycles were measured");
        anyhow::ensure!(self.in_flight.len() == IN_FLIGHT as usize, "the floor stopped granting");
        Ok(())
    }
}
