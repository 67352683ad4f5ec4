//! The waiting asks of one flow queue, in the configured order.

use std::collections::BTreeSet;

use super::asks::Asks;
use super::fifo::Fifo;
use super::urgency::UrgencyOrder;
use crate::outcome::RequeuePosition;
use crate::settings::{Order, UrgencyWeights};
use crate::time::Time;
use crate::workload::Registry;

#[derive(Clone, Debug)]
pub(crate) enum OrderedAsks {
    Fifo(Fifo),
    Deadline(Box<DeadlineOrder>),
    Workload(Box<UrgencyOrder>),
}

/// Earliest deadline first. The list in arrival order has the newest ask, which preemption needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeadlineOrder {
    arrivals: Fifo,
    by_deadline: BTreeSet<(Time, u64, u32)>,
}

/// The state that the choice of the first ask may depend on.
pub(crate) struct OrderContext<'a> {
    pub(crate) now: Time,
    pub(crate) weights: &'a UrgencyWeights,
    pub(crate) registry: &'a mut Registry,
}

// === impl OrderedAsks ===

impl OrderedAsks {
    pub(crate) fn new(order: Order) -> Self {
        match order {
            Order::Fifo => Self::Fifo(Fifo::default()),
            Order::Deadline => Self::Deadline(Box::default()),
            Order::Workload => Self::Workload(Box::default()),
        }
    }

    pub(crate) fn insert(&mut self, slot: u32, place: RequeuePosition, asks: &mut Asks) {
        match self {
            Self::Fifo(fifo) => insert(fifo, slot, place, asks),
            Self::Deadline(order) => {
                insert(&mut order.arrivals, slot, place, asks);
                order.by_deadline.insert(deadline_key(slot, asks));
            }
            Self::Workload(order) => order.insert(slot, place, asks),
        }
    }

    pub(crate) fn remove(&mut self, slot: u32, asks: &mut Asks) {
        match self {
            Self::Fifo(fifo) => fifo.remove(slot, asks),
            Self::Deadline(order) => {
                order.by_deadline.remove(&deadline_key(slot, asks));
                order.arrivals.remove(slot, asks);
            }
            Self::Workload(order) => order.remove(slot, asks),
        }
    }

    /// The ask that goes next.
    pub(crate) fn first(&self, context: OrderContext<'_>) -> Option<u32> {
        match self {
            Self::Fifo(fifo) => fifo.head(),
            Self::Deadline(order) => order.by_deadline.first().map(|&(_, _, slot)| slot),
            Self::Workload(order) => order.most_urgent(context),
        }
    }

    /// The ask that came last.
    pub(crate) fn newest(&self, asks: &Asks) -> Option<u32> {
        match self {
            Self::Fifo(fifo) => fifo.tail(),
            Self::Deadline(order) => order.arrivals.tail(),
            Self::Workload(order) => order.newest(asks),
        }
    }
}

pub(crate) fn insert(fifo: &mut Fifo, slot: u32, place: RequeuePosition, asks: &mut Asks) {
    match place {
        RequeuePosition::Back => fifo.push_back(slot, asks),
        RequeuePosition::Original => fifo.restore(slot, asks),
    }
}

fn deadline_key(slot: u32, asks: &Asks) -> (Time, u64, u32) {
    let ask = &asks[slot];
    (ask.deadline, ask.sequence, slot)
}
