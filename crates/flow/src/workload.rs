//! The workload registry: the workloads, their live asks and their rates.
//!
//! Its size is bounded, whatever ids clients invent. When it is full, the idle workload that was
//! seen least recently is forgotten. When no workload is idle, new ones share the entry
//! [`WorkloadId::OVERFLOW`] and its rate.

use std::collections::HashMap;

use crate::ask::WorkloadId;
use crate::links::NONE;
use crate::lru::Lru;
use crate::settings::WorkloadLimits;
use crate::time::Time;

/// The number of buckets in a window: an arrival is forgotten up to a sixtieth of the window late.
const BUCKETS: u64 = 60;
/// The number of a bucket since the origin of time.
type Bucket = u64;

const OVERFLOW_NAME: &str = "(overflow)";

/// The state of one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadView<'a> {
    /// The id that the client gave.
    pub name: &'a str,
    /// Asks ever offered.
    pub total: u64,
    /// Asks waiting or in flight.
    pub active: u64,
    /// Asks offered within the window.
    pub in_window: u32,
    /// When the last one was offered.
    pub last_seen: Time,
}

/// See the module's description. Names are looked up by hash and never iterated in hash order.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    limits: WorkloadLimits,
    /// How often the settings were replaced.
    configured: u32,
    by_name: HashMap<Box<str>, u32>,
    entries: Vec<WorkloadEntry>,
    rates: Vec<WorkloadRate>,
    free: Vec<u32>,
    /// Workloads without a live ask.
    idle: Lru,
}

#[derive(Clone, Debug)]
struct WorkloadEntry {
    name: Box<str>,
    generation: u32,
    total: u64,
    active: u64,
    last_seen: Time,
    idle_since: Time,
    buckets: [u32; BUCKETS as usize],
}

/// The part of an entry that urgency reads. It is stored densely, because all heads are ranked anew
/// when a bucket leaves the window.
#[derive(Clone, Copy, Debug, Default)]
struct WorkloadRate {
    bucket: Bucket,
    in_window: u32,
}

/// A time in which no rate falls: a bucket, under the same settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RateEpoch {
    bucket: Bucket,
    configured: u32,
}

// === impl WorkloadEntry ===

impl WorkloadEntry {
    fn is_named(&self) -> bool {
        !self.name.is_empty()
    }

    fn new(name: &str, now: Time) -> Self {
        Self {
            name: name.into(),
            generation: 0,
            total: 0,
            active: 0,
            last_seen: now,
            idle_since: now,
            buckets: [0; BUCKETS as usize],
        }
    }
}

// === impl Registry ===

impl Registry {
    pub(crate) fn new(limits: WorkloadLimits) -> Self {
        Self {
            limits,
            configured: 0,
            by_name: HashMap::new(),
            entries: vec![WorkloadEntry::new(OVERFLOW_NAME, Time::ZERO)],
            rates: vec![WorkloadRate::default()],
            free: Vec::new(),
            idle: Lru::default(),
        }
    }

    /// Takes new limits; a new window resets all rates.
    pub(crate) fn configure(&mut self, limits: WorkloadLimits) {
        if limits.window != self.limits.window {
            self.rates.fill(WorkloadRate::default());
            self.entries.iter_mut().for_each(|entry| entry.buckets = [0; BUCKETS as usize]);
        }
        self.limits = limits;
        self.configured = self.configured.wrapping_add(1);
    }

    /// The id of the workload with this name.
    pub(crate) fn intern(&mut self, name: &str, now: Time) -> WorkloadId {
        self.drop_idle(now);
        if let Some(&at) = self.by_name.get(name) {
            return self.id(at);
        }
        if self.by_name.len() >= self.limits.count_max as usize {
            let Some(least_recent) = self.idle.oldest() else {
                return WorkloadId::OVERFLOW;
            };
            self.forget(least_recent);
        }
        let at = self.vacant_slot();
        let generation = self.entries[at as usize].generation.wrapping_add(1);
        self.entries[at as usize] = WorkloadEntry { generation, ..WorkloadEntry::new(name, now) };
        self.rates[at as usize] = WorkloadRate::default();
        self.by_name.insert(name.into(), at);
        self.rest(at, now);
        self.id(at)
    }

    fn id(&self, slot: u32) -> WorkloadId {
        WorkloadId { slot, generation: self.entries[slot as usize].generation }
    }

    /// The slot of a workload; `NONE`, the slot of generated ids, if the id is not valid.
    pub(crate) fn resolve(&self, id: WorkloadId) -> u32 {
        let entry = self.entries.get(id.slot as usize);
        let good = entry.is_some_and(|entry| entry.generation == id.generation && entry.is_named());
        if good { id.slot } else { NONE }
    }

