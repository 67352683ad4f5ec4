//! Places: whether a pool has room, and for how many asks.
//!
//! With a bound in tokens, a place is as large as the mean ask in flight.

use super::{Backend, Pool, Supply};
use crate::settings::{Hysteresis, Room, SPARE, StockUnit};

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

    /// Whether a backend is filled to no more than [`SPARE`] of its bound.
    pub(crate) fn has_spare_room(&self, backend: u32, room: Room) -> bool {
        let backend = &self.backends[backend as usize];
        match room {
            Room::Below(bound) => {
                backend.stock.saturating_mul(Hysteresis::ONE) as f64 <= SPARE * bound as f64
            }
            Room::Open => backend.auto.is_filled_to(SPARE),
        }
    }

    pub(crate) fn is_backend_open(&self, backend: u32) -> bool {
        self.backends[backend as usize].open
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
            Room::Open => {
                return self.free_known_places(pool).map_or(enough, |free| free.min(enough));
            }
        };
        let left = bound.saturating_mul(ready).div_ceil(Hysteresis::ONE).saturating_sub(stock);
        let (in_flight, stock) = (self.in_flight(pool), stock.max(1));
        let free = match left.checked_mul(in_flight) {
            Some(product) => product.div_ceil(stock),
            // The divisor is as large, so that the quotient fits; 128 bits are divided slowly.
            None => (u128::from(left) * u128::from(in_flight)).div_ceil(stock.into()) as u64,
        };
        free.min(enough.into()) as u32
    }

    /// Under `auto`, the free places of a pool; `None` while the places of a backend are unknown.
    fn free_known_places(&self, pool: u32) -> Option<u32> {
        let free = self.ready_members(pool).map(|backend| {
            Some(backend.auto.known_places()?.saturating_sub(backend.in_flight_total()))
        });
        free.sum()
    }

    /// The places of a pool, free or not; 0 while their number is unknown.
    pub(crate) fn places(&self, pool: u32, room: Room, unit: StockUnit) -> u64 {
        let Pool { ready, stock, .. } = self.pools[pool as usize];
        let bound = match room {
            Room::Below(bound) => bound.saturating_mul(ready).div_ceil(Hysteresis::ONE),
            Room::Open => {
                let places = self.ready_members(pool).map(|at| at.auto.known_places());
                return places
                    .map(|places| places.map(u64::from))
                    .sum::<Option<u64>>()
                    .unwrap_or(0);
            }
        };
        match (unit, stock) {
            (StockUnit::Requests, _) => bound,
            (StockUnit::Tokens, 0) => 0,
            (StockUnit::Tokens, _) => {
                (u128::from(bound) * u128::from(self.in_flight(pool)) / u128::from(stock)) as u64
            }
        }
    }

    fn ready_members(&self, pool: u32) -> impl Iterator<Item = &Backend> {
        let members = self.pools[pool as usize].members.iter();
        members.map(|&at| &self.backends[at as usize]).filter(|backend| backend.ready)
    }

    fn in_flight(&self, pool: u32) -> u64 {
        self.ready_members(pool).map(|backend| u64::from(backend.in_flight_total())).sum()
    }
}
