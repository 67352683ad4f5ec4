//! Secrets that the configuration names: keys of clients, and keys for backends.
//!
//! The values of a configuration are checked without any file. This step reads the files and the
//! variables that they name, at the start and at each reload. A file that cannot be used is a
//! problem, so that a reload keeps the keys in force.

use std::error::Error;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderValue;

use super::settings::Config;
use super::settings::tenants::{Secret, SecretSource};
use crate::api_keys::{
    AdminRight, KeyHolder, KeyLine, KeyLineError, KeyOwner, KeyRing, read_lines,
};
use crate::jwt::{KeyError, SignerKeys, TokenVerifier, public_keys, secret_key};
use crate::plain_file;
use crate::schema::{Finding, Report};

/// The largest file of keys.
const FILE_MAX: u64 = 16 << 20;

/// Why a secret cannot be read. The text reads on after the name of the file or the variable, and
/// repeats no part of the secret.
#[derive(Debug)]
enum SecretError {
    Read(io::Error),
    Variable,
    Empty,
    Characters,
    KeyLine(KeyLineError),
    SignerKey(KeyError),
}

/// Reads all secrets into the configuration.
pub(super) fn fill(config: &mut Config, report: &Report) {
    config.keys = Arc::new(key_ring(config, report));
    config.tokens = token_verifier(config, report).map(Arc::new);
    check_admin(config, report);
    let values = config.values.clone();
    for (at, backend) in config.fleet.backends.iter_mut().enumerate() {
        let Some(source) = &backend.api_key else { continue };
        match read_secret(source) {
            Ok(secret) => backend.credential = Some(secret),
            Err(why) => {
                let (key, place) = key_and_place(source);
                let key = format!("backends[{at}].{key}");
                let text = format!("{key} is {place:?}, which {why}");
                report.add_problem(Finding::of(values.origin(&key), text));
            }
        }
    }
}

/// The key of a backend's section that names a secret, and the file or variable that it names.
fn key_and_place(source: &SecretSource) -> (&'static str, String) {
    match source {
        SecretSource::File(path) => ("api_key_file", path.display().to_string()),
        SecretSource::Variable(name) => ("api_key_env", name.clone()),
    }
}

/// Status pages that other machines reach need a key, or the word of the operator.
fn check_admin(config: &Config, report: &Report) {
    let Some(listen) = config.admin.listen.filter(|listen| !listen.ip().is_loopback()) else {
        return;
    };
    let has_admin = config.keys.has_admin(AdminRight::Read) || config.admin.has_certificates();
    let admin = &config.admin;
    let decided = admin.without_key.is_some() || admin.kubernetes_tokens || has_admin;
    if !decided && !report.has_problems_in(&["auth"]) {
        let what = "which other machines reach: make a key with `tidegate key new --admin read`, \
                    or say in admin.without_key which pages need none";
        let text = format!("admin.listen is {listen}, {what}");
        report.add_problem(Finding::of(config.values.origin("admin.listen"), text));
    }
}

/// The files that hold secrets. A change of any of them is a change of the configuration.
pub(super) fn files(config: &Config) -> Vec<PathBuf> {
    let backends = config.fleet.backends.iter().filter_map(|backend| match &backend.api_key {
        Some(SecretSource::File(path)) => Some(path.clone()),
        _ => None,
    });
    let jwt = config.auth.jwt.iter();
    let signers = jwt.flat_map(|jwt| jwt.secret_file.iter().chain(&jwt.public_key_file));
    let clients = config.auth.key_file.iter().chain(signers).cloned();
    let mut files: Vec<PathBuf> = clients.chain(backends).collect();
    files.sort_unstable();
    files.dedup();
    files
}

/// The content of these files, to see whether any has changed.
pub(super) fn contents(files: &[PathBuf]) -> Vec<Option<String>> {
    files.iter().map(|file| read_bounded(file).ok()).collect()
}

