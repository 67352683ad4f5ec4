//! Models that backends load on demand: a backend stays with its models for a while, and asks for
//! them go first.
//!
//! A load takes seconds to minutes, and nothing is served meanwhile. In the order of turns, two
//! models on one backend would cost a load for nearly every ask. `docs/FLOW.md` section 19 has the
//! rule and its bounds.

use super::Controller;
use super::slack::NextAsk;
use crate::ask::{BackendId, ModelId};
use crate::loaded_models::LoadedModels;
use crate::queue::flow_queue::FlowQueue;
use crate::time::{Span, Time};

/// The most asks that are looked at for one grant, in equal parts from the flow queues.
const LOOK_MAX: usize = 256;

/// What to do if it is the turn of an ask.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// It may go.
    Goes,
    /// Its model would have to be loaded. This ask goes instead.
    Passed(NextAsk),
    /// Its model would have to be loaded, and the backends are busy with the models that they have.
    Waits,
}

// === impl Controller ===

impl Controller {
    /// A backend that loads models on demand has these loaded; `None` if that is unknown, so that
    /// every model counts as loaded. Report it every few seconds: asks whose model is not loaded
    /// may wait for the report.
    pub fn loaded(&mut self, backend: BackendId, models: Option<Vec<ModelId>>, now: Time) {
        let now = self.advance(now);
        let Some(at) = self.supply.find(backend) else { return };
        let counts = self.settings.model_stay > Span::ZERO;
        let models = models.filter(|_| counts).map(|models| models.into_iter().collect());
        let backend = &mut self.supply.backends[at as usize];
        backend.loaded.report(models);
        let domain = backend.domain;
        self.dispatch(domain, now);
    }

    /// Forgets which models are loaded, if that no longer counts.
    pub(super) fn fit_loaded_models(&mut self) {
        if self.settings.model_stay == Span::ZERO {
            let backends = self.supply.backends.iter_mut();
            backends.for_each(|backend| backend.loaded = LoadedModels::default());
        }
    }

    /// Whether the turn of a flow queue gives way, so that backends stay with their models.
    #[inline(never)]
    pub(super) fn turn_of(&mut self, turn: u32, slot: u32, now: Time) -> Turn {
        let goes = |at| self.has_model(at, slot) || !self.stays(at);
        if self.usable_by(turn).any(goes) || self.asks[slot].deadline <= now {
            return Turn::Goes;
        }
        let usable: Vec<u32> = self.usable_by(turn).collect();
        if usable.is_empty() {
            return Turn::Goes;
        }
        let within = self.within_slack(turn, self.settings.model_slack);
        let count = (LOOK_MAX / within.len().max(1)).max(1);
        for flow_queue in within {
            if let Some(slot) = self.loaded_ask_of(flow_queue, count, now) {
                let overtaken = (flow_queue != turn).then_some(self.flow_queues[turn].tag);
                return Turn::Passed(NextAsk { flow_queue, slot, overtaken });
            }
        }
        let is_idle = |at: &u32| self.supply.backends[*at as usize].in_flight_total() == 0;
        if usable.iter().any(is_idle) {
            return Turn::Goes;
        }
        let left = usable.iter().map(|&at| self.stay_left(at)).min();
        self.look_again_at(now.after(left.unwrap_or(Span::ZERO)));
        Turn::Waits
    }

    /// The first of the next asks of a flow queue whose model is loaded where there is room.
    fn loaded_ask_of(&mut self, flow_queue: u32, count: usize, now: Time) -> Option<u32> {
        let first = self.first_ask_of(flow_queue, now)?;
        let usable: Vec<u32> = self.usable_by(flow_queue).collect();
        let line = self.flow_queues[flow_queue].ordered.next_in_turn(count, now, &self.asks);
        let mut line = std::iter::once(first).chain(line);
        line.find(|&slot| usable.iter().any(|&at| self.has_model(at, slot)))
    }

    /// The backends with room that may take the asks of a flow queue.
    fn usable_by(&self, flow_queue: u32) -> impl Iterator<Item = u32> {
        let FlowQueue { flow, pool, .. } = self.flow_queues[flow_queue];
        let room = self.settings.bounds.to_dequeue();
        let limited = self.flows[flow].limited;
        let usable = move |&at: &u32| {
            self.supply.has_room(at, room) && (!limited || self.flows.may_use(flow, at))
        };
        self.supply.pools[pool as usize].members.iter().copied().filter(usable)
    }

    /// Whether a backend has loaded the model of an ask.
    pub(super) fn has_model(&self, backend: u32, slot: u32) -> bool {
        self.supply.backends[backend as usize].loaded.has(self.asks[slot].model_id())
    }

    /// Whether a backend stays with the models that it has.
    fn stays(&self, backend: u32) -> bool {
        self.stay_left(backend) > Span::ZERO
    }

    /// For how long, if no other model is loaded meanwhile. A load that takes longer than the stay
    /// is looked at again and again.
    fn stay_left(&self, backend: u32) -> Span {
        let loaded = &self.supply.backends[backend as usize].loaded;
        loaded.stay_left(self.settings.model_stay, self.clock)
    }

    /// Whether a backend does not take an ask for this model now: it is busy with another one, and
    /// stays with it.
    pub(super) fn defers(&self, backend: u32, model: ModelId) -> bool {
        let at = &self.supply.backends[backend as usize];
        !at.loaded.has(model) && at.in_flight_total() > 0 && self.stays(backend)
    }

    /// The milliseconds until a backend has loaded a model.
    pub(super) fn load_ms(&self, backend: u32, model: ModelId) -> f32 {
        let loaded = &self.supply.backends[backend as usize].loaded;
        loaded.price_ms(model, self.settings.model_stay, self.clock) as f32
    }

    /// Counts the model of an ask that was granted.
    pub(super) fn use_model(&mut self, slot: u32) {
        if self.settings.model_stay == Span::ZERO {
            return;
        }
        let backend = &mut self.supply.backends[self.asks[slot].backend as usize];
        if backend.loaded.granted(self.asks[slot].model_id(), slot) {
            // The memory of the other models is given to this one.
            backend.prefixes.clear();
        }
    }

    /// An ask has left its backend.
    pub(super) fn leave_model(&mut self, slot: u32) {
        if self.settings.model_stay > Span::ZERO {
            let backend = &mut self.supply.backends[self.asks[slot].backend as usize];
            backend.loaded.ended(slot, self.clock);
        }
    }
}
