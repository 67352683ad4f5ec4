//! Spans as the bytes of OTLP (`opentelemetry/proto/trace/v1/trace.proto`), written by hand.
//!
//! Every traced request pays for this, so nothing is built first: no message, no text, no map. The
//! keys of attributes are constant bytes, and a length that is known only later has a place of
//! fixed size. A number may have more bytes than it needs, which readers of protobuf accept.

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
const EVENT_TIME: u8 = 1 << 3 | FIXED_64;
const EVENT_NAME: u8 = 2 << 3 | BYTES;
const STATUS_MESSAGE: u8 = 2 << 3 | BYTES;
const STATUS_ERROR: [u8; 2] = [3 << 3, 2];
const FIXED_64: u8 = 1;
const BYTES: u8 = 2;

/// The largest number that is encoded as one byte.
const ONE_BYTE_MAX: usize = 127;
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
    /// Two words with a space between them, or one.
    pub(super) name: (&'a str, &'a str),
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

/// The key of an attribute with the bytes around it: see [`prefix`].
macro_rules! key {
    ($name:literal) => {{
        const BYTES: [u8; $name.len() + 5] = $crate::observe::traces::span_writer::prefix($name);
        &BYTES
    }};
}
pub(super) use key;

/// The first bytes of an attribute. Its whole length, the second byte, is not known yet.
pub(super) const fn prefix<const N: usize>(name: &str) -> [u8; N] {
    let name = name.as_bytes();
    assert!(name.len() + 5 == N && name.len() < 64);
    let mut bytes = [0; N];
    (bytes[0], bytes[2], bytes[3], bytes[N - 1]) = (ATTRIBUTE, KEY, name.len() as u8, VALUE);
    let mut at = 0;
    while at < name.len() {
        bytes[4 + at] = name[at];
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
        self.bytes.extend_from_slice(&[SPAN, 0, 0, 0]);
        self.length_at = self.bytes.len() - LENGTH_BYTES;
        let mut fixed = [0; 54];
        (fixed[0], fixed[1]) = (TRACE_ID, 16);
        fixed[2..18].copy_from_slice(&head.trace);
        (fixed[18], fixed[19]) = (SPAN_ID, 8);
        fixed[20..28].copy_from_slice(&head.id);
        fixed[28] = START;
        fixed[29..37].copy_from_slice(&head.times.0.to_le_bytes());
        fixed[37] = END;
        fixed[38..46].copy_from_slice(&head.times.1.to_le_bytes());
        (fixed[46], fixed[47]) = (KIND, head.kind as u8);
        fixed[48..].copy_from_slice(&SAMPLED);
        self.bytes.extend_from_slice(&fixed);
        if let Some(parent) = head.parent {
            self.bytes.extend_from_slice(&[PARENT_ID, 8]);
            self.bytes.extend_from_slice(&parent);
        }
        if !head.state.is_empty() {
            self.field(TRACE_STATE, head.state);
        }
        self.name(head.name);
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
        let value = cut(value);
        if value.is_empty() {
            return;
        }
        let whole = N - 2 + 3 + value.len();
        if whole <= ONE_BYTE_MAX {
            // Nearly all are this short, and then so is every length within.
            self.begin_attribute(key, whole);
            let (inner, length) = (value.len() as u8 + 2, value.len() as u8);
            self.bytes.extend_from_slice(&[inner, TEXT, length]);
            self.bytes.extend_from_slice(value.as_bytes());
            return;
        }
        self.long_text(key, value);
    }

    #[cold]
    fn long_text(&mut self, key: &[u8], value: &str) {
        let (length, length_bytes) = varint(value.len() as u64);
        let (inner, inner_bytes) = varint((1 + length_bytes + value.len()) as u64);
        let whole = key.len() - 2 + inner_bytes + 1 + length_bytes + value.len();
        self.bytes.push(ATTRIBUTE);
        write_varint(&mut self.bytes, whole as u64);
        self.bytes.extend_from_slice(&key[2..]);
        self.bytes.extend_from_slice(&inner[..inner_bytes]);
        self.bytes.push(TEXT);
        self.bytes.extend_from_slice(&length[..length_bytes]);
        self.bytes.extend_from_slice(value.as_bytes());
    }

    #[inline]
    pub(super) fn int<const N: usize>(&mut self, key: &[u8; N], value: u64) {
        // The protocol has signed numbers only.
        let (number, count) = varint(value.min(i64::MAX as u64));
        self.begin_attribute(key, N - 2 + 2 + count);
        self.bytes.extend_from_slice(&[1 + count as u8, INT]);
        self.bytes.extend_from_slice(&number[..count]);
    }

    /// Adds a number, if there is one.
    pub(super) fn count<const N: usize>(&mut self, key: &[u8; N], value: Option<u64>) {
        if let Some(value) = value {
            self.int(key, value);
        }
    }

    pub(super) fn bool<const N: usize>(&mut self, key: &[u8; N], value: bool) {
        self.begin_attribute(key, N - 2 + 3);
        self.bytes.extend_from_slice(&[2, BOOL, value.into()]);
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

    #[inline]
    fn begin_attribute<const N: usize>(&mut self, key: &[u8; N], whole: usize) {
        let mut key = *key;
        key[1] = whole as u8;
        self.bytes.extend_from_slice(&key);
    }

    fn name(&mut self, (first, second): (&str, &str)) {
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
