//! Counts the tokens of a response on its way: the time of the first token, the number of tokens,
//! and the usage that the backend reports.
//!
//! Nothing is parsed that need not be. Of the usage only the bytes behind its key are kept, and it
//! may be split over chunks in any way. Events are counted by their marks, for backends that report
//! no usage. An event without text is no token, unless it was cut before its text.

use std::sync::LazyLock;

use http::HeaderValue;
use memchr::memmem::Finder;

use crate::request::TokenUsage;

/// The bytes behind the key of the usage that are kept: its numbers stand there.
const USAGE_MAX: usize = 512;

const EVENT_MARK: &[u8] = b"data:";
const OLLAMA_PROMPT: &[u8] = b"\"prompt_eval_count\":";

static EVENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(EVENT_MARK));
static DELTA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"delta\""));
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));
/// The common end of Ollama's two keys.
static OLLAMA_COUNT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"eval_count\":"));

/// The longest key, less one: so many bytes at the end of a chunk may begin a key.
const SEAM: usize = OLLAMA_PROMPT.len() - 1;

/// How a response is divided into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFormat {
    /// Server-sent events, one token each.
    Events,
    /// One JSON object a line, one token each.
    Lines,
    /// One piece.
    Whole,
}

/// The counts of a response so far.
#[derive(Debug)]
pub(crate) struct TokenCounter {
    format: StreamFormat,
    tokens: u64,
    /// The end of the last chunk.
    seam: Seam,
    /// The bytes behind the last key of a usage, as far as they have come.
    usage: Vec<u8>,
    /// The most that earlier keys reported. A backend may repeat texts of the client after its own
    /// report, so a later key must not hide an earlier one.
    earlier: TokenUsage,
    wanted: bool,
    /// Whether Ollama's counts have begun: they come once, and the second begins no new usage.
    ollama: bool,
}

/// The last bytes of a chunk, with room for the first of the next one. It is no vector, because
/// every response has one.
#[derive(Clone, Copy, Debug)]
struct Seam {
    bytes: [u8; 2 * SEAM],
    length: usize,
}

// === impl StreamFormat ===

impl StreamFormat {
    pub(crate) fn of(content_type: Option<&HeaderValue>) -> Self {
        let name = content_type.map_or(&b""[..], HeaderValue::as_bytes);
        if name.starts_with(b"text/event-stream") {
            Self::Events
        } else if name.starts_with(b"application/x-ndjson") {
            Self::Lines
        } else {
            Self::Whole
        }
    }
}

// === impl TokenCounter ===

impl TokenCounter {
    pub(crate) fn new(format: StreamFormat) -> Self {
        let (seam, usage, earlier) = (Seam::default(), Vec::new(), TokenUsage::default());
        Self { format, tokens: 0, seam, usage, earlier, wanted: false, ollama: false }
    }

    /// Reads a chunk. Returns whether tokens came with it.
    pub(crate) fn read(&mut self, chunk: &[u8]) -> bool {
        self.read_usage(chunk);
        let tokens = match self.format {
            StreamFormat::Events => events(chunk).filter(|event| is_token(event)).count() as u64,
            StreamFormat::Lines => lines(chunk).filter(|line| !is_last_line(line)).count() as u64,
            StreamFormat::Whole => 0,
        };
        self.tokens += tokens;
        tokens > 0
    }

    /// Events with tokens so far.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The tokens that the backend reported, or as far as it reported none, those that were
    /// counted.
    pub(crate) fn usage(&self) -> TokenUsage {
        let reported = self.earlier.or_more(reported(&self.usage));
        if reported.output.is_some() || self.tokens == 0 {
            return reported;
        }
        TokenUsage { output: Some(self.tokens), counted: true, ..reported }
    }

    fn read_usage(&mut self, chunk: &[u8]) {
        self.keep(chunk);
        // First the key that the last chunk begins: Ollama's usage begins at the first of two keys.
        self.mend_seam(chunk);
        if let Some(at) = self.find_key(chunk, chunk.len()) {
            self.begin_usage(&[], &chunk[at..]);
        }
        self.seam.advance(chunk);
    }

    /// Where the last key of a usage begins, among those that begin before `end`.
    fn find_key(&mut self, bytes: &[u8], end: usize) -> Option<usize> {
        let mut openai = None;
        for at in USAGE.find_iter(bytes).take_while(|&at| at < end) {
            if let Some(before) = openai.replace(at) {
                let behind = &bytes[before..bytes.len().min(before + USAGE_MAX)];
                self.earlier = self.earlier.or_more(reported(behind));
            }
        }
        if self.format == StreamFormat::Events || self.ollama {
            return openai;
        }
        // Ollama's two counts come in either order; the usage begins at the first.
        let ollama = OLLAMA_COUNT.find_iter(bytes).find_map(|at| ollama_key(&bytes[..at]));
        let ollama = ollama.filter(|&at| at < end);
        self.ollama = ollama.is_some();
        openai.max(ollama)
    }

