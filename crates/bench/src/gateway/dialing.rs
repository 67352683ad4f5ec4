//! How clients of the load connect: with TLS or without, and once or for every request.
//!
//! The client accepts one version, one cipher, one key exchange and one kind of key, so every
//! server does the same work. It resumes no session: each handshake is a whole one.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::ring::{default_provider, kx_group};
use rustls::pki_types::ServerName;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::proxies::Fixture;

const NAME: &str = "localhost";

/// How clients connect.
#[derive(Clone, Default)]
pub(crate) struct Dialing {
    tls: Option<TlsConnector>,
    /// Whether each request has a connection of its own.
    pub(super) afresh: bool,
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub(crate) struct CertificateFiles {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    /// Both in one file, as HAProxy wants them.
    pub(super) both: PathBuf,
}

/// The stream of a client.
#[derive(Debug)]
pub(super) enum ClientStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A certificate of its own (P-256) in files, and clients that trust it.
pub(super) fn certificate(fixture: &mut Fixture) -> Result<(CertificateFiles, Dialing)> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![NAME.to_owned()])?.self_signed(&key)?;
    let files = CertificateFiles {
        certificate: fixture.file("crt"),
        key: fixture.file("key"),
        both: fixture.file("pem"),
    };
    fs::write(&files.certificate, certificate.pem())?;
    fs::write(&files.key, key.serialize_pem())?;
    fs::write(&files.both, certificate.pem() + &key.serialize_pem())?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone())?;
    let provider = CryptoProvider {
        cipher_suites: vec![TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let tls = Some(TlsConnector::from(Arc::new(config)));
    Ok((files, Dialing { tls, afresh: false }))
}

// === impl Dialing ===

impl Dialing {
    /// The same, with a connection for every request.
    pub(super) fn for_every_request(&self) -> Self {
        Self { afresh: true, ..self.clone() }
    }

    pub(super) async fn connect(&self, to: SocketAddr) -> Result<ClientStream> {
        let stream = TcpStream::connect(to).await.with_context(|| format!("to {to}"))?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(ClientStream::Plain(stream)) };
        let name = ServerName::try_from(NAME)?;
        let stream = tls.connect(name, stream).await.with_context(|| format!("TLS to {to}"))?;
        Ok(ClientStream::Tls(Box::new(stream)))
    }
}

impl std::fmt::Debug for Dialing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (tls, afresh) = (self.tls.is_some(), self.afresh);
        f.debug_struct("Dialing").field("tls", &tls).field("afresh", &afresh).finish()
    }
}

// === impl ClientStream ===

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(context),
        }
    }
}
