//! The size of a prompt, from which its tokens are estimated.
//!
//! Text counts in bytes, and what cannot be classified is text. Of messages, keys count too: with
//! the role they are about as long as what a chat template adds to a message. Any other value is
//! written into a prompt as JSON, so it counts about as its JSON. An image or audio clip counts as
//! one piece, however long its base64 is, but only in the place where an API has one: engines read
//! every byte of whatever looks like one elsewhere.

use std::ops::AddAssign;

use super::json_scanner::{JsonScanner, JsonString, JsonValue, ScanError};

/// Bytes of text, and pieces of other media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PromptSize {
    text: u64,
    media: u64,
}

/// What a value stands for, by the keys that it stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Text,
    /// Messages, or the parts of one.
    Parts,
    /// An image or an audio clip.
    Medium,
    /// The address of one, which may be a data URL.
    Address,
}

/// The bytes of text per token.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;
/// A number counts as one token, because a prompt may be a list of token ids. A longer one is text.
const NUMBER_BYTES: u64 = BYTES_PER_TOKEN;
const NUMBER_MAX: usize = 8;
/// What separates an item of a list from the next one, or a key from its value.
const BETWEEN: u64 = 2;
/// The tokens of an image of common size.
const MEDIUM_TOKENS: u64 = 600;
/// Shorter base64 counts as text; it is smaller than an image then.
const BASE64_MIN: usize = 1024;
/// Ordinary text has a space or punctuation within this many bytes.
const BASE64_LOOK: usize = 256;
/// The beginnings of data URLs that hold no text.
const DATA_URLS: [&str; 4] = ["data:image/", "data:audio/", "data:video/", "data:application/pdf"];

// === impl PromptSize ===

impl PromptSize {
    /// The size of what cannot be read.
    pub(super) fn of_bytes(bytes: usize) -> Self {
        Self { text: bytes as u64, media: 0 }
    }

    /// The size of one file.
    pub(super) const MEDIUM: Self = Self { text: 0, media: 1 };

    pub(super) fn tokens(self) -> u64 {
        let media = self.media.saturating_mul(MEDIUM_TOKENS);
        self.text.div_ceil(BYTES_PER_TOKEN).saturating_add(media)
    }

    /// The same, once for each of so many times.
    pub(super) fn times(self, times: u64) -> Self {
        let Self { text, media } = self;
        Self { text: text.saturating_mul(times), media: media.saturating_mul(times) }
    }

    /// Passes over the next value of the scanner, which is no part of the prompt.
    pub(super) fn skip(scanner: &mut JsonScanner<'_>) -> Result<(), ScanError> {
        let value = scanner.value()?;
        Self::default().add(Place::Text, value, scanner)
    }

    /// Adds a value whose start has been read.
    pub(super) fn add(
        &mut self,
        place: Place,
        value: JsonValue<'_>,
        scanner: &mut JsonScanner<'_>,
    ) -> Result<(), ScanError> {
        match value {
            JsonValue::Null | JsonValue::Bool(true) => self.text += 4,
            JsonValue::Bool(false) => self.text += 5,
            JsonValue::Number(number) if number.len() > NUMBER_MAX => {
                self.text += number.len() as u64;
            }
            JsonValue::Number(_) => self.text += NUMBER_BYTES,
            JsonValue::String(text) => self.add_text(place, &text),
            JsonValue::Array(mut list) => {
                while scanner.item(&mut list)? {
                    self.add_item(place, scanner)?;
                }
            }
            JsonValue::Object(mut object) => {
                while let Some(key) = scanner.key(&mut object)? {
                    self.add_entry(place, &key, scanner)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the next item of a list. Returns whether it may be a prompt of its own: a number is a
    /// token.
    pub(super) fn add_item(
        &mut self,
        place: Place,
        scanner: &mut JsonScanner<'_>,
    ) -> Result<bool, ScanError> {
        let (value, before) = (scanner.value()?, *self);
        let is_number = matches!(value, JsonValue::Number(_));
        let is_text = !is_number && !matches!(value, JsonValue::Array(_) | JsonValue::Object(_));
        self.add(place, value, scanner)?;
        if *self == before || (is_text && self.media == before.media) {
            self.text += BETWEEN;
        }
        Ok(!is_number)
    }

    fn add_entry(
        &mut self,
        place: Place,
        key: &JsonString<'_>,
        scanner: &mut JsonScanner<'_>,
    ) -> Result<(), ScanError> {
        self.text += key.length() as u64;
        if place == Place::Text {
            self.text += 2 * BETWEEN;
        }
        let key = key.read();
        let value = scanner.value()?;
        self.add(place.under(&key), value, scanner)
    }

    fn add_text(&mut self, place: Place, text: &JsonString<'_>) {
        let is_medium = matches!(place, Place::Medium | Place::Address) && is_medium(place, text);
        self.media += u64::from(is_medium || place == Place::Address);
        self.text += if is_medium { 0 } else { text.length() as u64 };
    }
}

impl AddAssign for PromptSize {
    fn add_assign(&mut self, other: Self) {
        self.text = self.text.saturating_add(other.text);
        self.media = self.media.saturating_add(other.media);
    }
}

// === impl Place ===

impl Place {
    /// The place of a field of the body.
    pub(super) fn of_field(name: &str) -> Self {
        match name {
            "messages" | "input" => Self::Parts,
            "images" => Self::Medium,
            _ => Self::Text,
        }
    }

    /// The place of what stands under a key here.
    fn under(self, key: &str) -> Self {
        match (self, key) {
            (Self::Parts, "content" | "output") => Self::Parts,
            (Self::Parts, "image_url" | "audio_url" | "video_url") => Self::Address,
            (Self::Parts, "image" | "images" | "audio" | "video") => Self::Medium,
            (Self::Parts, "input_audio" | "source" | "file" | "file_data") => Self::Medium,
            (Self::Medium, "data" | "url" | "file_data") => Self::Medium,
            (Self::Address, "url") => Self::Address,
            _ => Self::Text,
        }
    }
}

/// Whether a string is an image or an audio clip. Only the start of a long string is examined, and
/// it is unescaped only if its first escape may be part of base64.
fn is_medium(place: Place, text: &JsonString<'_>) -> bool {
    let (start, escape) = text.start();
    match escape {
        Some(b'/' | b'u') if start.len() < BASE64_LOOK => {
            let read = text.read();
            is_encoded(place, &read, read.len())
        }
        // No other escape encodes a base64 character.
        Some(_) if start.len() < BASE64_LOOK => is_data_url(start),
        _ => is_encoded(place, start, text.length()),
    }
}

/// Whether a string of this length with this start is a data URL, or base64 without one. An address
/// is no base64.
fn is_encoded(place: Place, start: &str, length: usize) -> bool {
    let base64 = |&letter: &u8| letter.is_ascii_alphanumeric() || b"+/=-_".contains(&letter);
    let is_long = place == Place::Medium && length >= BASE64_MIN;
    is_data_url(start) || (is_long && start.as_bytes()[..BASE64_LOOK].iter().all(base64))
}

fn is_data_url(start: &str) -> bool {
    DATA_URLS.iter().any(|beginning| start.starts_with(beginning))
}
