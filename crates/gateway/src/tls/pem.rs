//! Files of certificates and keys in PEM.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::plain_file;

/// The largest file. The root certificates of a whole system have a quarter of it.
const FILE_MAX: u64 = 1 << 20;

/// Why a file has no certificates or no key.
#[derive(Debug)]
pub(crate) struct PemError {
    pub(super) file: PathBuf,
    pub(super) problem: PemProblem,
}

/// The problem of a file.
#[derive(Debug)]
pub(super) enum PemProblem {
    Read(io::Error),
    TooLarge,
    Parse(pem::Error),
    NoCertificate,
    NoKey,
}

/// The certificates in a file, at least one.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let bytes = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => Err(PemError::of(file, PemProblem::NoCertificate)),
        Ok(found) => Ok(found),
        Err(error) => Err(PemError::of(file, PemProblem::Parse(error))),
    }
}

/// The bytes of a file that has at least one certificate.
pub(crate) fn read_certificates(file: &Path) -> Result<Vec<u8>, PemError> {
    certificates(file)?;
    read(file)
}

/// The private key in a file, without a password.
pub(super) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    let found = PrivateKeyDer::from_pem_slice(&read(file)?);
    found.map_err(|error| match error {
        pem::Error::NoItemsFound => PemError::of(file, PemProblem::NoKey),
        error => PemError::of(file, PemProblem::Parse(error)),
    })
}

/// Whether other users may read a file, which must not be so for a private key.
pub(crate) fn others_may_read(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
}

fn read(file: &Path) -> Result<Vec<u8>, PemError> {
    let failed = |error| PemError::of(file, PemProblem::Read(error));
    let mut bytes = Vec::new();
    let opened = plain_file::open(file).map_err(failed)?;
    opened.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(PemError::of(file, PemProblem::TooLarge));
    }
    Ok(bytes)
}

// === impl PemError ===

impl PemError {
    pub(super) fn of(file: &Path, problem: PemProblem) -> Self {
        Self { file: file.to_owned(), problem }
    }
}

impl fmt::Display for PemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.problem {
            PemProblem::Read(error) => write!(f, "{file} cannot be read: {error}"),
            PemProblem::TooLarge => write!(f, "{file} is larger than 1 MiB"),
            PemProblem::Parse(error) => write!(f, "{file} is not PEM: {error}"),
            PemProblem::NoCertificate => {
                write!(f, "{file} has no certificate (-----BEGIN CERTIFICATE-----)")
            }
            PemProblem::NoKey => write!(
                f,
                "{file} has no private key without a password (-----BEGIN PRIVATE KEY-----)"
            ),
        }
    }
}

impl Error for PemError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.problem {
            PemProblem::Read(error) => Some(error),
            PemProblem::Parse(error) => Some(error),
            PemProblem::TooLarge | PemProblem::NoCertificate | PemProblem::NoKey => None,
        }
    }
}