    /// An ask of this workload was offered.
    pub(crate) fn arrived(&mut self, slot: u32, now: Time) {
        if slot == NONE {
            return;
        }
        let bucket = self.bucket(now);
        self.roll(slot, bucket);
        let entry = &mut self.entries[slot as usize];
        entry.total += 1;
        entry.last_seen = now;
        entry.buckets[(bucket % BUCKETS) as usize] += 1;
        self.rates[slot as usize].in_window += 1;
        if self.is_resting(slot) {
            self.idle.remove(slot);
            self.rest(slot, now);
        }
    }

    /// An ask of this workload was admitted.
    pub(crate) fn began(&mut self, slot: u32) {
        if slot == NONE {
            return;
        }
        if self.is_resting(slot) {
            self.idle.remove(slot);
        }
        self.entries[slot as usize].active += 1;
    }

    /// An ask of this workload has ended.
    pub(crate) fn ended(&mut self, slot: u32, now: Time) {
        if slot == NONE {
            return;
        }
        let entry = &mut self.entries[slot as usize];
        entry.active -= 1;
        if self.is_resting(slot) {
            self.rest(slot, now);
        }
    }

    /// Asks offered within the window; none without a workload.
    pub(crate) fn offers(&mut self, slot: u32, epoch: RateEpoch) -> u32 {
        if slot == NONE {
            return 0;
        }
        self.roll(slot, epoch.bucket);
        self.rates[slot as usize].in_window
    }

    /// So many offers within the window, per second.
    pub(crate) fn rate_of(&self, offers: u32) -> f64 {
        f64::from(offers) / self.limits.window.secs_f64()
    }

    pub(crate) fn epoch(&self, now: Time) -> RateEpoch {
        RateEpoch { bucket: self.bucket(now), configured: self.configured }
    }

    fn bucket(&self, now: Time) -> Bucket {
        now.nanos() / (self.limits.window.nanos() / BUCKETS).max(1)
    }

    /// Every workload, and the overflow entry if it was used.
    pub(crate) fn views(&mut self, now: Time) -> Vec<WorkloadView<'_>> {
        self.drop_idle(now);
        let used = |entry: &WorkloadEntry| entry.total > 0 && entry.is_named();
        let slots: Vec<u32> =
            (0..self.entries.len() as u32).filter(|&at| used(&self.entries[at as usize])).collect();
        let bucket = self.bucket(now);
        for &at in &slots {
            self.roll(at, bucket);
        }
        slots.into_iter().map(|at| self.view(at)).collect()
    }

    pub(crate) fn active_total(&self) -> u64 {
        self.entries.iter().map(|entry| entry.active).sum()
    }

    fn view(&self, at: u32) -> WorkloadView<'_> {
        let entry = &self.entries[at as usize];
        WorkloadView {
            name: &entry.name,
            total: entry.total,
            active: entry.active,
            in_window: self.rates[at as usize].in_window,
            last_seen: entry.last_seen,
        }
    }

    /// Forgets the buckets that have left the window.
    fn roll(&mut self, at: u32, bucket: Bucket) {
        let rate = &mut self.rates[at as usize];
        if rate.bucket != bucket {
            let buckets = &mut self.entries[at as usize].buckets;
            let first = (rate.bucket + 1).max(bucket.saturating_sub(BUCKETS - 1));
            for gone in first..=bucket {
                rate.in_window -= std::mem::take(&mut buckets[(gone % BUCKETS) as usize]);
            }
            rate.bucket = bucket;
        }
    }

    fn drop_idle(&mut self, now: Time) {
        while let Some(at) = self.idle.oldest() {
            if now.since(self.entries[at as usize].idle_since) <= self.limits.idle {
                return;
            }
            self.forget(at);
        }
    }

    fn forget(&mut self, at: u32) {
        self.idle.remove(at);
        let name = std::mem::take(&mut self.entries[at as usize].name);
        self.by_name.remove(&name);
        self.free.push(at);
    }

    fn vacant_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push(WorkloadEntry::new("", Time::ZERO));
            self.rates.push(WorkloadRate::default());
            self.entries.len() as u32 - 1
        })
    }

    /// Whether it is in the list of idle workloads.
    fn is_resting(&self, slot: u32) -> bool {
        let entry = &self.entries[slot as usize];
        slot != WorkloadId::OVERFLOW.slot && entry.active == 0 && entry.is_named()
    }

    fn rest(&mut self, at: u32, now: Time) {
        self.entries[at as usize].idle_since = now;
        self.idle.push(at);
    }
}

#[cfg(test)]
mod tests;