    /// Finds a key that begins in an earlier chunk.
    fn mend_seam(&mut self, chunk: &[u8]) {
        let Seam { mut bytes, length } = self.seam;
        if length == 0 {
            return;
        }
        let begun = &chunk[..chunk.len().min(SEAM)];
        let end = length + begun.len();
        bytes[length..end].copy_from_slice(begun);
        if let Some(at) = self.find_key(&bytes[..end], length) {
            self.begin_usage(&bytes[at..length], chunk);
        }
    }

    /// Notes the usage so far, and keeps these bytes of the next one.
    fn begin_usage(&mut self, seam: &[u8], chunk: &[u8]) {
        if !self.usage.is_empty() {
            self.earlier = self.earlier.or_more(reported(&self.usage));
            self.usage.clear();
        }
        self.usage.extend_from_slice(seam);
        self.wanted = true;
        self.keep(chunk);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.wanted {
            let room = USAGE_MAX - self.usage.len();
            self.usage.extend_from_slice(&bytes[..bytes.len().min(room)]);
            self.wanted = self.usage.len() < USAGE_MAX;
        }
    }
}

// === impl Seam ===

impl Default for Seam {
    fn default() -> Self {
        Self { bytes: [0; 2 * SEAM], length: 0 }
    }
}

impl Seam {
    /// Takes the end of the next chunk.
    fn advance(&mut self, chunk: &[u8]) {
        let end = &chunk[chunk.len().saturating_sub(SEAM)..];
        let kept = self.length.min(SEAM - end.len());
        self.bytes.copy_within(self.length - kept..self.length, 0);
        self.length = kept + end.len();
        self.bytes[kept..self.length].copy_from_slice(end);
    }
}

/// The numbers behind the key of a usage.
fn reported(usage: &[u8]) -> TokenUsage {
    let mut used = TokenUsage::default();
    let mut words = usage.split(|&byte| byte == b'"').skip(1);
    // Every other piece between quotes is a word, and what follows it up to the next its value.
    while let (Some(word), Some(value)) = (words.next(), words.next()) {
        let count = match word {
            b"prompt_tokens" | b"input_tokens" | b"prompt_eval_count" => &mut used.prompt,
            b"cached_tokens" => &mut used.cached,
            b"completion_tokens" | b"output_tokens" | b"eval_count" => &mut used.output,
            _ => continue,
        };
        *count = count.or_else(|| number(value));
    }
    used
}

/// Where the key begins whose end follows these bytes.
fn ollama_key(before: &[u8]) -> Option<usize> {
    let start = before.strip_suffix(b"prompt_").unwrap_or(before).strip_suffix(b"\"")?;
    Some(start.len())
}

/// The events of a chunk, each with what follows it up to the next. A mark within a text is none:
/// texts have no line breaks of their own.
fn events(chunk: &[u8]) -> impl Iterator<Item = &[u8]> {
    let begins = |&at: &usize| at == 0 || chunk[at - 1] == b'\n';
    let mut starts = EVENT.find_iter(chunk).filter(begins).peekable();
    std::iter::from_fn(move || {
        let start = starts.next()? + EVENT_MARK.len();
        Some(&chunk[start..starts.peek().copied().unwrap_or(chunk.len())])
    })
}

/// The lines that end in a chunk, as far as they stand in it.
fn lines(chunk: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', chunk).map(move |end| {
        let line = &chunk[start..end];
        start = end + 1;
        line
    })
}

/// Whether a line of Ollama's is the one that tells the end.
fn is_last_line(line: &[u8]) -> bool {
    has(line, b"\"done\":true") || has(line, b"\"done\": true")
}

/// Whether an event has text.
fn is_token(event: &[u8]) -> bool {
    if let Some(at) = DELTA.find(event) {
        return says_something(&event[at..]);
    }
    let empty = |spaced: &[u8], dense: &[u8]| has(event, dense) || has(event, spaced);
    !(event.trim_ascii_start().starts_with(b"[DONE]")
        || empty(b"\"choices\": []", b"\"choices\":[]")
        || empty(b"\"text\": \"\"", b"\"text\":\"\""))
}

/// Whether a delta has any text but that of its role: the greeting and the end have none. The first
/// text that is not empty decides, so no escapes need be read.
fn says_something(delta: &[u8]) -> bool {
    let mut pieces = delta.split(|&byte| byte == b'"').skip(1);
    let (mut key, mut depth) = (&b""[..], 0_usize);
    loop {
        // A text that is cut off may go on.
        let (Some(word), Some(between)) = (pieces.next(), pieces.next()) else { return true };
        if key.is_empty() {
            // A name; its value may be a text, which comes next.
            key = if between.trim_ascii() == b":" { word } else { b"" };
        } else if word.is_empty() || key == b"role" {
            key = b"";
        } else {
            return true;
        }
        for byte in between {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth <= 1 => return false,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
        }
    }
}

fn has(bytes: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(bytes, needle).is_some()
}

/// The number that stands behind a key's colon.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let length = digits.iter().take(18).take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
