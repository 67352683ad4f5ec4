//! Tenants, their keys, and the secrets that files and variables hold.

use std::fmt;
use std::path::PathBuf;

use flow::Band;
use flow::identity::glob;

use crate::jwt::ClaimRules;

/// Where the keys of clients and operators are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auth {
    /// A file with one key on each line, watched for changes.
    pub key_file: Option<PathBuf>,
    /// Further keys, each written as a line of that file; `None` without a list.
    pub keys: Option<Vec<String>>,
    /// Tokens of an issuer; `None` if they are off.
    pub jwt: Option<Jwt>,
}

/// Tokens of an issuer: its keys, and what the claims must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// A file with the secret of HS256.
    pub secret_file: Option<PathBuf>,
    /// A file with the public keys of RS256 and ES256.
    pub public_key_file: Option<PathBuf>,
    /// What the claims must be.
    pub claims: ClaimRules,
}

/// A group of clients that share keys and limits. Its weight and its requests in flight are
/// settings of its flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its number in the configuration.
    pub index: usize,
    /// The band of requests that state none.
    pub band: Option<Band>,
    /// The highest band of its requests.
    pub band_max: Band,
    /// The most requests in a minute.
    pub requests_per_minute: Option<u64>,
    /// The most tokens in a minute, of prompts and of responses.
    pub tokens_per_minute: Option<u64>,
    /// The most tokens in a day and in a month, by UTC.
    pub quotas: Quotas,
    /// What happens to requests when such a quota is used up.
    pub on_quota: OnQuota,
    /// Patterns of the models that it may use; all if empty.
    pub models: Vec<String>,
}

/// The most tokens in a day and in a month, by UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// The most tokens in a day.
    pub day: Option<u64>,
    /// The most tokens in a month.
    pub month: Option<u64>,
}

/// What happens to requests when a quota is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnQuota {
    /// They wait in the lowest band.
    #[default]
    Wait,
    /// They are refused.
    Refuse,
}

/// A place that holds a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// The first line of a file.
    File(PathBuf),
    /// A variable of the environment, by its name.
    Variable(String),
}

/// A secret that was read. No output shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(crate) String);

// === impl Tenant ===

impl Tenant {
    /// The band of all its requests, if bands share by weights.
    pub(crate) fn one_band(&self) -> Band {
        self.band.unwrap_or_default().min(self.band_max)
    }

    /// Whether it may use a model.
    pub(crate) fn may_use(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| glob(pattern, model))
    }
}

// === impl Secret ===

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
