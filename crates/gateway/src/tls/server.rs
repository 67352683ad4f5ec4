//! The certificates of a listener: read from files, chosen by the name that a client asks for, and
//! read again when the files change.
//!
//! A connection keeps the certificates with which it began. Files that cannot be used change
//! nothing.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::internal_client::{InternalClient, OrInternalClient};
use super::server_error::ServerTlsError;
use super::{Certificate, H2, HTTP1, pem, provider};

/// The files of a listener's certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerFiles {
    /// The certificates with their keys. The first is for clients that ask for an unknown name.
    pub(crate) pairs: Vec<KeyPairFiles>,
    /// The issuers of client certificates, and whether every client needs one.
    pub(crate) client_roots: Option<(PathBuf, bool)>,
    /// Whether HTTP/1.1 is left out.
    pub(crate) http2_only: bool,
}

/// The files of a certificate, with the certificates of its issuers, and of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPairFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The certificates in force.
#[derive(Debug)]
pub(crate) struct ServerCertificates {
    files: ServerFiles,
    loaded: ArcSwap<LoadedCertificates>,
    /// The process as a client of its own listener.
    pub(crate) own: Arc<InternalClient>,
}

/// The certificates as the files had them at one time.
#[derive(Debug)]
pub(crate) struct LoadedCertificates {
    pub(crate) config: Arc<ServerConfig>,
    /// The fields of each certificate, with the file that it is from.
    pub(crate) shown: Vec<(PathBuf, Certificate)>,
    /// The certificates themselves.
    certificates: Vec<CertificateDer<'static>>,
    /// Changes with the content of the files.
    fingerprint: u64,
}

/// Certificates with the names that each is for.
#[derive(Debug)]
struct ByName(Vec<(Vec<String>, Arc<CertifiedKey>)>);

// === impl ServerCertificates ===

impl ServerCertificates {
    pub(crate) fn read(files: ServerFiles) -> Result<Self, ServerTlsError> {
        let own = Arc::new(InternalClient::new()?);
        let loaded = ArcSwap::from_pointee(load(&files, &own)?);
        Ok(Self { files, loaded, own })
    }

    /// Whether this is a certificate in force.
    pub(crate) fn has(&self, certificate: &CertificateDer<'_>) -> bool {
        self.loaded.load().certificates.contains(certificate)
    }

    /// A certificate that is made now and that no issuer has signed, for HTTP/2. Its clients
    /// encrypt what they send, and do not know to whom.
    pub(crate) fn self_signed(until_year: i32) -> Result<Self, ServerTlsError> {
        let files = ServerFiles { pairs: Vec::new(), client_roots: None, http2_only: true };
        let own = Arc::new(InternalClient::new()?);
        let loaded = ArcSwap::from_pointee(generate(&files, &own, until_year)?);
        Ok(Self { files, loaded, own })
    }

    /// Reads the files again. Returns whether they have changed.
    pub(crate) fn reload(&self) -> Result<bool, ServerTlsError> {
        if self.files.pairs.is_empty() {
            return Ok(false);
        }
        let loaded = load(&self.files, &self.own)?;
        let changed = loaded.fingerprint != self.loaded.load().fingerprint;
        if changed {
            self.loaded.store(Arc::new(loaded));
        }
        Ok(changed)
    }

    pub(crate) fn loaded(&self) -> Arc<LoadedCertificates> {
        self.loaded.load_full()
    }

    /// All files that may change.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.files.paths()
    }
}

// === impl ServerFiles ===

impl ServerFiles {
    fn paths(&self) -> Vec<PathBuf> {
        let pairs = self.pairs.iter().flat_map(|pair| [&pair.certificate, &pair.key]);
        pairs.chain(self.client_roots.as_ref().map(|(file, _)| file)).cloned().collect()
    }
}

