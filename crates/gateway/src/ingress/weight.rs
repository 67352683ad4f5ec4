//! How much text a value holds, roughly: what a prompt's tokens are estimated from.
//!
//! Text is counted in bytes, keys too: with a role they come to about what a chat template adds to
//! a message. Pictures and sounds count by the piece, however long their base64 is.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Bytes of text and pieces of other media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    text: u64,
    media: u64,
}

/// Adds the weight of any value. It nests no deeper than the parser lets it.
pub(super) struct Weigh<'w>(pub(super) &'w mut Weight);

/// Adds the weight of a key, and tells whether its value is a place where media are.
struct WeighKey<'w>(&'w mut Weight);

const BYTES_PER_TOKEN: u64 = 4;
/// A number is a token: prompts may come as those.
const NUMBER_BYTES: u64 = BYTES_PER_TOKEN;
/// What an engine makes of a picture of common size.
const MEDIUM_TOKENS: u64 = 600;
/// Shorter base64 may count as text: it is no more than a picture then.
const BASE64_MIN: usize = 1024;
/// Text has a space or another sign in as many bytes.
const BASE64_LOOK: usize = 256;

// === impl Weight ===

impl Weight {
    pub(super) fn tokens(self) -> u64 {
        self.text.div_ceil(BYTES_PER_TOKEN) + self.media * MEDIUM_TOKENS
    }

    fn add(&mut self, string: &str) {
        if is_encoded(string) {
            self.media += 1;
        } else {
            self.text += string.len() as u64;
        }
    }
}

fn is_encoded(string: &str) -> bool {
    let base64 = |&letter: &u8| letter.is_ascii_alphanumeric() || b"+/=-_".contains(&letter);
    string.starts_with("data:")
        || (string.len() >= BASE64_MIN && string.as_bytes()[..BASE64_LOOK].iter().all(base64))
}

// === impl Weigh ===

impl<'de> DeserializeSeed<'de> for Weigh<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Weigh<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.0.text += NUMBER_BYTES;
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.0.text += NUMBER_BYTES;
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.0.text += NUMBER_BYTES;
        Ok(())
    }

    fn visit_str<E>(self, string: &str) -> Result<(), E> {
        self.0.add(string);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Weigh(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(is_media) = entries.next_key_seed(WeighKey(self.0))? {
            if is_media {
                self.0.media += 1;
                entries.next_value_seed(Weigh(&mut Weight::default()))?;
            } else {
                entries.next_value_seed(Weigh(self.0))?;
            }
        }
        Ok(())
    }
}

// === impl WeighKey ===

impl<'de> DeserializeSeed<'de> for WeighKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for WeighKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        self.0.text += key.len() as u64;
        Ok(matches!(key, "image_url" | "audio_url" | "video_url"))
    }
}
