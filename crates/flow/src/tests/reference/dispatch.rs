//! Queue to backend and backend to end: which flow queues are active, which ask goes, and its
//! charge.

use super::caches::Prompt;
use super::fair::{share, stretch};
use super::{FlowQueue, Outcome, Record, Reference};
use crate::ask::{BANDS, Band};
use crate::settings::{Bounds, Cascade, Order, Room, StockUnit};
use crate::time::Time;

// === impl Reference ===

impl Reference {
    pub(super) fn flow_queue_for(&mut self, flow: usize, pool: usize, band: Band) -> usize {
        let same = |flow_queue: &FlowQueue| {
            flow_queue.flow == flow && flow_queue.pool == pool && flow_queue.band == band
        };
        if let Some(known) = self.flow_queues.iter().position(same) {
            return known;
        }
        let weight = self.class_of(flow).weight;
        let (tag, period, moved, takes_part) = (None, 0, 0, false);
        self.flow_queues.push(FlowQueue {
            flow,
            pool,
            band,
            weight,
            tag,
            period,
            moved,
            takes_part,
            over_share: false,
            last_seen: None,
            used_since: None,
            passed_by: Vec::new(),
        });
        self.flow_queues.len() - 1
    }

    pub(super) fn flow_queues_of(&self, flow: usize) -> Vec<usize> {
        (0..self.flow_queues.len()).filter(|&at| self.flow_queues[at].flow == flow).collect()
    }

    pub(super) fn is_at_limit(&self, flow: usize) -> bool {
        let flying = |ask: &&Record| ask.backend.is_some() && self.flow_of(ask) == flow;
        let class = self.class_of(flow);
        let most = class.in_flight_max;
        most.is_some_and(|most| self.asks.iter().filter(flying).count() >= most as usize)
    }

    fn may_use(&self, flow: usize, backend: usize) -> bool {
        let there = |ask: &&Record| ask.backend == Some(backend) && self.flow_of(ask) == flow;
        let class = self.class_of(flow);
        let most = class.in_flight_per_backend_max;
        most.is_none_or(|most| self.asks.iter().filter(there).count() < most as usize)
    }

    pub(super) fn limits_allow(&self, flow_queue: usize) -> bool {
        let FlowQueue { flow, pool, .. } = self.flow_queues[flow_queue];
        let mut members = self.places.pools[pool].iter();
        !self.is_at_limit(flow) && members.any(|&backend| self.may_use(flow, backend))
    }

    /// Whether a flow queue is active and some backend with room may take its ask.
    pub(super) fn could_go(&self, at: usize, bound: u64) -> bool {
        let FlowQueue { flow, pool, takes_part, .. } = self.flow_queues[at];
        let takes =
            |&backend: &usize| self.places.has_room(backend, bound) && self.may_use(flow, backend);
        let open = self.places.is_open(pool, bound) && self.reserve_allows(at, bound);
        takes_part && open && self.places.pools[pool].iter().any(takes)
    }

    /// The weights of all active flow queues of a fair queue.
    fn units(&self, pool: usize, band: Band) -> u64 {
        let here = |flow_queue: &&FlowQueue| {
            flow_queue.takes_part && flow_queue.pool == pool && flow_queue.band == band
        };
        self.flow_queues
            .iter()
            .filter(here)
            .map(|flow_queue| u64::from(flow_queue.weight.units))
            .sum()
    }

    /// A flow queue becomes active, because of an ask of this cost or because a limit allows it.
    pub(super) fn begin(&mut self, at: usize, arrival: Option<u32>) {
        let flow_queue = &mut self.flow_queues[at];
        let clock = &mut self.fair_queues[flow_queue.pool][flow_queue.band.index()];
        flow_queue.tag = Some(match arrival {
            Some(cost) => clock.arrive(flow_queue.tag, stretch(cost.into(), flow_queue.weight)),
            None => clock.come_back(flow_queue.tag),
        });
        flow_queue.period += 1;
        flow_queue.moved = clock.next_move();
        flow_queue.takes_part = true;
    }

    pub(super) fn leave(&mut self, at: usize) {
        self.flow_queues[at].takes_part = false;
        let FlowQueue { pool, band, .. } = self.flow_queues[at];
        if self.units(pool, band) == 0 {
            self.fair_queues[pool][band.index()].idle();
        }
    }

