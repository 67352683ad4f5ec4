//! Reads the usage of a response where its API has it, and nowhere else.
//!
//! An engine repeats what its client sent: tools, metadata, a text. What looks like a usage there
//! is the client's, so a key counts by its place in the JSON alone: `usage` or LM Studio's `stats`
//! at the top or in the `response`, `message` or `result` of an event, Ollama's counts at the top.
//! The scanner follows the nesting in one pass over bytes that may be cut anywhere; it builds no
//! tree and remembers at most one key. A key with escapes is none: no engine writes its own so.

use memchr::memchr2;

use super::reported::{Count, Reported};
use crate::short_text;

/// The longest key that matters.
const KEY_MAX: usize = 27;
/// Bytes of a value without meaning that are searched at a time.
const BLOCK: usize = 32;
/// So much before the next text is read byte by byte.
const DENSE: usize = 4;

/// The scanner and its position.
#[derive(Debug)]
pub(super) struct UsageScanner {
    /// Whether the JSON is that of events, some of which have their usage in an object.
    events: bool,
    level: Level,
    /// How many objects and arrays without meaning are open in that place.
    skipped: u64,
    text: Text,
    /// The bytes of the text that is being read.
    length: u64,
    /// The last text in a place with a meaning.
    word: Word,
    /// The key whose value comes next.
    field: Field,
    number: Option<u64>,
    reported: Reported,
    /// The bytes of all texts, without names and without those of the envelope.
    text_bytes: u64,
}

/// The innermost object that has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Outside,
    Top,
    /// The `response`, the `message` or the `result` of an event.
    Nested,
    Usage(Outer),
    Details(Outer),
}

/// What a usage stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outer {
    Top,
    Nested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

/// A text, as far as it may be a key.
#[derive(Clone, Copy, Debug)]
struct Word {
    bytes: [u8; KEY_MAX],
    /// More than there is room for if it is no key that matters.
    length: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    None,
    Usage,
    /// An object that may have a usage; in Ollama's lines a text of the response.
    Container,
    Details,
    Count(Count),
}

// === impl UsageScanner ===

impl UsageScanner {
    /// A scanner of one piece of JSON, or of events that each are one.
    pub(super) fn new(events: bool) -> Self {
        Self {
            events,
            level: Level::Outside,
            skipped: 0,
            text: Text::Outside,
            length: 0,
            word: Word::EMPTY,
            field: Field::None,
            number: None,
            reported: Reported::default(),
            text_bytes: 0,
        }
    }

    /// The next bytes belong to another piece of JSON. What was reported stays.
    pub(super) fn begin(&mut self) {
        let (reported, text_bytes) = (self.reported, self.text_bytes);
        *self = Self { reported, text_bytes, ..Self::new(self.events) };
    }

