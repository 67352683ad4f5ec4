//! Places: whether a pool has room, and for how many asks.
//!
//! With a bound in tokens, a place is as large as the mean ask in flight.

use super::{Backend, Pool, Supply};
use crate::settings::{Hysteresis, Room, StockUnit};

// === impl Supply ===

impl Supply {
    /// Whether the mean stock of a pool's ready backends is below the bound, or one of them has no
    /// stock. Then at least one backend is below the bound: not all can be above the mean.
    pub(crate) fn is_open(&self, pool: u32, room: Room) -> bool {
        let Pool { stock, ready, empty, open, .. } = self.pools[pool as usize];
        match room {
            Room::Below(bound) => {
                empty > 0 || stock < bound.saturating_mul(ready).div_ceil(Hysteresis::ONE)
            }
            Room::Open => open > 0,
        }
    }

    /// Whether one backend may be granted an ask.
    pub(crate) fn has_room(&self, backend: u32, room: Room) -> bool {
        let backend = &self.backends[backend as usize];
        match room {
            Room::Below(bound) => backend.ready && backend.stock < bound.div_ceil(Hysteresis::ONE),
            Room::Open => backend.open,
        }
    }

    /// Whether a backend is open under `auto`, and its free places.
    pub(crate) fn openness(&self, backend: u32) -> (bool, Option<u32>) {
        let backend = &self.backends[backend as usize];
        (backend.open, backend.free)
    }

    /// The free places of a pool, counted up to `enough`. A pool with an idle backend has enough:
    /// no backend is kept idle while an ask waits.
    pub(crate) fn free_places(&self, pool: u32, room: Room, enough: u32) -> u32 {
        let Pool { empty, ready, stock, .. } = self.pools[pool as usize];
        if empty > 0 {
            return enough;
        }
        let bound = match room {
            Room::Below(bound) => bound,
            Room::Open => return self.free_under_auto(pool, enough),
        };
        let left = bound.saturating_mul(ready).div_ceil(Hysteresis::ONE).saturating_sub(stock);
        let free = u128::from(left) * u128::from(self.in_flight(pool));
        free.div_ceil(u128::from(stock.max(1))).min(u128::from(enough)) as u32
    }

    fn free_under_auto(&self, pool: u32, enough: u32) -> u32 {
        let mut free = 0;
        for backend in self.ready_members(pool) {
            free += backend.free.map_or(enough, |places| places.min(enough));
            if free >= enough {
                return enough;
            }
        }
        free
    }

    /// The places of a pool, free or not; 0 while their number is unknown.
    pub(crate) fn places(&self, pool: u32, room: Room, unit: StockUnit) -> u64 {
        let Pool { ready, stock, .. } = self.pools[pool as usize];
        let bound = match room {
            Room::Below(bound) => bound.saturating_mul(ready).div_ceil(Hysteresis::ONE),
            Room::Open => return self.places_under_auto(pool),
        };
        match (unit, stock) {
            (StockUnit::Requests, _) => bound,
            (StockUnit::Tokens, 0) => 0,
            (StockUnit::Tokens, _) => {
                (u128::from(bound) * u128::from(self.in_flight(pool)) / u128::from(stock)) as u64
            }
        }
    }

    fn places_under_auto(&self, pool: u32) -> u64 {
        let of_one = |backend: &Backend| {
            let free = backend.free?;
            Some(u64::from(free) + u64::from(backend.in_flight_total()))
        };
        self.ready_members(pool).map(of_one).sum::<Option<u64>>().unwrap_or(0)
    }

    fn ready_members(&self, pool: u32) -> impl Iterator<Item = &Backend> {
        let members = self.pools[pool as usize].members.iter();
        members.map(|&at| &self.backends[at as usize]).filter(|backend| backend.ready)
    }

    fn in_flight(&self, pool: u32) -> u64 {
        self.ready_members(pool).map(|backend| u64::from(backend.in_flight_total())).sum()
    }
}
