//! Counts the tokens of a response on its way: the time of the first token, the number of tokens,
//! and the usage that the backend reports.
//!
//! Usage counts only where its API has it (`usage_scanner`): an engine repeats texts of the client,
//! who must not be able to write what it is charged with. Of a stream only the lines that may have
//! a usage are scanned. A line that is cut by the end of a chunk waits for its rest, as far as
//! [`HELD_MAX`] goes; a longer one is scanned as it comes. Events are counted for backends that
//! report no usage, and because a report cannot be below what passed (`event_text`).

mod event_text;
mod reported;
mod usage_scanner;

use std::sync::LazyLock;

use http::HeaderValue;
use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter, memrchr};

use self::event_text::{Said, said, said_in_line};
use self::usage_scanner::UsageScanner;
use crate::request::{TokenUsage, Told};
use crate::upstream::{LINE, inner_error};

/// The most bytes of a line that wait for its end.
const HELD_MAX: usize = 16 << 10;
/// The bytes of text that count as a token where no tokens are known.
const BYTES_PER_TOKEN: u64 = 4;
/// An engine may send its tokens in groups. Events count by their text if it is that of so many
/// tokens for each of them.
const GROUPED: u64 = 2;

/// A stream greets once for each choice, of which APIs allow so many.
const GREETINGS_MAX: u64 = 128;

static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));
/// LM Studio's key, in its last event.
static STATS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"stats\""));
/// The common end of Ollama's two keys.
static OLLAMA_COUNT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"eval_count\""));

/// How a response is divided into tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFormat {
    /// Server-sent events, one token each.
    Events,
    /// One JSON object a line, one token each.
    Lines,
    /// One piece of JSON.
    Whole,
    /// Plain text, such as a transcription.
    Text,
    /// A page of HTML, which answers nothing.
    Page,
    /// Compressed: nothing of it can be read.
    Encoded,
    /// Something else, such as audio.
    Opaque,
}

/// The counts of a response so far.
#[derive(Debug)]
pub(crate) struct TokenCounter {
    format: StreamFormat,
    /// Events, but for those that say nothing; one with texts of several choices counts as many.
    tokens: u64,
    /// Those of them with text.
    with_text: u64,
    greetings: u64,
    /// The bytes of the texts, or of a response in plain text or compressed.
    bytes: u64,
    /// The beginning of a line that was cut by the end of a chunk.
    held: Vec<u8>,
    rest: LineRest,
    /// The bytes behind those that are held, where the scanner reads them.
    rest_bytes: u64,
    scanner: UsageScanner,
    /// What it says: the last event of a stream that says something, or the first chunk otherwise.
    told: Told,
}

/// What happens to the bytes of a cut line behind those that are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineRest {
    /// None has come.
    None,
    /// The scanner reads them as they come.
    Scanned,
    /// The line has no JSON.
    Ignored,
}

// === impl StreamFormat ===

impl StreamFormat {
    pub(crate) fn of(content_type: Option<&HeaderValue>) -> Self {
        let Some(name) = content_type.map(HeaderValue::as_bytes) else { return Self::Whole };
        let is =
            |kind: &[u8]| name.get(..kind.len()).is_some_and(|at| at.eq_ignore_ascii_case(kind));
        let is_like_json = || name.windows(4).any(|word| word.eq_ignore_ascii_case(b"json"));
        if is(b"text/event-stream") {
            Self::Events
        } else if is(b"application/x-ndjson") {
            Self::Lines
        } else if is(b"application/json") || is_like_json() {
            Self::Whole
        } else if is(b"text/html") {
            Self::Page
        } else if is(b"text/") {
            Self::Text
        } else {
            Self::Opaque
        }
    }

    /// The same of a body that may be compressed.
    pub(crate) fn encoded(self, is_encoded: bool) -> Self {
        if is_encoded { Self::Encoded } else { self }
    }

    /// What a line of a stream has that reports a usage.
    fn report_key(self) -> &'static Finder<'static> {
        if self == Self::Lines { &OLLAMA_COUNT } else { &USAGE }
    }
}

// === impl TokenCounter ===

