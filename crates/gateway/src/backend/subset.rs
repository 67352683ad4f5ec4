//! Subsets: a model that only some of its backends may serve.
//!
//! A router in front of the picker may say which backends a request can use, and a client may name
//! one of them. For the core a subset is another model, which only these backends serve. So these
//! requests wait, are routed and are counted like all others. A subset is created when a request
//! first asks for it; their number is limited. For a configured model, requests can also wait for
//! backends that are not there yet.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use flow::{BackendId, ModelId, Span, Time};

use super::backend_state::BackendState;
use super::endpoint::Endpoint;
use super::model_ids::ModelIds;

/// The most subsets at a time. A router has a handful.
const SUBSETS_MAX: usize = 256;
/// Longer than any request waits. After this time another subset may replace it.
const KEPT: Span = Span::from_secs(300);
/// The most addresses that are read from a hint.
pub(crate) const SUBSET_ADDRESSES_MAX: usize = 4096;

/// A model, and the addresses of the backends that may serve it. Addresses of a hint without a
/// backend are left out, so that hints which mean the same backends are one subset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subset {
    pub(super) model: ModelId,
    sockets: BTreeSet<SocketAddr>,
    /// All addresses of the hint, if there is no backend yet.
    awaited: BTreeSet<EndpointAddress>,
    /// The only backend, if a client named it.
    only: Option<BackendId>,
}

/// The model of a subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubsetModel {
    pub(crate) id: ModelId,
    /// Whether there is a backend for it.
    pub(crate) present: bool,
}

/// The address of a backend, with any port unless one is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointAddress {
    ip: IpAddr,
    port: Option<u16>,
}

/// The requested subsets.
#[derive(Debug, Default)]
pub(super) struct Subsets {
    requested: BTreeMap<Subset, RequestedSubset>,
}

#[derive(Debug)]
struct RequestedSubset {
    /// When it was first requested.
    since: Time,
    /// The name under which it gets its id. No server can list this name.
    name: String,
}

// === impl EndpointAddress ===

impl EndpointAddress {
    /// Parses `ip:port` or `ip`.
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
    /// The subset of these backends at the given addresses; `None` if it is empty.
    pub(super) fn of<'a>(
        model: ModelId,
        addresses: &BTreeSet<EndpointAddress>,
        endpoints: impl Iterator<Item = &'a Arc<Endpoint>>,
    ) -> Option<Self> {
        let sockets = endpoints.filter_map(|endpoint| endpoint.socket);
        let sockets: BTreeSet<SocketAddr> =
            sockets.filter(|&socket| matches(addresses, socket)).collect();
        let some = !sockets.is_empty();
        some.then_some(Self { model, sockets, awaited: BTreeSet::new(), only: None })
    }

    /// The subset of the backends that will be at these addresses; `None` if there is no address.
    pub(super) fn awaiting(model: ModelId, addresses: &BTreeSet<EndpointAddress>) -> Option<Self> {
        let awaited = addresses.clone();
        let some = !awaited.is_empty();
        some.then_some(Self { model, sockets: BTreeSet::new(), awaited, only: None })
    }

    /// The subset of one backend.
    pub(super) fn only(model: ModelId, backend: BackendId) -> Self {
        let (sockets, awaited) = (BTreeSet::new(), BTreeSet::new());
        Self { model, sockets, awaited, only: Some(backend) }
    }

    /// Whether requests may wait for it without a backend.
    pub(super) fn is_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    fn holds(&self, backend: &BackendState) -> bool {
        let here = |socket| self.sockets.contains(&socket) || matches(&self.awaited, socket);
        let endpoint = &backend.endpoint;
        let is_member = self.only == Some(endpoint.id) || endpoint.socket.is_some_and(here);
        is_member && backend.serves.contains(&self.model)
    }
}

/// Whether a hint names this address, with its port or with any.
fn matches(addresses: &BTreeSet<EndpointAddress>, socket: SocketAddr) -> bool {
    let address = |port| EndpointAddress { ip: socket.ip(), port };
    addresses.contains(&address(Some(socket.port()))) || addresses.contains(&address(None))
}

// === impl Subsets ===

impl Subsets {
    /// Adds a subset; returns whether it is new.
    pub(super) fn request(&mut self, subset: Subset, now: Time) -> bool {
        if self.requested.contains_key(&subset) {
            return false;
        }
        if self.requested.len() >= SUBSETS_MAX && !self.drop_oldest(now) {
            tracing::debug!("subset ignored: there are {SUBSETS_MAX} already");
            return false;
        }
        // Model names have no control characters.
        let name = format!("\u{1}{subset:?}");
        self.requested.insert(subset, RequestedSubset { since: now, name });
        true
    }

    /// Makes room. A subset that is still in use gets the same id when it is requested again.
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

    /// Assigns ids to the subsets that a backend can serve or that requests may wait for. Stores
    /// them in the backends.
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
            if subset_models.peek().is_none() && !subset.is_awaited() {
                continue;
            }
            let Some(id) = model_ids.number(name, now) else { continue };
            subset_models.for_each(|backend| backend.subset_models.push(id));
            numbered.insert(subset.clone(), id);
        }
        numbered
    }
}
