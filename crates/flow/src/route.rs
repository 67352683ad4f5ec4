//! Which model and which backend take an ask.
//!
//! [`Names`] turns the model that was asked for into the one that is served, at arrival.
//! [`choose`] weighs the backends that may take an ask: who may is decided before it (ready, below
//! its bound, within the flow's limits), so no score can overrule fairness or a limit. Both are
//! pure: the same arguments give the same answer, and the caller counts the grant in the same step.

use crate::settings::Room;
use crate::supply::Supply;

mod explain;
mod law;
mod pick;
mod resolve;
mod score;
mod view;

#[cfg(test)]
mod tests;

pub use explain::Reason;
pub use law::{RouteLaw, RouteTerms};
pub use pick::{Choice, choose};
pub use resolve::{NameError, NameRule, Names, Resolved};
pub use score::Score;
pub use view::{Candidate, Traits, Wish};

/// The backend with the least stock, then the fewest asks, then the longest time since its last
/// grant, among `members` that are ready, have room and are allowed. Under `auto` it is the one
/// that is least full by its own bounds.
pub(crate) fn least_pending(
    supply: &Supply,
    members: &[u32],
    room: Room,
    allowed: impl Fn(u32) -> bool,
) -> Option<u32> {
    if let [only] = members {
        return Some(*only).filter(|&at| supply.has_room(at, room) && allowed(at));
    }
    let usable = |&at: &u32| supply.has_room(at, room) && allowed(at);
    let usable = members.iter().copied().filter(usable);
    let backend = |at: u32| &supply.backends[at as usize];
    match room {
        Room::Below(_) => usable.min_by_key(|&at| {
            (backend(at).stock, backend(at).in_flight_total(), backend(at).granted_at)
        }),
        Room::Open => usable.min_by(|&a, &b| {
            let (a, b) = (backend(a), backend(b));
            a.gauge.fill().total_cmp(&b.gauge.fill()).then(a.granted_at.cmp(&b.granted_at))
        }),
    }
}