fn key_ring(config: &Config, report: &Report) -> KeyRing {
    let mut ring = KeyRing::default();
    let finding = |key: &str, text: String| Finding::of(config.values.origin(key), text);
    for line in config.auth.keys.iter().flatten().filter_map(|line| line.parse().ok()) {
        if let Some(what) = add(&mut ring, config, &line) {
            report.add_notice(finding("auth.keys", format!("auth.keys has {what}")));
        }
    }
    if let Some(file) = &config.auth.key_file {
        let key = "auth.key_file";
        let name = file.display();
        let text = read_bounded(file).map_err(SecretError::Read);
        let lines = text.and_then(|text| read_lines(&text).map_err(SecretError::KeyLine));
        match lines {
            Ok(lines) => {
                for what in lines.iter().filter_map(|line| add(&mut ring, config, line)) {
                    report.add_notice(finding(key, format!("{key} {name} has {what}")));
                }
            }
            Err(why) => report.add_problem(finding(key, format!("{key} is {name}, which {why}"))),
        }
    }
    let is_locked = !config.tenants.is_empty() && config.auth.jwt.is_none();
    if is_locked && ring.is_empty() && !report.has_problems_in(&["auth"]) {
        let text = "tenants are configured, but there is no key: a request without a client \
                    certificate gets 401; make a key with `tidegate key new` and name its file in \
                    auth.key_file";
        report.add_notice(Finding::elsewhere(text.into()));
    }
    ring
}

/// The verifier of tokens, with the keys of the files that the configuration names.
fn token_verifier(config: &Config, report: &Report) -> Option<TokenVerifier> {
    let jwt = config.auth.jwt.as_ref()?;
    let secret =
        |text: &str| secret_key(text).map(|key| SignerKeys { keys: vec![key], unused: Vec::new() });
    let read = |key: &str, file: &Path, parse: &dyn Fn(&str) -> Result<SignerKeys, KeyError>| {
        let finding = |text: String| Finding::of(config.values.origin(key), text);
        let text = read_bounded(file).map_err(SecretError::Read);
        let name = file.display();
        match text.and_then(|text| parse(&text).map_err(SecretError::SignerKey)) {
            Ok(SignerKeys { keys, unused }) => {
                for what in unused {
                    report.add_notice(finding(format!("{key} {name} has {what}")));
                }
                keys
            }
            Err(why) => {
                report.add_problem(finding(format!("{key} is {name}, which {why}")));
                Vec::new()
            }
        }
    };
    let mut keys = Vec::new();
    if let Some(file) = &jwt.secret_file {
        keys.extend(read("auth.jwt.secret_file", file, &secret));
    }
    if let Some(file) = &jwt.public_key_file {
        keys.extend(read("auth.jwt.public_key_file", file, &public_keys));
    }
    Some(TokenVerifier::new(keys, jwt.claims.clone()))
}

/// Adds a stored key, or says why it has no effect.
fn add(ring: &mut KeyRing, config: &Config, line: &KeyLine) -> Option<String> {
    let owner = match &line.holder {
        KeyHolder::Admin(right) => KeyOwner::Admin(*right),
        KeyHolder::Tenant(name) => {
            let Some(tenant) = config.tenants.iter().find(|tenant| tenant.name == *name) else {
                let key = &line.name;
                let what = "which [[tenants]] does not list: the key is refused";
                return Some(format!("the key {key:?} of the tenant {name:?}, {what}"));
            };
            KeyOwner::Tenant(tenant.index)
        }
    };
    let new = ring.add(line.digest, owner, &line.name, line.expires);
    (!new).then(|| format!("the key {:?} twice: the later line counts", line.name))
}

fn read_secret(source: &SecretSource) -> Result<Secret, SecretError> {
    let text = match source {
        SecretSource::File(path) => read_bounded(path).map_err(SecretError::Read)?,
        SecretSource::Variable(name) => std::env::var(name).map_err(|_| SecretError::Variable)?,
    };
    let secret = text.lines().next().unwrap_or_default().trim();
    match HeaderValue::from_str(secret) {
        Ok(_) if !secret.is_empty() => Ok(Secret(secret.to_owned())),
        Ok(_) => Err(SecretError::Empty),
        Err(_) => Err(SecretError::Characters),
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = plain_file::open(path)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
    // A part of a file would lack keys, or have half of one.
    if read as u64 > FILE_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(text)
}

// === impl SecretError ===

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot be read: {error}"),
            Self::Variable => f.write_str("is not set, or is not a text"),
            Self::Empty => f.write_str("is empty"),
            Self::Characters => f.write_str("has characters that no header can have"),
            Self::KeyLine(error) => write!(f, "has line {}, which {error}", error.line),
            Self::SignerKey(error) => error.fmt(f),
        }
    }
}

impl Error for SecretError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::KeyLine(error) => Some(error),
            Self::SignerKey(error) => Some(error),
            Self::Variable | Self::Empty | Self::Characters => None,
        }
    }
}
