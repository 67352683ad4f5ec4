//! Waits for backends without room that have a prompt cached.

use super::caches::Prompt;
use super::place::Backend;
use super::{FlowQueue, Reference};
use crate::ask::Band;
use crate::settings::{Admission, Order, Room};
use crate::time::{Span, Time};

/// Why an ask could go, and does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheWait {
    since: Time,
    /// The backend that is awaited.
    backend: usize,
    /// The tokens that were cached where there was room.
    elsewhere: u64,
    saves: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    until: Time,
    wait: CacheWait,
}

/// What the ends at a backend tell, and what waiting for it has won, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    ends: u64,
    /// The mean time of an ask there.
    stay: u64,
    /// The asks in flight since the last end, summed over the time, and until when.
    since_end: u64,
    at: Time,
    balance: i64,
    /// The pauses in a row that no wait which won has ended.
    pauses: u32,
    paused_until: Time,
}

// === impl Backend ===

impl Backend {
    fn total(&self) -> u64 {
        self.in_flight.iter().map(|&count| u64::from(count)).sum()
    }

    /// An ask comes, leaves, or has been served.
    pub(super) fn changes(&mut self, served: bool, now: Time) {
        let passed = now.since(self.waits.at).nanos() * self.total();
        let waits = &mut self.waits;
        waits.since_end += passed;
        waits.at = now;
        if served {
            waits.ends = (waits.ends + 1).min(16);
            waits.stay = waits.stay - waits.stay / waits.ends + waits.since_end / waits.ends;
            waits.since_end = 0;
        }
    }
}

// === impl Reference ===

impl Reference {
    pub(super) fn delay_of(&self, at: usize) -> Option<Delay> {
        let ask = &self.asks[at];
        let FlowQueue { flow, pool, band, .. } = self.flow_queues[ask.flow_queue];
        let late = ask.fresh_until <= self.clock;
        if !self.may_wait_for_cache(flow, band) || late && self.overload_lasts(ask.flow_queue) {
            return None;
        }
        let since = ask.prompt.awaits.map_or(self.clock, |wait| wait.since);
        let held = self.held_since[pool][band.index()].unwrap_or(self.clock);
        let Room::Below(bound) = self.settings.bounds.to_dequeue() else { return None };
        let times = (ask.arrival, since.min(held));
        let delay = self.cache_awaited(pool, bound, &ask.prompt, times)?;
        let ends = if late { ask.deadline } else { ask.fresh_until.min(ask.deadline) };
        let until = delay.until.min(half_way(since, ends));
        (self.clock < until).then_some(Delay { until, wait: CacheWait { since, ..delay.wait } })
    }

    /// Whether a new ask begins to wait although there is room, if nothing else waits.
    pub(super) fn is_delayed(&self, ask: &super::Record, bound: u64) -> bool {
        let FlowQueue { flow, pool, band, .. } = self.flow_queues[ask.flow_queue];
        let settings = &self.settings;
        let looks = settings.cache_slack > 0 || settings.cache_reorder > 0;
        let queue = settings.enabled && settings.total_capacity > 0;
        let may_wait = settings.admission == Admission::All
            && queue
            && looks
            && self.class_of(flow).capacity > 0
            && self.may_wait_for_cache(flow, band);
        let domain = self.places.domain_of(pool);
        let alone = self.waiting().all(|at| {
            let pool = self.flow_queues[self.asks[at].flow_queue].pool;
            self.places.domain_of(pool) != domain
        });
        if !may_wait || !alone {
            return false;
        }
        let delay = self.cache_awaited(pool, bound, &ask.prompt, (self.clock, self.clock));
        let ends = half_way(self.clock, ask.deadline.min(ask.fresh_until));
        delay.is_some_and(|delay| self.clock < delay.until.min(ends))
    }

    fn may_wait_for_cache(&self, flow: usize, band: Band) -> bool {
        let class = self.class_of(flow);
        let limited = class.in_flight_max.is_some() || class.in_flight_per_backend_max.is_some();
        band != Band::Critical && self.settings.order != Order::Workload && !limited
    }