    /// Activates or deactivates the flow queues of a flow by its limits.
    pub(super) fn reconsider(&mut self, flow: usize) {
        for at in self.flow_queues_of(flow) {
            let waits = self.waiting().any(|ask| self.asks[ask].flow_queue == at);
            let may = waits && self.limits_allow(at);
            match (may, self.flow_queues[at].takes_part) {
                (true, false) => self.begin(at, None),
                (false, true) => self.leave(at),
                _ => {}
            }
        }
    }

    /// Nothing waits in the domain any more: its levels forget old service.
    pub(super) fn settle_levels(&mut self, domain: usize) {
        let pools = &self.places.domains[domain];
        if self
            .waiting()
            .all(|at| !pools.contains(&self.flow_queues[self.asks[at].flow_queue].pool))
        {
            self.levels[domain].bands.idle();
            self.levels[domain].pools.iter_mut().for_each(super::Level::idle);
        }
    }

    /// The backends with room that may take the asks of a flow queue.
    pub(super) fn usable(&self, flow_queue: usize, bound: u64) -> Vec<usize> {
        let FlowQueue { flow, pool, .. } = self.flow_queues[flow_queue];
        let usable = |at: &usize| self.places.has_room(*at, bound) && self.may_use(flow, *at);
        self.places.pools[pool].iter().copied().filter(usable).collect()
    }

    pub(super) fn choose_backend(
        &self,
        flow_queue: usize,
        bound: u64,
        prompt: &Prompt,
    ) -> Option<usize> {
        // Backends of equal traits: the least weighted depth and price, then the longest unused.
        let band = self.flow_queues[flow_queue].band;
        let usable = self.usable(flow_queue, bound);
        // 8000 tokens a second, in millionths of a millisecond.
        let price = |at: usize| 125_000 * self.cache_price(at, &usable, prompt);
        let shared = self.is_shared(&usable, prompt);
        let cost = |at: usize| self.crowding(&self.places.backends[at], band, shared) + price(at);
        usable.iter().copied().min_by(|&one, &other| {
            let (a, b) = (&self.places.backends[one], &self.places.backends[other]);
            cost(one).cmp(&cost(other)).then(a.granted_at.cmp(&b.granted_at))
        })
    }

    /// The depth penalty of a backend in routing, in millionths of a point.
    fn crowding(&self, backend: &super::place::Backend, band: Band, shared: bool) -> i64 {
        let own = f64::from(band as u32 + 1);
        let counted = backend.in_flight.iter().zip(1u32..);
        let depth: f64 = counted
            .map(|(&count, weight)| f64::from(count) * (f64::from(weight) / own).min(1.0))
            .sum();
        let total = f64::from(backend.in_flight.iter().sum::<u32>());
        if self.settings.stock == StockUnit::Requests || total == 0.0 {
            return (50.0e6 * depth).round() as i64;
        }
        // Where stock is in tokens, a full backend counts as twenty requests.
        let Bounds::Fixed(bounds) = self.settings.bounds else { return 0 };
        let full = total * bounds.scaled(1)[1] / backend.stock as f64;
        // Where a prompt is shared, a request counts at least as one.
        let least = if shared { 1.0 } else { 0.0 };
        let weight = f64::from((20.0 / full) as f32).max(least).min(100.0);
        let fill = f64::from((total / full) as f32).min(1.0);
        ((50.0 * weight * depth + 50.0 * fill) * 1e6).round() as i64
    }

    pub(super) fn dispatch_all(&mut self) {
        for domain in 0..self.places.domains.len() {
            self.dispatch(domain);
        }
    }

    /// A backend has been released: its domain first, then wherever else the flow has a flow queue,
    /// the newest first.
    pub(super) fn drain_from(&mut self, flow: usize, backend: usize) {
        self.dispatch(self.places.domain_of_backend(backend));
        self.drain_flow(flow);
    }

    /// The limits of a flow allow more: wherever it has a flow queue, the newest first.
    pub(super) fn drain_flow(&mut self, flow: usize) {
        // The newest one first, among those that have had an ask.
        let mut used = self.flow_queues_of(flow);
        used.retain(|&at| self.flow_queues[at].used_since.is_some());
        used.sort_by_key(|&at| std::cmp::Reverse(self.flow_queues[at].used_since));
        for flow_queue in used {
            self.dispatch(self.places.domain_of(self.flow_queues[flow_queue].pool));
        }
        self.dispatch_all();
    }

