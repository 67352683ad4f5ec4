//! What an event of a stream says: all of its texts, of each choice, and nothing beside them.
//!
//! Each event of each stream is looked at, so nothing is parsed that need not be: a search finds
//! the keys under which an API has text, and only their values are walked. An engine writes a quote
//! in a text with a backslash, so no text of a client looks like a key.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};

static DELTA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"delta\""));
static CHOICES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"choices\""));
static TEXT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"text\""));
static MESSAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"message\""));
static CONTENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"content\""));
static RESPONSE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"response\""));
/// The end of the kinds of LM Studio's events that have a text.
static PIECE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b".delta\""));
static ROLE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"role\""));
/// The common end of the keys that tell why a response ended.
static REASON: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"_reason\""));
static THINKING: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"thinking\""));

/// The keys whose texts no model writes.
const ENVELOPE: [&[u8]; 6] =
    [b"role", b"type", b"stop_reason", b"stop_sequence", b"id", b"signature"];

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing: it is an end or a report.
    Nothing,
    /// Who speaks, and no text.
    Greeting,
    /// An event of an unknown kind, or of a token without text: an engine sends those it skips.
    Other,
    /// Texts of so many choices, with the sum of their bytes.
    Texts { choices: u64, bytes: u64 },
}

/// The rest of a value, up to its end.
struct Walk<'a> {
    rest: &'a [u8],
    depth: usize,
    /// The name whose value comes next, if it may be a text.
    key: &'a [u8],
    bytes: u64,
}

/// How far a walk has come.
enum Step {
    /// To the quote that begins a text.
    Quote,
    /// To the end of the value.
    End,
    /// To the end of what has come.
    Cut,
}

/// What an event says, by its JSON or as much of it as has come.
pub(super) fn said(event: &[u8]) -> Said {
    if let Some(said) = said_under(&DELTA, event) {
        return if said == Said::Nothing { said_without_text(event) } else { said };
    }
    let Some(at) = CHOICES.find(event) else {
        let is_end = event.is_empty() || event.starts_with(b"[DONE]");
        return if is_end { Said::Nothing } else { said_in_piece(event) };
    };
    let choices = &event[at..];
    match said_under(&TEXT, choices) {
        Some(said @ Said::Texts { .. }) => said,
        Some(_) => said_without_text(event),
        None if is_empty_list(&choices[CHOICES.needle().len()..]) => Said::Nothing,
        None => Said::Other,
    }
}

/// What an event of LM Studio's says, or one of an unknown kind.
fn said_in_piece(event: &[u8]) -> Said {
    let said = PIECE.find(event).and_then(|_| said_under(&CONTENT, event));
    said.filter(|said| *said != Said::Nothing).unwrap_or(Said::Other)
}

/// What an event says whose texts are empty.
fn said_without_text(event: &[u8]) -> Said {
    let has_text = |key: &Finder<'_>| {
        key.find_iter(event).any(|at| {
            let value = event[at + key.needle().len()..].trim_ascii_start().strip_prefix(b":");
            let text = value.and_then(|value| value.trim_ascii_start().strip_prefix(b"\""));
            text.is_some_and(|text| !text.starts_with(b"\""))
        })
    };
    match has_text(&REASON) {
        true => Said::Nothing,
        false if has_text(&ROLE) => Said::Greeting,
        false => Said::Other,
    }
}

/// What a line of Ollama's says.
pub(super) fn said_in_line(line: &[u8]) -> Said {
    let said = said_under(&MESSAGE, line).or_else(|| {
        let beside = said_under(&THINKING, line).unwrap_or(Said::Nothing);
        said_under(&RESPONSE, line).map(|said| said.beside(beside))
    });
    match said {
        Some(said @ Said::Texts { .. }) => said,
        _ if is_last_line(line) => Said::Nothing,
        _ => Said::Other,
    }
}

/// Whether a line of Ollama's is the one that tells the end.
fn is_last_line(line: &[u8]) -> bool {
    let has = |needle| memchr::memmem::find(line, needle).is_some();
    has(b"\"done\":true") || has(b"\"done\": true")
}

fn is_empty_list(value: &[u8]) -> bool {
    let list = value.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
    let inside = list.and_then(|list| list.strip_prefix(b"["));
    inside.is_some_and(|inside| inside.trim_ascii_start().starts_with(b"]"))
}

/// The texts in the values of a key, wherever it stands; `None` without the key. A value that is
/// cut off may go on with a text.
fn said_under(key: &Finder<'_>, json: &[u8]) -> Option<Said> {
    let (mut rest, mut said) = (json, None);
    while let Some(at) = key.find(rest) {
        rest = &rest[at + key.needle().len()..];
        let Some(value) = rest.trim_ascii_start().strip_prefix(b":") else { continue };
        let mut walk = Walk { rest: value, depth: 0, key: b"", bytes: 0 };
        let is_whole = walk.run();
        let own = match walk.bytes {
            0 if is_whole => Said::Nothing,
            bytes => Said::Texts { choices: 1, bytes },
        };
        said = Some(own.beside(said.unwrap_or(Said::Nothing)));
        rest = walk.rest;
    }
    said
}

// === impl Said ===

impl Said {
    /// The texts of both.
    fn beside(self, other: Self) -> Self {
        match (self, other) {
            (Self::Texts { choices, bytes }, Self::Texts { choices: more, bytes: longer }) => {
                Self::Texts { choices: choices + more, bytes: bytes + longer }
            }
            (Self::Texts { .. }, _) => self,
            _ => other,
        }
    }
}

// === impl Walk ===

impl Walk<'_> {
    /// Walks to the end of the value. Returns whether it has come.
    fn run(&mut self) -> bool {
        loop {
            match self.step() {
                Step::Quote => {}
                Step::End => return true,
                Step::Cut => return false,
            }
            let Some(length) = text_length(self.rest) else {
                self.bytes += self.rest.len() as u64;
                self.rest = b"";
                return false;
            };
            let (word, after) = (&self.rest[..length], &self.rest[length + 1..]);
            self.rest = after;
            if self.depth > 0 && after.trim_ascii_start().starts_with(b":") {
                self.key = word;
                continue;
            }
            if !ENVELOPE.contains(&self.key) {
                self.bytes += length as u64;
            }
            self.key = b"";
            if self.depth == 0 {
                return true;
            }
        }
    }

    /// Passes over what is no text.
    fn step(&mut self) -> Step {
        let next = memchr(b'"', self.rest);
        let between = &self.rest[..next.unwrap_or(self.rest.len())];
        for (at, byte) in between.iter().enumerate() {
            match byte {
                b'{' | b'[' => self.depth += 1,
                // A value that is neither a text nor an object has ended.
                b'}' | b']' | b',' if self.depth == 0 => return self.end(at),
                b'}' | b']' if self.depth == 1 => return self.end(at),
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
        }
        self.rest = &self.rest[next.map_or(self.rest.len(), |next| next + 1)..];
        if next.is_some() { Step::Quote } else { Step::Cut }
    }

    fn end(&mut self, at: usize) -> Step {
        self.rest = &self.rest[at..];
        Step::End
    }
}

/// The length of a text up to the quote that ends it.
fn text_length(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}
