//! How many uploads may run at once: of all clients, and of one tenant or one address, so that no
//! client can take all places with slow uploads.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most uploads at once.
pub(super) const UPLOADS_MAX: usize = 16;
/// The most uploads of one tenant.
const TENANT_UPLOADS_MAX: usize = 4;

/// The most uploads of one address, where there are no tenants.
const ADDRESS_UPLOADS_MAX: usize = 12;

/// The uploads that run, by their client.
#[derive(Debug, Default)]
pub(super) struct UploadSlots(Mutex<BTreeMap<Uploader, usize>>);

/// The client of an upload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Uploader {
    Tenant(String),
    Address(Option<IpAddr>),
}

/// The place of one upload, until it is dropped.
#[derive(Debug)]
pub(super) struct UploadSlot {
    slots: Arc<UploadSlots>,
    uploader: Uploader,
}

// === impl UploadSlots ===

impl UploadSlots {
    /// A place for an upload, if there is one. Without tenants the owner is empty.
    pub(super) fn take(self: &Arc<Self>, owner: &str, peer: Option<IpAddr>) -> Option<UploadSlot> {
        let (uploader, most) = match owner {
            "" => (Uploader::Address(peer), ADDRESS_UPLOADS_MAX),
            owner => (Uploader::Tenant(owner.to_owned()), TENANT_UPLOADS_MAX),
        };
        let mut taken = self.taken();
        let own = taken.get(&uploader).copied().unwrap_or(0);
        if own >= most || taken.values().sum::<usize>() >= UPLOADS_MAX {
            return None;
        }
        taken.insert(uploader.clone(), own + 1);
        Some(UploadSlot { slots: Arc::clone(self), uploader })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<Uploader, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl UploadSlot ===

impl UploadSlot {
    /// The tenant; empty without tenants.
    pub(super) fn owner(&self) -> &str {
        match &self.uploader {
            Uploader::Tenant(name) => name,
            Uploader::Address(_) => "",
        }
    }
}

impl Drop for UploadSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        match taken.get_mut(&self.uploader) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = taken.remove(&self.uploader),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x05_one_client_cannot_take_all_places_of_uploads() {
        let slots = Arc::new(UploadSlots::default());
        let mut held: Vec<_> = (0..4).map(|_| slots.take("a", None).unwrap()).collect();
        assert!(slots.take("a", None).is_none());
        held.push(slots.take("b", None).unwrap());
        held.remove(0);
        assert!(slots.take("a", None).is_some());
        // Without tenants an address has most of the places, and all have them all.
        held.clear();
        let [one, other] = [1, 2].map(|last| Some(IpAddr::from([127, 0, 0, last])));
        let all: Vec<_> = (0..12).map(|_| slots.take("", one).unwrap()).collect();
        assert!(slots.take("", one).is_none());
        let rest: Vec<_> = (0..4).map(|_| slots.take("", other).unwrap()).collect();
        assert!(slots.take("", other).is_none() && slots.take("a", None).is_none());
        drop((all, rest));
        assert!(slots.taken().is_empty());
    }
}
