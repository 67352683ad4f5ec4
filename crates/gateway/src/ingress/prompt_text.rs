//! The text of a prompt as places in the body, and the hashes of its blocks.
//!
//! Chat templates put the system prompt first, then the tools, then the messages, whatever the
//! order of the fields in the body. What a request says to the template itself may change all of
//! that, so it counts before the rest. So the scan of the body notes where each of them stands, and
//! they are hashed in that order. The bytes are hashed as they stand, with escapes and roles: a
//! client writes the beginning of a conversation the same way each time.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::LazyLock;

use flow::{BlockHasher, PromptBlocks};

use super::json_body::hash;

/// The fields with text of the prompt, in the order in which engines read them.
const FIELDS: [&str; 11] = [
    "chat_template",
    "chat_template_kwargs",
    "documents",
    "instructions",
    "system",
    "tools",
    "functions",
    "messages",
    "prompt",
    "input",
    "suffix",
];

/// Clients do not know it, so they cannot make a prompt that looks like that of another client.
static SECRET: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("prompts"));

/// Where the text of the prompt stands in the body.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptText {
    /// Small, since they are moved with the other fields of every request.
    places: [Range<u32>; FIELDS.len()],
    /// The hash of vLLM's `cache_salt`: prompts with different salts share no cache.
    pub(super) salt: Option<u64>,
}

/// What keeps the caches of two prompts apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheScope<'a> {
    pub(super) model: &'a str,
    /// The tenant, if tenants are kept apart.
    pub(super) tenant: Option<&'a str>,
}

// === impl PromptText ===

impl PromptText {
    /// Notes where the value of a field stands, of which a body has one. A place beyond 4 GiB is
    /// not noted.
    pub(super) fn note(&mut self, field: &str, place: Range<usize>) {
        let at = FIELDS.into_iter().position(|known| known == field);
        if let Some(known) = at.and_then(|at| self.places.get_mut(at))
            && let (Ok(start), Ok(end)) = (place.start.try_into(), place.end.try_into())
        {
            *known = start..end;
        }
    }

    /// The hashes of the blocks of the prompt.
    pub(super) fn blocks(&self, body: &[u8], scope: CacheScope<'_>) -> PromptBlocks {
        let tenant = scope.tenant.map_or(0, hash);
        let parts = [hash(scope.model), tenant, self.salt.unwrap_or(0)];
        let key = parts.into_iter().fold(*SECRET, |key, part| {
            (key.rotate_left(23) ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        let mut hasher = BlockHasher::new(key);
        for place in self.places.iter().filter(|place| !place.is_empty()) {
            let place = place.start as usize..place.end as usize;
            hasher.add(body.get(place).unwrap_or_default());
        }
        hasher.finish()
    }
}
