//! The parts of `/status` that the configuration decides: tenants, keys, certificates, changes that
//! are not in force, and connections.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use super::busiest_of;
use crate::api_keys::KeyOwner;
use crate::clock;
use crate::config::settings::tenants::{OnQuota, Tenant};
use crate::diagnosis::situation::{
    CertificateExpiry, ConnectionState, KeyExpiry, ReloadState, TenantState,
};
use crate::state::State;
use crate::tls::Certificate;

/// The most entries of each list.
const TENANTS_MAX: usize = 100;
const KEYS_MAX: usize = 20;
const CERTIFICATES_MAX: usize = 20;
const PROBLEMS_MAX: usize = 5;
const RESTART_KEYS_MAX: usize = 20;
/// A key that expires within this time is shown.
const EXPIRES_SOON_SECS: u64 = 7 * 24 * 3600;

pub(super) fn tenants(state: &State) -> (Vec<TenantState>, usize) {
    let accounts = state.observer.accounts();
    let used = accounts.map(|accounts| accounts.used()).unwrap_or_default();
    let (config, now) = (state.config.load(), clock::date_secs());
    let entry = |tenant: &Arc<Tenant>| {
        let used = used.get(&tenant.name).copied().unwrap_or_default();
        let used_up = state.tenants.used_up(tenant, now);
        TenantState {
            name: tenant.name.clone(),
            tokens_today: used.day.charged(config.charge_cached),
            tokens_this_month: used.month.charged(config.charge_cached),
            tokens_per_day: tenant.quotas.day,
            tokens_per_month: tenant.quotas.month,
            quota_used_up: used_up.map(|(period, _)| period),
            quota_ends_in_seconds: used_up.map(|(_, left)| left.secs_f64()),
            on_quota: match tenant.on_quota {
                OnQuota::Wait => "wait",
                OnQuota::Refuse => "refuse",
            },
        }
    };
    // Without accounts only a used-up quota is known.
    let shown = |tenant: &TenantState| accounts.is_some() || tenant.quota_used_up.is_some();
    let mut tenants: Vec<TenantState> = config.tenants.iter().map(entry).filter(shown).collect();
    let left_out = busiest_of(&mut tenants, TENANTS_MAX, |tenant| {
        (tenant.quota_used_up.is_some(), tenant.tokens_today)
    });
    (tenants, left_out)
}

pub(super) fn keys(state: &State) -> Vec<KeyExpiry> {
    let now = clock::since_epoch().as_secs();
    let config = state.config.load();
    let entry = |(expires, name, owner): (u64, String, KeyOwner)| {
        let tenant = match owner {
            KeyOwner::Tenant(number) => config.tenants.get(number).map(|one| one.name.clone()),
            KeyOwner::Admin(_) => None,
        };
        KeyExpiry { name, tenant, expires_in_seconds: expires as f64 - now as f64 }
    };
    config.keys.expiring(now + EXPIRES_SOON_SECS).into_iter().take(KEYS_MAX).map(entry).collect()
}

pub(super) fn certificates(state: &State) -> Vec<CertificateExpiry> {
    let now = clock::since_epoch().as_secs_f64();
    let expiring = state.tls.get().map(|tls| tls.expiring()).unwrap_or_default();
    let entry = |(file, certificate): (PathBuf, Certificate)| CertificateExpiry {
        file: file.display().to_string(),
        expires_in_seconds: certificate.not_after as f64 - now,
        last_day: certificate.last_day(),
        valid_yet: certificate.not_before as f64 <= now,
    };
    expiring.into_iter().take(CERTIFICATES_MAX).map(entry).collect()
}

pub(super) fn reload(state: &State) -> ReloadState {
    let problems = state.reload_problems.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let awaits_restart = state.config.load().awaits_restart.clone();
    ReloadState {
        problems_total: problems.len(),
        problems: problems.into_iter().take(PROBLEMS_MAX).collect(),
        awaits_restart: awaits_restart.into_iter().take(RESTART_KEYS_MAX).collect(),
    }
}

pub(super) fn connections(state: &State) -> ConnectionState {
    let (files, configured) = (state.open_files, state.config.load().server.connections_max);
    ConnectionState {
        open: state.connections.count(),
        most: files.clients(configured),
        expected: files.missing(configured),
        open_files_max: files.most,
    }
}
