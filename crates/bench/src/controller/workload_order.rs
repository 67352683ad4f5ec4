//! The `workload` order by itself: what choosing among a thousand workloads costs.
//!
//! One flow, one ask for each workload. The same with a single workload costs everything but the
//! choice. The difference is the price of the choice, with all scores that it needs.

use std::collections::VecDeque;

use anyhow::{Context as _, Result, bail};
use flow::{Ask, Controller, Event, FlowId, Order, Ticket, Time, Usage, Verdict, Workload};

use super::fixture::{self, MODEL, WORKLOADS, settings};
use super::sample::Sample;
use super::subject::STEP_NANOS;
use crate::report::Table;
use crate::runner::Runner;
use testbed::stopwatch::Stopwatch;

const BATCHES: usize = 60;
const STEPS: usize = 500;
const SCORE_NANOS_MAX: f64 = 1_000.0;
const DEQUEUE_NANOS_MAX: f64 = 2_000.0;

/// One flow with one ask of each workload, and one ask in flight.
struct Line {
    controller: Controller,
    flow: FlowId,
    workloads: Vec<Workload>,
    /// The workload of each living ask, by its ticket's index.
    of_ticket: Vec<u32>,
    in_flight: VecDeque<Ticket>,
    now: u64,
}

pub(crate) fn measure(run: &mut Runner<'_>) -> Result<Table> {
    let title = "The workload order: from a settlement to the next grant";
    let mut table = Table::new(title, &[("least", 1), ("median", 1)]);
    table.subject = "ns";
    if !run.wants("scan")? {
        return Ok(table);
    }
    let (mut many, mut one) = (Line::new(WORKLOADS)?, Line::new(1)?);
    let (mut dequeue, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..run.batches(BATCHES) {
        alone.push(one.time_dequeues(STEPS)?);
        dequeue.push(many.time_dequeues(STEPS)?);
    }
    let (dequeue, alone) = (Sample::of(dequeue), Sample::of(alone));
    let choice = dequeue.min - alone.min;
    let many = format!("dequeue among {WORKLOADS} workloads");
    table.push_all(many, [dequeue.min, dequeue.median]);
    table.push_all("dequeue among one", [alone.min, alone.median]);
    table.push("the choice, with its scores", [Some(choice), None]);
    table.target("ns for the scores of a choice", SCORE_NANOS_MAX, choice);
    table.target("ns per workload dequeue", DEQUEUE_NANOS_MAX, dequeue.min);
    Ok(table)
}

// === impl Line ===

impl Line {
    fn new(count: u32) -> Result<Self> {
        let mut controller = fixture::open(settings(Order::Workload, 1.0)?);
        let flow = fixture::flows(&mut controller, 1)[0];
        let workloads = fixture::workloads(&mut controller, count);
        let (of_ticket, in_flight) = (vec![0; count as usize + 1], VecDeque::new());
        let mut line = Self { controller, flow, workloads, of_ticket, in_flight, now: 0 };
        line.offer(0)?;
        for workload in 0..count {
            line.offer(workload)?;
        }
        Ok(line)
    }

    fn offer(&mut self, workload: u32) -> Result<()> {
        let ask = Ask { workload: self.workloads[workload as usize], ..Ask::new(self.flow, MODEL) };
        let ticket = match self.controller.offer(ask, Time::from_nanos(self.now)) {
            Verdict::Queued { ticket } => ticket,
            Verdict::Granted { ticket, .. } => {
                self.in_flight.push_back(ticket);
                ticket
            }
            Verdict::Refused { reason, .. } => bail!("the core refused an ask: {reason:?}"),
        };
        self.of_ticket[ticket.index()] = workload;
        Ok(())
    }

    /// Nanoseconds from settling one ask until the next one is granted.
    fn time_dequeues(&mut self, steps: usize) -> Result<f64> {
        let mut nanos = 0.0;
        for _ in 0..steps {
            self.now += STEP_NANOS;
            let oldest = self.in_flight.pop_front().context("nothing is in flight")?;
            let watch = Stopwatch::start();
            self.controller.settle(oldest, Usage::Unknown, Time::from_nanos(self.now))?;
            let event = self.controller.poll_event();
            nanos += watch.nanos();
            let Some(Event::Granted { ticket, .. }) = event else { bail!("nothing was granted") };
            self.in_flight.push_back(ticket);
            self.offer(self.of_ticket[ticket.index()])?;
        }
        Ok(nanos / steps as f64)
    }
}