    pub(super) fn dispatch(&mut self, domain: usize) {
        let Room::Below(bound) = self.settings.bounds.to_dequeue() else { return };
        let mut held = Vec::new();
        loop {
            let mut able = (0..self.flow_queues.len()).collect::<Vec<_>>();
            able.retain(|&at| {
                let FlowQueue { pool, band, .. } = self.flow_queues[at];
                self.places.domains[domain].contains(&pool)
                    && self.could_go(at, bound)
                    && !held.contains(&(pool, band))
            });
            if able.is_empty() {
                return;
            }
            let turn = self.next_flow_queue(domain, &able);
            let Some((at, overtaken)) = self.next_ask(turn, &able, bound) else {
                held.push((self.flow_queues[turn].pool, self.flow_queues[turn].band));
                continue;
            };
            let flow_queue = self.asks[at].flow_queue;
            if self.asks[at].deadline <= self.clock {
                self.expire(at);
                continue;
            }
            if self.is_late(at) && self.overload_lasts(flow_queue) {
                self.give_up_late(at);
                continue;
            }
            let backend = self
                .choose_backend(flow_queue, bound, &self.asks[at].prompt)
                .expect("an open pool has a backend");
            self.outcomes.push(Outcome::Granted {
                name: self.asks[at].name,
                backend: self.places.backends[backend].id,
                waited: self.clock.since(self.asks[at].arrival),
            });
            self.grant_waiting((at, overtaken), backend, &able);
        }
    }

    fn next_flow_queue(&mut self, domain: usize, able: &[usize]) -> usize {
        let bands = self.bands_of(able);
        let band = match self.settings.cascade {
            Cascade::Strict => {
                (0..BANDS).rev().find(|&at| bands[at]).expect("some flow queue could go")
            }
            Cascade::Weighted(_) => self.levels[domain].bands.choose(&bands),
        };
        let pools = self.pools_of(able, domain, band);
        let place = self.levels[domain].pools[band].choose(&pools);
        let pool = self.places.domains[domain][place];
        let here = |at: &&usize| {
            self.flow_queues[**at].pool == pool && self.flow_queues[**at].band.index() == band
        };
        let first = able.iter().filter(here).min_by_key(|&&at| {
            let flow_queue = &self.flow_queues[at];
            (flow_queue.tag, flow_queue.moved)
        });
        *first.expect("the chosen pool has a flow queue")
    }

    fn bands_of(&self, able: &[usize]) -> [bool; BANDS] {
        std::array::from_fn(|band| able.iter().any(|&at| self.flow_queues[at].band.index() == band))
    }

    fn pools_of(&self, able: &[usize], domain: usize, band: usize) -> Vec<bool> {
        let in_band = able.iter().filter(|&&at| self.flow_queues[at].band.index() == band);
        let pools: Vec<usize> = in_band.map(|&at| self.flow_queues[at].pool).collect();
        self.places.domains[domain].iter().map(|pool| pools.contains(pool)).collect()
    }

    /// The asks of a flow queue that may go next: the first one, and in the order `fifo` those that
    /// are fresh as well, up to `count`.
    pub(super) fn next_asks_of(&self, flow_queue: usize) -> Vec<usize> {
        let first = self.first_ask_of(flow_queue);
        let can_go = |at: &usize| !self.is_late(*at) && self.asks[*at].deadline > self.clock;
        let line = self.waiting().filter(|&at| self.asks[at].flow_queue == flow_queue);
        let mut line: Vec<usize> = line.filter(can_go).collect();
        line.sort_by_key(|&at| self.turn_in_line(at));
        let looks = self.settings.order == Order::Fifo && line.first() == Some(&first);
        if looks { line } else { vec![first] }
    }

    pub(super) fn first_ask_of(&self, flow_queue: usize) -> usize {
        let mut line: Vec<usize> =
            self.waiting().filter(|&at| self.asks[at].flow_queue == flow_queue).collect();
        // Asks that can still make their objective go first.
        if line.iter().any(|&at| !self.is_late(at)) {
            line.retain(|&at| !self.is_late(at));
        }
        let line = line.into_iter();
        let first = match self.settings.order {
            Order::Fifo => line.min_by_key(|&at| self.turn_in_line(at)),
            Order::Deadline => {
                line.min_by_key(|&at| (self.asks[at].deadline, self.asks[at].sequence))
            }
            Order::Session => line.min_by_key(|&at| (self.session_turn(at), self.turn_in_line(at))),
            Order::Workload => line.min_by_key(|&at| (-self.urgency(at), self.asks[at].sequence)),
        };
        first.expect("an active flow queue has a waiting ask")
    }

