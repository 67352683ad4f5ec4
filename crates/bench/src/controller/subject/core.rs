//! The core as a subject: a [`Controller`] with one backend that has a fixed number in flight.

use std::collections::VecDeque;

use anyhow::{Context as _, Result, bail, ensure};
use flow::{
    Ask, Band, Controller, Event, FlowId, Order, Settings, Span, Ticket, Time, Usage, Verdict,
    Workload,
};
use sim::random::Random;

use super::{AGE_SEED, IN_FLIGHT, STEP_NANOS, STORM_NANOS, Shape, Subject};
use crate::controller::draw::{Draw, shuffle};
use crate::controller::fixture::{self, MODEL, WORKLOADS, settings};

#[derive(Clone, Debug)]
pub(crate) struct CoreSubject {
    controller: Controller,
    /// The band of every ask but those that preempt.
    band: Band,
    flows: Vec<FlowId>,
    workloads: Vec<Workload>,
    waiting: Vec<Ticket>,
    in_flight: VecDeque<Ticket>,
    steps: Vec<Step>,
    now: u64,
}

/// A draw in the core's own terms.
#[derive(Clone, Copy, Debug)]
struct Step {
    ask: Draw,
    flow: FlowId,
    workload: Workload,
}

// === impl CoreSubject ===

impl CoreSubject {
    /// A queue of this shape with asks that expire long after the measurement.
    pub(crate) fn patient(shape: Shape, order: Order, draws: &[Draw]) -> Result<Self> {
        let mut subject = Self::empty(shape, settings(order, f64::from(IN_FLIGHT))?);
        subject.fill(draws, |_| None)?;
        Ok(subject)
    }

    /// A queue of this shape whose asks all expire within a second.
    pub(crate) fn hasty(shape: Shape, draws: &[Draw]) -> Result<Self> {
        let mut subject = Self::empty(shape, settings(Order::Fifo, f64::from(IN_FLIGHT))?);
        // A time to live of zero would be refused.
        subject
            .fill(draws, |draw| Some(Span::from_nanos(1 + u64::from(draw.pick % STORM_NANOS))))?;
        Ok(subject)
    }

    /// A full queue of best-effort asks, in which every better ask evicts one.
    pub(crate) fn crowded(shape: Shape, draws: &[Draw]) -> Result<Self> {
        let settings = settings(Order::Fifo, f64::from(IN_FLIGHT))?;
        let mut subject = Self::empty(shape, Settings { total_capacity: shape.queued, ..settings });
        subject.band = Band::BestEffort;
        subject.fill(draws, |_| None)?;
        Ok(subject)
    }

    fn empty(shape: Shape, settings: Settings) -> Self {
        let named = if settings.order == Order::Workload { WORKLOADS } else { 0 };
        let mut controller = fixture::open(settings);
        let flows = fixture::flows(&mut controller, shape.flows);
        let workloads = fixture::workloads(&mut controller, named);
        let (waiting, in_flight, steps) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { controller, band: Band::Normal, flows, workloads, waiting, in_flight, steps, now: 0 }
    }

    fn fill(&mut self, draws: &[Draw], ttl: impl Fn(&Draw) -> Option<Span>) -> Result<()> {
        self.load(draws);
        self.offer_all(&ttl)?;
        let mut waiting = std::mem::take(&mut self.waiting);
        shuffle(&mut Random::new(AGE_SEED), &mut waiting);
        for ticket in waiting {
            self.controller.cancel(ticket, Time::ZERO)?;
        }
        self.steps.drain(..IN_FLIGHT as usize);
        self.offer_all(&ttl)
    }

    fn offer_all(&mut self, ttl: &impl Fn(&Draw) -> Option<Span>) -> Result<()> {
        for step in &self.steps {
            let ask = Ask { ttl: ttl(&step.ask), ..step.ask(self.band) };
            match self.controller.offer(ask, Time::ZERO) {
                Verdict::Granted { ticket, .. } => self.in_flight.push_back(ticket),
                Verdict::Queued { ticket } => self.waiting.push(ticket),
                Verdict::Refused { reason, .. } => bail!("the core refused an ask: {reason:?}"),
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn waiting_by_flow(&self) -> Vec<u32> {
        self.controller.flows().map(|flow| flow.waiting.iter().sum()).collect()
    }

    /// Runs the batch as asks of a high band, each of which takes the place of another ask.
    pub(crate) fn preempt(&mut self) -> Result<()> {
        let now = Time::from_nanos(self.now);
        for step in &self.steps {
            self.controller.offer(step.ask(Band::High), now);
            let evicted = self.controller.poll_event();
            ensure!(matches!(evicted, Some(Event::Evicted { .. })), "no request was preempted");
        }
        Ok(())
    }
}

impl Subject for CoreSubject {
    fn load(&mut self, draws: &[Draw]) {
        let (flows, workloads) = (&self.flows, &self.workloads);
        let workload = |draw: &Draw| match workloads.len() {
            0 => Workload::NONE,
            count => workloads[draw.pick as usize % count],
        };
        let step =
            |&ask: &Draw| Step { ask, flow: flows[ask.flow as usize], workload: workload(&ask) };
        self.steps.clear();
        self.steps.extend(draws.iter().map(step));
    }

    fn keep(&mut self, steps: usize) {
        self.steps.truncate(steps);
    }

    fn cycle(&mut self) -> Result<()> {
        self.controller.wake(Time::from_nanos(self.now));
        for step in &self.steps {
            self.now += STEP_NANOS;
            let now = Time::from_nanos(self.now);
            let oldest = self.in_flight.pop_front().context("nothing is in flight")?;
            self.controller.settle(oldest, Usage::Cost(u64::from(step.ask.actual)), now)?;
            self.in_flight.extend(fixture::granted(&mut self.controller));
            self.controller.offer(step.ask(self.band), now);
        }
        Ok(())
    }

    fn churn(&mut self) -> Result<()> {
        for step in &self.steps {
            self.now += STEP_NANOS;
            let now = Time::from_nanos(self.now);
            let place = &mut self.waiting[step.ask.pick as usize];
            self.controller.cancel(*place, now)?;
            let Verdict::Queued { ticket } = self.controller.offer(step.ask(self.band), now) else {
                bail!("an ask that should wait did not");
            };
            *place = ticket;
        }
        Ok(())
    }

    fn expire(&mut self) -> Result<u32> {
        let mut gone = 0;
        while let Some(due) = self.controller.next_wake() {
            self.controller.wake(due);
            while self.controller.poll_event().is_some() {
                gone += 1;
            }
        }
        Ok(gone)
    }

    fn check(&self) -> Result<()> {
        let (depth, flying) = (self.controller.depth() as usize, self.controller.in_flight());
        ensure!(depth == self.waiting.len(), "{depth} wait instead of {}", self.waiting.len());
        ensure!(flying == IN_FLIGHT, "{flying} are in flight instead of {IN_FLIGHT}");
        Ok(())
    }
}

// === impl Step ===

impl Step {
    fn ask(&self, band: Band) -> Ask {
        let Draw { cost, .. } = self.ask;
        let (flow, workload) = (self.flow, self.workload);
        Ask { band, cost: u64::from(cost), workload, ..Ask::new(flow, MODEL) }
    }
}
