//! Who may see the status pages, and who may change something there.
//!
//! Without tenants and keys every client may, as on one's own machine. Otherwise a request needs an
//! admin key. To read and to change are two rights.

use http::HeaderMap;

use crate::api_keys::AdminRight;
use crate::clock;
use crate::config::settings::{Config, OpenPages};
use crate::ingress;
use crate::ingress::path::{AdminPage, DispatchCall};
use crate::reply::Fault;

/// Checks that a client may see a page.
pub(crate) fn may_see(config: &Config, page: AdminPage, headers: &HeaderMap) -> Result<(), Fault> {
    match page {
        AdminPage::Health | AdminPage::Ready | AdminPage::Version => Ok(()),
        // The files of the page show nothing about this gateway.
        AdminPage::Dashboard(_) => Ok(()),
        AdminPage::Metrics if open_pages(config) != OpenPages::Probes => Ok(()),
        _ => may_read(config, headers),
    }
}

/// Checks that a client may make a call about queues and dead letters.
pub(crate) fn may_call(
    config: &Config,
    call: DispatchCall,
    headers: &HeaderMap,
) -> Result<(), Fault> {
    match call {
        DispatchCall::OtherMethod(_) => Ok(()),
        DispatchCall::Overview | DispatchCall::Text | DispatchCall::DeadLetters => {
            may_read(config, headers)
        }
        DispatchCall::Redrive | DispatchCall::Purge => may_change(config, headers),
    }
}

/// Checks that a client may change something while the gateway runs.
pub(crate) fn may_change(config: &Config, headers: &HeaderMap) -> Result<(), Fault> {
    if has_keys(config) { need(config, AdminRight::Change, headers) } else { Ok(()) }
}

/// Checks that a client may see what belongs to all tenants.
pub(crate) fn may_read(config: &Config, headers: &HeaderMap) -> Result<(), Fault> {
    match open_pages(config) {
        OpenPages::All => Ok(()),
        _ => need(config, AdminRight::Read, headers),
    }
}

/// Checks that a client without a tenant may see the accounts.
pub(crate) fn may_read_accounts(
    config: &Config,
    headers: &HeaderMap,
    has_pages: bool,
) -> Result<(), Fault> {
    if has_pages { may_read(config, headers) } else { need(config, AdminRight::Read, headers) }
}

/// Whether a client has the key of an operator.
pub(crate) fn has_admin_key(config: &Config, headers: &HeaderMap) -> bool {
    ingress::admin_right(config, headers, clock::since_epoch().as_secs()).is_ok()
}

/// Whether a client was refused because it has no key at all.
pub(crate) fn is_missing_key(fault: &Fault) -> bool {
    matches!(fault, Fault::MissingKey)
}

/// Whether a client has the key of an operator or of a tenant. A key that is not accepted is an
/// error, where there are keys.
pub(crate) fn has_key(config: &Config, headers: &HeaderMap) -> Result<bool, Fault> {
    match ingress::admin_right(config, headers, clock::since_epoch().as_secs()) {
        Ok(_) | Err(Fault::AdminOnly) => Ok(true),
        Err(Fault::MissingKey) => Ok(false),
        Err(_) if !has_keys(config) => Ok(false),
        Err(fault) => Err(fault),
    }
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