    /// Reads the next bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while let Some(&first) = bytes.first() {
            let read = match self.text {
                Text::Inside => self.read_text(bytes),
                Text::Escaped => {
                    self.text = Text::Inside;
                    self.length += 1;
                    1
                }
                Text::Outside if self.skipped > 0 => self.skip(bytes),
                Text::Outside if first == b'"' => self.read_whole_text(bytes),
                Text::Outside if matches!(self.field, Field::Count(_)) || is_structure(first) => {
                    self.read_structure(first);
                    1
                }
                Text::Outside => {
                    bytes.iter().position(|&byte| is_structure(byte)).unwrap_or(bytes.len())
                }
            };
            bytes = &bytes[read..];
        }
    }

    /// Reads JSON that is whole from a key at `usage` on. `None` unless that key stands at the top,
    /// where the last brace alone closes what is open behind it, and tells the output.
    pub(super) fn from_key(json: &[u8], usage: usize) -> Option<Self> {
        let (before, rest) = json.split_at(usage);
        if before.ends_with(b"\\") {
            return None;
        }
        let mut scanner = Self { level: Level::Top, ..Self::new(false) };
        scanner.read(rest.trim_ascii_end().strip_suffix(b"}")?);
        let is_at_top = scanner.level == Level::Top && scanner.skipped == 0;
        let tells = scanner.text == Text::Outside && scanner.reported.output() > Some(0);
        (is_at_top && tells).then_some(scanner)
    }

    pub(super) fn reported(&self) -> &Reported {
        &self.reported
    }

    pub(super) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Reads a text that ends in these bytes without a copy of it, or begins to read another one.
    /// Returns the number of bytes read.
    fn read_whole_text(&mut self, bytes: &[u8]) -> usize {
        self.end_number(b'"');
        self.word.clear();
        let text = &bytes[1..];
        let Some((length, is_name)) = whole_text(text) else {
            self.begin_text();
            return 1;
        };
        if is_name {
            let is_key = self.field == Field::None;
            self.field = if is_key { self.field_of(&text[..length]) } else { Field::None };
            return length + 3;
        }
        if self.field == Field::Container {
            self.text_bytes += length as u64;
        }
        length + 2
    }

    /// Reads a text up to its end or to an escape. Returns the number of bytes read.
    fn read_text(&mut self, bytes: &[u8]) -> usize {
        let end = text_end(bytes);
        self.length += end as u64;
        if self.skipped == 0 && self.field == Field::None {
            self.word.extend(&bytes[..end]);
        }
        match bytes.get(end) {
            Some(b'"') => {
                self.text = Text::Outside;
                let is_name = bytes.get(end + 1) == Some(&b':');
                if !is_name && (self.skipped > 0 || self.field == Field::Container) {
                    self.text_bytes += self.length;
                }
            }
            Some(_) => {
                self.text = Text::Escaped;
                self.word.spoil();
            }
            None => return end,
        }
        end + 1
    }

    /// Passes over a value without meaning, as far as it goes. Returns the number of bytes read.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while self.skipped > 0 {
            at += text_or_bracket(&bytes[at..]);
            let Some(&byte) = bytes.get(at) else { break };
            at += 1;
            match byte {
                b'{' | b'[' => self.skipped += 1,
                b'}' | b']' => self.skipped -= 1,
                _ => match whole_text(&bytes[at..]) {
                    Some((length, true)) => at += length + 2,
                    Some((length, false)) => {
                        self.text_bytes += length as u64;
                        at += length + 1;
                    }
                    None => {
                        self.begin_text();
                        break;
                    }
                },
            }
        }
        at
    }

    fn begin_text(&mut self) {
        (self.text, self.length) = (Text::Inside, 0);
    }

    /// Reads a byte outside of texts, in a place with a meaning.
    fn read_structure(&mut self, byte: u8) {
        if let (Field::Count(_), b'0'..=b'9') = (self.field, byte) {
            let digit = u64::from(byte - b'0');
            let number = self.number.unwrap_or(0).saturating_mul(10).saturating_add(digit);
            self.number = Some(number);
            return;
        }
        self.end_number(byte);
        match byte {
            b':' => self.field = self.word.get().map_or(Field::None, |word| self.field_of(word)),
            b'{' => self.open(),
            b'[' => {
                self.skipped = 1;
                self.field = Field::None;
            }
            b'}' => self.close(),
            b',' => self.field = Field::None,
            _ => {}
        }
    }

    /// A byte that is no digit ends a number. What it ends may be no count: -1, 1.5 or 1e9.
    fn end_number(&mut self, byte: u8) {
        let Field::Count(count) = self.field else { return };
        match self.number.take() {
            Some(number) if matches!(byte, b',' | b'}' | b' ' | b'\n' | b'\r' | b'\t') => {
                self.reported.note(count, number);
                self.field = Field::None;
            }
            Some(_) => self.field = Field::None,
            None if byte == b'-' => self.field = Field::None,
            None => {}
        }
    }

    fn open(&mut self) {
        let inside = match (self.level, self.field) {
            (Level::Outside, _) => Some(Level::Top),
            (Level::Top, Field::Usage) => Some(Level::Usage(Outer::Top)),
            (Level::Nested, Field::Usage) => Some(Level::Usage(Outer::Nested)),
            (Level::Top, Field::Container) if self.events => Some(Level::Nested),
            (Level::Usage(outer), Field::Details) => Some(Level::Details(outer)),
            _ => None,
        };
        match inside {
            Some(level) => self.level = level,
            None => self.skipped = 1,
        }
        self.field = Field::None;
    }

    fn close(&mut self) {
        self.level = match self.level {
            Level::Outside | Level::Top => Level::Outside,
            Level::Nested | Level::Usage(Outer::Top) => Level::Top,
            Level::Usage(Outer::Nested) => Level::Nested,
            Level::Details(outer) => Level::Usage(outer),
        };
        self.field = Field::None;
    }

    fn field_of(&self, word: &[u8]) -> Field {
        match (self.level, word) {
            (Level::Top | Level::Nested, b"usage" | b"stats") => Field::Usage,
            (Level::Top, b"response" | b"message" | b"result" | b"thinking") => Field::Container,
            (Level::Top, b"prompt_eval_count") => Field::Count(Count::Prompt),
            (Level::Top, b"eval_count") => Field::Count(Count::Output),
            (Level::Usage(_), word) => Field::in_usage(word),
            (Level::Details(_), b"cached_tokens") => Field::Count(Count::Cached),
            _ => Field::None,
        }
    }
}

