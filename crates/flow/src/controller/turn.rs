//! Which claims take part in their rounds.
//!
//! A claim takes part while something waits in it and its flow's limits allow one more grant. A
//! flow at `in_flight_max` takes part nowhere; a flow limited per backend takes part at the doors
//! of those backends where it holds less than its limit.

use super::Controller;
use crate::ask::Band;
use crate::links::NONE;
use crate::queue::claim::Claim;
use crate::queue::fair::NEW;
use crate::queue::line::Line;
use crate::queue::round::Round;

/// Where an ask stands, or would: a flow in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) flow: u32,
    pub(super) band: Band,
    pub(super) pool: u32,
}

// === impl Controller ===

impl Controller {
    /// The flow's claim in a round, if it ever had one.
    pub(super) fn find_claim(&self, spot: Spot) -> Option<u32> {
        let mut at = self.flows[spot.flow].claim_first;
        while at != NONE {
            let claim = &self.claims[at];
            if claim.band == spot.band && claim.pool == spot.pool {
                return Some(at);
            }
            at = claim.next;
        }
        None
    }

    /// The flow's claim in a round, made on first use.
    pub(super) fn claim_for(&mut self, spot: Spot) -> u32 {
        if let Some(known) = self.find_claim(spot) {
            return known;
        }
        let Spot { flow, band, pool } = spot;
        let claim = self.claims.insert(Claim {
            tag: NEW,
            weight: self.flows.policy(flow).weight,
            line: Line::new(self.settings.order),
            waiting: 0,
            flow,
            pool,
            next: self.flows[flow].claim_first,
            turn: 0,
            period: 0,
            band,
            active: false,
            cost_waiting: 0,
        });
        self.flows[flow].claim_first = claim;
        claim
    }

    pub(super) fn claims_of(&self, flow: u32) -> Vec<u32> {
        let first = Some(self.flows[flow].claim_first).filter(|&at| at != NONE);
        let next = |&at: &u32| Some(self.claims[at].next).filter(|&at| at != NONE);
        std::iter::successors(first, next).collect()
    }

    pub(super) fn round_of(&mut self, claim: u32) -> &mut Round {
        let Claim { pool, band, .. } = self.claims[claim];
        &mut self.rounds[pool as usize][band.index()]
    }

    /// A claim begins to wait with an ask of this cost.
    pub(super) fn join(&mut self, claim: u32, cost: u32) {
        self.activate(claim, |round, Claim { tag, weight, .. }| {
            round.clock.join(*tag, *weight, cost)
        });
    }

    /// A claim that a limit kept out may go again.
    pub(super) fn rejoin(&mut self, claim: u32) {
        if self.claims[claim].waiting > 0 && !self.claims[claim].active {
            self.activate(claim, |round, Claim { tag, weight, .. }| {
                round.clock.rejoin(*tag, *weight)
            });
        }
    }

    /// A claim goes on after a rebuild, with the lead or the lag it had.
    pub(super) fn resume(&mut self, claim: u32) {
        if self.claims[claim].waiting > 0 {
            self.activate(claim, |round, Claim { tag, weight, .. }| {
                round.clock.resume(*tag, *weight)
            });
        }
    }

    fn activate(&mut self, at: u32, start: impl Fn(&mut Round, &Claim) -> u64) {
        let Claim { flow, pool, .. } = self.claims[at];
        if self.flows[flow].limited && self.flows.is_at_limit(flow) {
            return;
        }
        let limited = self.flows[flow].limited && self.flows.is_limited_per_backend(flow);
        let members = self.supply.pools[pool as usize].members.iter().copied();
        let doors: Vec<u32> = if limited {
            members.filter(|&b| self.flows.may_use(flow, b)).collect()
        } else {
            Vec::new()
        };
        if limited && doors.is_empty() {
            return;
        }
        let claim = &mut self.claims[at];
        let round = &mut self.rounds[pool as usize][claim.band.index()];
        claim.tag = start(round, claim);
        claim.period = claim.period.wrapping_add(1);
        claim.turn = round.next_turn();
        claim.active = true;
        let turn = claim.turn(at);
        if limited {
            doors.into_iter().for_each(|backend| round.enter_door(backend, turn));
        } else {
            round.enter(turn, &mut self.positions);
        }
    }

    /// Takes a claim out of its round.
    pub(super) fn deactivate(&mut self, at: u32) {
        let claim = &mut self.claims[at];
        if !std::mem::take(&mut claim.active) {
            return;
        }
        let round = &mut self.rounds[claim.pool as usize][claim.band.index()];
        round.clock.leave(claim.weight);
        round.exit(at, &mut self.positions);
        // The idle rule may have moved the clock far without any grant.
        if round.clock.has_run_far() {
            self.rebase(at);
        }
    }

    /// A grant to `backend` may have brought a limited flow to its limit.
    pub(super) fn close_doors(&mut self, flow: u32, backend: u32) {
        if self.flows.is_limited_per_backend(flow) {
            self.flows.hold(flow, backend);
        }
        let at_limit = self.flows.is_at_limit(flow);
        if !at_limit && self.flows.may_use(flow, backend) {
            return;
        }
        for claim in self.claims_of(flow) {
            let active = self.claims[claim].active;
            if active && (at_limit || !self.round_of(claim).exit_door(backend, claim)) {
                self.deactivate(claim);
            }
        }
    }

    /// A grant at `backend` has ended, so a limited flow may be below its limit again.
    pub(super) fn open_doors(&mut self, flow: u32, backend: u32) {
        let per_backend = self.flows.is_limited_per_backend(flow);
        if per_backend {
            self.flows.release(flow, backend);
        }
        // A limit that has shrunk may be passed still.
        let opens = per_backend && self.flows.may_use(flow, backend);
        for at in self.claims_of(flow) {
            self.rejoin(at);
            let Claim { active, pool, .. } = self.claims[at];
            let member = self.supply.pools[pool as usize].members.contains(&backend);
            if active && opens && member {
                let turn = self.claims[at].turn(at);
                self.round_of(at).enter_door(backend, turn);
            }
        }
    }
}
