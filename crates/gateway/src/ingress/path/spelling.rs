//! The one form of a path, by which locks know it.
//!
//! Servers read a path differently: some decode it before they look at it, some several times; some
//! ignore case, a slash at its end, or what follows an encoded `?`. So a path is brought into one
//! form, and a path that is a known one in that form, but is written otherwise, is refused. What is
//! left means the same to all servers, and is compared as it stands.

use std::borrow::Cow;

use super::operation::{OBJECTS, known};
use crate::ingress::body_key::folded_letter;
use crate::reply::Fault;

/// A path that can be decoded more often is refused.
const DECODINGS_MAX: usize = 4;

/// Checks that all servers read a path alike.
pub(crate) fn check(path: &str) -> Result<(), Fault> {
    if is_plain(path) {
        return Ok(());
    }
    let form = one_form(path).ok_or_else(ambiguous)?;
    let whole = form.trim_end_matches('/');
    let exact = known().find(|known| whole.ends_with(known) && !path.ends_with(known));
    let object = || OBJECTS.into_iter().find(|known| form.contains(known) && !path.contains(known));
    exact.or_else(object).map_or(Ok(()), |known| Err(spelled(known)))
}

/// Whether a path is in its one form at first sight, as most are.
fn is_plain(path: &str) -> bool {
    known().any(|known| known == path) || has_plain_letters(path)
}

fn has_plain_letters(path: &str) -> bool {
    let mut before = 0;
    let mut plain = |letter: u8| {
        let is_slash = letter == b'/' && before != b'/';
        before = letter;
        is_slash || matches!(letter, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')
    };
    path.bytes().all(&mut plain) && before != b'/'
}

fn ambiguous() -> Fault {
    let text = "The path has empty segments, dot segments, parameters or letters that need no \
                encoding: send it without them.";
    Fault::InvalidRequest(text.into())
}

fn spelled(known: &str) -> Fault {
    Fault::InvalidRequest(format!(
        "The path is another spelling of '{known}', which servers read differently: write it so."
    ))
}

/// The form of a path; `None` if it has empty or dot segments, path parameters or encoded letters,
/// also for a server that decodes it several times or treats a backslash as a slash.
fn one_form(path: &str) -> Option<String> {
    let mut text = Cow::Borrowed(path.as_bytes());
    for _ in 0..DECODINGS_MAX {
        if !has_plain_segments(&text) || has_encoded_words(&text) {
            return None;
        }
        let wanted = |letter| matches!(letter, b'.' | b'/' | b'\\' | b';' | b'%');
        let next = decoded(&text, wanted);
        if next == *text {
            return Some(folded(&decoded(&text, |_| true)));
        }
        text = Cow::Owned(next);
    }
    None
}

/// A decoded path without what some servers leave out: case, the kind of a slash, and what follows
/// a query's mark, a fragment's or a zero byte.
fn folded(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let end = text.find(['?', '#', '\0']).unwrap_or(text.len());
    let slashed = |letter| if letter == '\\' { '/' } else { folded_letter(letter) };
    let is_space = |letter: char| letter.is_whitespace() || letter.is_control();
    text[..end].trim_end_matches(is_space).chars().map(slashed).collect()
}

fn has_plain_segments(path: &[u8]) -> bool {
    let mut segments = path.split(|letter| matches!(letter, b'/' | b'\\')).skip(1).peekable();
    while let Some(segment) = segments.next() {
        let empty = segment.is_empty() && segments.peek().is_some();
        if empty || segment.contains(&b';') || matches!(segment, b"." | b"..") {
            return false;
        }
    }
    true
}

/// Decodes all percent-encoded bytes.
pub(crate) fn percent_decoded(text: &str) -> Vec<u8> {
    decoded(text.as_bytes(), |_| true)
}

/// The decoded text; `None` if it is not UTF-8.
pub(super) fn decoded_text(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    String::from_utf8(percent_decoded(text)).ok().map(Cow::Owned)
}

/// Whether bytes are encoded that no client has to encode. A server decodes them, so the path of an
/// operation could look like another one.
fn has_encoded_words(path: &[u8]) -> bool {
    let is_word = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'-');
    decoded(path, is_word) != path
}

/// Decodes the percent-encoded bytes for which `wanted` is true.
fn decoded(text: &[u8], wanted: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&letter, after)) = rest.split_first() {
        let code = after.first_chunk::<2>().filter(|_| letter == b'%');
        match code.and_then(hex).filter(|&letter| wanted(letter)) {
            Some(letter) => {
                plain.push(letter);
                rest = &after[2..];
            }
            None => {
                plain.push(letter);
                rest = after;
            }
        }
    }
    plain
}

fn hex(code: &[u8; 2]) -> Option<u8> {
    let digit = |letter: u8| char::from(letter).to_digit(16);
    u8::try_from(digit(code[0])? * 16 + digit(code[1])?).ok()
}
