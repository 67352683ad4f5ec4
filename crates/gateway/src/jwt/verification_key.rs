//! A key that verifies signatures, and the one algorithm that its kind has.

use std::fmt;

use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use rustls_pki_types::alg_id;

use super::KeyError;
use crate::der::{BIT_STRING, Elements, INTEGER, SEQUENCE};

/// RFC 7518, section 3.2: a secret has at least as many bits as the digest.
pub(super) const SECRET_MIN: usize = 32;
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
const P256_BYTES: usize = 32;
/// The first byte of a point that has both coordinates.
const UNCOMPRESSED: u8 = 4;

/// An algorithm of signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Hs256,
    Rs256,
    Es256,
}

/// A key that verifies signatures.
#[derive(Clone, PartialEq)]
pub(super) enum VerificationKey {
    Secret(Vec<u8>),
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point of the curve P-256 with both coordinates.
    P256(Vec<u8>),
}

// === impl Algorithm ===

impl Algorithm {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "HS256" => Some(Self::Hs256),
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }
}

// === impl VerificationKey ===

impl VerificationKey {
    pub(super) fn secret(secret: &[u8]) -> Result<Self, KeyError> {
        match secret.len() {
            SECRET_MIN.. => Ok(Self::Secret(secret.to_owned())),
            _ => Err(KeyError::ShortSecret),
        }
    }

    /// An RSA key by its numbers, which may begin with zeros.
    pub(super) fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, KeyError> {
        let (modulus, exponent) = (stripped(modulus), stripped(exponent));
        if !RSA_BYTES.contains(&modulus.len()) || modulus[0] < 0x80 {
            return Err(KeyError::RsaSize);
        }
        // ring takes odd exponents of at most 33 bits.
        let is_odd = exponent.last().is_some_and(|last| last & 1 == 1);
        if !is_odd || exponent == [1] || exponent.len() > 4 {
            return Err(KeyError::RsaExponent);
        }
        Ok(Self::Rsa { modulus: modulus.to_owned(), exponent: exponent.to_owned() })
    }

    /// A key of the curve P-256 by its coordinates.
    pub(super) fn p256(x: &[u8], y: &[u8]) -> Result<Self, KeyError> {
        if x.len() != P256_BYTES || y.len() != P256_BYTES {
            return Err(KeyError::P256Size);
        }
        Ok(Self::P256([&[UNCOMPRESSED], x, y].concat()))
    }

    /// A public key in DER (`SubjectPublicKeyInfo`).
    pub(super) fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let wrong = || KeyError::UnreadablePublicKey;
        let mut fields = Elements(Elements(der).of(SEQUENCE).ok_or_else(wrong)?);
        let algorithm = fields.of(SEQUENCE).ok_or_else(wrong)?;
        // The first byte has the number of unused bits at the end.
        let key = fields.of(BIT_STRING).and_then(|bits| bits.strip_prefix(&[0]));
        let key = key.ok_or_else(wrong)?;
        if algorithm == content(alg_id::RSA_ENCRYPTION.as_ref()) {
            let mut numbers = Elements(Elements(key).of(SEQUENCE).ok_or_else(wrong)?);
            let modulus = numbers.of(INTEGER).ok_or_else(wrong)?;
            return Self::rsa(modulus, numbers.of(INTEGER).ok_or_else(wrong)?);
        }
        if algorithm == content(alg_id::ECDSA_P256.as_ref()) {
            let point = key.strip_prefix(&[UNCOMPRESSED]).ok_or_else(wrong)?;
            let (x, y) = point.split_at_checked(P256_BYTES).ok_or_else(wrong)?;
            return Self::p256(x, y);
        }
        Err(KeyError::UnknownKind)
    }

    pub(super) const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Secret(_) => Algorithm::Hs256,
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
        }
    }

    /// Whether a signature of a message is good.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Secret(secret) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
                hmac::verify(&key, message, signature).is_ok()
            }
            Self::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
            }
            Self::P256(point) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(message, signature).is_ok()
            }
        }
    }
}

impl fmt::Debug for VerificationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerificationKey({:?})", self.algorithm())
    }
}

/// A number without the zeros at its beginning.
fn stripped(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// An identifier of an algorithm with or without its own tag, without it.
fn content(identifier: &[u8]) -> &[u8] {
    Elements(identifier).of(SEQUENCE).unwrap_or(identifier)
}
