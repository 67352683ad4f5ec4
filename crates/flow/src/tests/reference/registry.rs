//! Workloads as a list: every one is looked at each time.

use crate::ask::WorkloadId;
use crate::settings::WorkloadLimits;
use crate::time::Time;

const BUCKETS: u64 = 60;

/// What interning a name must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tests) enum Interned {
    Known(WorkloadId),
    Overflow,
    New,
}

#[derive(Clone, Debug)]
pub(in crate::tests) struct Entry {
    pub(in crate::tests) name: String,
    pub(in crate::tests) total: u64,
    pub(in crate::tests) active: u64,
    pub(in crate::tests) last_seen: Time,
    id: WorkloadId,
    known: bool,
    /// When it came to rest, and a number that orders equal times.
    rested: (Time, u64),
    /// Offers by bucket of time.
    offers: Vec<(u64, u32)>,
}

#[derive(Clone, Debug)]
pub(super) struct Registry {
    limits: WorkloadLimits,
    /// Those forgotten stay, so that places never change; the first is the overflow.
    entries: Vec<Entry>,
    rests: u64,
}

// === impl Registry ===

impl Registry {
    pub(super) fn new(limits: WorkloadLimits) -> Self {
        let mut registry = Self { limits, entries: Vec::new(), rests: 0 };
        registry.add("(overflow)", WorkloadId::OVERFLOW, Time::ZERO);
        registry
    }

    /// Makes room for a name if possible, and returns the id that it must get.
    pub(super) fn intern(&mut self, name: &str, now: Time) -> Interned {
        let limits = self.limits;
        for entry in self.entries.iter_mut().skip(1) {
            entry.known &= entry.active > 0 || now.since(entry.rested.0) <= limits.idle;
        }
        let known = self.entries.iter().skip(1).filter(|entry| entry.known);
        if let Some(entry) = known.clone().find(|entry| entry.name == name) {
            return Interned::Known(entry.id);
        }
        if known.count() < limits.count_max as usize {
            return Interned::New;
        }
        let known = self.entries.iter_mut().skip(1).filter(|entry| entry.known);
        let idle = known.filter(|entry| entry.active == 0);
        match idle.min_by_key(|entry| entry.rested) {
            Some(least_recent) => least_recent.known = false,
            None => return Interned::Overflow,
        }
        Interned::New
    }

    pub(super) fn add(&mut self, name: &str, id: WorkloadId, now: Time) {
        self.rests += 1;
        self.entries.push(Entry {
            name: name.into(),
            total: 0,
            active: 0,
            last_seen: now,
            id,
            known: true,
            rested: (now, self.rests),
            offers: Vec::new(),
        });
    }

    pub(super) fn find(&self, id: WorkloadId) -> Option<usize> {
        self.entries.iter().position(|entry| entry.known && entry.id == id)
    }

    pub(super) fn arrived(&mut self, at: usize, now: Time) {
        let bucket = self.bucket(now);
        let entry = &mut self.entries[at];
        entry.total += 1;
        entry.last_seen = now;
        match entry.offers.last_mut() {
            Some(last) if last.0 == bucket => last.1 += 1,
            _ => entry.offers.push((bucket, 1)),
        }
        self.rest(at, now);
    }

    pub(super) fn began(&mut self, at: usize) {
        self.entries[at].active += 1;
    }

    pub(super) fn ended(&mut self, at: usize, now: Time) {
        self.entries[at].active -= 1;
        self.rest(at, now);
    }

    pub(super) fn in_window(&self, at: usize, now: Time) -> u32 {
        let present = self.bucket(now);
        let recent = self.entries[at].offers.iter().rev();
        recent.take_while(|offer| offer.0 + BUCKETS > present).map(|offer| offer.1).sum()
    }

    pub(super) fn rate(&self, at: usize, now: Time) -> f64 {
        f64::from(self.in_window(at, now)) / self.limits.window.secs_f64()
    }

    /// Those that were used and are remembered, with their offers within the window.
    pub(super) fn used(&self, now: Time) -> impl Iterator<Item = (&Entry, u32)> {
        let used = self.entries.iter().enumerate().filter(move |(at, entry)| {
            let resting = *at > 0 && entry.active == 0;
            let dropped = resting && now.since(entry.rested.0) > self.limits.idle;
            entry.known && entry.total > 0 && !dropped
        });
        used.map(move |(at, entry)| (entry, self.in_window(at, now)))
    }

    fn bucket(&self, now: Time) -> u64 {
        now.nanos() / (self.limits.window.nanos() / BUCKETS).max(1)
    }

    fn rest(&mut self, at: usize, now: Time) {
        self.rests += 1;
        self.entries[at].rested = (now, self.rests);
    }
}