impl TokenCounter {
    pub(crate) fn new(format: StreamFormat) -> Self {
        let scanner = UsageScanner::new(format == StreamFormat::Events);
        let (tokens, with_text, greetings, bytes) = (0, 0, 0, 0);
        let (held, rest, rest_bytes) = (Vec::new(), LineRest::None, 0);
        let told = Told::Nothing;
        Self { format, tokens, with_text, greetings, bytes, held, rest, rest_bytes, scanner, told }
    }

    /// Reads a chunk. Returns whether tokens came with it.
    pub(crate) fn read(&mut self, chunk: &[u8]) -> bool {
        let before = self.tokens;
        match self.format {
            StreamFormat::Events | StreamFormat::Lines => self.read_lines(chunk),
            StreamFormat::Whole => {
                self.note_piece(chunk);
                self.scanner.read(chunk);
            }
            StreamFormat::Text | StreamFormat::Encoded => {
                self.note_piece(chunk);
                self.bytes += chunk.len() as u64;
            }
            StreamFormat::Opaque => self.note_piece(chunk),
            StreamFormat::Page => {}
        }
        self.tokens > before
    }

    /// The same of a response that is whole. Where it has the key of a usage at the top, as most
    /// have, what stands before that key is not read.
    pub(crate) fn read_whole(&mut self, body: &[u8]) -> bool {
        let key = (self.format == StreamFormat::Whole).then(|| USAGE.find(body)).flatten();
        match key.and_then(|key| UsageScanner::from_key(body, key)) {
            Some(scanner) => self.scanner = scanner,
            None => return self.read(body),
        }
        self.note_piece(body);
        false
    }

    /// Events with tokens so far.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The tokens that the backend reported, or as far as it reported none, those that were
    /// counted. No more is read after this.
    pub(crate) fn usage(&mut self) -> TokenUsage {
        if !self.held.is_empty() {
            self.end_line();
        }
        let reported = self.scanner.reported();
        // A report of nothing beside a text is none.
        let is_told = |count: &u64| *count > 0 || self.with_text == 0;
        let (prompt, cached) = (reported.prompt().filter(is_told), reported.cached());
        let output = reported.output().filter(is_told).map(|output| output.max(self.with_text));
        let counted = output.is_none() && self.tokens > 0;
        let output = output.or(counted.then(|| self.estimate()));
        let by_length = self.by_length().filter(|_| self.told == Told::Answer);
        TokenUsage { prompt, output, cached, counted, by_length, told: self.told }
    }

    /// The tokens of a stream without usage.
    fn estimate(&self) -> u64 {
        let by_text = self.bytes / BYTES_PER_TOKEN;
        if by_text > self.tokens.saturating_mul(GROUPED) { by_text } else { self.tokens }
    }

    /// The tokens of a response in one piece, by the length of its text.
    fn by_length(&self) -> Option<u64> {
        let tokens = match self.format {
            StreamFormat::Whole => self.scanner.text_bytes().div_ceil(BYTES_PER_TOKEN),
            StreamFormat::Text => self.bytes.div_ceil(BYTES_PER_TOKEN),
            // A compressed byte stands for several.
            StreamFormat::Encoded => self.bytes,
            StreamFormat::Events
            | StreamFormat::Lines
            | StreamFormat::Page
            | StreamFormat::Opaque => 0,
        };
        (tokens > 0).then_some(tokens)
    }

    fn read_lines(&mut self, mut chunk: &[u8]) {
        if !self.held.is_empty() {
            let Some(end) = memchr(b'\n', chunk) else { return self.hold(chunk) };
            self.hold(&chunk[..end]);
            self.end_line();
            chunk = &chunk[end + 1..];
        }
        let whole = memrchr(b'\n', chunk).map_or(0, |end| end + 1);
        let (lines, cut) = chunk.split_at(whole);
        // Most chunks have no key of a usage, and then none of their lines has it.
        let reports = self.format.report_key().find(lines).is_some();
        let mut start = 0;
        for end in memchr_iter(b'\n', lines) {
            self.read_line(&lines[start..end], reports);
            start = end + 1;
        }
        if !cut.is_empty() {
            self.hold(cut);
        }
    }

