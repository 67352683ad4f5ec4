//! The settings of TLS.

use std::path::PathBuf;
use std::time::Duration;

/// TLS for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The files of certificates and of their keys, at least one pair.
    pub certificates: Vec<(PathBuf, PathBuf)>,
    /// The issuers of client certificates.
    pub client_ca_file: Option<PathBuf>,
    /// Which clients need a certificate, if there are issuers.
    pub client_certificates: ClientCertificates,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// The most handshakes at once.
    pub handshakes_max: usize,
}

/// Which clients need a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// All of them.
    #[default]
    Required,
    /// None; a certificate that a client has must be good.
    Optional,
}

/// Whether callers of the endpoint picker speak TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EppTls {
    /// As each of them likes.
    #[default]
    Auto,
    /// All of them, except for health checks.
    Required,
    /// None.
    Off,
}
