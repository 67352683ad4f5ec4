//! All keys that are in force, found by their digests.

use std::collections::HashMap;
use std::sync::Arc;

use super::{AdminRight, KeyDigest};

/// A longer text is no key. It is not hashed.
const LENGTH_MAX: usize = 512;

/// The keys in force. Two rings with the same keys are equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyRing {
    keys: HashMap<KeyDigest, RingKey>,
}

#[derive(Clone, Debug, PartialEq)]
struct RingKey {
    /// Once more, for the comparison in constant time.
    digest: KeyDigest,
    owner: KeyOwner,
    name: Arc<str>,
    expires: Option<u64>,
}

/// Who presents a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOwner {
    /// A tenant, by its number in the configuration.
    Tenant(usize),
    Admin(AdminRight),
}

/// Why a key is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnusableKey {
    Unknown,
    Expired,
}

// === impl KeyRing ===

impl KeyRing {
    /// Adds a key. Returns whether it was new.
    pub(crate) fn add(
        &mut self,
        digest: KeyDigest,
        owner: KeyOwner,
        name: &str,
        expires: Option<u64>,
    ) -> bool {
        let key = RingKey { digest, owner, name: name.into(), expires };
        self.keys.insert(digest, key).is_none()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether an operator has a key with this right.
    pub(crate) fn has_admin(&self, right: AdminRight) -> bool {
        let allows = |key: &RingKey| matches!(key.owner, KeyOwner::Admin(has) if has >= right);
        self.keys.values().any(allows)
    }

    /// The keys that expire before a time, in seconds since 1970, and when; the soonest first.
    pub(crate) fn expiring(&self, before: u64) -> Vec<(u64, String, KeyOwner)> {
        let ends = |key: &RingKey| key.expires.filter(|end| *end < before);
        let named = |key: &RingKey| ends(key).map(|end| (end, key.name.to_string(), key.owner));
        let mut expiring: Vec<_> = self.keys.values().filter_map(named).collect();
        expiring.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        expiring
    }

    /// The number of keys of a tenant.
    pub(crate) fn count_of(&self, tenant: usize) -> usize {
        self.keys.values().filter(|key| key.owner == KeyOwner::Tenant(tenant)).count()
    }

    /// The number of keys of operators with exactly this right.
    pub(crate) fn count_admin(&self, right: AdminRight) -> usize {
        self.keys.values().filter(|key| key.owner == KeyOwner::Admin(right)).count()
    }

    /// The digest of a presented key; `None` for a text that is too long for a key.
    pub(crate) fn digest(presented: &str) -> Option<KeyDigest> {
        (presented.len() <= LENGTH_MAX).then(|| KeyDigest::of(presented))
    }

    /// The owner and the name of a key, `now` seconds after 1970.
    pub(crate) fn find(
        &self,
        digest: &KeyDigest,
        now: u64,
    ) -> Result<(KeyOwner, &Arc<str>), UnusableKey> {
        let found = self.keys.get(digest).filter(|key| key.digest.equals(digest));
        let key = found.ok_or(UnusableKey::Unknown)?;
        match key.expires {
            Some(end) if end <= now => Err(UnusableKey::Expired),
            _ => Ok((key.owner, &key.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x05_a_key_is_found_until_it_expires() {
        let mut ring = KeyRing::default();
        let (one, two) = (KeyDigest::of("one"), KeyDigest::of("two"));
        assert!(ring.add(one, KeyOwner::Tenant(3), "laptop", Some(100)));
        assert!(ring.add(two, KeyOwner::Admin(AdminRight::Read), "grafana", None));
        assert!(!ring.add(two, KeyOwner::Admin(AdminRight::Read), "grafana", None));
        let laptop: Arc<str> = "laptop".into();
        assert_eq!(ring.find(&one, 99), Ok((KeyOwner::Tenant(3), &laptop)));
        assert_eq!(ring.find(&one, 100), Err(UnusableKey::Expired));
        assert_eq!(ring.find(&KeyDigest::of("three"), 0), Err(UnusableKey::Unknown));
        assert!(ring.has_admin(AdminRight::Read) && !ring.has_admin(AdminRight::Change));
        assert_eq!((ring.count_of(3), ring.count_of(0)), (1, 0));
        let admins = [AdminRight::Read, AdminRight::Change].map(|right| ring.count_admin(right));
        assert_eq!(admins, [1, 0]);
        assert_eq!(KeyRing::digest(&"x".repeat(513)), None);
    }
}
