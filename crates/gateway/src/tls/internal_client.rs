//! The gateway as a client of its own listener, which it is for batch work.
//!
//! It trusts the certificates of the listener, whatever their names and issuers are: it compares
//! them. Where clients need a certificate, it has one that the listener knows, made at the start
//! and kept in memory alone.

use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

use super::server::ServerCertificates;
use super::server_error::ServerTlsError;
use super::{HTTP1, provider};

/// The certificate by which the listener knows its own process, and its key.
#[derive(Debug)]
pub(crate) struct InternalClient {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

/// Trusts the certificates of the listener alone.
#[derive(Debug)]
struct ListenerVerifier(Arc<ServerCertificates>);

/// Accepts the process itself, and all other clients that the usual verifier accepts.
#[derive(Debug)]
pub(super) struct OrInternalClient {
    pub(super) others: Arc<dyn ClientCertVerifier>,
    pub(super) own: Arc<InternalClient>,
}

// === impl InternalClient ===

impl InternalClient {
    pub(super) fn new() -> Result<Self, ServerTlsError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "tidegate");
        let key = KeyPair::generate().map_err(ServerTlsError::Generate)?;
        let certificate = params.self_signed(&key).map_err(ServerTlsError::Generate)?;
        Ok(Self { certificate: certificate.der().clone(), key })
    }

    /// Whether this is its certificate.
    pub(crate) fn is(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificate == *certificate
    }
}

/// The configuration of a client of the listener in the same process.
pub(super) fn client_config(listener: &Arc<ServerCertificates>) -> Result<ClientConfig, Error> {
    let own = &listener.own;
    let key = PrivatePkcs8KeyDer::from(own.key.serialize_der());
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ListenerVerifier(Arc::clone(listener))))
        .with_client_auth_cert(vec![own.certificate.clone()], PrivateKeyDer::Pkcs8(key))?;
    config.alpn_protocols = vec![HTTP1.to_vec()];
    Ok(config)
}

// === impl ListenerVerifier ===

impl ServerCertVerifier for ListenerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // A connection may have begun before the certificates changed.
        if self.0.has(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

// === impl OrInternalClient ===

impl ClientCertVerifier for OrInternalClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.others.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.others.client_auth_mandatory()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.own.is(end_entity) {
            return Ok(ClientCertVerified::assertion());
        }
        self.others.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.others.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.others.supported_verify_schemes()
    }
}
