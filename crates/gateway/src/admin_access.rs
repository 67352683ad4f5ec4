//! Who may see the status pages, and who may change something there.
//!
//! With `admin.kubernetes_tokens` the roles of a cluster say what a token may do. Without such
//! tokens, tenants and keys every client may see the pages, and a client on the same machine may
//! change something. Otherwise a request needs an admin key, or a client certificate that the
//! configuration names. To read and to change are two rights.

use std::net::{IpAddr, SocketAddr};

use http::{Extensions, HeaderMap, HeaderName, Method, header};

use crate::api_keys::AdminRight;
use crate::clock;
use crate::config::settings::{Config, OpenPages};
use crate::ingress::path::{self, AdminPage, DispatchCall};
use crate::ingress::{self, headers};
use crate::kubernetes::{Cluster, ReviewError, TokenVerdict};
use crate::reply::Fault;
use crate::tls_listener::ClientCertificate;

/// What a proxy adds to a request that it passes on.
const PROXIED: [HeaderName; 4] = [
    header::FORWARDED,
    header::VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
];

/// What a client shows to get in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor<'a> {
    headers: &'a HeaderMap,
    /// The name in the certificate of its connection.
    certified: Option<&'a str>,
    /// Whether it is a program of this machine that asks for itself.
    is_on_machine: bool,
    /// What a cluster says about its token.
    reviewed: Option<&'a Reviewed>,
}

/// What the roles of a cluster say about the token of a request.
#[derive(Clone, Debug)]
pub(crate) struct Reviewed(Result<AdminRight, Fault>);

/// What a request asks for, with its token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) config: &'a Config,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    /// The address of the client.
    pub(crate) client: Option<IpAddr>,
}

/// Where a client's connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) ip: Option<IpAddr>,
    /// Whether both of its ends are loopback addresses, so that it never left this machine. The
    /// client's end alone proves nothing: a proxy of a service mesh uses such an address for the
    /// requests of all machines.
    is_loopback: bool,
}

/// Checks that a client may see a page.
pub(crate) fn may_see(config: &Config, page: AdminPage, visitor: Visitor<'_>) -> Result<(), Fault> {
    match page {
        AdminPage::Health | AdminPage::Ready | AdminPage::Version => Ok(()),
        // The files of the page show nothing about this gateway.
        AdminPage::Dashboard(_) => Ok(()),
        AdminPage::Metrics if open_pages(config) != OpenPages::Probes => Ok(()),
        _ => may_read(config, visitor),
    }
}

/// Checks that a client may make a call about queues and dead letters.
pub(crate) fn may_call(
    config: &Config,
    call: DispatchCall,
    visitor: Visitor<'_>,
) -> Result<(), Fault> {
    match call {
        DispatchCall::OtherMethod(_) => Ok(()),
        DispatchCall::Overview | DispatchCall::Text | DispatchCall::DeadLetters => {
            may_read(config, visitor)
        }
        DispatchCall::Redrive | DispatchCall::Purge => may_change(config, visitor),
    }
}

/// Checks that a client may change something while the gateway runs.
pub(crate) fn may_change(config: &Config, visitor: Visitor<'_>) -> Result<(), Fault> {
    match has_keys(config) {
        true => need(config, AdminRight::Change, visitor),
        false if visitor.is_on_machine => Ok(()),
        false => Err(Fault::KeylessChange),
    }
}

/// Asks the cluster what the token of a request may do, where the configuration says so. A key of
/// an operator needs no review.
pub(crate) async fn review(cluster: &Cluster, asked: Asked<'_>) -> Option<Reviewed> {
    let Asked { config, headers, method, path, client } = asked;
    let token = ingress::presented(headers)?;
    let now = clock::since_epoch().as_secs();
    if let Ok(_) | Err(Fault::AdminOnly) = ingress::admin_right(config, headers, now) {
        return None;
    }
    let (verb, right) = match path::is_read(method) {
        true => ("get", AdminRight::Read),
        false => ("post", AdminRight::Change),
    };
    Some(Reviewed(
        match cluster.review((token, client.map(ingress::address::name)), (verb, path)).await {
            Ok(TokenVerdict::Allowed) => Ok(right),
            Ok(TokenVerdict::Denied) => Err(Fault::AdminOnly),
            Ok(TokenVerdict::Unknown) => Err(Fault::InvalidKey),
            Err(ReviewError(why)) => Err(Fault::ReviewAway(why)),
        },
    ))
}

/// Logs who may use the status pages at an address that other machines reach, where no key protects
/// them.
pub(crate) fn announce(config: &Config, pages: SocketAddr) {
    if !pages.ip().is_loopback() && !has_keys(config) {
        tracing::info!(
            "every client that reaches {pages} sees the status pages; a change there, such as a \
             drain, needs an admin key unless it comes from this machine"
        );
    }
}

