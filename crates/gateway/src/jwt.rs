//! JSON Web Tokens (RFC 7519): an issuer that the operator trusts signs the tenant of a client.
//!
//! A key has one algorithm, which follows from its kind, and a token chooses among the keys only
//! (`docs/decisions/0046-jwt-by-ring.md`). So a token can neither switch its signature off nor
//! have a public key used as a secret. At most one signature is computed for a token. No claim is
//! read before the signature is known to be good, and a problem repeats no part of the token.

mod base64url;
mod claims;
mod key_error;
mod key_set;
mod verification_key;

#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

pub use self::claims::ClaimRules;
pub(crate) use self::key_error::KeyError;
pub(crate) use self::key_set::{SignerKeys, public_keys, secret_key};
use self::verification_key::{Algorithm, VerificationKey};

/// A longer token is not read.
const LENGTH_MAX: usize = 8 << 10;

/// Verifies tokens. Two verifiers with the same keys and rules are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenVerifier {
    keys: Vec<SignerKey>,
    rules: ClaimRules,
}

/// A key of an issuer, and its name if it has one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SignerKey {
    id: Option<String>,
    key: VerificationKey,
}

/// Why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenProblem {
    TooLong,
    Malformed,
    /// No key here has the algorithm.
    Algorithm,
    /// It demands an extension of the format.
    Extension,
    /// No key here has the name.
    Key,
    Signature,
    NoExpiry,
    Expired,
    NotYetValid,
    Issuer,
    Audience,
    NoTenant,
}

/// The header of a token. A header that has one of these names twice is refused.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

/// Whether a credential has the form of a token: three parts with dots between them.
pub(crate) fn is_token(text: &str) -> bool {
    text.bytes().filter(|byte| *byte == b'.').count() == 2
}

fn part<T: DeserializeOwned>(text: &str) -> Result<T, TokenProblem> {
    let bytes = base64url::decode(text).ok_or(TokenProblem::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| TokenProblem::Malformed)
}

// === impl TokenVerifier ===

impl TokenVerifier {
    pub(crate) fn new(keys: Vec<SignerKey>, rules: ClaimRules) -> Self {
        Self { keys, rules }
    }

    /// The name of the tenant that a token is for, `now` seconds after 1970.
    pub(crate) fn tenant(&self, token: &str, now: u64) -> Result<String, TokenProblem> {
        if token.len() > LENGTH_MAX {
            return Err(TokenProblem::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenProblem::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenProblem::Malformed)?;
        let key = self.key(&part(header)?)?;
        let signature = base64url::decode(signature).ok_or(TokenProblem::Malformed)?;
        if !key.verifies(signed.as_bytes(), &signature) {
            return Err(TokenProblem::Signature);
        }
        self.rules.tenant(&part(claims)?, now)
    }

    /// The one key that may have signed a token with this header.
    fn key(&self, header: &Header) -> Result<&VerificationKey, TokenProblem> {
        if header.crit.is_some() {
            return Err(TokenProblem::Extension);
        }
        let algorithm = Algorithm::named(&header.alg).ok_or(TokenProblem::Algorithm)?;
        let fits = |key: &&SignerKey| key.key.algorithm() == algorithm;
        let alone = match self.keys.iter().filter(fits).count() {
            0 => return Err(TokenProblem::Algorithm),
            count => count == 1,
        };
        let is_named = |key: &&SignerKey| match (&key.id, &header.kid) {
            (Some(id), Some(kid)) => id == kid,
            (Some(_), None) => alone,
            (None, _) => true,
        };
        let found = self.keys.iter().filter(fits).find(is_named);
        found.map(|found| &found.key).ok_or(TokenProblem::Key)
    }
}

// === impl TokenProblem ===

impl TokenProblem {
    /// The text for the client.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::TooLong => "The token is longer than 8 KiB.",
            Self::Malformed => "The token is no JWT with a header, claims and one signature.",
            Self::Algorithm => "The token is signed with an algorithm that is not accepted here.",
            Self::Extension => "The token has the header crit, which is not accepted here.",
            Self::Key => "The token names no key (kid) that is known here: ask for a new token.",
            Self::Signature => "The signature of the token is wrong.",
            Self::NoExpiry => "The token has no expiry: it needs the claim exp, a number.",
            Self::Expired => "The token has expired: ask for a new one.",
            Self::NotYetValid => "The token is not valid yet (nbf): check the clocks.",
            Self::Issuer => "The token is from another issuer (iss).",
            Self::Audience => "The token is for another audience (aud).",
            Self::NoTenant => "The token names no tenant that is known here.",
        }
    }
}
