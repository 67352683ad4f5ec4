//! The memory of bodies, bounded for all requests together.
//!
//! Each body has a limit of its own, but a thousand bodies at that limit would not fit into memory.
//! One client gets three quarters of the memory, so that it cannot close the gateway to others.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flow::Band;

use crate::reply::Fault;

/// A body up to this size is small. The last eighth of the memory is for small bodies alone, so
/// that a few large ones that come slowly do not block all others.
const SMALL: usize = 64 << 10;

/// Each band leaves one part in this many to those above it, so that waiting bodies of low bands do
/// not refuse the requests that would go first.
const BAND_SHARE: usize = 16;

/// Clients are counted by a hash of this many values, which clients cannot foresee. Two clients
/// with one value have one share together.
const HOLDERS: usize = 1024;

/// The memory of all bodies.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    bytes: AtomicUsize,
    by_holder: Box<[AtomicUsize]>,
    hashes: RandomState,
}

/// The client of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyHolder<'a> {
    Tenant(&'a str),
    /// Without tenants. One client usually has a whole network of IPv6 (/64).
    Address(Option<IpAddr>),
}

/// The memory of one request, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory: Arc<BodyMemory>,
    bytes: usize,
    /// The number of its client, if the memory is shared out.
    holder: Option<usize>,
    band: Band,
}

// === impl BodyMemory ===

impl BodyMemory {
    /// The bytes of all reservations.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether so much is in use that bands matter.
    pub(crate) fn is_scarce(&self, most: usize) -> bool {
        self.bytes.load(Ordering::Relaxed) > most / 2
    }

    /// An empty reservation.
    pub(crate) fn hold(self: &Arc<Self>) -> Reservation {
        Reservation { memory: Arc::clone(self), bytes: 0, holder: None, band: Band::Critical }
    }

    /// An empty reservation of a client, which gets its share at most.
    pub(crate) fn hold_for(self: &Arc<Self>, holder: BodyHolder<'_>) -> Reservation {
        let hash = match holder {
            BodyHolder::Tenant(name) => self.hashes.hash_one(name),
            BodyHolder::Address(address) => self.hashes.hash_one(address.map_or(0, network)),
        };
        let holder = usize::try_from(hash % HOLDERS as u64).ok();
        Reservation { memory: Arc::clone(self), bytes: 0, holder, band: Band::Critical }
    }
}

impl Default for BodyMemory {
    fn default() -> Self {
        Self {
            bytes: AtomicUsize::default(),
            by_holder: std::iter::repeat_with(AtomicUsize::default).take(HOLDERS).collect(),
            hashes: RandomState::new(),
        }
    }
}

// === impl BodyHolder ===

impl<'a> BodyHolder<'a> {
    /// The client of a request: its tenant, or its address where there are no tenants.
    pub(crate) fn of(tenant: Option<&'a str>, peer: Option<IpAddr>) -> Self {
        tenant.map_or(Self::Address(peer), Self::Tenant)
    }
}

/// The network of a client, or its address of IPv4. One number has less to hash than an address.
fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}

// === impl Reservation ===

impl Reservation {
    /// Gives it the band of its request. Returns whether that is lower than the one before.
    pub(crate) fn set_band(&mut self, band: Band) -> bool {
        std::mem::replace(&mut self.band, band) > band
    }

