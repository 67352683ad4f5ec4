//! `tidegate check`: a configuration, and the folder and the files that it names.
//!
//! Only this command looks at them: a start finds it out by itself, and a reload must not fail
//! because of a disk. The folder is tried as a start would use it, and nothing of that is left
//! behind. The files are read as a start would read them.

mod locks;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use rustls_pki_types::CertificateDer;

use crate::backend;
use crate::clock::since_epoch;
use crate::config::sections::server_address;
use crate::config::{self, Config, ConfigError, Source, Values};
use crate::schema::{Finding, Report};
use crate::tls::{self, Certificate, ServerCertificates};
use crate::tls_listener::{self, OPEN_KEY};

/// Why a folder cannot be used. The text reads on after the name of the folder.
#[derive(Debug)]
enum FolderError {
    IsAFile,
    Write(io::Error),
    Create(io::Error),
}

/// Reads and checks a configuration, and whether this machine has what it needs.
pub fn check(source: &Source) -> Result<Config, ConfigError> {
    config::load_with(source, paths)
}

/// A line about each certificate of this server: its names, and until when it is valid.
pub fn certificates(config: &Config) -> Vec<String> {
    let Some(tls) = &config.server.tls else { return Vec::new() };
    let Ok(read) = ServerCertificates::read(tls_listener::files(tls)) else { return Vec::new() };
    let loaded = read.loaded();
    let line = |(file, certificate): &(PathBuf, Certificate)| {
        let names = certificate.names.join(", ");
        let names = if names.is_empty() { "no name".to_owned() } else { names };
        format!("{}: {names}, valid until {}", file.display(), certificate.last_day())
    };
    loaded.shown.iter().map(line).collect()
}

/// Adds notices about the paths; a folder that cannot be used is a problem.
fn paths(config: &Config, report: &Report) {
    if let Some(file) = &config.fleet.endpoints_file {
        for what in endpoints(config, file) {
            report.add_notice(finding(&config.values, "discovery.endpoints_file", &what));
        }
    }
    backend_roots(config, report);
    server_certificates(config, report);
    locks::check(config, report);
    if let Some(folder) = &config.batch.folder
        && let Err(why) = try_folder(folder)
    {
        let what = format!("is {}, which {why}", folder.display());
        report.add_problem(finding(&config.values, "batch.folder", &what));
    }
}

/// Reads the root certificates for TLS to backends.
fn backend_roots(config: &Config, report: &Report) {
    for (at, backend) in config.fleet.backends.iter().enumerate() {
        let Some(file) = &backend.ca_file else { continue };
        let key = format!("backends[{at}].ca_file");
        let notices = match tls::certificates(file) {
            Ok(roots) => expired(&roots),
            Err(error) => {
                report.add_problem(finding(&config.values, &key, &format!("is {error}")));
                continue;
            }
        };
        for what in notices {
            report.add_notice(finding(&config.values, &key, &what));
        }
    }
}

/// Reads the certificates of this server and their keys.
fn server_certificates(config: &Config, report: &Report) {
    let Some(tls) = &config.server.tls else { return };
    let read = match ServerCertificates::read(tls_listener::files(tls)) {
        Ok(read) => read,
        Err(error) => {
            let what = format!("cannot be used: {error}");
            return report.add_problem(finding(&config.values, "server.tls", &what));
        }
    };
    for key in tls_listener::open_keys(tls) {
        let what = format!("is {}, which other users may read: {OPEN_KEY}", key.display());
        report.add_notice(finding(&config.values, "server.tls.key_file", &what));
    }
    for (file, certificate) in &read.loaded().shown {
        let Some(what) = tls_listener::expiry(certificate) else { continue };
        let what = format!("is {}, which {what}", file.display());
        report.add_notice(finding(&config.values, "server.tls.cert_file", &what));
    }
}

/// What is to be said about root certificates that no server's certificate can be based on now.
fn expired(roots: &[CertificateDer<'_>]) -> Vec<String> {
    let now = i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX);
    let read = roots.iter().filter_map(|der| Certificate::read(der));
    let expired = read.filter(|root| root.not_after < now);
    expired
        .map(|root| {
            let name = root.common_name.unwrap_or_else(|| "without a name".into());
            format!("has a root certificate that has expired: {name}")
        })
        .collect()
}

/// What is to be said about an endpoints file. A start logs it and goes on.
fn endpoints(config: &Config, file: &Path) -> Vec<String> {
    let listed = match backend::listed_endpoints(file) {
        Ok(Some(listed)) => listed,
        Ok(None) => return vec!["does not exist yet: until then it lists no backend".into()],
        Err(error) => {
            let why = error.first_line();
            return vec![format!("cannot be used, and lists no backend until it can: {why}")];
        }
    };
    let entries = &config.fleet.backends;
    let pair = |url: &str, id: &str| Some((server_address(url)?, id.to_owned()));
    let mut ids: BTreeMap<String, String> =
        entries.iter().rev().filter_map(|entry| pair(&entry.url, &entry.id)).collect();
    let mut notices = Vec::new();
    for endpoint in &listed {
        let id = &endpoint.id;
        if entries.iter().any(|entry| entry.id == *id) {
            let what = "which is the id of an entry in [[backends]]: only that entry is used";
            notices.push(format!("lists {id:?}, {what}"));
            continue;
        }
        let Some(address) = server_address(&endpoint.url) else { continue };
        if let Some(other) = ids.get(&address) {
            let what = "the server gets the requests of both, each up to its own bounds";
            notices.push(format!("lists {id:?} at the address of {other:?}: {what}"));
        }
        ids.entry(address).or_insert_with(|| id.clone());
    }
    notices
}

fn finding(values: &Values, key: &str, what: &str) -> Finding {
    Finding::of(values.origin(key), format!("{key} {what}"))
}

/// Creates a file in the folder, or the folder if it is missing, and removes it again.
fn try_folder(folder: &Path) -> Result<(), FolderError> {
    match folder.metadata() {
        Ok(found) if found.is_dir() => try_file(folder).map_err(FolderError::Write),
        Ok(_) => Err(FolderError::IsAFile),
        Err(_) => try_creation(folder).map_err(FolderError::Create),
    }
}

fn try_file(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".tidegate-check-{}", std::process::id()));
    File::create_new(&path)?;
    fs::remove_file(path)
}

/// Creates the outermost of the missing folders. Those inside it would be our own.
fn try_creation(folder: &Path) -> io::Result<()> {
    let folder = std::path::absolute(folder)?;
    let missing = folder.ancestors().take_while(|ancestor| !ancestor.exists()).last();
    let Some(missing) = missing else { return Ok(()) };
    fs::create_dir(missing)?;
    fs::remove_dir(missing)
}

// === impl FolderError ===

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsAFile => f.write_str("is a file, not a folder"),
            Self::Write(error) => write!(f, "cannot be written by this user: {error}"),
            Self::Create(error) => write!(f, "cannot be created by this user: {error}"),
        }
    }
}

impl std::error::Error for FolderError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::IsAFile => None,
            Self::Write(error) | Self::Create(error) => Some(error),
        }
    }
}
