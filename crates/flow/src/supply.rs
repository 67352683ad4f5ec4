//! The backends, and which backends serve which model.
//!
//! A *pool* is the set of backends that serve a model; models with the same set share it. Pools
//! that share a backend, directly or through others, form a *domain*. Inside a domain one grant can
//! take the place of another, so order is kept per domain. Domains are independent of each other.
//! An ask that must avoid a backend which failed it needs a smaller set: a *detour* pool.

mod backend;
mod places;

use std::collections::{BTreeMap, BTreeSet};

use crate::ask::{BackendId, ModelId};
use crate::auto_watermark::AutoBound;
use crate::latency::Latency;
use crate::links::NONE;
use crate::prefill_rate::PrefillRate;
use crate::time::Time;
use backend::Trial;

pub(crate) use backend::Backend;
pub use backend::{BackendSupply, BackendView};

/// The most detour pools. Beyond this number a re-queued ask may go to the backend that failed it.
pub(crate) const DETOURS_MAX: usize = 256;

/// Model numbers must be below this; larger numbers are unknown models.
pub const MODELS_MAX: u32 = 1 << 16;

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// The backends, by their place in the supply.
    pub(crate) members: Vec<u32>,
    pub(crate) domain: u32,
    /// Its place among the domain's pools.
    pub(crate) place: u32,
    /// The stock of its ready members, their number, and how many of them have no stock.
    stock: u64,
    ready: u64,
    empty: u64,
    /// The number of members that are open under `auto`.
    open: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Supply {
    pub(crate) backends: Vec<Backend>,
    pub(crate) pools: Vec<Pool>,
    /// The pools of each domain.
    pub(crate) domains: Vec<Vec<u32>>,
    by_id: BTreeMap<BackendId, u32>,
    /// The pool of each model, by its number.
    pub(crate) by_model: Vec<u32>,
    by_members: BTreeMap<Vec<u32>, u32>,
    /// The models that asks may wait for although no backend lists them.
    expected: BTreeSet<ModelId>,
    /// The pools that only asks which avoid a backend need.
    detours: usize,
    /// Whether asks may wait that avoid a backend.
    detoured: bool,
    grants: u64,
}

// === impl Supply ===

impl Supply {
    /// Takes the new state of all backends. Returns whether sets of backends have changed; if so,
    /// the caller must call [`Supply::rebuild_pools`].
    pub(crate) fn update(&mut self, listed: &[BackendSupply]) -> bool {
        let mut changed = false;
        let mut gone: BTreeSet<BackendId> = self.by_id.keys().copied().collect();
        for given in listed {
            gone.remove(&given.id);
            changed |= self.update_one(given);
        }
        for id in gone {
            let backend = &mut self.backends[self.by_id[&id] as usize];
            changed |= std::mem::take(&mut backend.listed);
            (backend.ready, backend.up, backend.trial) = (false, false, Trial::Passed);
            backend.models.clear();
        }
        self.recount();
        changed
    }

    /// Sets the models that asks may wait for without a backend. Returns whether they have changed;
    /// if so, the caller must call [`Supply::rebuild_pools`].
    pub(crate) fn expect(&mut self, models: impl Iterator<Item = ModelId>) -> bool {
        let expected = models.filter(|model| model.0 < MODELS_MAX).collect();
        std::mem::replace(&mut self.expected, expected) != self.expected
    }

    /// Forgets backends that are no longer listed and have no ask in flight. Returns the new place
    /// of each backend, by its old place.
    pub(crate) fn compact(&mut self) -> Vec<u32> {
        let mut moved = Vec::with_capacity(self.backends.len());
        let mut kept = 0;
        self.backends.retain(|backend| {
            let keep = backend.listed || backend.in_flight_total() > 0;
            moved.push(kept);
            kept += u32::from(keep);
            keep
        });
        let ids = self.backends.iter().zip(0..);
        self.by_id = ids.map(|(backend, at)| (backend.id, at)).collect();
        moved
    }

    fn update_one(&mut self, given: &BackendSupply) -> bool {
        let next = self.backends.len() as u32;
        let at = *self.by_id.entry(given.id).or_insert(next);
        if at == next {
            self.backends.push(Backend::new(given.id));
        }
        let known = given.models.iter().copied().filter(|model| model.0 < MODELS_MAX);
        let models: BTreeSet<ModelId> = known.collect();
        let backend = &mut self.backends[at as usize];
        let was_up = std::mem::replace(&mut backend.up, given.ready);
        backend.paused = given.paused;
        if given.ready && !was_up {
            backend.auto.restarted();
            backend.prefixes.clear();
            backend.prefill_rate = PrefillRate::default();
            backend.latency = Latency::default();
            backend.loaded.report(None);
        }
        backend.auto.tell_places(given.places);
        backend.trial = match (given.on_trial, backend.trial) {
            (false, _) => Trial::Passed,
            (true, Trial::Passed) => Trial::Free,
            (true, trial) => trial,
        };
        backend.ready = given.ready && !given.paused && backend.trial != Trial::Taken;
        backend.traits = given.traits;
        backend.handicap = given.handicap;
        backend.adapters = given.adapters.iter().copied().collect();
        let changed = !std::mem::replace(&mut backend.listed, true) || backend.models != models;
        backend.models = models;
        changed
    }

