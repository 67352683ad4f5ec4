//! Tokens that nobody else has and nobody can guess.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

/// What this process makes its tokens from. The keys of the standard library's hash maps come from
/// the operating system, which spares us a further crate.
static SEED: LazyLock<[u8; 32]> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for _ in 0..4 {
        hash.update(RandomState::new().build_hasher().finish().to_le_bytes());
    }
    hash.update(std::process::id().to_le_bytes());
    hash.finalize().into()
});

/// A generation of a request: 32 hexadecimal digits.
pub(super) fn request() -> String {
    fresh(16)
}

/// A claim: 16 hexadecimal digits.
pub(super) fn owner() -> String {
    fresh(8)
}

fn fresh(bytes: usize) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let digest = Sha256::new().chain_update(*SEED).chain_update(count.to_le_bytes()).finalize();
    digest.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}
