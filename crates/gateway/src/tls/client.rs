//! TLS to one server.
//!
//! The names and the dates of the server's certificate are checked. Its issuer must be among the
//! root certificates of the system, or among those of a file. The file is read again when it has
//! changed, at the next connection.

use std::fs::Metadata;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::client_error::TlsError;
use super::server::ServerCertificates;
use super::{H2, HTTP1, internal_client, pem, provider};
use crate::task;

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct TlsClient {
    /// The name that is sent to the server and that its certificate must have.
    name: ServerName<'static>,
    trust: Trust,
    protocol: Protocol,
    made: Arc<Mutex<Option<Made>>>,
}

/// What is spoken over TLS, which the handshake agrees on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    /// Another protocol, which needs no agreement.
    Other,
}

/// Which certificates are trusted.
#[derive(Clone, Debug)]
enum Trust {
    /// Those whose issuers are roots of the system.
    System,
    /// Those whose issuers are in a file.
    File(PathBuf),
    /// Those of a listener in this process.
    Own(Arc<ServerCertificates>),
}

/// A configuration, and the file that it was made from.
#[derive(Clone, Debug)]
struct Made {
    stamp: Option<FileStamp>,
    config: Arc<ClientConfig>,
}

/// By what a changed file is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    modified: (i64, i64),
    length: u64,
    inode: u64,
}

/// The name of a server in its certificate: a DNS name or an IP address.
pub(crate) fn parse_name(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.trim_start_matches('[').trim_end_matches(']').to_owned()).ok()
}

// === impl TlsClient ===

impl TlsClient {
    /// TLS to a server of this name. Without a file the roots are those of the system.
    pub(crate) fn new(
        name: ServerName<'static>,
        ca_file: Option<PathBuf>,
        protocol: Protocol,
    ) -> Self {
        let trust = ca_file.map_or(Trust::System, Trust::File);
        Self { name, trust, protocol, made: Arc::default() }
    }

    /// TLS to a listener of this process.
    pub(crate) fn own(listener: &Arc<ServerCertificates>) -> Self {
        let name = ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST));
        let (trust, protocol) = (Trust::Own(Arc::clone(listener)), Protocol::Http1);
        Self { name, trust, protocol, made: Arc::default() }
    }

    /// The same, with the root certificates of a file.
    pub(crate) fn trusting(self, ca_file: PathBuf) -> Self {
        Self { trust: Trust::File(ca_file), made: Arc::default(), ..self }
    }

    /// The same, for another protocol.
    pub(crate) fn speaking(self, protocol: Protocol) -> Self {
        Self { protocol, made: Arc::default(), ..self }
    }

    /// Makes a TLS connection over a connection.
    pub(crate) async fn handshake<S>(&self, stream: S) -> Result<TlsStream<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let connector = TlsConnector::from(self.config().await?);
        let stream = connector.connect(self.name.clone(), stream).await?;
        let (_, session) = stream.get_ref();
        if self.protocol == Protocol::Http2 && session.alpn_protocol() != Some(H2) {
            return Err(TlsError::NoHttp2);
        }
        Ok(stream)
    }

    /// The configuration, made anew if its file has changed. Reading files may block, so another
    /// thread does it.
    async fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let protocol = self.protocol;
        let known = self.made.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let made = match (self.trust.clone(), known) {
            (Trust::System, _) => return with_system_roots(protocol).await,
            (Trust::Own(_), Some(made)) => made,
            (Trust::Own(listener), None) => {
                let config = internal_client::client_config(&listener).map_err(TlsError::Setup)?;
                Made { stamp: None, config: Arc::new(config) }
            }
            (Trust::File(file), known) => {
                let making = task::blocking(move || with_roots_of(&file, protocol, known));
                making.await.map_err(|_| TlsError::Interrupted)??
            }
        };
        let config = Arc::clone(&made.config);
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        Ok(config)
    }
}

impl PartialEq for TlsClient {
    fn eq(&self, other: &Self) -> bool {
        let same_trust = match (&self.trust, &other.trust) {
            (Trust::System, Trust::System) => true,
            (Trust::File(one), Trust::File(other)) => one == other,
            (Trust::Own(one), Trust::Own(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        same_trust && self.name == other.name && self.protocol == other.protocol
    }
}

impl Eq for TlsClient {}

/// The configuration with the roots of the system, which are read once.
async fn with_system_roots(protocol: Protocol) -> Result<Arc<ClientConfig>, TlsError> {
    static KNOWN: [OnceLock<Arc<ClientConfig>>; 3] = [const { OnceLock::new() }; 3];
    let known = &KNOWN[protocol as usize];
    if let Some(config) = known.get() {
        return Ok(Arc::clone(config));
    }
    let making = task::blocking(move || configured(system_roots()?, protocol));
    let config = making.await.map_err(|_| TlsError::Interrupted)??;
    Ok(Arc::clone(known.get_or_init(|| config)))
}

/// The configuration with the roots of a file, unless the known one is of the same file.
fn with_roots_of(file: &Path, protocol: Protocol, known: Option<Made>) -> Result<Made, TlsError> {
    let stamp = file.metadata().ok().map(|found| FileStamp::of(&found));
    if let Some(made) = known.filter(|made| made.stamp.is_some() && made.stamp == stamp) {
        return Ok(made);
    }
    Ok(Made { stamp, config: configured(given_roots(file)?, protocol)? })
}

fn configured(roots: RootCertStore, protocol: Protocol) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![HTTP1.to_vec()],
        Protocol::Http2 => vec![H2.to_vec()],
        Protocol::Other => Vec::new(),
    };
    Ok(Arc::new(config))
}

fn given_roots(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(file).map_err(TlsError::Roots)? {
        roots.add(certificate).map_err(TlsError::Setup)?;
    }
    Ok(roots)
}

/// The roots of the system. Some systems list certificates that cannot be used; the others count.
fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TlsError::NoSystemRoots) } else { Ok(roots) }
}

// === impl FileStamp ===

impl FileStamp {
    fn of(found: &Metadata) -> Self {
        let modified = (found.mtime(), found.mtime_nsec());
        Self { modified, length: found.len(), inode: found.ino() }
    }
}
