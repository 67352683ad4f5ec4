//! The keys of an issuer, as files have them: a secret, a public key in PEM, or a JWKS (RFC 7517).

use std::collections::BTreeSet;

use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{KeyError, SignerKey, VerificationKey, base64url};

pub(super) const KEYS_MAX: usize = 64;
pub(super) const PEM: &str = "-----BEGIN ";

/// The keys of a file.
#[derive(Debug)]
pub(crate) struct SignerKeys {
    pub(crate) keys: Vec<SignerKey>,
    /// Why other keys of the file are not used.
    pub(crate) unused: Vec<String>,
}

#[derive(Deserialize)]
struct WebKeySet {
    keys: Vec<WebKey>,
}

#[derive(Deserialize)]
struct WebKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    /// The private part.
    d: Option<IgnoredAny>,
}

/// The secret in a file of one line.
pub(crate) fn secret_key(text: &str) -> Result<SignerKey, KeyError> {
    let text = text.trim();
    // A public key is no secret: tokens that are signed with it are anybody's.
    if text.starts_with(PEM) || text.starts_with('{') {
        return Err(KeyError::NotASecret);
    }
    if text.lines().count() > 1 {
        return Err(KeyError::SeveralLines);
    }
    Ok(SignerKey { id: None, key: VerificationKey::secret(text.as_bytes())? })
}

/// The public keys in a file.
pub(crate) fn public_keys(text: &str) -> Result<SignerKeys, KeyError> {
    if text.trim_start().starts_with('{') { key_set(text) } else { pem(text) }
}

fn pem(text: &str) -> Result<SignerKeys, KeyError> {
    if text.contains("PRIVATE KEY-----") {
        return Err(KeyError::PrivateKey);
    }
    let found = SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes());
    let found: Result<Vec<_>, _> = found.take(2).collect();
    let found = found.map_err(|_| KeyError::NotPem)?;
    match &found[..] {
        [] => Err(KeyError::NoPublicKey),
        [der] => {
            let key = VerificationKey::from_der(der.as_ref())?;
            Ok(SignerKeys { keys: vec![SignerKey { id: None, key }], unused: Vec::new() })
        }
        _ => Err(KeyError::SeveralPemKeys),
    }
}

fn key_set(text: &str) -> Result<SignerKeys, KeyError> {
    let set: WebKeySet = serde_json::from_str(text)
        .map_err(|error| KeyError::NotAKeySet { line: error.line(), column: error.column() })?;
    if set.keys.len() > KEYS_MAX {
        return Err(KeyError::TooManyKeys);
    }
    let (mut keys, mut unused) = (Vec::new(), Vec::new());
    for (at, key) in set.keys.into_iter().enumerate() {
        if key.d.is_some() {
            return Err(KeyError::PrivateKey);
        }
        match key.why_unused() {
            Some(why) => unused.push(format!("key {}, which is not used: {why}", at + 1)),
            None => keys.push(key.read()?),
        }
    }
    check_names(&keys)?;
    Ok(SignerKeys { keys, unused })
}

/// Checks that a token can choose one key.
fn check_names(keys: &[SignerKey]) -> Result<(), KeyError> {
    let names: BTreeSet<_> = keys.iter().map(|key| &key.id).collect();
    if keys.is_empty() {
        return Err(KeyError::NoUsableKey);
    }
    if keys.len() > 1 && names.contains(&None) {
        return Err(KeyError::KeyWithoutName);
    }
    if names.len() < keys.len() {
        return Err(KeyError::SameName);
    }
    Ok(())
}

// === impl WebKey ===

impl WebKey {
    /// Why a key is not for tokens of this gateway. Issuers publish others in the same file.
    fn why_unused(&self) -> Option<&'static str> {
        let algorithm = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => "RS256",
            ("EC", Some("P-256")) => "ES256",
            _ => return Some("it is neither RSA nor P-256"),
        };
        if self.r#use.as_deref().is_some_and(|purpose| purpose != "sig") {
            return Some("it is not for signatures (use)");
        }
        let is_other = self.alg.as_deref().is_some_and(|name| name != algorithm);
        is_other.then_some("it is for another algorithm (alg)")
    }

    fn read(self) -> Result<SignerKey, KeyError> {
        let bytes = |text: &Option<String>| text.as_deref().and_then(base64url::decode);
        let key = match (bytes(&self.n), bytes(&self.e), bytes(&self.x), bytes(&self.y)) {
            (Some(n), Some(e), _, _) if self.kty == "RSA" => VerificationKey::rsa(&n, &e)?,
            (_, _, Some(x), Some(y)) if self.kty == "EC" => VerificationKey::p256(&x, &y)?,
            _ => return Err(KeyError::Incomplete(self.kty)),
        };
        Ok(SignerKey { id: self.kid, key })
    }
}
