//! The viewers of the live status, which keep a connection for hours.
//!
//! Their number is bounded. One address has a part of the places at most, and when all are taken, a
//! new address gets a place from the address with the most: viewers that never read their events
//! must not close the page for others.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The most viewers at once, and the most of one address.
pub(crate) const VIEWERS_MAX: usize = 64;
pub(crate) const ADDRESS_MAX: usize = 16;

/// All viewers, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    present: Arc<Mutex<Vec<Presence>>>,
}

#[derive(Debug)]
struct Presence {
    address: Option<IpAddr>,
    displaced: Arc<Notify>,
}

/// The place of one viewer, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Viewer {
    present: Arc<Mutex<Vec<Presence>>>,
    displaced: Arc<Notify>,
}

/// The part of an address that one client cannot choose: a host of IPv6 has 64 bits for itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let [a, b, c, d, ..] = six.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        four => four,
    }
}

fn lock(present: &Mutex<Vec<Presence>>) -> MutexGuard<'_, Vec<Presence>> {
    present.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The oldest viewer of the address with the most, if that address has at least two more than
/// `own`: after the exchange the newcomer has no more than that address.
fn oldest_of_most(present: &[Presence], own: usize) -> Option<usize> {
    let mut counts: BTreeMap<Option<IpAddr>, usize> = BTreeMap::new();
    for viewer in present {
        *counts.entry(viewer.address).or_default() += 1;
    }
    let (most, _) =
        counts.into_iter().filter(|(_, count)| *count >= own + 2).max_by_key(|one| one.1)?;
    present.iter().position(|viewer| viewer.address == most)
}

// === impl Viewers ===

impl Viewers {
    /// A place for a viewer, if its address may have one more.
    pub(crate) fn join(&self, address: Option<IpAddr>) -> Option<Viewer> {
        let address = address.map(network);
        let mut present = lock(&self.present);
        let own = present.iter().filter(|viewer| viewer.address == address).count();
        if own >= ADDRESS_MAX {
            return None;
        }
        if present.len() >= VIEWERS_MAX {
            let loses = oldest_of_most(&present, own)?;
            present.remove(loses).displaced.notify_one();
        }
        let displaced = Arc::new(Notify::new());
        present.push(Presence { address, displaced: Arc::clone(&displaced) });
        Some(Viewer { present: Arc::clone(&self.present), displaced })
    }
}

// === impl Viewer ===

impl Viewer {
    /// Resolves when another viewer has got the place.
    pub(crate) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        lock(&self.present).retain(|one| !Arc::ptr_eq(&one.displaced, &self.displaced));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([127, 0, 0, last]))
    }

    fn is_displaced(viewer: &Viewer) -> bool {
        let mut waiting = std::pin::pin!(viewer.displaced());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        Future::poll(waiting.as_mut(), &mut context).is_ready()
    }

    #[test]
    fn m03_one_address_cannot_take_all_places_of_viewers() {
        let viewers = Viewers::default();
        let mut all: Vec<Viewer> = Vec::new();
        for last in 1..=4 {
            all.extend((0..ADDRESS_MAX).map(|_| viewers.join(four(last)).unwrap()));
            assert!(viewers.join(four(last)).is_none(), "an address has its part");
        }
        assert_eq!(all.len(), VIEWERS_MAX);
        let fifth = viewers.join(four(5)).unwrap();
        let displaced: Vec<usize> = (0..all.len()).filter(|&at| is_displaced(&all[at])).collect();
        assert_eq!(displaced.len(), 1, "one loses its place");
        assert_eq!(displaced[0] % ADDRESS_MAX, 0, "the oldest of its address");
        assert_eq!(lock(&viewers.present).len(), VIEWERS_MAX);
        drop((all, fifth));
        assert!(lock(&viewers.present).is_empty());
    }

    #[test]
    fn m03_viewers_of_equal_addresses_keep_their_places() {
        let viewers = Viewers::default();
        let all: Vec<Viewer> = (0..64).map(|last| viewers.join(four(last)).unwrap()).collect();
        assert!(viewers.join(four(64)).is_none(), "each address has one place");
        drop(all);
        let six = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]));
        let host: Vec<Viewer> = (0..16).map(|last| viewers.join(six(last)).unwrap()).collect();
        assert!(viewers.join(six(99)).is_none(), "a host has many addresses");
        drop(host);
    }
}
