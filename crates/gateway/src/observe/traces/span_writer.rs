//! Spans as the bytes of OTLP (`opentelemetry/proto/trace/v1/trace.proto`), written by hand.
//!
//! Every traced request pays for this, so nothing is built first: no message, no text, no map. An
//! attribute is a constant of bytes, in which the last few are replaced, and a length that is known
//! only later has a place of fixed size. A number may have more bytes than it needs, which readers
//! of protobuf accept.

use super::context::{SpanId, TraceId};

/// Fields of a span: the number of the field, and how its value is encoded.
const SPAN: u8 = 2 << 3 | BYTES;
const TRACE_ID: u8 = 1 << 3 | BYTES;
const SPAN_ID: u8 = 2 << 3 | BYTES;
const TRACE_STATE: u8 = 3 << 3 | BYTES;
const PARENT_ID: u8 = 4 << 3 | BYTES;
const NAME: u8 = 5 << 3 | BYTES;
const KIND: u8 = 6 << 3;
const START: u8 = 7 << 3 | FIXED_64;
const END: u8 = 8 << 3 | FIXED_64;
const ATTRIBUTE: u8 = 9 << 3 | BYTES;
const EVENT: u8 = 11 << 3 | BYTES;
const STATUS: u8 = 15 << 3 | BYTES;
/// The flags of a sampled span: field 16, whose number takes two bytes.
const SAMPLED: [u8; 6] = [0x85, 0x01, 1, 0, 0, 0];
/// Fields of attributes, values, events and statuses.
const KEY: u8 = 1 << 3 | BYTES;
const VALUE: u8 = 2 << 3 | BYTES;
const TEXT: u8 = 1 << 3 | BYTES;
const BOOL: u8 = 2 << 3;
const INT: u8 = 3 << 3;
const DOUBLE: u8 = 4 << 3 | FIXED_64;
const EVENT_TIME: u8 = 1 << 3 | FIXED_64;
const EVENT_NAME: u8 = 2 << 3 | BYTES;
const STATUS_MESSAGE: u8 = 2 << 3 | BYTES;
const STATUS_ERROR: [u8; 2] = [3 << 3, 2];
const FIXED_64: u8 = 1;
const BYTES: u8 = 2;

/// The largest numbers that are encoded as one byte, and as three.
const ONE_BYTE_MAX: usize = 127;
const THREE_BYTES_MAX: u64 = (1 << 21) - 1;
/// The bytes of an attribute beside its key: before it, and from it to a value of one byte.
const BEFORE_KEY: usize = 4;
const AFTER_KEY: usize = 4;
/// The bytes of a length that is written afterwards.
const LENGTH_BYTES: usize = 3;
/// A longer text of a client is cut.
pub(super) const TEXT_MAX: usize = 1024;
/// The bytes of a number at most.
const VARINT_MAX: usize = 10;

/// The kinds of spans.
#[derive(Clone, Copy, Debug)]
pub(super) enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// What every span has.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpanHead<'a> {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) state: &'a str,
    pub(super) kind: SpanKind,
    /// Nanoseconds since 1970.
    pub(super) times: (u64, u64),
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct SpanWriter {
    bytes: Vec<u8>,
    /// Where the length of the present span stands.
    length_at: usize,
}

/// An attribute with this key: see [`attribute`].
macro_rules! key {
    ($name:literal) => {{
        const BYTES: [u8; $name.len() + 8] = $crate::observe::traces::span_writer::attribute($name);
        &BYTES
    }};
}
pub(super) use key;

/// An attribute without the bytes that depend on its value: its length, the length and the type of
/// the value, and the value or its length.
pub(super) const fn attribute<const N: usize>(name: &str) -> [u8; N] {
    let name = name.as_bytes();
    assert!(name.len() + BEFORE_KEY + AFTER_KEY == N && name.len() < 64);
    let mut bytes = [0; N];
    (bytes[0], bytes[2], bytes[3]) = (ATTRIBUTE, KEY, name.len() as u8);
    bytes[N - AFTER_KEY] = VALUE;
    let mut at = 0;
    while at < name.len() {
        bytes[BEFORE_KEY + at] = name[at];
        at += 1;
    }
    bytes
}