// === impl Field ===

impl Field {
    fn in_usage(word: &[u8]) -> Self {
        Self::Count(match word {
            b"prompt_tokens" | b"input_tokens" => Count::Prompt,
            b"completion_tokens" | b"output_tokens" | b"total_output_tokens" => Count::Output,
            b"cached_tokens" => Count::Cached,
            b"cache_read_input_tokens" => Count::ReadFromCache,
            b"cache_creation_input_tokens" => Count::WrittenToCache,
            b"prompt_tokens_details" | b"input_tokens_details" => return Self::Details,
            _ => return Self::None,
        })
    }
}

// === impl Word ===

impl Word {
    const EMPTY: Self = Self { bytes: [0; KEY_MAX], length: 0 };

    fn extend(&mut self, bytes: &[u8]) {
        let end = self.length.saturating_add(bytes.len());
        match self.bytes.get_mut(self.length..end) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.length = end;
            }
            None => self.spoil(),
        }
    }

    fn clear(&mut self) {
        self.length = 0;
    }

    /// It is no key that matters.
    fn spoil(&mut self) {
        self.length = usize::MAX;
    }

    fn get(&self) -> Option<&[u8]> {
        self.bytes.get(..self.length)
    }
}

/// The length of a text that ends in these bytes, and whether it is a name.
fn whole_text(text: &[u8]) -> Option<(usize, bool)> {
    let end = text_end(text);
    match text[end..] {
        [b'"', b':', ..] => Some((end, true)),
        [b'"', b',' | b'}' | b']', ..] => Some((end, false)),
        _ => None,
    }
}

/// Where a text ends or has an escape; the length of the bytes if it does neither in them.
fn text_end(bytes: &[u8]) -> usize {
    let near = short_text::find(bytes, short_text::ends);
    near.or_else(|| memchr2(b'"', b'\\', bytes)).unwrap_or(bytes.len())
}

/// Whether a byte outside of texts means more than a part of a number or a word.
fn is_structure(byte: u8) -> bool {
    STRUCTURE[usize::from(byte)]
}

/// By byte: a table takes fewer instructions than seven comparisons.
const STRUCTURE: [bool; 256] = {
    let mut table = [false; 256];
    let (structure, mut at) = (b"\":,{}[]", 0);
    while at < structure.len() {
        table[structure[at] as usize] = true;
        at += 1;
    }
    table
};

/// Where the first byte is that begins a text or that opens or closes an object or an array; the
/// length of the bytes if there is none.
fn text_or_bracket(bytes: &[u8]) -> usize {
    // A bracket and its brace differ by one bit.
    let is_one = |byte: u8| byte == b'"' || matches!(byte | 0x20, b'{' | b'}');
    let start = &bytes[..bytes.len().min(DENSE)];
    if let Some(at) = start.iter().position(|&byte| is_one(byte)) {
        return at;
    }
    // The compiler vectorises a fold, but not a search.
    let is_plain = |block: &&[u8]| !block.iter().fold(false, |any, &byte| any | is_one(byte));
    let plain = bytes.chunks_exact(BLOCK).take_while(is_plain).count() * BLOCK;
    let rest = &bytes[plain..];
    plain + rest.iter().position(|&byte| is_one(byte)).unwrap_or(rest.len())
}