/// Checks that a client may see what belongs to all tenants.
pub(crate) fn may_read(config: &Config, visitor: Visitor<'_>) -> Result<(), Fault> {
    match open_pages(config) {
        OpenPages::All => Ok(()),
        _ => need(config, AdminRight::Read, visitor),
    }
}

/// Checks that a client without a tenant may see the accounts.
pub(crate) fn may_read_accounts(
    config: &Config,
    visitor: Visitor<'_>,
    has_pages: bool,
) -> Result<(), Fault> {
    if has_pages { may_read(config, visitor) } else { need(config, AdminRight::Read, visitor) }
}

/// Whether a client has the key or the certificate of an operator.
pub(crate) fn is_operator(config: &Config, visitor: Visitor<'_>) -> bool {
    right_of(config, visitor).is_ok()
}

/// Whether a client was refused because it has no key at all.
pub(crate) fn is_missing_key(fault: &Fault) -> bool {
    matches!(fault, Fault::MissingKey)
}

/// Whether a client has the key of an operator or of a tenant, or a token that the cluster knows. A
/// key that is not accepted is an error, where there are keys. A certificate is no key: a browser
/// sends it for any website.
pub(crate) fn has_key(config: &Config, visitor: Visitor<'_>) -> Result<bool, Fault> {
    let right = match visitor.reviewed {
        Some(Reviewed(right)) => right.clone(),
        None => ingress::admin_right(config, visitor.headers, clock::since_epoch().as_secs()),
    };
    match right {
        Ok(_) | Err(Fault::AdminOnly) => Ok(true),
        Err(Fault::MissingKey) => Ok(false),
        Err(_) if !has_keys(config) => Ok(false),
        Err(fault) => Err(fault),
    }
}

fn need(config: &Config, right: AdminRight, visitor: Visitor<'_>) -> Result<(), Fault> {
    if right_of(config, visitor)? >= right { Ok(()) } else { Err(Fault::AdminOnly) }
}

/// The right that a client has. If it sends a key, only the key counts.
fn right_of(config: &Config, visitor: Visitor<'_>) -> Result<AdminRight, Fault> {
    if let Some(Reviewed(right)) = visitor.reviewed {
        return right.clone();
    }
    match ingress::admin_right(config, visitor.headers, clock::since_epoch().as_secs()) {
        Err(Fault::MissingKey) => {
            let certified = visitor.certified.ok_or(Fault::MissingKey)?;
            certified_right(config, certified).ok_or(Fault::MissingKey)
        }
        found => found,
    }
}

fn certified_right(config: &Config, name: &str) -> Option<AdminRight> {
    let is_in = |names: &[String]| names.iter().any(|listed| listed == name);
    let change = is_in(&config.admin.change_certificates).then_some(AdminRight::Change);
    change.or_else(|| is_in(&config.admin.read_certificates).then_some(AdminRight::Read))
}

fn open_pages(config: &Config) -> OpenPages {
    let usual = if has_keys(config) { OpenPages::Probes } else { OpenPages::All };
    config.admin.without_key.unwrap_or(usual)
}

/// Whether the status pages ask for a key or a certificate.
pub(crate) fn has_keys(config: &Config) -> bool {
    // Also without a single key: to withdraw the last key must not open the pages.
    let has_keys = config.auth.key_file.is_some() || config.auth.keys.is_some();
    let has_tokens = config.admin.kubernetes_tokens;
    !config.tenants.is_empty() || has_keys || has_tokens || config.admin.has_certificates()
}

// === impl Visitor ===

impl<'a> Visitor<'a> {
    pub(crate) fn of(headers: &'a HeaderMap, extensions: &'a Extensions) -> Self {
        let certificate = extensions.get::<ClientCertificate>();
        let certified = certificate.and_then(ClientCertificate::name);
        Self { headers, certified, is_on_machine: false, reviewed: extensions.get() }
    }

    /// The same with its connection, by which it may make a change.
    pub(crate) fn from(self, peer: Peer) -> Self {
        // A proxy on this machine passes on the requests of others.
        let is_passed_on = PROXIED.iter().any(|name| headers::has(self.headers, name));
        Self { is_on_machine: peer.is_loopback && !is_passed_on, ..self }
    }
}

// === impl Peer ===

impl Peer {
    /// The two ends of a connection, as far as they are known.
    pub(crate) fn of(client: Option<SocketAddr>, own: impl FnOnce() -> Option<SocketAddr>) -> Self {
        let is_loopback = |end: SocketAddr| end.ip().to_canonical().is_loopback();
        let both = client.is_some_and(is_loopback) && own().is_some_and(is_loopback);
        Self { ip: client.map(|client| client.ip()), is_loopback: both }
    }
}
