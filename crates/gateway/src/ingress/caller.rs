//! The tenant of a request, by its API key or its token.
//!
//! The credential is taken out of the headers before anything else reads them: no log, no flow and
//! no backend sees it.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

use super::dispatch_headers::OWN_KEY;
use super::headers::{ControlHeaders, text};
use crate::api_keys::{AdminRight, KeyDigest, KeyOwner, KeyRing, UnusableKey};
use crate::config::settings::Config;
use crate::config::settings::tenants::Tenant;
use crate::jwt::{self, TokenProblem};
use crate::reply::Fault;

/// The headers that may carry a key. The last is Azure's.
const CREDENTIALS: [HeaderName; 3] =
    [AUTHORIZATION, HeaderName::from_static("x-api-key"), HeaderName::from_static("api-key")];
const SCHEME: &str = "bearer ";
/// The name of a token in logs and accounts. A claim would be a name of the client's choice.
const TOKEN: &str = "jwt";

/// The client of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) tenant: Arc<Tenant>,
    /// The name of its key.
    pub(crate) key: Arc<str>,
    /// Whether this process's dispatcher sends the request, for a batch of the tenant.
    pub(crate) is_batch: bool,
}

/// Whose credential it is: a tenant's, with the name of the key, or an operator's.
enum Holder {
    Tenant(Arc<Tenant>, Arc<str>),
    Admin(AdminRight),
}

/// What a request presents to prove who sends it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof<'a> {
    /// The digest of the key of this process's own dispatcher.
    pub(crate) own: Option<&'a KeyDigest>,
    /// The tenant that the certificate of the client names, where the listener asks for one. It
    /// counts if the request has no key.
    pub(crate) certified: Option<&'a str>,
    /// Seconds since 1970.
    pub(crate) now: u64,
}

/// The tenant of a request, if there are tenants; then a request without a valid key is refused.
/// A request of the own dispatcher may name any tenant, or none.
pub(crate) fn caller(
    config: &Config,
    headers: &mut HeaderMap,
    proof: Proof<'_>,
) -> Result<Option<Caller>, Fault> {
    if config.tenants.is_empty() {
        return Ok(None);
    }
    if let Some(key) = headers.get(OWN_KEY).and_then(text) {
        let digest = KeyDigest::of(key);
        proof.own.filter(|own| own.equals(&digest)).ok_or(Fault::InvalidKey)?;
        remove_credentials(headers);
        let Some(named) = ControlHeaders::of(headers).fairness_id() else { return Ok(None) };
        // The tenant may have been removed after it submitted the batch.
        let tenant = named_tenant(config, named).ok_or(Fault::InvalidKey)?;
        return Ok(Some(Caller { tenant, key: "batch".into(), is_batch: true }));
    }
    let holder = presented(headers).map(|credential| holder(config, credential, proof.now));
    remove_credentials(headers);
    let Some(holder) = holder else {
        let named = proof.certified.ok_or(Fault::MissingKey)?;
        let tenant = named_tenant(config, named).ok_or(Fault::InvalidKey)?;
        return Ok(Some(Caller { tenant, key: "certificate".into(), is_batch: false }));
    };
    match holder? {
        Holder::Tenant(tenant, key) => Ok(Some(Caller { tenant, key, is_batch: false })),
        Holder::Admin(_) => Err(Fault::AdminKey),
    }
}

/// The right that the key of an operator gives, if the request has one.
pub(crate) fn admin_right(
    config: &Config,
    headers: &HeaderMap,
    now: u64,
) -> Result<AdminRight, Fault> {
    match holder(config, presented(headers).ok_or(Fault::MissingKey)?, now)? {
        Holder::Admin(right) => Ok(right),
        Holder::Tenant(..) => Err(Fault::AdminOnly),
    }
}

/// Whose credential it is. Where an issuer is configured, a text of three parts is a token.
fn holder(config: &Config, credential: &str, now: u64) -> Result<Holder, Fault> {
    if let Some(tokens) = config.tokens.as_ref().filter(|_| jwt::is_token(credential)) {
        let tenant = tokens
            .tenant(credential, now)
            .and_then(|name| named_tenant(config, &name).ok_or(TokenProblem::NoTenant));
        let tenant = tenant.map_err(|problem| Fault::InvalidToken(problem.reason()))?;
        return Ok(Holder::Tenant(tenant, TOKEN.into()));
    }
    let digest = KeyRing::digest(credential).ok_or(Fault::InvalidKey)?;
    match config.keys.find(&digest, now) {
        Ok((KeyOwner::Admin(right), _)) => Ok(Holder::Admin(right)),
        Ok((KeyOwner::Tenant(index), key)) => {
            let tenant = config.tenants.get(index).ok_or(Fault::InvalidKey)?;
            Ok(Holder::Tenant(Arc::clone(tenant), Arc::clone(key)))
        }
        Err(UnusableKey::Unknown) => Err(Fault::InvalidKey),
        Err(UnusableKey::Expired) => Err(Fault::ExpiredKey),
    }
}

/// The names of the headers with credentials that a request has.
pub(crate) fn credential_names(headers: &HeaderMap) -> Vec<String> {
    let names = CREDENTIALS.into_iter().filter(|name| headers.contains_key(name));
    names.map(|name| name.to_string()).collect()
}

fn remove_credentials(headers: &mut HeaderMap) {
    for name in CREDENTIALS {
        headers.remove(name);
    }
}

fn named_tenant(config: &Config, name: &str) -> Option<Arc<Tenant>> {
    config.tenants.iter().find(|tenant| tenant.name == name).cloned()
}

/// The key or the token of a request.
pub(crate) fn presented(headers: &HeaderMap) -> Option<&str> {
    let [authorization, own @ ..] = &CREDENTIALS;
    let bearer = headers.get(authorization).and_then(text).and_then(|value| {
        let (scheme, key) = value.split_at_checked(SCHEME.len())?;
        scheme.eq_ignore_ascii_case(SCHEME).then(|| key.trim_ascii())
    });
    let plain = || own.iter().filter_map(|name| headers.get(name)).find_map(text);
    bearer.or_else(plain).filter(|key| !key.is_empty())
}
