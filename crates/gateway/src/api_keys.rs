//! API keys: how they are made, stored and found again.
//!
//! A key is 32 random bytes, so its SHA-256 digest is stored and no slow hash is needed: there is
//! no dictionary to try (`docs/decisions/0037-api-keys.md`). A request costs one digest. The
//! digest is looked up in a map with a random hash and then compared in constant time. The time of
//! the lookup depends on the digest, which an attacker cannot choose.

mod key_line;
mod key_ring;

use std::fs::File;
use std::io::{self, Read as _};

use sha2::{Digest as _, Sha256};

pub(crate) use self::key_line::is_name;
pub use self::key_line::{
    AdminRight, KeyHolder, KeyLine, KeyLineError, KeyLineProblem, expiry, read_lines,
};
pub use self::key_ring::KeyRing;
pub(crate) use self::key_ring::{KeyOwner, UnusableKey};

/// The beginning of every key, by which a scanner of secrets finds it.
const PREFIX: &str = "tg-";
const SECRET_BYTES: usize = 32;
const RANDOM: &str = "/dev/urandom";

/// A new key. It is shown once and stored nowhere.
pub struct ApiKey {
    text: String,
    digest: KeyDigest,
}

/// The SHA-256 digest of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest([u8; 32]);

// === impl ApiKey ===

impl ApiKey {
    /// Makes a key from the system's random numbers.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0; SECRET_BYTES];
        File::open(RANDOM)?.read_exact(&mut bytes)?;
        let text = format!("{PREFIX}{}", hex(&bytes));
        Ok(Self { digest: KeyDigest::of(&text), text })
    }

    /// The key as a client sends it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is stored of it.
    pub fn digest(&self) -> &KeyDigest {
        &self.digest
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiKey")
    }
}

// === impl KeyDigest ===

impl KeyDigest {
    /// The digest of a key.
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    pub(crate) fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// Whether two digests are equal. The time does not depend on where they differ.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |all, (one, two)| all | (one ^ two));
        std::hint::black_box(differing) == 0
    }

    /// Reads 64 hexadecimal digits.
    fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let digit = |letter: u8| char::from(letter).to_digit(16);
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        }
        Some(Self(bytes))
    }
}

impl std::fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl std::fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyDigest")
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x05_keys_differ_and_do_not_show_in_debug_output() {
        let (one, two) = (ApiKey::generate().unwrap(), ApiKey::generate().unwrap());
        assert_ne!(one.text(), two.text());
        assert_eq!(one.text().len(), PREFIX.len() + 2 * SECRET_BYTES);
        assert_eq!(format!("{one:?}"), "ApiKey");
        assert!(!one.digest().equals(two.digest()));
        assert!(one.digest().equals(&KeyDigest::of(one.text())));
    }

    #[test]
    fn x05_a_digest_is_sha_256_and_is_read_as_it_is_written() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(KeyDigest::of("abc").to_string(), text);
        assert_eq!(KeyDigest::parse(text), Some(KeyDigest::of("abc")));
        for wrong in ["", "ba", &text[1..], &text.replace('b', "g")] {
            assert_eq!(KeyDigest::parse(wrong), None, "{wrong}");
        }
    }
}
