//! TLS on a listener: the handshake of each connection, and certificates that change.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::clock::since_epoch;
use crate::config::settings::{ClientCertificates, ServerTls};
use crate::file_watch;
use crate::socket::Socket;
use crate::task;
use crate::tls::{
    self, Certificate, Handshakes, KeyPairFiles, ServerCertificates, ServerFiles, ServerTlsError,
};

/// The first byte of every TLS connection.
const HANDSHAKE: u8 = 0x16;
/// A certificate and its key are two files. After this delay both have been replaced.
const SETTLING: Duration = Duration::from_millis(100);
const SETTLING_AGAIN: Duration = Duration::from_secs(1);
/// How long a certificate is valid that is made at the start.
const SELF_SIGNED_YEARS: i32 = 10;
/// Envoy opens a few connections.
const GRPC_LIMITS: HandshakeLimits =
    HandshakeLimits { time: Duration::from_secs(10), at_once: 1024 };
const DAY: Duration = Duration::from_secs(24 * 3600);
/// A certificate that expires within this time is reported.
const EXPIRES_SOON: i64 = 14 * 24 * 3600;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct TlsListener {
    certificates: Arc<ServerCertificates>,
    handshakes: Handshakes,
    limits: HandshakeLimits,
}

/// The limits of handshakes.
#[derive(Clone, Copy, Debug)]
struct HandshakeLimits {
    time: Duration,
    at_once: usize,
}

/// The certificate by which a client has identified itself. It travels with every request of the
/// connection, as an extension.
#[derive(Clone, Debug)]
pub(crate) struct ClientCertificate(pub(crate) Arc<Certificate>);

/// Why a connection has no TLS.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The client speaks HTTP without TLS. It can be told so.
    PlainHttp(TcpStream),
    TimedOut,
    /// Newer handshakes took its place.
    Displaced,
    /// The client came to look whether the port is open.
    Nothing,
    /// The client left, or broke a rule of TLS, or does not accept the certificate that it got, or
    /// has none that is accepted here.
    Failed(std::io::Error),
}

// === impl TlsListener ===

impl TlsListener {
    /// Reads the certificates.
    pub(crate) fn open(settings: &ServerTls) -> Result<Arc<Self>, ServerTlsError> {
        let certificates = Arc::new(ServerCertificates::read(files(settings))?);
        for key in open_keys(settings) {
            tracing::warn!("other users may read the private key {}: {OPEN_KEY}", key.display());
        }
        let limits =
            HandshakeLimits { time: settings.handshake_timeout, at_once: settings.handshakes_max };
        Ok(Self::of(certificates, limits))
    }

    /// A listener for gRPC, with the certificate in a folder or one that is made now.
    pub(crate) fn open_grpc(folder: Option<&Path>) -> Result<Arc<Self>, ServerTlsError> {
        let certificates = match folder {
            Some(folder) => ServerCertificates::read(grpc_files(folder))?,
            None => ServerCertificates::self_signed(this_year() + SELF_SIGNED_YEARS)?,
        };
        Ok(Self::of(Arc::new(certificates), GRPC_LIMITS))
    }

    fn of(certificates: Arc<ServerCertificates>, limits: HandshakeLimits) -> Arc<Self> {
        let listener = Self { certificates, handshakes: Handshakes::default(), limits };
        listener.report_expiry();
        Arc::new(listener)
    }

    /// The certificates, for a client in the same process.
    pub(crate) fn certificates(&self) -> &Arc<ServerCertificates> {
        &self.certificates
    }

