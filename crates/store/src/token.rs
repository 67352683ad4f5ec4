//! Tokens that are unique and cannot be guessed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

/// The random seed of this process. The keys of the standard library's hash maps come from the
/// operating system, so no further crate is needed.
static SEED: LazyLock<[u8; 32]> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for _ in 0..4 {
        hash.update(RandomState::new().build_hasher().finish().to_le_bytes());
    }
    hash.update(std::process::id().to_le_bytes());
    hash.finalize().into()
});

/// The token of a generation of a request: 32 hexadecimal digits.
pub(crate) fn request() -> String {
    new(16)
}

/// The token of a claim: 16 hexadecimal digits.
pub(crate) fn owner() -> String {
    new(8)
}

fn new(bytes: usize) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let digest = Sha256::new().chain_update(*SEED).chain_update(count.to_le_bytes()).finalize();
    digest.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}
