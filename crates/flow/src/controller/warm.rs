//! The search for the waiting ask with the most of its prompt cached where there is room.

use super::Controller;
use super::prompts::AskPrompt;
use crate::ask::Band;
use crate::queue::flow_queue::FlowQueue;
use crate::queue::warm_asks::Step;
use crate::settings::Order;
use crate::time::Time;

/// The most asks that are looked at for one grant.
const LOOK_MAX: usize = 256;
/// Each flow queue is compared at each backend. In a large pool fewer backends are compared, so
/// that a grant stays short.
const LINES_MAX: usize = 4096;
/// The most asks that are filed anew for one grant, because a backend begins to hold their prompts.
const GAIN_MAX: usize = 1024;

/// What is searched for one grant.
#[derive(Debug)]
pub(super) struct Search {
    /// The flow queues that may go, in the order of their turns.
    lines: Vec<Line>,
    /// The backends with room that have anything cached.
    caches: Vec<u32>,
    /// The asks that may not go now.
    refused: Vec<u32>,
}

/// A flow queue that may go.
#[derive(Clone, Copy, Debug)]
struct Line {
    flow_queue: u32,
    /// The ask whose turn it is in this flow queue.
    first: u32,
    /// How much it has cached, if no other one of the flow queue may go before it.
    alone: Option<Step>,
}

/// An ask, and how much of its prompt was cached when it was last looked at.
#[derive(Clone, Copy, Debug)]
struct Found {
    line: Line,
    slot: u32,
    step: Step,
    /// The backend that may no longer have it.
    at: Option<u32>,
}

// === impl Search ===

impl Search {
    fn refuses(&self, slot: u32) -> bool {
        self.refused.contains(&slot)
    }
}

// === impl Controller ===

impl Controller {
    /// Files an ask that begins to wait under its prompt.
    pub(super) fn watch_prompt(&mut self, slot: u32) {
        let Some(AskPrompt { blocks, .. }) = self.prompts.get(slot as usize) else { return };
        if blocks.is_empty() || !self.reorders() {
            return;
        }
        let ask = &self.asks[slot];
        let pool = self.flow_queues[ask.flow_queue].pool;
        let backend = |&at: &u32| (at, &self.supply.backends[at as usize].prefixes);
        let backends = self.supply.pools[pool as usize].members.iter().map(backend);
        let backends = backends.filter(|(_, prefixes)| !prefixes.is_empty());
        self.warm.insert(slot, (ask.flow_queue, ask.turn()), (blocks, ask.prompt()), backends);
    }

    /// Files waiting asks anew because a backend begins to hold these blocks.
    pub(super) fn look_again_for(&mut self, blocks: &[u64], backend: u32) {
        let prefixes = &self.supply.backends[backend as usize].prefixes;
        let mut left = GAIN_MAX;
        for &block in blocks {
            let gaining = self.warm.gain_by(block, backend, left);
            left -= gaining.len();
            for slot in gaining {
                self.warm.look_at(slot, backend, prefixes);
            }
        }
    }

    /// The flow queue and the ask that go, among these flow queues: an ask with so much more of its
    /// prompt cached that it goes before the others, or the first one that is not delayed. `first`
    /// is the ask whose turn it is, and whether it is delayed.
    pub(super) fn search(
        &mut self,
        (first, delayed): (u32, bool),
        (within, mut caches): (Vec<u32>, Vec<u32>),
        now: Time,
    ) -> Option<(u32, u32)> {
        caches.truncate((LINES_MAX / within.len().max(1)).max(1));
        let mut lines = Vec::with_capacity(within.len());
        lines.extend(within.into_iter().filter_map(|at| self.line_of(at, &caches, now)));
        let refused = if delayed { vec![first] } else { Vec::new() };
        let mut search = Search { lines, caches, refused };
        let own = (!delayed).then(|| self.step_of(first, &search.caches));
        for _ in 0..LOOK_MAX {
            let Some(best) = self.most_cached(&search) else { break };
            if own.is_some_and(|own| own >= best.step.below()) {
                break;
            }
            let Some(found) = self.first_with(&search, best.step) else { break };
            if self.has_less(best) || self.has_less(found) {
                continue;
            }
            let past = [best, found].into_iter().find(|found| self.is_past(found, now));
            if past.is_none() && self.goes(found, now) {
                return Some((found.line.flow_queue, found.slot));
            }
            search.refused.push(past.unwrap_or(found).slot);
        }
        match own {
            Some(_) => Some((self.asks[first].flow_queue, first)),
            None => self.first_undelayed(&search, now),
        }
    }

    /// Whether asks of a flow queue go before others for their cached prompts.
    pub(super) fn reorders(&self) -> bool {
        self.looks_for_cached()
            && self.settings.cache_reorder > 0
            && self.settings.order == Order::Fifo
    }

    fn line_of(&mut self, flow_queue: u32, caches: &[u32], now: Time) -> Option<Line> {
        let first = self.first_ask_of(flow_queue, now)?;
        let ask = &self.asks[first];
        let FlowQueue { passed_by, waiting, band, .. } = &self.flow_queues[flow_queue];
        let open = self.reorders()
            && *band != Band::Critical
            && !ask.late
            && ask.deadline > now
            && passed_by.allows(ask.turn(), self.settings.cache_reorder.min(waiting / 2));
        let alone = (!open).then(|| self.step_of(first, caches));
        Some(Line { flow_queue, first, alone })
    }