/// A number in base 128, and how many bytes it takes.
fn varint(mut number: u64) -> ([u8; VARINT_MAX], usize) {
    let mut bytes = [0; VARINT_MAX];
    let mut count = 0;
    while number > ONE_BYTE_MAX as u64 {
        bytes[count] = number as u8 | 0x80;
        number >>= 7;
        count += 1;
    }
    bytes[count] = number as u8;
    (bytes, count + 1)
}

/// Adds a number to other bytes.
pub(super) fn write_varint(bytes: &mut Vec<u8>, number: u64) {
    let (written, count) = varint(number);
    bytes.extend_from_slice(&written[..count]);
}

/// A field with bytes, for parts that are written once.
pub(super) fn write_field(bytes: &mut Vec<u8>, field: u8, value: &[u8]) {
    bytes.push(field << 3 | BYTES);
    write_varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

// === impl SpanWriter ===

impl SpanWriter {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins a span, which [`Self::end`] ends.
    pub(super) fn begin(&mut self, head: &SpanHead<'_>) {
        self.length_at = self.bytes.len() + 1;
        let mut fixed = [0; 58];
        fixed[0] = SPAN;
        (fixed[4], fixed[5]) = (TRACE_ID, 16);
        fixed[6..22].copy_from_slice(&head.trace);
        (fixed[22], fixed[23]) = (SPAN_ID, 8);
        fixed[24..32].copy_from_slice(&head.id);
        fixed[32] = START;
        fixed[33..41].copy_from_slice(&head.times.0.to_le_bytes());
        fixed[41] = END;
        fixed[42..50].copy_from_slice(&head.times.1.to_le_bytes());
        (fixed[50], fixed[51]) = (KIND, head.kind as u8);
        fixed[52..].copy_from_slice(&SAMPLED);
        self.bytes.extend_from_slice(&fixed);
        if let Some(parent) = head.parent {
            let mut field = [PARENT_ID, 8, 0, 0, 0, 0, 0, 0, 0, 0];
            field[2..].copy_from_slice(&parent);
            self.bytes.extend_from_slice(&field);
        }
        if !head.state.is_empty() {
            self.field(TRACE_STATE, head.state);
        }
    }

    /// Ends a span: now its length is known.
    pub(super) fn end(&mut self) {
        let from = self.length_at;
        // Texts are cut, so a span is far smaller than two megabytes.
        let length = self.bytes.len() - from - LENGTH_BYTES;
        let place = &mut self.bytes[from..from + LENGTH_BYTES];
        place[0] = length as u8 | 0x80;
        place[1] = (length >> 7) as u8 | 0x80;
        place[2] = (length >> 14) as u8 & 0x7f;
    }

    /// Adds a text, unless it is empty.
    #[inline]
    pub(super) fn text<const N: usize>(&mut self, key: &[u8; N], value: &str) {
        if value.is_empty() {
            return;
        }
        if N - 2 + value.len() <= ONE_BYTE_MAX {
            // Nearly all are this short, and then so is every length within.
            self.short(key, (TEXT, value.len() as u8), value.len());
            self.bytes.extend_from_slice(value.as_bytes());
            return;
        }
        self.long_text(&key[2..=N - AFTER_KEY], cut(value));
    }

    /// A text after the bytes of its key.
    #[cold]
    fn long_text(&mut self, key: &[u8], value: &str) {
        let (length, length_bytes) = varint(value.len() as u64);
        let (inner, inner_bytes) = varint((1 + length_bytes + value.len()) as u64);
        let whole = key.len() + inner_bytes + 1 + length_bytes + value.len();
        self.bytes.push(ATTRIBUTE);
        write_varint(&mut self.bytes, whole as u64);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(&inner[..inner_bytes]);
        self.bytes.push(TEXT);
        self.bytes.extend_from_slice(&length[..length_bytes]);
        self.bytes.extend_from_slice(value.as_bytes());
    }

    #[inline]
    pub(super) fn int<const N: usize>(&mut self, key: &[u8; N], value: u64) {
        if value <= ONE_BYTE_MAX as u64 {
            self.short(key, (INT, value as u8), 0);
        } else if value <= THREE_BYTES_MAX {
            self.short(key, (INT, value as u8 | 0x80), 2);
            self.bytes.extend_from_slice(&[(value >> 7) as u8 | 0x80, (value >> 14) as u8]);
        } else {
            self.long_int(key, value);
        }
    }

    #[cold]
    fn long_int<const N: usize>(&mut self, key: &[u8; N], value: u64) {
        // The protocol has signed numbers only.
        let (number, count) = varint(value.min(i64::MAX as u64));
        self.short(key, (INT, number[0]), count - 1);
        self.bytes.extend_from_slice(&number[1..count]);
    }

    /// Adds a number, if there is one.
    pub(super) fn count<const N: usize>(&mut self, key: &[u8; N], value: Option<u64>) {
        if let Some(value) = value {
            self.int(key, value);
        }
    }

    #[cold]
    pub(super) fn real<const N: usize>(&mut self, key: &[u8; N], value: f64) {
        let [first, rest @ ..] = value.to_le_bytes();
        self.short(key, (DOUBLE, first), rest.len());
        self.bytes.extend_from_slice(&rest);
    }

    pub(super) fn bool<const N: usize>(&mut self, key: &[u8; N], value: bool) {
        self.short(key, (BOOL, value.into()), 0);
    }

    /// An event with a short name.
    pub(super) fn event(&mut self, name: &str, at: u64) {
        let length = name.len() as u8;
        self.bytes.extend_from_slice(&[EVENT, 9 + 2 + length, EVENT_TIME]);
        self.bytes.extend_from_slice(&at.to_le_bytes());
        self.bytes.extend_from_slice(&[EVENT_NAME, length]);
        self.bytes.extend_from_slice(name.as_bytes());
    }

    /// The status of a span that failed, with an error code.
    pub(super) fn error(&mut self, code: &str) {
        let length = code.len() as u8;
        self.bytes.extend_from_slice(&[STATUS, length + 4, STATUS_MESSAGE, length]);
        self.bytes.extend_from_slice(code.as_bytes());
        self.bytes.extend_from_slice(&STATUS_ERROR);
    }

    /// Adds what other spans have in common with this one.
    pub(super) fn fields(&mut self, written: &[u8]) {
        self.bytes.extend_from_slice(written);
    }

    /// An attribute with the type and the first byte of its value, which so many more follow.
    #[inline]
    fn short<const N: usize>(&mut self, key: &[u8; N], (kind, byte): (u8, u8), more: usize) {
        let mut bytes = *key;
        bytes[1] = (N - 2 + more) as u8;
        (bytes[N - 3], bytes[N - 2], bytes[N - 1]) = (2 + more as u8, kind, byte);
        self.bytes.extend_from_slice(&bytes);
    }

    /// The name of a span: two words with a space between them, or one.
    pub(super) fn name(&mut self, first: &str, second: &str) {
        let second = cut(second);
        let space = usize::from(!second.is_empty());
        self.bytes.push(NAME);
        write_varint(&mut self.bytes, (first.len() + space + second.len()) as u64);
        self.bytes.extend_from_slice(first.as_bytes());
        if space > 0 {
            self.bytes.push(b' ');
            self.bytes.extend_from_slice(second.as_bytes());
        }
    }

    fn field(&mut self, tag: u8, value: &str) {
        self.bytes.push(tag);
        write_varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(value.as_bytes());
    }
}

/// A text without what exceeds its bound.
fn cut(text: &str) -> &str {
    if text.len() <= TEXT_MAX { text } else { &text[..text.floor_char_boundary(TEXT_MAX)] }
}