    /// Makes a TLS connection with a client.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<Box<TlsStream<Socket>>, HandshakeError> {
        let mut handshake = self.handshakes.begin(self.limits.at_once);
        let accepting = tokio::time::timeout(self.limits.time, self.shake(stream));
        tokio::select! {
            biased;
            outcome = accepting => outcome.unwrap_or(Err(HandshakeError::TimedOut)),
            () = handshake.displaced() => Err(HandshakeError::Displaced),
        }
    }

    async fn shake(&self, stream: TcpStream) -> Result<Box<TlsStream<Socket>>, HandshakeError> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(0) | Err(_) => return Err(HandshakeError::Nothing),
            Ok(_) if first[0] != HANDSHAKE => return Err(HandshakeError::PlainHttp(stream)),
            Ok(_) => {}
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&self.certificates.loaded().config));
        let accepted = acceptor.accept(Socket::new(stream)).await;
        accepted.map(Box::new).map_err(HandshakeError::Failed)
    }

    /// The certificate that the client of a connection has, unless it is this process itself.
    pub(crate) fn client_certificate(
        &self,
        stream: &TlsStream<Socket>,
    ) -> Option<ClientCertificate> {
        let (_, session) = stream.get_ref();
        let certificate = session.peer_certificates()?.first()?;
        if self.certificates.own.is(certificate) {
            return None;
        }
        Some(ClientCertificate(Arc::new(Certificate::read(certificate)?)))
    }

    /// Reads the certificates again when their files change and on SIGHUP, and reports each day
    /// that one expires soon. Never returns.
    pub(crate) async fn watch(self: Arc<Self>) {
        tokio::join!(self.follow_files(), daily(|| self.report_expiry()));
    }

    async fn follow_files(self: &Arc<Self>) {
        let changed = Arc::new(Notify::new());
        let watcher = file_watch::watch(self.certificates.paths(), &changed);
        if let Err(error) = &watcher {
            tracing::warn!(%error, "the folders of the certificates cannot be watched, SIGHUP \
                                    reads them again");
        }
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => return tracing::warn!(%error, "the certificates are not watched"),
        };
        loop {
            tokio::select! {
                () = changed.notified() => {}
                _ = hangup.recv() => {}
            }
            tokio::time::sleep(SETTLING).await;
            if self.reload().await.is_ok() {
                continue;
            }
            // The key may follow its certificate.
            tokio::time::sleep(SETTLING_AGAIN).await;
            if let Err(error) = self.reload().await {
                tracing::error!("{error}; the old certificates stay in force");
            }
        }
    }

    async fn reload(self: &Arc<Self>) -> Result<(), Box<dyn Error + Send + Sync>> {
        let listener = Arc::clone(self);
        let reading = task::blocking(move || listener.certificates.reload());
        if reading.await?? {
            tracing::info!("the certificates were read again; new connections get them");
            self.report_expiry();
        }
        Ok(())
    }

    /// The files whose certificates clients refuse or will refuse soon.
    pub(crate) fn expiring(&self) -> Vec<(PathBuf, Certificate)> {
        let loaded = self.certificates.loaded();
        let expiring = loaded.shown.iter().filter(|(_, shown)| expiry(shown).is_some());
        expiring.cloned().collect()
    }

    fn report_expiry(&self) {
        for (file, certificate) in &self.certificates.loaded().shown {
            if let Some(what) = expiry(certificate) {
                tracing::warn!("the certificate in {} {what}", file.display());
            }
        }
    }
}

/// Does something once a day, for the first time in a day. Never returns.
async fn daily(mut act: impl FnMut()) {
    loop {
        tokio::time::sleep(DAY).await;
        act();
    }
}

/// The files that the settings name.
pub(crate) fn files(settings: &ServerTls) -> ServerFiles {
    let pair = |(certificate, key): &(PathBuf, PathBuf)| KeyPairFiles {
        certificate: certificate.clone(),
        key: key.clone(),
    };
    let required = settings.client_certificates == ClientCertificates::Required;
    let client_roots = settings.client_ca_file.clone().map(|file| (file, required));
    let pairs = settings.certificates.iter().map(pair).collect();
    ServerFiles { pairs, client_roots, http2_only: false }
}

/// What to do about a private key that other users may read.
pub(crate) const OPEN_KEY: &str = "take their right away with chmod o-r";

/// The private keys that other users may read.
pub(crate) fn open_keys(settings: &ServerTls) -> impl Iterator<Item = &Path> {
    let keys = settings.certificates.iter().map(|(_, key)| key.as_path());
    keys.filter(|key| tls::others_may_read(key))
}

/// The files of a certificate for gRPC, as Kubernetes names them in a secret.
fn grpc_files(folder: &Path) -> ServerFiles {
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    let pairs = vec![KeyPairFiles { certificate, key }];
    ServerFiles { pairs, client_roots: None, http2_only: true }
}

fn this_year() -> i32 {
    // The mean length of a year, in seconds.
    1970 + i32::try_from(since_epoch().as_secs() / 31_556_952).unwrap_or_default()
}

/// What is to be said about the dates of a certificate.
pub(crate) fn expiry(certificate: &Certificate) -> Option<String> {
    let now = i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX);
    let left = certificate.not_after - now;
    if left < 0 {
        return Some(format!("expired on {}: clients refuse it", certificate.last_day()));
    }
    if certificate.not_before > now {
        return Some("is not valid yet: clients refuse it".to_owned());
    }
    (left < EXPIRES_SOON).then(|| format!("expires on {}", certificate.last_day()))
}

// === impl ClientCertificate ===

impl ClientCertificate {
    /// The name of the client: its common name, or else its first alternative name.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.common_name.as_deref().or(self.0.names.first().map(String::as_str))
    }
}

// === impl HandshakeError ===

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlainHttp(_) => f.write_str("the client speaks HTTP without TLS"),
            Self::TimedOut => f.write_str("the client took too long"),
            Self::Displaced => f.write_str("too many handshakes at once"),
            Self::Nothing => f.write_str("the client sent nothing"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn x04_the_end_of_a_certificate_is_reported_each_day() {
        let mut count = 0;
        let days = daily(|| count += 1);
        assert!(tokio::time::timeout(DAY * 3 + DAY / 2, days).await.is_err());
        assert_eq!(count, 3);
    }
}