    /// Reserves more bytes, if all reservations together then hold at most `most`, and those of the
    /// client its share; both are less for lower bands.
    pub(crate) fn more(&mut self, bytes: usize, most: usize) -> Result<(), Fault> {
        let small = self.bytes.saturating_add(bytes) <= SMALL;
        let most = most - most / BAND_SHARE * (Band::Critical as usize - self.band as usize);
        let share = most - most / 4;
        let most = if small { most } else { most - most / 8 };
        let memory = &self.memory;
        take(&memory.bytes, bytes, most)?;
        let own = self.holder.and_then(|holder| memory.by_holder.get(holder));
        if let Some(Err(fault)) = own.map(|own| take(own, bytes, share)) {
            memory.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(fault);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Counts bytes that are held in any case, also above the bound.
    pub(crate) fn force(&mut self, bytes: usize) {
        self.memory.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(own) = self.holder.and_then(|holder| self.memory.by_holder.get(holder)) {
            own.fetch_add(bytes, Ordering::Relaxed);
        }
        self.bytes += bytes;
    }

    /// The bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the client holds a quarter of the memory or more.
    pub(crate) fn is_of_a_large_holder(&self, most: usize) -> bool {
        let own = self.holder.and_then(|holder| self.memory.by_holder.get(holder));
        own.is_some_and(|own| own.load(Ordering::Relaxed) >= most / 4)
    }

    /// Gives back up to so many bytes.
    pub(crate) fn less(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.memory.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(own) = self.holder.and_then(|holder| self.memory.by_holder.get(holder)) {
            own.fetch_sub(bytes, Ordering::Relaxed);
        }
        self.bytes -= bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.less(usize::MAX);
    }
}

/// Adds bytes to a sum that must not exceed `most`.
fn take(sum: &AtomicUsize, bytes: usize, most: usize) -> Result<(), Fault> {
    if bytes == 0 {
        return if sum.load(Ordering::Relaxed) <= most { Ok(()) } else { Err(Fault::Overloaded) };
    }
    let with = |held: usize| held.checked_add(bytes).filter(|&sum| sum <= most);
    let taken = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
    taken.map(|_| ()).map_err(|_| Fault::Overloaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x03_bodies_are_bounded_all_together_and_give_their_memory_back() {
        let memory = Arc::new(BodyMemory::default());
        let (mut one, mut other) = (memory.hold(), memory.hold());
        assert_eq!(one.more(60, 100), Ok(()));
        assert_eq!(other.more(41, 100), Err(Fault::Overloaded));
        assert_eq!(other.more(40, 100), Ok(()));
        assert_eq!(one.more(1, 100), Err(Fault::Overloaded));
        drop(one);
        assert_eq!(other.more(60, 100), Ok(()));
        assert_eq!(other.more(usize::MAX, usize::MAX), Err(Fault::Overloaded));
        drop(other);
        assert_eq!(memory.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn x03_one_client_leaves_a_quarter_of_the_memory_to_others() {
        let memory = Arc::new(BodyMemory::default());
        let of = |address: &str| BodyHolder::of(None, Some(address.parse().unwrap()));
        let mut first = memory.hold_for(BodyHolder::Tenant("flood"));
        let mut second = memory.hold_for(BodyHolder::of(Some("flood"), None));
        assert_eq!((first.more(50, 100), second.more(25, 100)), (Ok(()), Ok(())));
        assert_eq!(second.more(1, 100), Err(Fault::Overloaded), "its share is used up");
        assert_eq!(memory.bytes(), 75, "the refused byte is not counted");
        // One client of many may meet another one's hash.
        let honest = |at: u8| memory.hold_for(of(&format!("10.0.0.{at}"))).more(25, 100).is_ok();
        assert!((0..8).any(honest));
        drop(first);
        assert_eq!(second.more(50, 100), Ok(()));
        drop(second);
        let network = |address: &str| network(address.parse().unwrap());
        let near = ["2001:db8::1", "2001:db8::2:3:4:5", "::ffff:10.0.0.1"].map(network);
        assert_eq!(near[0], near[1], "one network is one client");
        assert_eq!(near[2], network("10.0.0.1"));
        assert_ne!(near[0], network("2001:db8:0:1::1"));
        assert_eq!(memory.bytes(), 0);
        assert!(memory.by_holder.iter().all(|own| own.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn p07_lower_bands_leave_memory_to_higher_ones() {
        let memory = Arc::new(BodyMemory::default());
        let most = 1600;
        let held: Vec<Reservation> = [Band::BestEffort, Band::Normal, Band::High, Band::Critical]
            .into_iter()
            .map(|band| {
                let mut held = memory.hold();
                held.set_band(band);
                while held.more(100, most).is_ok() {}
                assert_eq!(memory.bytes(), 1300 + 100 * band as usize, "{band:?}");
                held
            })
            .collect();
        drop(held);
        let mut one = memory.hold_for(BodyHolder::Tenant("one"));
        one.set_band(Band::BestEffort);
        while one.more(25, most).is_ok() {}
        let mut critical = memory.hold_for(BodyHolder::Tenant("one"));
        assert_eq!(critical.more(200, most), Ok(()), "also to those of the same client");
    }

    #[test]
    fn x03_large_bodies_leave_room_for_small_ones() {
        let memory = Arc::new(BodyMemory::default());
        let most = 8 << 20;
        let (mut large, mut small) = (memory.hold(), memory.hold());
        let mut pieces = 0;
        while large.more(SMALL, most).is_ok() {
            pieces += 1;
        }
        assert_eq!(pieces * SMALL, 7 << 20);
        assert_eq!(small.more(SMALL, most), Ok(()));
        assert_eq!(small.more(1, most), Err(Fault::Overloaded), "it is large now");
    }
}
