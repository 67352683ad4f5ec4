//! Puts the client's model name back into a response, if the request was sent with another model
//! name.
//!
//! Only the response's own field is replaced: `model` at the top of a JSON object, of an event or
//! of a line, or inside its `response` or `message`, where the streams of other APIs have it. The
//! bytes are scanned as they pass, in chunks that may be cut anywhere. Every other byte passes as
//! it came; only a name that is cut by the end of a chunk waits for its rest.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

use super::StreamFormat;
use crate::request::Request;

/// The longest key that matters.
const KEY_MAX: usize = 8;
/// A longer value is no model name.
const VALUE_MAX: usize = 4096;

/// Restores the name in one response.
#[derive(Debug)]
pub(crate) struct ModelNameRestorer {
    /// The client's name as JSON.
    name: Vec<u8>,
    /// Whether a line break ends an object.
    lines: bool,
    depth: u32,
    text: Text,
    /// The last key or text, up to its end, as far as it may matter.
    word: Vec<u8>,
    /// The key whose value comes next.
    key: Key,
    /// Whether the object at the second level is one that has a model.
    nested: bool,
}

/// Where the scanner stands in relation to texts.
#[derive(Debug, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
    /// Inside the value of `model`; these bytes of it wait.
    Name(Vec<u8>),
    EscapedName(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Model,
    /// The name of an object that has a model.
    Container,
    Other,
}

// === impl ModelNameRestorer ===

impl ModelNameRestorer {
    /// The restorer of a response with these headers. `None` where the name was not replaced, or
    /// where the body cannot be read.
    pub(crate) fn of(
        request: &Request,
        content_type: Option<&HeaderValue>,
        is_encoded: bool,
    ) -> Option<Box<Self>> {
        let model = request.replaced_model().filter(|_| !is_encoded)?;
        let lines = match StreamFormat::of(content_type) {
            StreamFormat::Events | StreamFormat::Lines => true,
            StreamFormat::Whole if is_json(content_type) => false,
            _ => return None,
        };
        Some(Box::new(Self::new(model, lines)))
    }

    /// The same for a head that is sent on. The length of its body will change.
    pub(super) fn for_head(request: &Request, headers: &mut HeaderMap) -> Option<Box<Self>> {
        request.replaced_model()?;
        let is_encoded = headers.contains_key(CONTENT_ENCODING);
        let restorer = Self::of(request, headers.get(CONTENT_TYPE), is_encoded)?;
        headers.remove(CONTENT_LENGTH);
        Some(restorer)
    }

    fn new(model: &str, lines: bool) -> Self {
        Self {
            name: serde_json::to_vec(model).unwrap_or_default(),
            lines,
            depth: 0,
            text: Text::Outside,
            word: Vec::new(),
            key: Key::Other,
            nested: false,
        }
    }

    /// The chunk with the client's name. The last one ends with the bytes that waited.
    pub(crate) fn restore(&mut self, chunk: Bytes, last: bool) -> Bytes {
        let restored = self.replace(chunk);
        let held = if last { self.finish() } else { Bytes::new() };
        if held.is_empty() { restored } else { [restored, held].concat().into() }
    }

    fn replace(&mut self, chunk: Bytes) -> Bytes {
        let mut out = Vec::new();
        // The bytes before this are in `out`, or wait as part of a name.
        let mut copied = 0;
        let mut changed = self.holds_name();
        for (at, &byte) in chunk.iter().enumerate() {
            if self.holds_name() {
                copied = at + 1;
                self.read_name(byte, &mut out);
            } else if self.read(byte) {
                out.extend_from_slice(&chunk[copied..at]);
                copied = at + 1;
                changed = true;
            }
        }
        if !changed {
            return chunk;
        }
        out.extend_from_slice(&chunk[copied..]);
        out.into()
    }

    /// The bytes that wait for a rest that does not come.
    pub(crate) fn finish(&mut self) -> Bytes {
        match std::mem::replace(&mut self.text, Text::Outside) {
            Text::Name(held) | Text::EscapedName(held) => held.into(),
            Text::Outside | Text::Inside | Text::Escaped => Bytes::new(),
        }
    }

    fn holds_name(&self) -> bool {
        matches!(self.text, Text::Name(_) | Text::EscapedName(_))
    }

    /// Reads a byte of the value of `model`.
    fn read_name(&mut self, byte: u8, out: &mut Vec<u8>) {
        let (mut held, escaped) = match std::mem::replace(&mut self.text, Text::Outside) {
            Text::Name(held) => (held, false),
            Text::EscapedName(held) => (held, true),
            other => return self.text = other,
        };
        held.push(byte);
        self.text = match byte {
            b'"' if !escaped => {
                out.extend_from_slice(&self.name);
                Text::Outside
            }
            _ if held.len() > VALUE_MAX => {
                out.append(&mut held);
                if byte == b'\\' && !escaped { Text::Escaped } else { Text::Inside }
            }
            b'\\' if !escaped => Text::EscapedName(held),
            _ => Text::Name(held),
        };
    }

    /// Reads a byte outside of a name. Returns whether a name begins with it.
    fn read(&mut self, byte: u8) -> bool {
        match self.text {
            Text::Inside => self.read_text(byte),
            Text::Escaped => self.text = Text::Inside,
            _ => return self.read_structure(byte),
        }
        false
    }

    fn read_text(&mut self, byte: u8) {
        match byte {
            b'"' => self.text = Text::Outside,
            b'\\' => {
                self.text = Text::Escaped;
                // No key that matters has an escape.
                self.word.resize(KEY_MAX + 1, b'\\');
            }
            // A text has no line breaks: the line was cut, or is none of JSON.
            b'\n' if self.lines => self.begin_line(),
            _ if self.word.len() <= KEY_MAX => self.word.push(byte),
            _ => {}
        }
    }

    fn read_structure(&mut self, byte: u8) -> bool {
        match byte {
            b'"' if self.key == Key::Model => {
                self.text = Text::Name(vec![byte]);
                self.key = Key::Other;
                return true;
            }
            b'"' => {
                self.text = Text::Inside;
                self.word.clear();
            }
            b':' if self.depth == 1 || (self.depth == 2 && self.nested) => {
                self.key = Key::of(&self.word);
            }
            b'{' | b'[' => {
                self.nested = match self.depth {
                    0 => false,
                    1 => byte == b'{' && self.key == Key::Container,
                    _ => self.nested,
                };
                self.depth += 1;
                self.key = Key::Other;
                self.word.clear();
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.key = Key::Other;
            }
            b',' => self.key = Key::Other,
            b'\n' if self.lines => self.begin_line(),
            _ => {}
        }
        false
    }

    fn begin_line(&mut self) {
        self.text = Text::Outside;
        self.depth = 0;
        self.key = Key::Other;
        self.word.clear();
    }
}

// === impl Key ===

impl Key {
    fn of(word: &[u8]) -> Self {
        match word {
            b"model" => Self::Model,
            b"response" | b"message" => Self::Container,
            _ => Self::Other,
        }
    }
}

fn is_json(content_type: Option<&HeaderValue>) -> bool {
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

#[cfg(test)]
mod tests;
