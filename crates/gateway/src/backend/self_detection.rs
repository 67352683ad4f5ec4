//! Detection of a gateway that is configured as its own backend.
//!
//! With a wrong port in the configuration a gateway is its own backend, and each request would
//! loop. The gateway compares the backend's address with its own addresses. If a name or a
//! translated address hides them, the instance id in the health page reveals it. Another gateway is
//! an ordinary backend.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Deserialize;

/// The identity of this gateway.
#[derive(Debug, Default)]
pub(crate) struct GatewayIdentity {
    /// The addresses on which it listens.
    pub(crate) addresses: Vec<SocketAddr>,
    /// An id that no other gateway has.
    pub(crate) instance: String,
}

/// The field that every gateway's health page has.
#[derive(Deserialize)]
struct Mark {
    tidegate: String,
}

/// The instance id of the gateway that wrote this health page; `None` for any other page.
pub(super) fn instance(page: &[u8]) -> Option<String> {
    serde_json::from_slice(page).ok().map(|Mark { tidegate }| tidegate)
}

// === impl GatewayIdentity ===

impl GatewayIdentity {
    /// Whether this gateway listens at this host and port.
    pub(super) fn is_at(&self, (host, port): (&str, u16)) -> bool {
        let hosts = local(host);
        let hears =
            |own: IpAddr, host: IpAddr| own == host || (own.is_unspecified() && host.is_loopback());
        self.addresses
            .iter()
            .any(|own| own.port() == port && hosts.iter().any(|&host| hears(own.ip(), host)))
    }

    /// Whether this gateway wrote this health page.
    pub(super) fn wrote(&self, page: &[u8]) -> bool {
        instance(page).is_some_and(|instance| instance == self.instance)
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        self.addresses.iter().map(SocketAddr::port).collect()
    }
}

/// The addresses that a host certainly means. No name except `localhost` is resolved: DNS takes
/// time, and its result may change.
fn local(host: &str) -> Vec<IpAddr> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let any = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    match bare.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        // A connection to the unspecified address reaches this machine.
        Ok(ip) if ip.is_unspecified() => any.into(),
        Ok(ip) => vec![ip],
        Err(_) if bare.eq_ignore_ascii_case("localhost") => any.into(),
        Err(_) => Vec::new(),
    }
}