    /// Fresh asks go by the time at which they want their first token, late ones by their arrival.
    pub(super) fn turn_in_line(&self, at: usize) -> (Time, u64) {
        let Record { wanted_by, sequence, .. } = self.asks[at];
        (if self.is_late(at) { Time::ZERO } else { wanted_by }, sequence)
    }

    fn is_late(&self, at: usize) -> bool {
        self.asks[at].fresh_until <= self.clock
    }

    /// The urgency in nanoseconds of waiting, as section 10 of FLOW.md has it.
    fn urgency(&self, at: usize) -> i128 {
        let (ask, law) = (&self.asks[at], &self.settings.urgency);
        let rate = ask.workload.map_or(0.0, |workload| self.registry.rate(workload, self.clock));
        let others = law.criticality * f64::from(ask.criticality) / 5.0
            - law.rate * (rate / law.rate_cap).min(1.0);
        if law.wait == 0.0 {
            return (others * 1e12).round() as i128;
        }
        let wait = self.clock.since(ask.arrival).secs_f64().min(law.wait_cap);
        (wait * 1e9).round() as i128 + (others / law.wait * law.wait_cap * 1e9).round() as i128
    }

    fn grant_waiting(
        &mut self,
        (at, overtaken): (usize, Option<i128>),
        backend: usize,
        able: &[usize],
    ) {
        let flow_queue = self.asks[at].flow_queue;
        let fresh = if self.is_late(at) { 0.0 } else { 1.0 };
        let FlowQueue { pool, band, .. } = self.flow_queues[flow_queue];
        let share = &mut self.overloads[pool][band.index()].fresh_share;
        *share += (fresh - *share) / 16.0;
        self.counters.granted += 1;
        self.session_serves(at);
        self.charge_levels(at, able);
        self.send(at, backend);
        self.note_emptied(flow_queue);
        self.session_rests(at);
        self.serve(at, overtaken);
        let emptied = self.waiting().all(|other| self.asks[other].flow_queue != flow_queue);
        if emptied {
            self.leave(flow_queue);
        } else {
            let FlowQueue { pool, band, .. } = self.flow_queues[flow_queue];
            self.flow_queues[flow_queue].moved = self.fair_queues[pool][band.index()].next_move();
        }
        self.finish_grant(at);
    }

    /// An ask that begins to wait and is granted in the same moment.
    pub(super) fn grant_bypass(&mut self, at: usize, backend: usize) {
        let (flow_queue, cost) = (self.asks[at].flow_queue, self.asks[at].cost);
        self.begin(flow_queue, Some(cost));
        self.charge_levels(at, &[flow_queue]);
        self.send(at, backend);
        self.serve(at, None);
        self.leave(flow_queue);
        self.finish_grant(at);
    }

    fn finish_grant(&mut self, at: usize) {
        let flow_queue = self.asks[at].flow_queue;
        let FlowQueue { flow, pool, .. } = self.flow_queues[flow_queue];
        self.weigh(flow_queue);
        self.reconsider(flow);
        self.settle_levels(self.places.domain_of(pool));
        self.refund_cached(at);
    }

    fn send(&mut self, at: usize, backend: usize) {
        let granted_at = self.next();
        let band = self.band_of(&self.asks[at]).index();
        let stock = self.stock_of(at);
        self.asks[at].backend = Some(backend);
        self.asks[at].waits = false;
        self.asks[at].sent = self.clock;
        let there = &mut self.places.backends[backend];
        there.changes(false, self.clock);
        there.in_flight[band] += 1;
        there.stock += stock;
        there.granted_at = granted_at;
        self.prompt_sent(at, backend);
    }

    fn stock_of(&self, at: usize) -> u64 {
        match self.settings.stock {
            StockUnit::Requests => 1,
            StockUnit::Tokens => self.asks[at].tokens,
        }
    }

