//! What a passing answer tells of itself: when its first token came, how many, and what was used.
//!
//! Nothing is parsed that need not be. Events are counted by their marks, and of the usage only the
//! bytes behind its key are kept; both may be split over chunks in any way.

use std::sync::LazyLock;

use http::HeaderValue;
use memchr::memmem::Finder;

/// How many bytes behind the key of the usage are kept: its numbers stand there.
const USAGE_MAX: usize = 512;

static EVENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"data:"));
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));
static OLLAMA_USAGE: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(b"\"prompt_eval_count\""));

/// The longest key that is looked for, less one: so much of a chunk's end may begin one.
const SEAM: usize = b"\"prompt_eval_count\"".len() - 1;

/// How an answer is cut into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Server-sent events, one token each.
    Events,
    /// One JSON object a line, one token each.
    Lines,
    /// One piece.
    Whole,
}

/// What was read of an answer so far.
#[derive(Debug)]
pub(super) struct Meter {
    shape: Shape,
    tokens: u64,
    started: bool,
    /// The end of the last chunk.
    seam: Vec<u8>,
    /// What stands behind the last key of a usage, as far as it has come.
    usage: Vec<u8>,
    wanted: bool,
}

/// Tokens as the backend counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) prompt: Option<u64>,
    pub(crate) output: Option<u64>,
}

// === impl Shape ===

impl Shape {
    pub(super) fn of(content_type: Option<&HeaderValue>) -> Self {
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

// === impl Meter ===

impl Meter {
    pub(super) fn new(shape: Shape) -> Self {
        let (seam, usage) = (Vec::new(), Vec::new());
        Self { shape, tokens: 0, started: false, seam, usage, wanted: false }
    }

    /// Reads a chunk. Says whether tokens came with it.
    pub(super) fn read(&mut self, chunk: &[u8]) -> bool {
        self.read_usage(chunk);
        let events = match self.shape {
            Shape::Events => EVENT.find_iter(chunk).count() as u64,
            Shape::Lines => memchr::memchr_iter(b'\n', chunk).count() as u64,
            Shape::Whole => return false,
        };
        if events == 0 || (!self.started && events == 1 && is_greeting(chunk)) {
            return false;
        }
        self.started = true;
        self.tokens += events;
        true
    }

    /// Events with tokens so far.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// What the backend says was used, if it has said so by now.
    pub(super) fn used(&self) -> Tokens {
        let mut used = Tokens::default();
        let mut words = self.usage.split(|&byte| byte == b'"').skip(1);
        // Every other piece between quotes is a word, and what follows it up to the next its value.
        while let (Some(word), Some(value)) = (words.next(), words.next()) {
            let count = match word {
                b"prompt_tokens" | b"input_tokens" | b"prompt_eval_count" => &mut used.prompt,
                b"completion_tokens" | b"output_tokens" | b"eval_count" => &mut used.output,
                _ => continue,
            };
            *count = count.or_else(|| number(value));
        }
        used
    }

    fn read_usage(&mut self, chunk: &[u8]) {
        if let Some(at) = last_key(chunk) {
            self.usage.clear();
            self.wanted = true;
            self.keep(&chunk[at..]);
        } else {
            self.keep(chunk);
            self.mend_seam(chunk);
        }
        let end = &chunk[chunk.len().saturating_sub(SEAM)..];
        self.seam.drain(..self.seam.len().saturating_sub(SEAM - end.len()));
        self.seam.extend_from_slice(end);
    }

    /// Finds a key that begins in an earlier chunk.
    fn mend_seam(&mut self, chunk: &[u8]) {
        if self.seam.is_empty() {
            return;
        }
        let before = self.seam.len();
        self.seam.extend_from_slice(&chunk[..chunk.len().min(SEAM)]);
        if let Some(at) = last_key(&self.seam).filter(|&at| at < before) {
            self.usage.clear();
            self.usage.extend_from_slice(&self.seam[at..before]);
            self.wanted = true;
            self.keep(chunk);
        }
        self.seam.truncate(before);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.wanted {
            let room = USAGE_MAX - self.usage.len();
            self.usage.extend_from_slice(&bytes[..bytes.len().min(room)]);
            self.wanted = self.usage.len() < USAGE_MAX;
        }
    }
}

/// Where the last key of a usage begins.
fn last_key(bytes: &[u8]) -> Option<usize> {
    let openai = USAGE.find_iter(bytes).last();
    openai.max(OLLAMA_USAGE.find(bytes))
}

/// Whether an event only says who speaks: some servers send it before the first token.
fn is_greeting(chunk: &[u8]) -> bool {
    let has = |needle: &[u8]| memchr::memmem::find(chunk, needle).is_some();
    let empty =
        || has(b"\"content\":\"\"") || has(b"\"content\":null") || has(b"\"content\": \"\"");
    has(b"\"role\"") && (empty() || !has(b"\"content\""))
}

/// The number that stands behind a key's colon.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let length = digits.iter().take(18).take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
