//! Why the certificates of a listener cannot be used.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use rustls::server::VerifierBuilderError;

use super::pem::PemError;
use super::server::KeyPairFiles;

/// Why the certificates of a listener cannot be used.
#[derive(Debug)]
pub(crate) enum ServerTlsError {
    File(PemError),
    /// The certificate in this file is not one of X.509.
    Unreadable(PathBuf),
    /// The key does not belong to the certificate.
    Mismatch(KeyPairFiles),
    /// The key or the certificate is of a kind that is not known here.
    Pair(KeyPairFiles, rustls::Error),
    /// A certificate of an issuer of client certificates cannot be used.
    Roots(PathBuf, rustls::Error),
    Verifier(VerifierBuilderError),
    Setup(rustls::Error),
    /// No certificate can be made.
    Generate(rcgen::Error),
}

// === impl ServerTlsError ===

impl ServerTlsError {
    pub(super) fn pair(files: &KeyPairFiles, error: rustls::Error) -> Self {
        match error {
            rustls::Error::InconsistentKeys(_) => Self::Mismatch(files.clone()),
            error => Self::Pair(files.clone(), error),
        }
    }
}

impl From<PemError> for ServerTlsError {
    fn from(error: PemError) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for ServerTlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Unreadable(file) => {
                write!(f, "the first certificate in {} cannot be read", file.display())
            }
            Self::Mismatch(KeyPairFiles { certificate, key }) => write!(
                f,
                "the key in {} does not belong to the first certificate in {}",
                key.display(),
                certificate.display()
            ),
            Self::Pair(KeyPairFiles { certificate, key }, error) => {
                write!(f, "{} and {} cannot be used: {error}", certificate.display(), key.display())
            }
            Self::Roots(file, error) => {
                write!(f, "a certificate in {} cannot be used: {error}", file.display())
            }
            Self::Verifier(error) => write!(f, "client certificates cannot be checked: {error}"),
            Self::Setup(error) => write!(f, "TLS cannot be set up: {error}"),
            Self::Generate(error) => write!(f, "no certificate can be made: {error}"),
        }
    }
}

impl Error for ServerTlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::File(error) => error.source(),
            Self::Verifier(error) => Some(error),
            Self::Generate(error) => Some(error),
            Self::Pair(_, error) | Self::Roots(_, error) | Self::Setup(error) => Some(error),
            Self::Unreadable(_) | Self::Mismatch(_) => None,
        }
    }
}
