//! Backends, the sets of them that models need, and which sets touch.

use super::caches::Cache;
use super::waits::Waits;
use crate::ask::{BANDS, BackendId, ModelId};
use crate::settings::Hysteresis;
use crate::supply::BackendSupply;

#[derive(Clone, Debug)]
pub(in crate::tests) struct Backend {
    pub(in crate::tests) id: BackendId,
    pub(in crate::tests) ready: bool,
    pub(in crate::tests) in_flight: [u32; BANDS],
    pub(in crate::tests) stock: u64,
    pub(super) granted_at: u64,
    pub(super) cache: Cache,
    pub(super) waits: Waits,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    pub(super) backends: Vec<Backend>,
    /// Each pool's backends, models' pools first, then detours.
    pub(super) pools: Vec<Vec<usize>>,
    /// Each domain's pools.
    pub(super) domains: Vec<Vec<usize>>,
    by_model: Vec<(ModelId, usize)>,
}

// === impl Places ===

impl Places {
    pub(super) fn new(supply: &[BackendSupply]) -> Self {
        let backends = supply.iter().map(|given| Backend {
            id: given.id,
            ready: given.ready,
            in_flight: [0; BANDS],
            stock: 0,
            granted_at: 0,
            cache: Cache::default(),
            waits: Waits::default(),
        });
        let mut places = Self { backends: backends.collect(), ..Self::default() };
        let mut models: Vec<ModelId> =
            supply.iter().flat_map(|given| given.models.clone()).collect();
        models.sort();
        models.dedup();
        for model in models {
            let serves = |&at: &usize| supply[at].models.contains(&model);
            let pool = places.pool_with((0..supply.len()).filter(serves).collect());
            places.by_model.push((model, pool));
        }
        places
    }

    pub(super) fn pool_of(&self, model: ModelId) -> Option<usize> {
        self.by_model.iter().find(|entry| entry.0 == model).map(|entry| entry.1)
    }

    pub(super) fn domain_of(&self, pool: usize) -> usize {
        let mut domains = self.domains.iter();
        domains.position(|pools| pools.contains(&pool)).expect("every pool has a domain")
    }

    pub(super) fn domain_of_backend(&self, backend: usize) -> usize {
        let pool = self.pools.iter().position(|members| members.contains(&backend));
        self.domain_of(pool.expect("only backends with a pool are granted anything"))
    }

    /// Whether models of the pool's domain have different sets of backends.
    pub(super) fn is_shared(&self, pool: usize) -> bool {
        let domain = self.domain_of(pool);
        let here = self.by_model.iter().map(|entry| entry.1);
        let mut here: Vec<usize> = here.filter(|&at| self.domain_of(at) == domain).collect();
        here.sort_unstable();
        here.dedup();
        here.len() > 1
    }

    /// The pool without one backend, if one that is ready is left.
    pub(super) fn detour(&mut self, pool: usize, without: usize) -> Option<usize> {
        let mut rest = self.pools[pool].clone();
        rest.retain(|&at| at != without);
        let usable = rest.iter().any(|&at| self.backends[at].ready);
        usable.then(|| self.pool_with(rest))
    }

    pub(super) fn is_ready(&self, pool: usize) -> bool {
        self.pools[pool].iter().any(|&at| self.backends[at].ready)
    }

    fn pool_with(&mut self, members: Vec<usize>) -> usize {
        if let Some(known) = self.pools.iter().position(|pool| *pool == members) {
            return known;
        }
        let touches = |pool: &usize| self.pools[*pool].iter().any(|at| members.contains(at));
        let (mut touched, others): (Vec<_>, Vec<_>) =
            self.domains.drain(..).partition(|pools| pools.iter().any(touches));
        let mut joined: Vec<usize> = touched.drain(..).flatten().collect();
        joined.push(self.pools.len());
        joined.sort_unstable();
        self.domains = others;
        self.domains.push(joined);
        self.domains.sort();
        self.pools.push(members);
        self.pools.len() - 1
    }

    pub(super) fn has_room(&self, backend: usize, bound: u64) -> bool {
        self.is_below([backend].iter(), bound)
    }

    /// Whether a pool may be granted something.
    pub(super) fn is_open(&self, pool: usize, bound: u64) -> bool {
        let unused = |&at: &usize| self.backends[at].ready && self.backends[at].stock == 0;
        self.pools[pool].iter().any(unused) || self.is_below(self.pools[pool].iter(), bound)
    }

    fn is_below<'a>(&self, members: impl Iterator<Item = &'a usize>, bound: u64) -> bool {
        let ready = members.map(|&at| &self.backends[at]).filter(|backend| backend.ready);
        let (count, stock) = ready.fold((0, 0), |(n, s), backend| (n + 1, s + backend.stock));
        u128::from(stock) * u128::from(Hysteresis::ONE) < u128::from(bound) * count
    }
}