    fn cache_awaited(
        &self,
        pool: usize,
        bound: u64,
        prompt: &Prompt,
        (arrival, from): (Time, Time),
    ) -> Option<Delay> {
        let ready = |at: &&usize| self.places.backends[**at].ready;
        let members = self.places.pools[pool].iter().filter(ready);
        let (free, full): (Vec<usize>, Vec<usize>) =
            members.partition(|&&at| self.places.has_room(at, bound));
        let total = |at: &usize| self.places.backends[*at].total();
        let elsewhere = free.iter().map(|&at| self.cached_at(at, prompt)).max()?;
        let mut delayed = free.iter().map(total).min()?;
        let mut from = from;
        if 2 * delayed <= full.iter().map(total).max()? {
            (delayed, from) = (0, arrival.min(from));
        }
        let mut best: Option<Delay> = None;
        for at in full {
            let waits = &self.places.backends[at].waits;
            // 8000 tokens a second.
            let more = self.cached_at(at, prompt).saturating_sub(elsewhere);
            let saves = (more * 125_000 * (1 + delayed)).min(self.settings.cache_delay.nanos());
            let soon = waits.ends > 0 && waits.stay / total(&at) < saves;
            if self.clock < waits.paused_until || !soon {
                continue;
            }
            let since_end = Span::from_nanos(waits.since_end / total(&at));
            let place = waits.at.after(Span::from_nanos(saves)).before(since_end);
            let until = from.after(Span::from_nanos(saves)).min(place);
            let wait = CacheWait { since: self.clock, backend: at, elsewhere, saves };
            if best.is_none_or(|best| best.until <= until) {
                best = Some(Delay { until, wait });
            }
        }
        best
    }

    /// The turn of an ask has come, and it does not go.
    pub(super) fn put_off(&mut self, at: usize, delay: Delay) {
        self.asks[at].prompt.awaits.get_or_insert(delay.wait);
        self.look_again_at(delay.until);
    }

    pub(super) fn look_again_at(&mut self, at: Time) {
        self.look_again = Some(self.look_again.map_or(at, |known| known.min(at)));
    }

    /// An ask goes where so many of its tokens are cached, or leaves.
    pub(super) fn end_cache_wait(&mut self, at: usize, cached: u64) {
        let Some(wait) = self.asks[at].prompt.awaits.take() else { return };
        let waited = self.clock.since(wait.since).nanos() as i64;
        let saved = if cached > wait.elsewhere { wait.saves as i64 } else { 0 };
        let plus = |sum: Span, nanos: i64| Span::from_nanos(sum.nanos() + nanos.max(0) as u64);
        let won = saved - waited;
        self.counters.cache_wait_won = plus(self.counters.cache_wait_won, won);
        self.counters.cache_wait_lost = plus(self.counters.cache_wait_lost, -won);
        let waits = &mut self.places.backends[wait.backend].waits;
        if won > 0 {
            waits.pauses = 0;
        }
        waits.balance = waits.balance - waits.balance / 8 + won;
        if waits.balance < 0 {
            waits.balance = 0;
            waits.paused_until = self.clock.after(Span::from_secs(10 << waits.pauses.min(6)));
            waits.pauses += 1;
            self.look_again_at(self.clock);
        }
    }

    /// Whether the asks of a flow queue wait for a cache, and the fair queue of a new ask is
    /// another one.
    pub(super) fn is_held_beside(&self, own: usize, at: usize) -> bool {
        let Room::Below(bound) = self.settings.bounds.to_dequeue() else { return false };
        let key = |at: usize| (self.flow_queues[at].pool, self.flow_queues[at].band);
        let (pool, band) = key(at);
        let held = self.held_since[pool][band.index()].is_some();
        let mut beside = (0..self.flow_queues.len()).filter(|&other| key(other) == (pool, band));
        key(own) != (pool, band) && held && beside.any(|other| self.could_go(other, bound))
    }
}

fn half_way(from: Time, to: Time) -> Time {
    from.after(Span::from_nanos(to.since(from).nanos() / 2))
}
