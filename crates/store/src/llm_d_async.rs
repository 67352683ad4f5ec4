//! The formats of llm-d-async that Redis and Pub/Sub have in common.

pub(crate) mod request;
pub(crate) mod result_record;
pub(crate) mod unreadable;

use serde::{Deserialize, Deserializer};

/// Deserialises a field; `null` means the default, as in Go.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
