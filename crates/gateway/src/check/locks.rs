//! Settings of keys and status pages that protect less, or allow less, than an operator may expect.
//! All of these configurations work, so each finding is a warning.

use super::finding;
use crate::api_keys::AdminRight;
use crate::calendar;
use crate::clock::since_epoch;
use crate::config::Config;
use crate::schema::Report;

/// Adds notices about keys, tenants, accounts and the status pages.
pub(super) fn check(config: &Config, report: &Report) {
    let notice = |key: &str, what: &str| report.add_notice(finding(&config.values, key, what));
    let place = if config.auth.key_file.is_some() { "auth.key_file" } else { "auth.keys" };
    for (end, name, _) in config.keys.expiring(since_epoch().as_secs().saturating_add(1)) {
        let end = calendar::rfc3339(end);
        notice(place, &format!("has the key {name:?}, which expired at {end}: it is refused"));
    }
    for (at, tenant) in config.tenants.iter().enumerate() {
        // Without any key at all there is one finding for all tenants.
        let is_closed = config.keys.count_of(tenant.index) == 0 && !config.keys.is_empty();
        let has_others = has_client_certificates(config) || config.auth.jwt.is_some();
        if is_closed && !has_others {
            let name = &tenant.name;
            let what = format!("is {name:?}, which has no key: make one with `tidegate key new`");
            notice(&format!("tenants[{at}].name"), &what);
        }
    }
    pages(config, &notice);
}

/// Pages that every machine may read, or no client at all.
fn pages(config: &Config, notice: &impl Fn(&str, &str)) {
    let has_admin = config.keys.has_admin(AdminRight::Read) || config.admin.has_certificates();
    if config.admin.without_key.is_some() || config.admin.kubernetes_tokens || has_admin {
        return;
    }
    let has_list = config.auth.keys.is_some();
    let has_locks = !config.tenants.is_empty() || !config.keys.is_empty() || has_list;
    if has_locks {
        let what = "is not set, and there is no admin key: no client sees the status pages; make \
                    a key with `tidegate key new --admin read`";
        return notice("admin.without_key", what);
    }
    let listen = config.server.listen;
    if config.admin.listen.is_none() && !listen.ip().is_loopback() {
        let what = "which other machines reach, and they see the status pages: make a key with \
                    `tidegate key new --admin read`, or set admin.listen";
        notice("server.listen", &format!("is {listen}, {what}"));
    }
}

fn has_client_certificates(config: &Config) -> bool {
    config.server.tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some())
}
