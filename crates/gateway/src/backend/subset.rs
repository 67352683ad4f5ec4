//! Subsets: a model that only some of its backends may serve.
//!
//! Whoever stands before the picker may say which backends a request can go to. To the core that is
//! one more model, which only these serve: so such requests wait in turn, route and count as all
//! others do. Subsets are made when they are first asked for, and there is a limit to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use flow::{BackendId, ModelId, Span, Time};

use super::backend_state::BackendState;
use super::model_ids::ModelIds;
use super::roster::Upstream;

/// The most subsets at once. A router has a handful.
const SUBSETS_MAX: usize = 256;
/// Longer than requests wait: then another subset may have its place.
const KEPT: Span = Span::from_secs(300);
/// The most spots that are read of a hint.
pub(crate) const SUBSET_ADDRESSES_MAX: usize = 4096;

/// A model, and where it may be served: no more addresses than there are backends, whatever a hint
/// lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subset {
    pub(super) model: ModelId,
    sockets: BTreeSet<SocketAddr>,
}

/// Where a backend is: with any port, unless one is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointAddress {
    ip: IpAddr,
    port: Option<u16>,
}

/// The subsets that were asked for.
#[derive(Debug, Default)]
pub(super) struct Subsets {
    requested: BTreeMap<Subset, RequestedSubset>,
}

#[derive(Debug)]
struct RequestedSubset {
    /// When it was asked for first.
    since: Time,
    /// The name under which it is numbered: one that no server lists.
    name: String,
}

// === impl EndpointAddress ===

impl EndpointAddress {
    /// Reads `ip:port` or `ip`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(Self { ip: address.ip(), port: Some(address.port()) });
        }
        text.parse().ok().map(|ip| Self { ip, port: None })
    }
}

// === impl Subset ===

impl Subset {
    /// Those of these backends that are on one of the spots; nothing where none is.
    pub(super) fn of<'a>(
        model: ModelId,
        addresses: &BTreeSet<EndpointAddress>,
        upstreams: impl Iterator<Item = &'a Arc<Upstream>>,
    ) -> Option<Self> {
        let hinted = |socket: &SocketAddr| {
            let address = |port| EndpointAddress { ip: socket.ip(), port };
            addresses.contains(&address(Some(socket.port()))) || addresses.contains(&address(None))
        };
        let sockets: BTreeSet<SocketAddr> =
            upstreams.filter_map(|upstream| upstream.socket).filter(hinted).collect();
        (!sockets.is_empty()).then_some(Self { model, sockets })
    }

    fn holds(&self, backend: &BackendState) -> bool {
        let here = |address| self.sockets.contains(&address);
        backend.upstream.socket.is_some_and(here) && backend.serves.contains(&self.model)
    }
}

// === impl Subsets ===

impl Subsets {
    /// Takes note that a subset is asked for; says whether it is new.
    pub(super) fn request(&mut self, subset: Subset, now: Time) -> bool {
        if self.requested.contains_key(&subset) {
            return false;
        }
        if self.requested.len() >= SUBSETS_MAX && !self.drop_oldest(now) {
            tracing::debug!("a subset was left out: there are {SUBSETS_MAX} already");
            return false;
        }
        // Names of models have no control characters.
        let name = format!("\u{1}{subset:?}");
        self.requested.insert(subset, RequestedSubset { since: now, name });
        true
    }

    /// Makes room. One that is still in use comes back with its number when it is asked for.
    fn drop_oldest(&mut self, now: Time) -> bool {
        let oldest = self.requested.iter().min_by_key(|(_, requested)| requested.since);
        let Some((oldest, since)) = oldest.map(|(subset, at)| (subset.clone(), at.since)) else {
            return true;
        };
        let old = now.since(since) > KEPT;
        if old {
            self.requested.remove(&oldest);
        }
        old
    }

    /// Numbers those that some backend can serve, and tells the backends.
    pub(super) fn number(
        &self,
        backends: &mut BTreeMap<BackendId, BackendState>,
        model_ids: &mut ModelIds,
        now: Time,
    ) -> BTreeMap<Subset, ModelId> {
        backends.values_mut().for_each(|backend| backend.subset_models.clear());
        let mut numbered = BTreeMap::new();
        for (subset, RequestedSubset { name, .. }) in &self.requested {
            let mut subset_models =
                backends.values_mut().filter(|backend| subset.holds(backend)).peekable();
            if subset_models.peek().is_none() {
                continue;
            }
            let Some(id) = model_ids.number(name, now) else { continue };
            subset_models.for_each(|backend| backend.subset_models.push(id));
            numbered.insert(subset.clone(), id);
        }
        numbered
    }
}
