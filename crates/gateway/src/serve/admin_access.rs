//! Who may see the status pages, and who may change something there.
//!
//! Without tenants and keys every client may, as on one's own machine. Otherwise a request needs an
//! admin key. To read and to change are two rights.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

use crate::api_keys::AdminRight;
use crate::clock;
use crate::config::settings::{Config, OpenPages};
use crate::ingress;
use crate::ingress::path::{AdminPage, DispatchCall};
use crate::reply::Fault;

/// Checks that a client may see a page.
pub(super) fn may_see(config: &Config, page: AdminPage, headers: &HeaderMap) -> Result<(), Fault> {
    match page {
        AdminPage::Health | AdminPage::Ready | AdminPage::Version => Ok(()),
        // The files of the page show nothing about this gateway.
        AdminPage::Dashboard(_) => Ok(()),
        AdminPage::Metrics if open_pages(config) != OpenPages::Probes => Ok(()),
        _ => may_read(config, headers),
    }
}

/// Checks that a client may make a call about queues and dead letters.
pub(super) fn may_call(
    config: &Config,
    call: DispatchCall,
    headers: &HeaderMap,
) -> Result<(), Fault> {
    match call {
        DispatchCall::OtherMethod(_) => Ok(()),
        DispatchCall::Overview | DispatchCall::Text | DispatchCall::DeadLetters => {
            may_read(config, headers)
        }
        DispatchCall::Redrive | DispatchCall::Purge if !has_keys(config) => Ok(()),
        DispatchCall::Redrive | DispatchCall::Purge => need(config, AdminRight::Change, headers),
    }
}

/// Refuses requests that a foreign website may have made in the browser of an operator.
///
/// A page of another origin says so in `Origin`. A name that was made to point to this machine
/// (DNS rebinding) has itself as `Origin`, but is a name of a domain in `Host`. Programs of this
/// machine use an address or `localhost`. A key proves the operator, or the tenant.
pub(super) fn is_own_page(
    config: &Config,
    headers: &HeaderMap,
    (host, peer): (Option<&str>, Option<IpAddr>),
) -> Result<(), Fault> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).or(host);
    let origin = headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    let same = |origin: &str| origin.split_once("://").is_some_and(|(_, at)| Some(at) == host);
    let is_local = peer.is_none_or(|peer| peer.to_canonical().is_loopback());
    let is_named = is_local && host.is_some_and(is_domain);
    if (is_named || origin.is_some_and(|origin| !same(origin))) && !has_key(config, headers) {
        return Err(Fault::ForeignHost);
    }
    Ok(())
}

/// Whether a host with its port is a name of a domain, and not an address or `localhost`.
fn is_domain(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(at, _)| at);
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_address = name.parse::<IpAddr>().is_ok() || name.starts_with('[');
    !is_address && name.contains('.') && !name.ends_with(".localhost")
}

/// Checks that a client may see what belongs to all tenants.
pub(super) fn may_read(config: &Config, headers: &HeaderMap) -> Result<(), Fault> {
    match open_pages(config) {
        OpenPages::All => Ok(()),
        _ => need(config, AdminRight::Read, headers),
    }
}

/// Checks that a client without a tenant may see the accounts.
pub(super) fn may_read_accounts(
    config: &Config,
    headers: &HeaderMap,
    has_pages: bool,
) -> Result<(), Fault> {
    if has_pages { may_read(config, headers) } else { need(config, AdminRight::Read, headers) }
}

/// Whether a client has the key of an operator.
pub(super) fn has_admin_key(config: &Config, headers: &HeaderMap) -> bool {
    ingress::admin_right(config, headers, clock::since_epoch().as_secs()).is_ok()
}

/// Whether a client has the key of an operator or of a tenant.
fn has_key(config: &Config, headers: &HeaderMap) -> bool {
    let right = ingress::admin_right(config, headers, clock::since_epoch().as_secs());
    matches!(right, Ok(_) | Err(Fault::AdminOnly))
}

fn need(config: &Config, right: AdminRight, headers: &HeaderMap) -> Result<(), Fault> {
    let now = clock::since_epoch().as_secs();
    let has = ingress::admin_right(config, headers, now)?;
    if has >= right { Ok(()) } else { Err(Fault::AdminOnly) }
}

fn open_pages(config: &Config) -> OpenPages {
    let usual = if has_keys(config) { OpenPages::Probes } else { OpenPages::All };
    config.admin.without_key.unwrap_or(usual)
}

fn has_keys(config: &Config) -> bool {
    // Also without a single key: to withdraw the last key must not open the pages.
    !config.tenants.is_empty() || config.auth.key_file.is_some() || !config.auth.keys.is_empty()
}
