//! How much text a value holds, roughly: what a prompt's tokens are estimated from.
//!
//! Text is counted in bytes, keys too: with a role they come to about what a chat template adds to
//! a message. Pictures and sounds count by the piece, however long their base64 is.

use super::json_scanner::{JsonScanner, JsonString, JsonValue, ScanError};

/// Bytes of text and pieces of other media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PromptSize {
    text: u64,
    media: u64,
}

/// A prompt's tokens are so many times fewer than its bytes.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;
/// A number is a token: prompts may come as those.
const NUMBER_BYTES: u64 = BYTES_PER_TOKEN;
/// What an engine makes of a picture of common size.
const MEDIUM_TOKENS: u64 = 600;
/// Shorter base64 may count as text: it is no more than a picture then.
const BASE64_MIN: usize = 1024;
/// Text has a space or another sign in as many bytes.
const BASE64_LOOK: usize = 256;
const DATA_URL: &str = "data:";

// === impl PromptSize ===

impl PromptSize {
    pub(super) fn tokens(self) -> u64 {
        self.text.div_ceil(BYTES_PER_TOKEN) + self.media * MEDIUM_TOKENS
    }

    /// Adds the next value of a walk.
    pub(super) fn add(&mut self, scanner: &mut JsonScanner<'_>) -> Result<(), ScanError> {
        let value = scanner.value()?;
        self.add_value(value, scanner)
    }

    /// Adds a value that has begun.
    pub(super) fn add_value(
        &mut self,
        value: JsonValue<'_>,
        scanner: &mut JsonScanner<'_>,
    ) -> Result<(), ScanError> {
        match value {
            JsonValue::Null | JsonValue::Bool(_) => {}
            JsonValue::Number(_) => self.text += NUMBER_BYTES,
            JsonValue::String(text) => self.add_text(&text.checked()?),
            JsonValue::Array(mut list) => {
                while scanner.item(&mut list)? {
                    self.add(scanner)?;
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
        let key = key.read().unwrap_or_default();
        if matches!(&*key, "image_url" | "audio_url" | "video_url") {
            self.media += 1;
            return Self::default().add(scanner);
        }
        self.add(scanner)
    }

    fn add_text(&mut self, text: &JsonString<'_>) {
        if is_medium(text) {
            self.media += 1;
        } else {
            self.text += text.length() as u64;
        }
    }
}

/// Whether a string is a picture or a sound. Of a long text only the beginning is read, and that
/// only where its first escape leaves it open.
fn is_medium(text: &JsonString<'_>) -> bool {
    let (start, escape) = text.start();
    match escape {
        Some(b'/' | b'u') if start.len() < BASE64_LOOK => {
            text.read().is_some_and(|read| is_encoded(&read, read.len()))
        }
        // No other escape stands for a letter of base64.
        Some(_) if start.len() < BASE64_LOOK => start.starts_with(DATA_URL),
        _ => is_encoded(start, text.length()),
    }
}

/// Whether text of this length that begins so is encoded.
fn is_encoded(start: &str, length: usize) -> bool {
    let base64 = |&letter: &u8| letter.is_ascii_alphanumeric() || b"+/=-_".contains(&letter);
    start.starts_with(DATA_URL)
        || (length >= BASE64_MIN && start.as_bytes()[..BASE64_LOOK].iter().all(base64))
}
