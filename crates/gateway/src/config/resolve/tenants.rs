//! The section `auth` and the list `tenants`.

use std::collections::BTreeSet;
use std::sync::Arc;

use flow::identity::{Attribute, ClassRule};
use flow::{FlowClass, Settings};

use super::flows::weight;
use crate::config::settings::tenants::{Auth, Jwt, Quotas, Tenant};
use crate::config::settings::{Config, Identity};
use crate::jwt::ClaimRules;
use crate::schema::Section;

pub(super) fn auth(section: &Section<'_>) -> Auth {
    Auth {
        key_file: section.path("key_file"),
        keys: section.given("keys"),
        jwt: jwt(&section.section("jwt")),
    }
}

fn jwt(section: &Section<'_>) -> Option<Jwt> {
    let secret_file = section.path("secret_file");
    let public_key_file = section.path("public_key_file");
    if secret_file.is_none() && public_key_file.is_none() {
        for key in ["tenant_claim", "issuer", "audience"] {
            if section.has(key) {
                let what = "has no effect without a key: set secret_file or public_key_file";
                section.refuse(key, what);
            }
        }
        return None;
    }
    let claims = ClaimRules {
        tenant_claim: section.get("tenant_claim"),
        issuer: section.given("issuer"),
        audience: section.given("audience"),
    };
    Some(Jwt { secret_file, public_key_file, claims })
}

/// Tokens name tenants. Without tenants no request needs a token, which is not what was meant.
pub(super) fn refuse_lone_tokens(root: &Section<'_>, config: &Config) {
    if config.auth.jwt.is_some() && config.tenants.is_empty() {
        let what = "needs [[tenants]]: without tenants every client is served without a token";
        root.section("auth").refuse("jwt", what);
    }
}

/// The tenants, each with a class of its own behind the classes of `flows`.
pub(super) fn tenants(
    sections: &[Section<'_>],
    settings: &mut Settings,
    rules: &mut Vec<ClassRule>,
) -> Vec<Arc<Tenant>> {
    let mut names = BTreeSet::new();
    let mut tenants = Vec::new();
    for section in sections {
        let Some(name) = section.given::<String>("name") else { continue };
        if !names.insert(name.clone()) {
            section.refuse("name", format!("is {name:?}, which is the name of another tenant"));
        }
        let class = class(section, settings.default_class);
        settings.classes.push(class);
        let number = settings.classes.len() as u32;
        rules.push(ClassRule { patterns: vec![(Attribute::Tenant, name.clone())], class: number });
        tenants.push(Arc::new(tenant(section, name, tenants.len())));
    }
    tenants
}

/// The parts of a flow, where `flow_by` does not state them: the tenant, if there are tenants.
pub(super) fn by_tenant(
    identity: Identity,
    root: &Section<'_>,
    tenants: &[Arc<Tenant>],
) -> Identity {
    let queue = root.section("queue");
    let by_tenant = identity.parts.contains(&Attribute::Tenant);
    match (tenants.is_empty(), queue.has("flow_by")) {
        (true, true) if by_tenant => {
            queue.notice("flow_by", "has tenant, but there are no [[tenants]]: it is always `-`");
            identity
        }
        (false, true) if !by_tenant => {
            let what = "has no tenant: clients choose the names of their flows, and a tenant gets \
                        as many shares as it has flows";
            queue.notice("flow_by", what);
            identity
        }
        (false, false) => Identity { parts: vec![Attribute::Tenant], ..identity },
        _ => identity,
    }
}

/// Quotas that a restart would forget, and accounts that no tenant has.
pub(super) fn notice_accounts(root: &Section<'_>, config: &Config) {
    if config.usage_file.is_some() && config.tenants.is_empty() {
        let what = "stays empty: accounts are kept by tenant, and there are no tenants";
        root.section("usage").notice("file", what);
    }
    let has_quota = |tenant: &Arc<Tenant>| tenant.quotas != Quotas::default();
    if config.usage_file.is_none() && config.tenants.iter().any(has_quota) {
        let what = "is not set: a restart forgets what tenants have used of their quotas";
        root.section("usage").notice("file", what);
    }
}

fn tenant(section: &Section<'_>, name: String, index: usize) -> Tenant {
    let tenant = Tenant {
        name,
        index,
        band: section.given("band"),
        band_max: section.get("band_max"),
        requests_per_minute: section.given("requests_per_minute"),
        tokens_per_minute: section.given("tokens_per_minute"),
        quotas: Quotas {
            day: section.given("tokens_per_day"),
            month: section.given("tokens_per_month"),
        },
        on_quota: section.get("on_quota"),
        models: section.given("models").unwrap_or_default(),
    };
    if tenant.band.is_some_and(|band| band > tenant.band_max) {
        section.notice("band", "is above band_max: requests that state no band get band_max");
    }
    tenant
}

fn class(section: &Section<'_>, default: FlowClass) -> FlowClass {
    FlowClass {
        weight: weight(section, "weight", section.get("weight")).unwrap_or(default.weight),
        in_flight_max: section.given("max_in_flight"),
        ..default
    }
}