    /// Computes pools and domains again. `alive` has the models that live asks need, listed or not.
    pub(crate) fn rebuild_pools(&mut self, alive: &BTreeSet<ModelId>) {
        let mut members: BTreeMap<ModelId, Vec<u32>> =
            alive.union(&self.expected).map(|&model| (model, Vec::new())).collect();
        for (at, backend) in self.backends.iter().enumerate() {
            for &model in &backend.models {
                members.entry(model).or_default().push(at as u32);
            }
        }
        self.backends.iter_mut().for_each(|backend| backend.pools.clear());
        self.pools.clear();
        self.domains.clear();
        self.by_members.clear();
        self.by_model.clear();
        self.detours = 0;
        self.detoured = false;
        for (model, set) in members {
            // Models without a backend share nothing: a request for one needs no other one.
            let pool = if set.is_empty() { self.push_pool(set) } else { self.pool_for(set) };
            let number = model.0 as usize;
            self.by_model.resize(self.by_model.len().max(number + 1), NONE);
            self.by_model[number] = pool;
        }
        self.join_domains();
        self.recount();
    }

    /// Recounts the stock of each pool's ready members.
    pub(crate) fn recount(&mut self) {
        for backend in &mut self.backends {
            backend.open = backend.is_open();
        }
        for pool in &mut self.pools {
            (pool.stock, pool.ready, pool.empty, pool.open) = (0, 0, 0, 0);
            let members = pool.members.iter().map(|&at| &self.backends[at as usize]);
            for backend in members.filter(|backend| backend.ready) {
                pool.stock += backend.stock;
                pool.ready += 1;
                pool.empty += u64::from(backend.stock == 0);
                pool.open += u64::from(backend.open);
            }
        }
    }

    /// Counts a grant to a backend.
    pub(crate) fn take(&mut self, backend: u32, band: usize, stock: u64, now: Time) {
        self.grants += 1;
        let at = &mut self.backends[backend as usize];
        let was_empty = at.stock == 0;
        at.turnover.pass(at.in_flight_total(), now);
        at.in_flight[band] += 1;
        at.stock += stock;
        at.granted_at = self.grants;
        if !at.ready {
            return;
        }
        for &pool in &at.pools {
            let pool = &mut self.pools[pool as usize];
            pool.stock += stock;
            pool.empty -= u64::from(was_empty);
        }
        if at.trial == Trial::Free {
            (at.trial, at.ready) = (Trial::Taken, false);
            self.recount();
        }
    }

    /// Counts the end of an ask at a backend.
    pub(crate) fn give_back(&mut self, backend: u32, band: usize, stock: u64, now: Time) {
        let at = &mut self.backends[backend as usize];
        at.turnover.pass(at.in_flight_total(), now);
        at.in_flight[band] -= 1;
        at.stock -= stock;
        if at.trial == Trial::Taken {
            // It may be an older ask that ends; then two asks try the backend.
            (at.trial, at.ready) = (Trial::Free, at.up && !at.paused);
            self.recount();
            return;
        }
        if !at.ready {
            return;
        }
        for &pool in &at.pools {
            let pool = &mut self.pools[pool as usize];
            pool.stock -= stock;
            pool.empty += u64::from(at.stock == 0);
        }
    }

    fn pool_for(&mut self, members: Vec<u32>) -> u32 {
        if let Some(&known) = self.by_members.get(&members) {
            return known;
        }
        let at = self.push_pool(members.clone());
        self.by_members.insert(members, at);
        at
    }

    fn push_pool(&mut self, members: Vec<u32>) -> u32 {
        let at = self.pools.len() as u32;
        for &member in &members {
            self.backends[member as usize].pools.push(at);
        }
        let pool = Pool { members, domain: 0, place: 0, stock: 0, ready: 0, empty: 0, open: 0 };
        self.pools.push(pool);
        at
    }

    /// Puts pools that share a backend into the same domain.
    fn join_domains(&mut self) {
        let mut leader: Vec<u32> = (0..self.backends.len() as u32).collect();
        for pool in &self.pools {
            for pair in pool.members.windows(2) {
                let (a, b) = (root(&leader, pair[0]), root(&leader, pair[1]));
                leader[a.max(b) as usize] = a.min(b);
            }
        }
        let mut domain_of: BTreeMap<u32, u32> = BTreeMap::new();
        for at in 0..self.pools.len() {
            let known = self.pools[at].members.first().map(|&first| root(&leader, first));
            let next = self.domains.len() as u32;
            let domain = known.map_or(next, |group| *domain_of.entry(group).or_insert(next));
            if domain == next {
                self.domains.push(Vec::new());
            }
            self.adopt(at as u32, domain);
        }
        for at in 0..self.backends.len() as u32 {
            let domain = domain_of.get(&root(&leader, at)).copied();
            self.backends[at as usize].domain = domain.unwrap_or(NONE);
        }
    }