    /// How much of an ask's prompt one of these backends has cached for it.
    fn step_of(&self, slot: u32, caches: &[u32]) -> Step {
        let Some(AskPrompt { blocks, .. }) = self.prompts.get(slot as usize) else {
            return Step::NONE;
        };
        let flow_queue = self.asks[slot].flow_queue;
        let usable = |at: &&u32| self.may_use(flow_queue, **at) && self.has_model(**at, slot);
        let held = |&at: &u32| self.supply.backends[at as usize].prefixes.held_of(blocks.hashes());
        let held = caches.iter().filter(usable).map(held).max().unwrap_or(0);
        Step::of(blocks.tokens_of(held, self.asks[slot].prompt()))
    }

    fn may_use(&self, flow_queue: u32, backend: u32) -> bool {
        let flow = self.flow_queues[flow_queue].flow;
        !self.flows[flow].limited || self.flows.may_use(flow, backend)
    }

    /// An ask with the most cached, as last looked at.
    fn most_cached(&self, search: &Search) -> Option<Found> {
        let mut best: Option<Found> = None;
        for found in search.lines.iter().flat_map(|&line| self.most_of(line, search)) {
            if best.is_none_or(|best| found.step > best.step) {
                best = Some(found);
            }
        }
        best
    }

    /// Of a flow queue, the ask with the most cached at each backend.
    fn most_of<'a>(
        &'a self,
        line: Line,
        search: &'a Search,
    ) -> impl Iterator<Item = Found> + use<'a> {
        let alone = line.alone.filter(|&own| own > Step::NONE && !search.refuses(line.first));
        let alone = alone.map(|step| Found { line, slot: line.first, step, at: None });
        let caches = self.caches_for(line, search).filter(move |_| line.alone.is_none());
        let found = caches.filter_map(move |at| {
            let refuses = |slot| search.refuses(slot);
            let (step, slot) = self.warm.most(line.flow_queue, at, refuses)?;
            Some(Found { line, slot, step, at: Some(at) })
        });
        alone.into_iter().chain(found)
    }

    /// The ask whose turn is first among those that have this much cached, or nearly.
    fn first_with(&self, search: &Search, step: Step) -> Option<Found> {
        search.lines.iter().find_map(|&line| self.first_of(line, search, step))
    }

    fn first_of(&self, line: Line, search: &Search, step: Step) -> Option<Found> {
        if let Some(own) = line.alone {
            let enough = own >= step.below() && own > Step::NONE;
            let found = Found { line, slot: line.first, step: own, at: None };
            return (enough && !search.refuses(line.first)).then_some(found);
        }
        let steps = |at| [step, step.below()].into_iter().map(move |step| (at, step));
        let found = self.caches_for(line, search).flat_map(steps).filter_map(|(at, step)| {
            let refuses = |slot| search.refuses(slot);
            let slot = self.warm.first_with((line.flow_queue, at, step), refuses)?;
            Some(Found { line, slot, step, at: Some(at) })
        });
        found.min_by_key(|found| self.asks[found.slot].turn())
    }

    fn caches_for<'a>(
        &'a self,
        line: Line,
        search: &'a Search,
    ) -> impl Iterator<Item = u32> + use<'a> {
        let caches = search.caches.iter().copied();
        caches.filter(move |&at| self.may_use(line.flow_queue, at))
    }

    /// Looks at an ask again where it was found; returns whether less of it is cached than before.
    fn has_less(&mut self, Found { slot, step, at, .. }: Found) -> bool {
        at.is_some_and(|at| {
            let prefixes = &self.supply.backends[at as usize].prefixes;
            self.warm.look_at(slot, at, prefixes) != step
        })
    }

    /// Whether an ask in the line of a backend is late or expired; that is found in its turn.
    fn is_past(&self, found: &Found, now: Time) -> bool {
        let ask = &self.asks[found.slot];
        found.at.is_some() && (ask.is_late(now) || ask.deadline <= now)
    }

    /// Whether an ask that was found may go now. If it is the first one of its flow queue and does
    /// not go for a cache elsewhere, its wait begins.
    fn goes(&mut self, Found { line, slot, at, .. }: Found, now: Time) -> bool {
        self.asks[slot].deadline > now
            && at.is_none_or(|at| self.has_model(at, slot))
            && !self.is_put_off(line, slot, now)
    }

    /// The first ask that does not wait for a cache, whether or not anything of it is cached.
    fn first_undelayed(&mut self, search: &Search, now: Time) -> Option<(u32, u32)> {
        let count = (LOOK_MAX / search.lines.len().max(1)).max(1);
        search.lines.iter().find_map(|&line| {
            let mut next = vec![line.first];
            if line.alone.is_none() {
                next.clear();
                let ordered = &self.flow_queues[line.flow_queue].ordered;
                ordered.next_fresh(count, now, &self.asks, &mut next);
            }
            let mut goes = |&slot: &u32| !search.refuses(slot) && !self.is_put_off(line, slot, now);
            let found = next.into_iter().find(&mut goes);
            found.map(|slot| (line.flow_queue, slot))
        })
    }

    fn is_put_off(&mut self, line: Line, slot: u32, now: Time) -> bool {
        let Some(delay) = self.delay_of(slot, now) else { return false };
        if slot == line.first {
            self.put_off(slot, delay);
        }
        true
    }
}
