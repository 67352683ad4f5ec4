//! How a gateway knows itself among its backends.
//!
//! A wrong port in the configuration makes a gateway its own backend, and each request would come
//! back as a new one, again and again. It is known by its addresses, without a question; where a
//! name or a translated address hides them, by the mark in its health page. Another gateway is a
//! backend like any other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::uri::Authority;
use serde::Deserialize;

use super::roster::PORT;

/// What a gateway knows of itself.
#[derive(Debug, Default)]
pub(crate) struct GatewayIdentity {
    /// Where it listens.
    pub(crate) addresses: Vec<SocketAddr>,
    /// A name that no other gateway has.
    pub(crate) instance: String,
}

/// What every gateway's health page has.
#[derive(Deserialize)]
struct Mark {
    tidegate: String,
}

/// The name of the gateway whose health page this is, if it is one's.
pub(super) fn instance(page: &[u8]) -> Option<String> {
    serde_json::from_slice(page).ok().map(|Mark { tidegate }| tidegate)
}

// === impl GatewayIdentity ===

impl GatewayIdentity {
    /// Whether this is where it listens itself.
    pub(super) fn is_at(&self, authority: &Authority) -> bool {
        let port = authority.port_u16().unwrap_or(PORT);
        let hosts = local(authority.host());
        let hears =
            |own: IpAddr, host: IpAddr| own == host || (own.is_unspecified() && host.is_loopback());
        self.addresses
            .iter()
            .any(|own| own.port() == port && hosts.iter().any(|&host| hears(own.ip(), host)))
    }

    /// Whether this is its own health page.
    pub(super) fn wrote(&self, page: &[u8]) -> bool {
        instance(page).is_some_and(|instance| instance == self.instance)
    }

    pub(super) fn ports(&self) -> Vec<u16> {
        self.addresses.iter().map(SocketAddr::port).collect()
    }
}

/// The addresses that a host surely means. No name but one is looked up: that takes time, and what
/// it finds may change.
fn local(host: &str) -> Vec<IpAddr> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let any = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    match bare.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        // Who connects to no address in particular reaches this machine.
        Ok(ip) if ip.is_unspecified() => any.into(),
        Ok(ip) => vec![ip],
        Err(_) if bare.eq_ignore_ascii_case("localhost") => any.into(),
        Err(_) => Vec::new(),
    }
}
