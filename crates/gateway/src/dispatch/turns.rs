//! Whose messages go next: fair among queues, then among the tenants of each queue.
//!
//! Queues that share gates share what these allow, by weight. Requests in flight fill a gate most
//! of the time, so a queue keeps its place among the others meanwhile. Queues without a common gate
//! share the workers alone: what one sends through its own gate is no debt to the others. So the
//! queues that share gates are a group with a scheduler of its own, and the groups have one above.

use flow::{LaneScheduler, Weight};
use store::Lane;

use super::ServedQueue;
use crate::gates::Rooms;

/// The largest weight of a group.
const WEIGHT_MAX: f64 = 1000.0;

/// The turns of queues and tenants. Queues and groups have numbers.
#[derive(Debug)]
pub(super) struct Turns {
    /// The group of each queue.
    groups: Vec<usize>,
    group_turns: LaneScheduler<usize>,
    /// The turns of the queues of each group, and of the tenants of each queue.
    queue_turns: Vec<LaneScheduler<usize>>,
    tenant_turns: Vec<LaneScheduler<String>>,
}

// === impl Turns ===

impl Turns {
    pub(super) fn new(queues: &[ServedQueue]) -> Self {
        Self {
            groups: groups(queues),
            group_turns: LaneScheduler::default(),
            queue_turns: queues.iter().map(|_| LaneScheduler::default()).collect(),
            tenant_turns: queues.iter().map(|_| LaneScheduler::default()).collect(),
        }
    }

    /// The queues that may send now with their numbers of turns, in the order of their first turns.
    /// `waiting` has the messages of each queue.
    pub(super) fn of_queues(
        &mut self,
        queues: &[ServedQueue],
        waiting: &[u64],
        mut rooms: Rooms,
        most: usize,
    ) -> Vec<(usize, usize)> {
        let room = |at: usize| rooms.of(&queues[at].gates).unwrap_or(0);
        let mut of_groups = vec![0; queues.len()];
        for (at, &group) in self.groups.iter().enumerate() {
            of_groups[group] += count(waiting[at].min(room(at)));
        }
        let of_groups = of_groups.into_iter().enumerate();
        let of_groups: Vec<_> = of_groups
            .map(|(group, count)| (group, self.group_weight(queues, group), count))
            .collect();
        let mut turns = Vec::new();
        for (group, most) in self.group_turns.plan(of_groups, most) {
            let open = (0..queues.len()).filter(|&at| self.groups[at] == group);
            let open = open.filter(|&at| rooms.of(&queues[at].gates).is_some());
            let lanes: Vec<_> =
                open.map(|at| (at, queues[at].weight(), count(waiting[at]))).collect();
            let may = |&at: &usize| rooms.take(&queues[at].gates);
            turns.extend(self.queue_turns[group].plan_while(lanes, most, may));
        }
        turns
    }

    /// The tenants of a queue that may send now, with their numbers of turns.
    pub(super) fn of_tenants(
        &mut self,
        (at, queue): (usize, &ServedQueue),
        lanes: &[Lane],
        most: usize,
    ) -> Vec<(String, usize)> {
        let lane = |lane: &Lane| {
            (lane.tenant.clone(), queue.tenant_weight(&lane.tenant), count(lane.waiting))
        };
        self.tenant_turns[at].plan(lanes.iter().map(lane), most)
    }

    /// Charges a tenant, its queue and their group for a message that is sent.
    pub(super) fn charge(&mut self, queues: &[ServedQueue], (at, tenant): (usize, &str)) {
        let (group, queue) = (self.groups[at], &queues[at]);
        self.group_turns.charge(&group, self.group_weight(queues, group));
        self.queue_turns[group].charge(&at, queue.weight());
        self.tenant_turns[at].charge(&tenant.to_owned(), queue.tenant_weight(tenant));
    }

    fn group_weight(&self, queues: &[ServedQueue], group: usize) -> Weight {
        let members = queues.iter().zip(&self.groups).filter(|(_, of)| **of == group);
        let sum: f64 = members.map(|(served, _)| served.queue.weight).sum();
        weight(sum.min(WEIGHT_MAX))
    }
}

/// The group of each queue: queues that share gates, perhaps through others, have the same.
fn groups(queues: &[ServedQueue]) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..queues.len()).collect();
    for at in 0..queues.len() {
        for before in 0..at {
            let (from, to) = (groups[at], groups[before]);
            if queues[at].gates.shares(&queues[before].gates) {
                groups.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
            }
        }
    }
    groups
}

// === impl ServedQueue ===

impl ServedQueue {
    fn weight(&self) -> Weight {
        weight(self.queue.weight)
    }

    fn tenant_weight(&self, tenant: &str) -> Weight {
        let configured = self.queue.tenants.iter().find(|(name, _)| name == tenant);
        weight(configured.map_or(1.0, |(_, weight)| *weight))
    }
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The configuration has checked the weights.
fn weight(weight: f64) -> Weight {
    Weight::new(weight).unwrap_or(Weight::ONE)
}
