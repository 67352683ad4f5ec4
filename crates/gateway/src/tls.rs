//! TLS, by rustls with the cryptography of ring.
//!
//! `client` makes connections to servers, `client_error` tells an operator why one was not made.
//! `server` has the certificates of a listener, `handshakes` bounds the handshakes of its clients,
//! and `internal_client` is the process as such a client.
//! `pem` reads the files of certificates and keys, `x509` reads the fields of a certificate that
//! rustls does not show.

mod client;
mod client_error;
mod handshakes;
mod internal_client;
mod pem;
mod server;
mod server_error;
mod x509;

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;

pub(crate) use client::{Protocol, TlsClient, parse_name};
pub(crate) use client_error::TlsError;
pub(crate) use handshakes::Handshakes;
pub(crate) use pem::{PemError, certificates, others_may_read, read_certificates};
pub(crate) use server::{KeyPairFiles, ServerCertificates, ServerFiles};
pub(crate) use server_error::ServerTlsError;
pub(crate) use x509::Certificate;

/// The name of HTTP/2 in the handshake.
const H2: &[u8] = b"h2";
/// The name of HTTP/1.1 in the handshake.
const HTTP1: &[u8] = b"http/1.1";

/// The cryptography of every connection.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    Arc::clone(&PROVIDER)
}
