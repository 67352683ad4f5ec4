//! Which backend takes an ask: the one with the least pending among those with room.

use crate::supply::Supply;

/// The backend with the least stock, then the fewest asks, then the longest time since its last
/// grant, among `members` that are ready, below `bound` and allowed.
pub(crate) fn least_pending(
    supply: &Supply,
    members: &[u32],
    bound: u64,
    allowed: impl Fn(u32) -> bool,
) -> Option<u32> {
    if let [only] = members {
        return Some(*only).filter(|&at| supply.has_room(at, bound) && allowed(at));
    }
    let usable = |&at: &u32| supply.has_room(at, bound) && allowed(at);
    members.iter().copied().filter(usable).min_by_key(|&at| {
        let backend = &supply.backends[at as usize];
        (backend.stock, backend.in_flight_total(), backend.granted_at)
    })
}