    fn adopt(&mut self, pool: u32, domain: u32) {
        let pools = &mut self.domains[domain as usize];
        self.pools[pool as usize].domain = domain;
        self.pools[pool as usize].place = pools.len() as u32;
        pools.push(pool);
    }

    /// Whether the backend gets one ask at a time, because it has failed before.
    pub(crate) fn is_on_trial(&self, backend: u32) -> bool {
        self.backends[backend as usize].trial != Trial::Passed
    }

    /// Whether models with other sets of backends share some of them with the models of a pool.
    pub(crate) fn is_shared(&self, pool: u32) -> bool {
        let domain = self.pools[pool as usize].domain;
        let mut others = self.by_model.iter().filter(|&&other| {
            other != NONE && other != pool && self.pools[other as usize].domain == domain
        });
        let first = others.next();
        // A detour is no pool of a model: only two different ones show that backends are shared.
        self.by_model.contains(&pool) && first.is_some() || others.any(|other| Some(other) != first)
    }

    /// The pool without one backend, if another one is ready and there are fewer than `most` such
    /// pools.
    pub(crate) fn detour(&mut self, pool: u32, without: u32, most: usize) -> Option<u32> {
        let Pool { members, domain, .. } = &self.pools[pool as usize];
        let domain = *domain;
        let rest: Vec<u32> = members.iter().copied().filter(|&at| at != without).collect();
        if !rest.iter().any(|&at| self.backends[at as usize].ready) {
            return None;
        }
        if let Some(&known) = self.by_members.get(&rest) {
            self.detoured = true;
            return Some(known);
        }
        if self.detours >= most {
            return None;
        }
        self.detoured = true;
        self.detours += 1;
        let at = self.pool_for(rest);
        self.adopt(at, domain);
        self.recount();
        Some(at)
    }

    /// A pool without backends, in the domain of another pool if it is new.
    pub(crate) fn nowhere(&mut self, like: u32) -> u32 {
        let next = self.pools.len() as u32;
        let at = self.pool_for(Vec::new());
        if at == next {
            self.adopt(at, self.pools[like as usize].domain);
        }
        at
    }

    pub(crate) fn is_nowhere(&self, pool: u32) -> bool {
        self.pools[pool as usize].members.is_empty()
    }

    /// Whether asks may wait that avoid a backend.
    pub(crate) fn has_detours(&self) -> bool {
        self.detoured
    }

    /// Whether a backend of a pool is ready.
    pub(crate) fn is_ready(&self, pool: u32) -> bool {
        self.pools[pool as usize].ready > 0
    }

    /// The pool of a model that a backend lists, or that live asks need.
    pub(crate) fn pool_of(&self, model: ModelId) -> Option<u32> {
        self.by_model.get(model.0 as usize).copied().filter(|&pool| pool != NONE)
    }

    /// The pool of a model that a backend lists, or that is expected.
    pub(crate) fn pool_listed(&self, model: ModelId) -> Option<u32> {
        let listed = |pool: u32| !self.pools[pool as usize].members.is_empty();
        self.pool_of(model).filter(|&pool| listed(pool) || self.expected.contains(&model))
    }

    /// Recounts which backends are open, for checks.
    pub(crate) fn check_open_counts(&self) -> Result<(), String> {
        for backend in &self.backends {
            if backend.open != backend.is_open() {
                return Err(format!("backend {:?} is open: {}", backend.id, backend.open));
            }
        }
        for (at, pool) in self.pools.iter().enumerate() {
            let open = pool.members.iter().filter(|&&at| self.is_backend_open(at)).count();
            if pool.open != open as u64 {
                return Err(format!("pool {at} counts {} open, not {open}", pool.open));
            }
        }
        Ok(())
    }

    pub(crate) fn find(&self, id: BackendId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// Updates whether a backend is open under `auto`; returns the bound that closes it.
    pub(crate) fn refresh(&mut self, backend: u32) -> Option<AutoBound> {
        let at = &mut self.backends[backend as usize];
        let closed_by = at.auto.closed_by();
        let open = at.ready && closed_by.is_none();
        if std::mem::replace(&mut at.open, open) == open {
            return closed_by;
        }
        for &pool in &at.pools {
            let count = &mut self.pools[pool as usize].open;
            *count = if open { *count + 1 } else { *count - 1 };
        }
        closed_by
    }
}

fn root(leader: &[u32], mut at: u32) -> u32 {
    while leader[at as usize] != at {
        at = leader[at as usize];
    }
    at
}
