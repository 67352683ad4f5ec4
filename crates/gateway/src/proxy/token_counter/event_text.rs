//! Whether an event of a stream has text, and how much.
//!
//! Each event of each stream is looked at, so nothing is parsed that need not be.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};

static DELTA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"delta\""));
static CHOICES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"choices\""));
static TEXT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"text\""));

/// The keys of a delta whose texts say nothing: the greeting and the end have none but these.
const ENVELOPE: [&[u8]; 3] = [b"role", b"type", b"stop_reason"];

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Nothing: it is a greeting, an end or a report.
    Nothing,
    /// An event of an unknown kind.
    Other,
    /// A text of this many bytes.
    Text(u64),
}

/// What an event says, by its JSON or as much of it as has come.
pub(super) fn said(event: &[u8]) -> Said {
    if let Some(at) = DELTA.find(event) {
        return first_text(&event[at..]);
    }
    let Some(at) = CHOICES.find(event) else {
        let is_end = event.is_empty() || event.starts_with(b"[DONE]");
        return if is_end { Said::Nothing } else { Said::Other };
    };
    let choices = &event[at..];
    match TEXT.find(choices) {
        Some(at) => first_text(&choices[at..]),
        None if is_empty_list(&choices[b"\"choices\"".len()..]) => Said::Nothing,
        None => Said::Other,
    }
}

fn is_empty_list(value: &[u8]) -> bool {
    let list = value.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
    let inside = list.and_then(|list| list.strip_prefix(b"["));
    inside.is_some_and(|inside| inside.trim_ascii_start().starts_with(b"]"))
}

/// The first text in the value of the key that these bytes begin with, but for those of the
/// envelope. The first that is not empty decides. A text that is cut off may go on.
fn first_text(mut rest: &[u8]) -> Said {
    let (mut key, mut depth) = (&b""[..], 0_usize);
    loop {
        rest = &rest[1..];
        let Some(length) = text_length(rest) else { return Said::Text(rest.len() as u64) };
        let (word, after) = (&rest[..length], &rest[length + 1..]);
        let next = memchr(b'"', after);
        let between = &after[..next.unwrap_or(after.len())];
        if key.is_empty() {
            // A name; its value may be a text, which comes next.
            key = if between.trim_ascii() == b":" { word } else { b"" };
        } else if word.is_empty() || ENVELOPE.contains(&key) {
            key = b"";
        } else {
            return Said::Text(length as u64);
        }
        for byte in between {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth <= 1 => return Said::Nothing,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
        }
        match next {
            // A value that is no object has ended.
            Some(_) if depth == 0 && key.is_empty() => return Said::Nothing,
            Some(next) => rest = &after[next..],
            None => return Said::Text(0),
        }
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
