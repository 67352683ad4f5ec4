//! Why the keys of an issuer cannot be used. A text repeats no part of a file: it may be a secret.

use std::fmt;

use super::key_set::{KEYS_MAX, PEM};
use super::verification_key::SECRET_MIN;

/// Why a file has no usable key. The text reads on after the name of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyError {
    NotASecret,
    SeveralLines,
    ShortSecret,
    PrivateKey,
    NotPem,
    NoPublicKey,
    SeveralPemKeys,
    NotAKeySet {
        line: usize,
        column: usize,
    },
    TooManyKeys,
    NoUsableKey,
    KeyWithoutName,
    SameName,
    /// A part of a key of this kind (`kty`) is absent.
    Incomplete(String),
    RsaSize,
    RsaExponent,
    P256Size,
    UnreadablePublicKey,
    UnknownKind,
}

// === impl KeyError ===

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotASecret => {
                "has no secret but a key: name its file in auth.jwt.public_key_file"
            }
            Self::SeveralLines => "has several lines: a secret has one",
            Self::ShortSecret => {
                return write!(f, "has a secret of less than {SECRET_MIN} bytes");
            }
            Self::PrivateKey => "has a private key, which only the issuer may have",
            Self::NotPem => "is not PEM",
            Self::NoPublicKey => {
                return write!(f, "has neither a public key ({PEM}PUBLIC KEY-----) nor a JWKS");
            }
            Self::SeveralPemKeys => {
                "has several keys: write them as a JWKS, where each has a name (kid)"
            }
            Self::NotAKeySet { line, column } => {
                return write!(f, "is no JWKS: see line {line}, column {column}");
            }
            Self::TooManyKeys => return write!(f, "has more than {KEYS_MAX} keys"),
            Self::NoUsableKey => "has no key for RS256 or ES256",
            Self::KeyWithoutName => "has several keys, and one of them has no name (kid)",
            Self::SameName => "has several keys with the same name (kid)",
            Self::Incomplete(kind) => {
                return write!(f, "has an incomplete key of the kind {kind}");
            }
            Self::RsaSize => "has an RSA key that has not 2048 to 8192 bits",
            Self::RsaExponent => "has an RSA key with an unusual exponent",
            Self::P256Size => "has an EC key whose coordinates have not 32 bytes",
            Self::UnreadablePublicKey => "has a public key that cannot be read",
            Self::UnknownKind => "has a public key of another kind: RSA and P-256 are allowed",
        })
    }
}

impl std::error::Error for KeyError {}