    fn serve(&mut self, at: usize, overtaken: Option<i128>) {
        let class = self.class_of(self.flow_of(&self.asks[at]));
        let limited = class.in_flight_per_backend_max.is_some();
        let own = self.asks[at].flow_queue;
        let held = self.least_over_share(own);
        let flow_queue = &mut self.flow_queues[own];
        self.asks[at].period = flow_queue.period;
        let step = stretch(self.asks[at].cost.into(), flow_queue.weight);
        let clock = &mut self.fair_queues[flow_queue.pool][flow_queue.band.index()];
        let tag =
            flow_queue.tag.map_or(clock.now, |tag| if limited { tag.max(clock.now) } else { tag });
        flow_queue.tag = Some(match (held.filter(|&held| held < tag), overtaken) {
            (_, Some(least)) => clock.serve_within(least, tag, step),
            (None, None) => clock.serve(tag, step),
            (Some(held), None) => {
                // It went ahead of a flow that is held back: a refund would be too large.
                self.asks[at].period = flow_queue.period.wrapping_sub(1);
                clock.serve_ahead(held, tag, step)
            }
        });
    }

    /// The least tag of the active flow queues beside one that hold more than their share.
    pub(super) fn least_over_share(&self, beside: usize) -> Option<i128> {
        let FlowQueue { pool, band, .. } = self.flow_queues[beside];
        let here = |other: &&FlowQueue| {
            other.takes_part && other.over_share && other.pool == pool && other.band == band
        };
        self.flow_queues.iter().filter(here).filter_map(|other| other.tag).min()
    }

    /// Charges the levels; a domain with a single pool keeps no account of pools.
    fn charge_levels(&mut self, at: usize, able: &[usize]) {
        let FlowQueue { pool, band, .. } = self.flow_queues[self.asks[at].flow_queue];
        let domain = self.places.domain_of(pool);
        let (bands, pools) = (self.bands_of(able), self.pools_of(able, domain, band.index()));
        let units = if pools.len() > 1 { self.units(pool, band) } else { 0 };
        self.asks[at].units = units;
        let cost = i64::from(self.asks[at].cost);
        let place = self.place_of(pool);
        let levels = &mut self.levels[domain];
        if units > 0 {
            levels.pools[band.index()].serve(place, &pools, share(cost, units));
        }
        if let Cascade::Weighted(weights) = self.settings.cascade {
            levels.bands.serve(band.index(), &bands, stretch(cost, weights[band.index()]));
        }
    }

    /// A pool's place in its domain.
    fn place_of(&self, pool: usize) -> usize {
        let mut pools = self.places.domains[self.places.domain_of(pool)].iter();
        pools.position(|&at| at == pool).expect("a pool is in its domain")
    }

    /// Sets the charge of an ask in flight.
    pub(super) fn recharge(&mut self, at: usize, cost: u32) {
        let charged = std::mem::replace(&mut self.asks[at].cost, cost);
        let difference = i64::from(cost) - i64::from(charged);
        self.session_corrects(at, difference);
        let flow_queue = &mut self.flow_queues[self.asks[at].flow_queue];
        let (pool, band) = (flow_queue.pool, flow_queue.band.index());
        let void =
            difference < 0 && flow_queue.takes_part && self.asks[at].period != flow_queue.period;
        if !void {
            let tag = flow_queue.tag.map_or(0, |tag| tag + stretch(difference, flow_queue.weight));
            flow_queue.tag = Some(self.fair_queues[pool][band].note(tag));
        }
        let (domain, place) = (self.places.domain_of(pool), self.place_of(pool));
        let units = self.asks[at].units;
        if units > 0 {
            let charge = share(cost.into(), units) - share(charged.into(), units);
            self.levels[domain].pools[band].correct(place, charge);
        }
        if let Cascade::Weighted(weights) = self.settings.cascade {
            self.levels[domain].bands.correct(band, stretch(difference, weights[band]));
        }
    }

    pub(super) fn finish(&mut self, at: usize) {
        let (flow, backend) = self.release(at);
        self.counters.settled += 1;
        self.end(at);
        self.drain_from(flow, backend);
    }

    /// Takes an ask from its backend; returns its flow and the backend.
    pub(super) fn release(&mut self, at: usize) -> (usize, usize) {
        let (band, flow) = (self.band_of(&self.asks[at]).index(), self.flow_of(&self.asks[at]));
        let stock = self.stock_of(at);
        let backend = self.asks[at].backend.take().expect("only asks in flight are released");
        self.places.backends[backend].changes(false, self.clock);
        self.places.backends[backend].in_flight[band] -= 1;
        self.places.backends[backend].stock -= stock;
        self.prompt_left(at, backend, false);
        self.place_freed(self.asks[at].flow_queue);
        self.reconsider(flow);
        (flow, backend)
    }
}