    /// Keeps a part of a line that has not ended.
    fn hold(&mut self, part: &[u8]) {
        match self.rest {
            LineRest::None => {}
            LineRest::Scanned => {
                self.rest_bytes += part.len() as u64;
                return self.scanner.read(part);
            }
            LineRest::Ignored => return,
        }
        let room = HELD_MAX - self.held.len();
        let (kept, rest) = part.split_at(room.min(part.len()));
        self.held.extend_from_slice(kept);
        if rest.is_empty() {
            return;
        }
        let Some(json) = json_of(self.format, &self.held) else {
            self.rest = LineRest::Ignored;
            return;
        };
        (self.rest, self.rest_bytes) = (LineRest::Scanned, rest.len() as u64);
        self.scanner.begin();
        self.scanner.read(json);
        self.scanner.read(rest);
    }

    /// The line that was held has ended.
    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.rest, LineRest::None) {
            LineRest::None => self.read_line(&line, true),
            LineRest::Ignored => self.count(&line),
            // Its text is what makes a line so long.
            LineRest::Scanned => {
                let texts = self.with_text;
                self.count(&line);
                self.bytes += if self.with_text > texts { self.rest_bytes } else { 0 };
            }
        }
        line.clear();
        self.held = line;
    }

    /// What a chunk of a response that is no stream says, if it is the first.
    fn note_piece(&mut self, chunk: &[u8]) {
        if self.told == Told::Nothing && !chunk.trim_ascii_start().is_empty() {
            self.told = inner_error(chunk).map_or(Told::Answer, Told::Error);
        }
    }

    /// Reads a line, which `reports` a usage only if that is true.
    fn read_line(&mut self, line: &[u8], reports: bool) {
        if reports
            && let Some(json) = json_of(self.format, line)
            && may_report(self.format, json)
        {
            self.scan(json);
        }
        self.count(line);
    }

    fn scan(&mut self, json: &[u8]) {
        self.scanner.begin();
        self.scanner.read(json);
    }

    fn count(&mut self, line: &[u8]) {
        let Some(json) = json_of(self.format, line) else {
            if line.starts_with(LINE) {
                self.told = inner_error(line).map_or(self.told, Told::Error);
            }
            return;
        };
        let said = match self.format {
            StreamFormat::Events => said(json),
            _ => said_in_line(json),
        };
        match said {
            // An end is an answer, too; `[DONE]` alone is none.
            Said::Nothing if json.starts_with(b"{") => self.told.or_answer(),
            Said::Nothing => {}
            Said::Greeting => {
                self.greetings += 1;
                self.tokens += u64::from(self.greetings > GREETINGS_MAX);
            }
            Said::Other => match inner_error(json) {
                Some(error) => self.told = Told::Error(error),
                None => {
                    self.told.or_answer();
                    self.tokens += 1;
                    if STATS.find(json).is_some() {
                        self.scan(json);
                    }
                }
            },
            Said::Texts { choices, bytes } => {
                self.told = Told::Answer;
                self.tokens += choices;
                self.with_text += choices;
                self.bytes += bytes;
            }
        }
    }
}

/// Whether a body is compressed, by its header.
pub(crate) fn is_encoded(content_encoding: &[u8]) -> bool {
    !content_encoding.trim_ascii().eq_ignore_ascii_case(b"identity")
}

/// The JSON in a line of a stream, at least its beginning.
fn json_of(format: StreamFormat, line: &[u8]) -> Option<&[u8]> {
    let json = match format {
        StreamFormat::Events => line.strip_prefix(b"data:")?,
        _ => line,
    };
    Some(json.trim_ascii()).filter(|json| !json.is_empty())
}

/// Whether a line may report a usage. The line must have the key; that of many events has no value.
fn may_report(format: StreamFormat, json: &[u8]) -> bool {
    let key = format.report_key();
    if format == StreamFormat::Lines {
        return key.find(json).is_some();
    }
    key.find_iter(json).any(|at| {
        let value = json[at + key.needle().len()..].trim_ascii_start().strip_prefix(b":");
        value.is_some_and(|value| !value.trim_ascii_start().starts_with(b"null"))
    })
}

#[cfg(test)]
mod tests;
