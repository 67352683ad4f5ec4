//! Subsets: a model that only some of its backends may serve.
//!
//! Whoever stands before the picker may say which backends a request can go to. To the core that is
//! one more model, which only these serve: so such requests wait in turn, route and count as all
//! others do. Subsets are made when they are first asked for, and there is a limit to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use flow::{BackendId, ModelId, Span, Time};

use super::member::Member;
use super::names::Names;

/// The most subsets at once. A router has a handful.
const SUBSETS_MAX: usize = 1024;
/// Longer than anyone waits.
const KEPT: Span = Span::from_secs(3600);

/// A model, and where it may be served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subset {
    pub(crate) model: ModelId,
    pub(crate) spots: BTreeSet<Spot>,
}

/// Where a backend is: with any port, unless one is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    ip: IpAddr,
    port: Option<u16>,
}

/// The subsets that were asked for.
#[derive(Debug, Default)]
pub(super) struct Subsets {
    /// With the moment in which each was asked for first.
    asked: BTreeMap<Subset, Time>,
}

// === impl Spot ===

impl Spot {
    /// Reads `ip:port` or `ip`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(Self { ip: address.ip(), port: Some(address.port()) });
        }
        text.parse().ok().map(|ip| Self { ip, port: None })
    }

    fn holds(self, address: SocketAddr) -> bool {
        self.ip == address.ip() && self.port.is_none_or(|port| port == address.port())
    }
}

// === impl Subset ===

impl Subset {
    fn holds(&self, member: &Member) -> bool {
        let here = |address| self.spots.iter().any(|spot| spot.holds(address));
        member.upstream.socket.is_some_and(here) && member.serves.contains(&self.model)
    }

    /// A name that no server lists: names have no control characters.
    fn name(&self) -> String {
        format!("\u{1}{self:?}")
    }
}

// === impl Subsets ===

impl Subsets {
    /// Takes note that a subset is asked for; says whether it is new.
    pub(super) fn ask(&mut self, subset: Subset, now: Time) -> bool {
        if self.asked.contains_key(&subset) {
            return false;
        }
        if self.asked.len() >= SUBSETS_MAX {
            self.asked.retain(|_, &mut since| now.since(since) <= KEPT);
        }
        if self.asked.len() >= SUBSETS_MAX {
            tracing::warn!("a subset was left out: there are {SUBSETS_MAX} already");
            return false;
        }
        self.asked.insert(subset, now);
        true
    }

    /// Numbers those that some backend can serve, and tells the backends.
    pub(super) fn number(
        &self,
        members: &mut BTreeMap<BackendId, Member>,
        names: &mut Names,
        now: Time,
    ) -> BTreeMap<Subset, ModelId> {
        members.values_mut().for_each(|member| member.inside.clear());
        let mut numbered = BTreeMap::new();
        for subset in self.asked.keys() {
            let mut inside = members.values_mut().filter(|member| subset.holds(member)).peekable();
            if inside.peek().is_none() {
                continue;
            }
            let Some(id) = names.number(&subset.name(), now) else { continue };
            inside.for_each(|member| member.inside.push(id));
            numbered.insert(subset.clone(), id);
        }
        numbered
    }
}
