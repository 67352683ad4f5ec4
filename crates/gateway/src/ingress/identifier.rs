//! Request ids, which appear in the logs of the client, the gateway and the backend.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;

/// A longer id of a client is replaced.
pub(crate) const ID_MAX: usize = 128;

/// The start of the counter; it differs between processes.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// The client's id if it is valid, else a new one.
pub(super) fn of(given: Option<&HeaderValue>) -> HeaderValue {
    given.filter(|id| is_usable(id.as_bytes())).cloned().unwrap_or_else(fresh)
}

fn is_usable(id: &[u8]) -> bool {
    (1..=ID_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

fn fresh() -> HeaderValue {
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let mut number = mixed(SEED.wrapping_add(count));
    let mut digits = [0; 16];
    for digit in &mut digits {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
    HeaderValue::from_bytes(&digits).unwrap_or_else(|_| HeaderValue::from_static("-"))
}

/// The last step of splitmix64. It is a bijection, and neighbouring numbers give unlike results.
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
