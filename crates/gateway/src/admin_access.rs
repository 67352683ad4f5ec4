//! Who may see the status pages, and who may change something there.
//!
//! Without tenants and keys every client may, as on one's own machine. Otherwise a request needs an
//! admin key, or a client certificate that the configuration names. To read and to change are two
//! rights.

use http::{Extensions, HeaderMap};

use crate::api_keys::AdminRight;
use crate::clock;
use crate::config::settings::{Config, OpenPages};
use crate::ingress;
use crate::ingress::path::{AdminPage, DispatchCall};
use crate::reply::Fault;
use crate::tls_listener::ClientCertificate;

/// What a client shows to get in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor<'a> {
    headers: &'a HeaderMap,
    /// The name in the certificate of its connection.
    certified: Option<&'a str>,
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
    if has_keys(config) { need(config, AdminRight::Change, visitor) } else { Ok(()) }
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

/// Whether a client has the key of an operator or of a tenant. A key that is not accepted is an
/// error, where there are keys. A certificate is no key: a browser sends it for any website.
pub(crate) fn has_key(config: &Config, headers: &HeaderMap) -> Result<bool, Fault> {
    match ingress::admin_right(config, headers, clock::since_epoch().as_secs()) {
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

fn has_keys(config: &Config) -> bool {
    // Also without a single key: to withdraw the last key must not open the pages.
    let has_keys = config.auth.key_file.is_some() || !config.auth.keys.is_empty();
    !config.tenants.is_empty() || has_keys || config.admin.has_certificates()
}

// === impl Visitor ===

impl<'a> Visitor<'a> {
    pub(crate) fn of(headers: &'a HeaderMap, extensions: &'a Extensions) -> Self {
        let certificate = extensions.get::<ClientCertificate>();
        Self { headers, certified: certificate.and_then(ClientCertificate::name) }
    }
}
