//! Why there is no TLS connection to a server, and what the operator can do about it.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::{Duration, SystemTime};

use rustls::{AlertDescription, CertificateError, InvalidMessage};
use rustls_pki_types::UnixTime;

use super::pem::PemError;

/// Why there is no TLS connection.
#[derive(Debug)]
pub(crate) enum TlsError {
    /// The file of root certificates cannot be used.
    Roots(PemError),
    /// The system has no root certificates.
    NoSystemRoots,
    /// The settings cannot be used.
    Setup(rustls::Error),
    /// The process is ending.
    Interrupted,
    /// The server does not offer HTTP/2.
    NoHttp2,
    /// The handshake failed.
    Handshake(rustls::Error),
    /// The connection failed during the handshake.
    Io(io::Error),
}

// === impl TlsError ===

impl TlsError {
    /// Whether the next attempt fails in the same way, unless something is mended.
    pub(crate) fn is_lasting(&self) -> bool {
        !matches!(self, Self::Interrupted | Self::Io(_))
    }
}

impl From<io::Error> for TlsError {
    /// A failed handshake is an error of the connection with the cause inside.
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(inner) => Self::Handshake(inner.clone()),
            None => Self::Io(error),
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Roots(error) => write!(f, "ca_file {error}"),
            Self::NoSystemRoots => f.write_str(
                "this machine has no root certificates: install ca-certificates, or name a file in \
                 the variable SSL_CERT_FILE, or in ca_file if it is a backend",
            ),
            Self::Setup(error) => write!(f, "TLS cannot be set up: {error}"),
            Self::Interrupted => f.write_str("the process is ending"),
            Self::NoHttp2 => f.write_str(
                "it does not offer HTTP/2 in the TLS handshake: remove http2 from its entry",
            ),
            Self::Handshake(error) => handshake(f, error),
            Self::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => f.write_str(
                "it closed the connection during the TLS handshake: does it speak TLS there?",
            ),
            Self::Io(error) => write!(f, "the TLS handshake failed: {error}"),
        }
    }
}

fn handshake(f: &mut fmt::Formatter<'_>, error: &rustls::Error) -> fmt::Result {
    match error {
        rustls::Error::InvalidCertificate(error) => certificate(f, error),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            f.write_str("it does not speak TLS: write its URL with http://, or correct the port")
        }
        rustls::Error::AlertReceived(alert) => refusal(f, *alert),
        rustls::Error::PeerIncompatible(why) => {
            write!(f, "it speaks no version or cipher of TLS 1.2 or 1.3: {why:?}")
        }
        error => write!(f, "the TLS handshake failed: {error}"),
    }
}

fn certificate(f: &mut fmt::Formatter<'_>, error: &CertificateError) -> fmt::Result {
    use CertificateError as E;
    match error {
        E::ExpiredContext { not_after, .. } => write!(
            f,
            "its certificate expired on {}: renew it, or correct the clock of this machine",
            date(*not_after)
        ),
        E::NotValidYetContext { not_before, .. } => write!(
            f,
            "its certificate is valid from {}: correct the clock of this machine, or wait",
            date(*not_before)
        ),
        E::NotValidForNameContext { expected, presented } => write!(
            f,
            "its certificate is not for {}, but for {}: set tls_name to one of its names, or \
             issue one for {}",
            expected.to_str(),
            names(presented),
            expected.to_str()
        ),
        E::UnknownIssuer => f.write_str(
            "its certificate has an issuer that is not trusted here: name the issuer's \
             certificate in the variable SSL_CERT_FILE, or in ca_file if it is a backend, or add \
             it to the root certificates of the system",
        ),
        error => write!(f, "its certificate cannot be accepted: {error}"),
    }
}

/// The server refused the handshake.
fn refusal(f: &mut fmt::Formatter<'_>, alert: AlertDescription) -> fmt::Result {
    match alert {
        AlertDescription::NoApplicationProtocol => {
            f.write_str("it does not offer this version of HTTP: change http2 of its entry")
        }
        AlertDescription::UnrecognisedName => {
            f.write_str("it has no certificate for this name: set tls_name to one that it has")
        }
        alert => write!(f, "it refused the TLS handshake: {alert:?}"),
    }
}

/// The names of a certificate, which rustls shows as `DnsName("a")` or `IpAddress(1.2.3.4)`.
fn names(presented: &[String]) -> String {
    let bare = |name: &String| {
        let inside = name.split_once('(').map_or(name.as_str(), |(_, inside)| inside);
        inside.trim_end_matches(')').trim_matches('"').to_owned()
    };
    if presented.is_empty() {
        return "no name at all".to_owned();
    }
    presented.iter().map(bare).collect::<Vec<_>>().join(", ")
}

fn date(time: UnixTime) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(time.as_secs()));
    time.map_or_else(|| "an odd date".to_owned(), httpdate::fmt_http_date)
}

impl Error for TlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Roots(error) => error.source(),
            Self::Io(error) => error.source(),
            _ => None,
        }
    }
}
