//! Certificates of a test, and a server that speaks TLS in front of a scripted backend.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// An issuer of certificates.
#[derive(Debug)]
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, in PEM.
#[derive(Clone, Debug)]
pub(crate) struct KeyedCertificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A server that speaks TLS and passes all bytes on to a backend.
#[derive(Clone, Debug)]
pub(crate) struct TlsFront {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Hello>>>,
}

/// What a client said in its handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The name that it asked for.
    pub(crate) name: Option<String>,
    /// The version of HTTP that was agreed.
    pub(crate) protocol: Option<String>,
}

/// How the front ends a connection that its backend has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontEnd {
    /// With the word of TLS that this is the end.
    Said,
    /// Without it, as a cut connection ends.
    Cut,
}

// === impl Authority ===

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its own certificate.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for a server of these names.
    pub(crate) fn issue(&self, names: &[&str]) -> KeyedCertificate {
        self.issue_with(names, |_| {})
    }

    /// Issues a certificate for a client of this name.
    pub(crate) fn issue_for_client(&self, name: &str) -> KeyedCertificate {
        self.issue_with(&[], |params| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        })
    }

    pub(crate) fn issue_with(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> KeyedCertificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        KeyedCertificate { certificate, key: key.serialize_pem() }
    }
}

// === impl TlsFront ===

impl TlsFront {
    /// Starts a front before a backend, for HTTP/1.1.
    pub(crate) fn before(backend: SocketAddr, keyed: &KeyedCertificate, end: FrontEnd) -> Self {
        Self::speaking(&["http/1.1"], backend, keyed, end)
    }

    /// The same for these versions of HTTP.
    pub(crate) fn speaking(
        protocols: &[&str],
        backend: SocketAddr,
        keyed: &KeyedCertificate,
        end: FrontEnd,
    ) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(server_config(keyed, protocols)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let front = Self { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let serving = front.clone();
        thread::spawn(move || runtime.block_on(serving.serve(listener, acceptor, (backend, end))));
        front
    }

    async fn serve(
        self,
        listener: TcpListener,
        acceptor: TlsAcceptor,
        way: (SocketAddr, FrontEnd),
    ) {
        while let Ok((stream, _)) = listener.accept().await {
            let (front, acceptor) = (self.clone(), acceptor.clone());
            tokio::spawn(async move { front.relay(acceptor, stream, way).await });
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// What all clients with a finished handshake have said.
    pub(crate) fn hellos(&self) -> Vec<Hello> {
        self.seen.lock().unwrap().clone()
    }

    async fn relay(
        &self,
        acceptor: TlsAcceptor,
        stream: TcpStream,
        (backend, end): (SocketAddr, FrontEnd),
    ) {
        // A client may refuse the certificate, and a backend may be away.
        let Ok(mut tls) = acceptor.accept(stream).await else { return };
        let (_, session) = tls.get_ref();
        let protocol = session.alpn_protocol().map(|name| String::from_utf8_lossy(name).into());
        let name = session.server_name().map(str::to_owned);
        self.seen.lock().unwrap().push(Hello { name, protocol });
        let Ok(mut plain) = TcpStream::connect(backend).await else { return };
        if end == FrontEnd::Said {
            let _ = tokio::io::copy_bidirectional(&mut tls, &mut plain).await;
            return;
        }
        let (mut from_client, mut to_client) = tokio::io::split(tls);
        let (mut from_backend, mut to_backend) = plain.split();
        tokio::select! {
            _ = copy(&mut from_client, &mut to_backend) => {}
            _ = copy(&mut from_backend, &mut to_client) => {}
        }
    }
}

fn server_config(keyed: &KeyedCertificate, protocols: &[&str]) -> ServerConfig {
    let chain = CertificateDer::pem_slice_iter(keyed.certificate.as_bytes());
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(keyed.key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}