/// Reads the files and makes the configuration of a listener.
fn load(
    files: &ServerFiles,
    own: &Arc<InternalClient>,
) -> Result<LoadedCertificates, ServerTlsError> {
    let mut hasher = DefaultHasher::new();
    let (mut keys, mut shown, mut certificates) = (Vec::new(), Vec::new(), Vec::new());
    for pair in &files.pairs {
        let chain = pem::certificates(&pair.certificate)?;
        let key = pem::private_key(&pair.key)?;
        chain.iter().for_each(|certificate| certificate.as_ref().hash(&mut hasher));
        key.secret_der().hash(&mut hasher);
        let facts = chain.first().and_then(|der| Certificate::read(der));
        let facts = facts.ok_or_else(|| ServerTlsError::Unreadable(pair.certificate.clone()))?;
        certificates.extend(chain.first().cloned());
        let keyed = CertifiedKey::from_der(chain, key, &provider())
            .map_err(|error| ServerTlsError::pair(pair, error))?;
        keys.push((facts.dns_names(), Arc::new(keyed)));
        shown.push((pair.certificate.clone(), facts));
    }
    let roots = match &files.client_roots {
        Some((file, required)) => {
            let roots = pem::certificates(file)?;
            roots.iter().for_each(|root| root.as_ref().hash(&mut hasher));
            Some((client_roots(file.clone(), roots)?, *required))
        }
        None => None,
    };
    let config = Arc::new(configured(ByName(keys), files, (roots, own))?);
    Ok(LoadedCertificates { config, shown, certificates, fingerprint: hasher.finish() })
}

/// Makes a certificate for a listener without files.
fn generate(
    files: &ServerFiles,
    own: &Arc<InternalClient>,
    until_year: i32,
) -> Result<LoadedCertificates, ServerTlsError> {
    let names = vec!["localhost".to_owned(), "tidegate-epp".to_owned()];
    let mut params = CertificateParams::new(names).map_err(ServerTlsError::Generate)?;
    params.distinguished_name.push(DnType::CommonName, "tidegate-epp");
    params.not_after = date_time_ymd(until_year, 1, 1);
    let key = KeyPair::generate().map_err(ServerTlsError::Generate)?;
    let certificate = params.self_signed(&key).map_err(ServerTlsError::Generate)?.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let keyed = CertifiedKey::from_der(vec![certificate.clone()], key, &provider())
        .map_err(ServerTlsError::Setup)?;
    let keys = ByName(vec![(Vec::new(), Arc::new(keyed))]);
    let config = Arc::new(configured(keys, files, (None, own))?);
    let certificates = vec![certificate];
    Ok(LoadedCertificates { config, shown: Vec::new(), certificates, fingerprint: 0 })
}

fn client_roots(
    file: PathBuf,
    certificates: Vec<CertificateDer<'static>>,
) -> Result<RootCertStore, ServerTlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|error| ServerTlsError::Roots(file.clone(), error))?;
    }
    Ok(roots)
}

fn configured(
    keys: ByName,
    files: &ServerFiles,
    (roots, own): (Option<(RootCertStore, bool)>, &Arc<InternalClient>),
) -> Result<ServerConfig, ServerTlsError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(ServerTlsError::Setup)?;
    let builder = match roots {
        Some((roots, required)) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
            let verifier =
                if required { verifier } else { verifier.allow_unauthenticated() }.build();
            let others = verifier.map_err(ServerTlsError::Verifier)?;
            let own = Arc::clone(own);
            builder.with_client_cert_verifier(Arc::new(OrInternalClient { others, own }))
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(keys));
    config.alpn_protocols = vec![H2.to_vec()];
    if !files.http2_only {
        config.alpn_protocols.push(HTTP1.to_vec());
    }
    // A client that returns needs no signature. The keys of the tickets go with the certificates,
    // so that nobody returns past a change of the issuers.
    config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(ServerTlsError::Setup)?;
    Ok(config)
}

// === impl ByName ===

impl ResolvesServerCert for ByName {
    /// The first certificate for the name whose kind of signature the client knows.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(str::to_ascii_lowercase);
        let usable =
            |key: &Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let fits = |names: &[String]| {
            name.as_deref().is_some_and(|name| names.iter().any(|known| covers(known, name)))
        };
        let all = || self.0.iter().filter(|(_, key)| usable(key));
        let named = all().find(|(names, _)| fits(names));
        named.or_else(|| all().next()).map(|(_, key)| Arc::clone(key))
    }
}

/// Whether a name of a certificate, perhaps `*.example.com`, covers a name.
fn covers(known: &str, name: &str) -> bool {
    match known.strip_prefix("*.") {
        Some(parent) => name.split_once('.').is_some_and(|(_, rest)| rest == parent),
        None => known == name,
    }
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn x04_a_wildcard_covers_one_label() {
        assert!(covers("a.example", "a.example") && !covers("a.example", "b.example"));
        assert!(covers("*.example", "a.example"));
        assert!(!covers("*.example", "example") && !covers("*.example", "a.b.example"));
    }
}
