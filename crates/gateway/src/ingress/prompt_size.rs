//! The size of a prompt, from which its tokens are estimated.
//!
//! Text counts in bytes. Keys count too: with the role they are about as long as what a chat
//! template adds to a message. An image or audio clip counts as one piece, however long its base64
//! is, but only under a key where engines read one. A prompt that merely looks like base64 is text,
//! and engines read every byte of it.

use super::json_scanner::{JsonScanner, JsonString, JsonValue, ScanError};

/// Bytes of text, and pieces of other media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PromptSize {
    text: u64,
    media: u64,
}

/// What a string stands for, by the key that it stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Text,
    /// An image or an audio clip, or its address.
    Media,
}

/// The bytes of text per token.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;
/// A number counts as one token, because a prompt may be a list of token ids.
const NUMBER_BYTES: u64 = BYTES_PER_TOKEN;
/// The tokens of an image of common size.
const MEDIUM_TOKENS: u64 = 600;
/// Shorter base64 counts as text; it is smaller than an image then.
const BASE64_MIN: usize = 1024;
/// Ordinary text has a space or punctuation within this many bytes.
const BASE64_LOOK: usize = 256;
const DATA_URL: &str = "data:";

// === impl PromptSize ===

impl PromptSize {
    pub(super) fn tokens(self) -> u64 {
        self.text.div_ceil(BYTES_PER_TOKEN) + self.media * MEDIUM_TOKENS
    }

    /// Adds the next value of the scanner, which stands under no key.
    pub(super) fn add(&mut self, scanner: &mut JsonScanner<'_>) -> Result<(), ScanError> {
        self.add_at(Place::Text, scanner)
    }

    /// Adds the next value of the scanner, which stands under this key.
    pub(super) fn add_under(
        &mut self,
        key: &str,
        scanner: &mut JsonScanner<'_>,
    ) -> Result<(), ScanError> {
        self.add_at(Place::under(key), scanner)
    }

    /// Adds a value whose start has been read, and which stands under no key.
    pub(super) fn add_value(
        &mut self,
        value: JsonValue<'_>,
        scanner: &mut JsonScanner<'_>,
    ) -> Result<(), ScanError> {
        self.add_value_at(Place::Text, value, scanner)
    }

    fn add_at(&mut self, place: Place, scanner: &mut JsonScanner<'_>) -> Result<(), ScanError> {
        let value = scanner.value()?;
        self.add_value_at(place, value, scanner)
    }

    fn add_value_at(
        &mut self,
        place: Place,
        value: JsonValue<'_>,
        scanner: &mut JsonScanner<'_>,
    ) -> Result<(), ScanError> {
        match value {
            JsonValue::Null | JsonValue::Bool(_) => {}
            JsonValue::Number(_) => self.text += NUMBER_BYTES,
            JsonValue::String(text) => self.add_text(place, &text),
            JsonValue::Array(mut list) => {
                while scanner.item(&mut list)? {
                    self.add_at(place, scanner)?;
                }
            }
            JsonValue::Object(mut object) => {
                while let Some(key) = scanner.key(&mut object)? {
                    self.add_entry(&key, scanner)?;
                }
            }
        }
        Ok(())
    }

    fn add_entry(
        &mut self,
        key: &JsonString<'_>,
        scanner: &mut JsonScanner<'_>,
    ) -> Result<(), ScanError> {
        self.text += key.length() as u64;
        let key = key.read();
        if matches!(&*key, "image_url" | "audio_url" | "video_url") {
            self.media += 1;
            return Self::default().add(scanner);
        }
        self.add_under(&key, scanner)
    }

    fn add_text(&mut self, place: Place, text: &JsonString<'_>) {
        if place == Place::Media && is_medium(text) {
            self.media += 1;
        } else {
            self.text += text.length() as u64;
        }
    }
}

// === impl Place ===

impl Place {
    fn under(key: &str) -> Self {
        match key {
            "data" | "file_data" | "image" | "images" | "audio" | "video" | "url" | "b64_json" => {
                Self::Media
            }
            _ => Self::Text,
        }
    }
}

/// Whether a string is an image or an audio clip. Only the start of a long string is examined, and
/// it is unescaped only if its first escape may be part of base64.
fn is_medium(text: &JsonString<'_>) -> bool {
    let (start, escape) = text.start();
    match escape {
        Some(b'/' | b'u') if start.len() < BASE64_LOOK => {
            let read = text.read();
            is_encoded(&read, read.len())
        }
        // No other escape encodes a base64 character.
        Some(_) if start.len() < BASE64_LOOK => start.starts_with(DATA_URL),
        _ => is_encoded(start, text.length()),
    }
}

/// Whether a string of this length with this start is base64 or a data URL.
fn is_encoded(start: &str, length: usize) -> bool {
    let base64 = |&letter: &u8| letter.is_ascii_alphanumeric() || b"+/=-_".contains(&letter);
    start.starts_with(DATA_URL)
        || (length >= BASE64_MIN && start.as_bytes()[..BASE64_LOOK].iter().all(base64))
}
