//! One pass of the claim loop: messages are claimed and sent in the order of turns.

use std::sync::Arc;

use store::{Claim, ClaimRequest, Lane, StoreError};

use super::{CLAIM_MAX, ClaimLoop};
use crate::clock::moment;
use crate::dispatch::message_size::MessageSize;
use crate::dispatch::{ServedQueue, StopReason};
use crate::gates::{GatePermit, GateSet};

/// A claimed message that waits at a gate.
#[derive(Debug)]
pub(super) struct WaitingClaim {
    claim: Claim,
    size: MessageSize,
    /// The gate that did not allow it.
    gate: GateSet,
}

/// The number of messages to claim from one lane.
#[derive(Debug)]
struct LaneClaim {
    at: usize,
    tenant: String,
    most: usize,
}

// === impl ClaimLoop ===

impl ClaimLoop {
    /// Ends the messages at gates that need no request any more; returns their number.
    pub(super) fn end_waiting_at_gates(&mut self) -> usize {
        let dispatcher = Arc::clone(&self.dispatcher);
        let mut ended = 0;
        for (at, waiting) in self.waiting_at_gate.iter_mut().enumerate() {
            let Some(mut held) = waiting.take() else { continue };
            match dispatcher.stop_reason(&held.claim.reference) {
                Some(StopReason::Lost) => {
                    dispatcher.untrack(&held.claim.reference);
                    continue;
                }
                Some(StopReason::Cancelled) => held.claim.cancelled = true,
                Some(StopReason::Release) | None => {}
            }
            if needs_request(&held.claim) {
                *waiting = Some(held);
            } else {
                dispatcher.start(at, held.claim, None);
                ended += 1;
            }
        }
        ended
    }

    /// Releases a message that waits for a gate if one of its tenant with an earlier deadline
    /// arrived.
    pub(super) async fn yield_to_earlier(&mut self, lanes: &[(usize, Vec<Lane>)]) {
        for (at, lanes) in lanes {
            let Some(held) = &self.waiting_at_gate[*at] else { continue };
            let message = &held.claim.message;
            let earlier =
                |lane: &Lane| lane.tenant == message.tenant && lane.deadline < message.deadline;
            if lanes.iter().any(earlier)
                && let Some(held) = self.waiting_at_gate[*at].take()
            {
                self.dispatcher.release_unsent(held.claim.reference).await;
            }
        }
    }

    /// Sends messages in the order of turns, as far as the gates allow; returns their number. A
    /// message that waits at a gate in its turn holds up the others there whose turn comes later:
    /// else small messages would take what a large one needs, for ever.
    pub(super) async fn send(&mut self, lanes: &[(usize, Vec<Lane>)]) -> Result<usize, StoreError> {
        let dispatcher = Arc::clone(&self.dispatcher);
        let queues = &dispatcher.queues;
        let lanes_of = |at| lanes.iter().find(|(of, _)| *of == at).map_or(&[][..], |(_, of)| of);
        let waiting = |at: usize| {
            let at_gate = u64::from(self.waiting_at_gate[at].is_some());
            at_gate + lanes_of(at).iter().map(|lane| lane.waiting).sum::<u64>()
        };
        let waiting: Vec<u64> = (0..queues.len()).map(waiting).collect();
        let (rooms, most) = (dispatcher.gates.rooms(), self.workers().min(CLAIM_MAX));
        let mut started = 0;
        let (mut sends, mut held_up) = (vec![false; queues.len()], Vec::<GateSet>::new());
        for (at, most) in self.turns.of_queues(queues, &waiting, rooms, most) {
            if held_up.iter().any(|gate| gate.shares(&queues[at].gates)) {
                continue;
            }
            started += self.send_of(at, lanes_of(at), most).await?;
            held_up.extend(self.waiting_at_gate[at].as_ref().map(|held| held.gate.clone()));
            sends[at] = self.waiting_at_gate[at].is_none();
        }
        for (at, lanes) in lanes.iter().filter(|(at, _)| !sends[*at]) {
            started += self.claim_expired(*at, lanes).await?;
        }
        Ok(started)
    }

    /// Sends messages of one queue: the one that waits at a gate before all others.
    async fn send_of(
        &mut self,
        at: usize,
        lanes: &[Lane],
        mut most: usize,
    ) -> Result<usize, StoreError> {
        let dispatcher = Arc::clone(&self.dispatcher);
        let served = &dispatcher.queues[at];
        let mut started = 0;
        if let Some(held) = self.waiting_at_gate[at].take() {
            if !self.start((at, served), held.claim, held.size) {
                return Ok(0);
            }
            (started, most) = (1, most.saturating_sub(1));
        }
        let most = most.min(self.free_workers());
        for (tenant, most) in self.turns.of_tenants((at, served), lanes, most) {
            started += self.claim(LaneClaim { at, tenant, most }).await?;
            if self.waiting_at_gate[at].is_some() {
                break;
            }
        }
        Ok(started)
    }

    /// Claims expired messages, which get their result although the gates are closed: the first of
    /// each lane, one at a time.
    async fn claim_expired(&mut self, at: usize, lanes: &[Lane]) -> Result<usize, StoreError> {
        let (now, mut started) = (moment(), 0);
        for lane in lanes.iter().filter(|lane| lane.deadline <= now) {
            if self.free_workers() > 0 {
                let tenant = lane.tenant.clone();
                started += self.claim(LaneClaim { at, tenant, most: 1 }).await?;
            }
        }
        Ok(started)
    }

    /// Claims messages of one lane and sends those that the gates allow; returns their number.
    async fn claim(&mut self, turn: LaneClaim) -> Result<usize, StoreError> {
        let LaneClaim { at, tenant, most } = turn;
        let dispatcher = Arc::clone(&self.dispatcher);
        let served = &dispatcher.queues[at];
        let until = moment().after(dispatcher.settings.lease);
        let request = ClaimRequest {
            queue: served.queue.name.clone(),
            tenant: tenant.clone(),
            limit: most,
            until,
        };
        let mut started = 0;
        let claims = dispatcher.store.claim(request, moment()).await;
        for claim in dispatcher.of_queue(served, claims).await?.into_iter().flatten() {
            dispatcher.track(&claim.reference);
            let size = served.measure(&claim.message).await;
            if needs_request(&claim) && self.waiting_at_gate[at].is_some() {
                dispatcher.release_unsent(claim.reference).await;
            } else if self.start((at, served), claim, size) {
                started += 1;
            }
        }
        Ok(started)
    }

    /// Sends a claimed message, or keeps it until its gates allow it. Returns whether it is sent.
    fn start(
        &mut self,
        (at, served): (usize, &ServedQueue),
        claim: Claim,
        size: MessageSize,
    ) -> bool {
        match self.acquire(served, &claim, size) {
            Ok(permit) => {
                self.charge((at, &claim.message.tenant), permit.as_ref());
                self.dispatcher.start(at, claim, permit);
                true
            }
            Err(gate) => {
                self.waiting_at_gate[at] = Some(WaitingClaim { claim, size, gate });
                false
            }
        }
    }

    /// Charges the queue and the tenant for a message, unless nothing is sent for it.
    fn charge(&mut self, (at, tenant): (usize, &str), permit: Option<&GatePermit>) {
        if permit.is_some() {
            self.turns.charge(&self.dispatcher.queues, (at, tenant));
        }
    }

    /// Acquires the gates for a message, or returns the one that refuses it. An expired or
    /// cancelled message needs none, because nothing is sent for it.
    fn acquire(
        &self,
        served: &ServedQueue,
        claim: &Claim,
        size: MessageSize,
    ) -> Result<Option<GatePermit>, GateSet> {
        if !needs_request(claim) {
            return Ok(None);
        }
        let size = served.size_at_gates(size);
        let gates = &self.dispatcher.gates;
        let acquired = gates.try_acquire(&served.gates, size).map(Some);
        acquired.map_err(|closed| gates.named(&[closed.gate]).unwrap_or(served.gates.clone()))
    }
}

/// Whether a claimed message is to be sent, and not only to be ended.
fn needs_request(claim: &Claim) -> bool {
    !claim.cancelled && claim.message.deadline > moment()
}
