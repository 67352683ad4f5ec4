//! Request traces as values: the arrival, the client and the lengths of each request.
//!
//! A trace is read from text, never from a file, and its format is told by its first line: a table
//! with wall times (the Azure traces), a table with seconds, or one JSON object a line (the
//! Mooncake traces). Whatever the text holds, the answer is a trace or an error that names a line.

mod jsonl;
mod number;
mod table;
#[cfg(test)]
mod tests;
mod wall;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use flow::Time;

use jsonl::Jsonl;
use table::Table;

/// The most tokens that a prompt or an answer may have.
pub const TOKENS_MAX: u32 = 10_000_000;
/// The tokens that one id of [`TraceRow::prefix`] stands for.
pub const SEGMENT_TOKENS: u32 = 512;

/// The name of the only client where the trace names none.
const NOBODY: &str = "-";
const UNDERSTOOD: &str = "a header with TIMESTAMP,ContextTokens,GeneratedTokens, or one with \
    arrived_at_s,prompt_tokens,output_tokens and perhaps client, or lines of JSON with timestamp, \
    input_length, output_length and perhaps hash_ids";
const LIMITS: Limits = Limits { rows: 10_000_000, clients: 1_000_000, line_bytes: 1 << 20 };

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// When it arrived; the first row of a trace arrives at zero.
    pub at: Time,
    /// Who sent it: an index into [`Trace::clients`].
    pub client: u32,
    /// Tokens of its prompt.
    pub prompt: u32,
    /// Tokens of its answer.
    pub output: u32,
    /// Ids of the prompt's segments of [`SEGMENT_TOKENS`]: two prompts that begin with the same ids
    /// begin with the same text. Empty where the trace has none.
    pub prefix: Arc<[u64]>,
}

/// Requests in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Who sent them, in the order of their first request.
    pub clients: Vec<String>,
    /// What they sent.
    pub rows: Vec<TraceRow>,
}

/// Why a text is not a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line at fault, counted from 1.
    pub line: usize,
    /// The part of the line at fault, where it is one part.
    pub field: Option<Field>,
    /// The problem, and its remedy where that is not obvious.
    pub message: String,
}

/// A part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// A column of a table.
    Column(&'static str),
    /// A key of a JSON object.
    Key(&'static str),
}

/// How much is read; a value, so that tests can reach the bounds.
struct Limits {
    rows: usize,
    clients: usize,
    line_bytes: usize,
}

/// An error that does not know its line yet.
struct Fault {
    field: Option<Field>,
    message: String,
}

/// What one line says, with its time as written.
struct Entry<'a> {
    at: Time,
    client: &'a str,
    prompt: u32,
    output: u32,
    prefix: Arc<[u64]>,
}

/// How lines are read.
enum Format {
    Table(Table),
    Jsonl,
}

/// A trace that is being read.
struct Reading<'a> {
    limits: &'a Limits,
    first: Time,
    last: Time,
    known: BTreeMap<&'a str, u32>,
    trace: Trace,
}

// === impl Trace ===

impl Trace {
    /// Reads a trace; its first line tells the format.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        Self::parse_within(text, &LIMITS)
    }

    fn parse_within(text: &str, limits: &Limits) -> Result<Self, TraceError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_end();
        let first = text.lines().next().unwrap_or_default();
        let format = Format::of(first, limits).map_err(|fault| fault.at(1))?;
        let mut reading = Reading::new(limits);
        for (line, content) in (1..).zip(text.lines()).skip(format.header_lines()) {
            reading.line(line, content, &format).map_err(|fault| fault.at(line))?;
        }
        if reading.trace.rows.is_empty() {
            return Err(Fault::line("no rows follow the header").at(1));
        }
        Ok(reading.trace)
    }
}

// === impl Format ===

impl Format {
    fn of(first: &str, limits: &Limits) -> Result<Self, Fault> {
        limits.check_line(first)?;
        match first.trim_start() {
            "" => Err(Fault::line(format!("the first line is empty; expected {UNDERSTOOD}"))),
            object if object.starts_with('{') => Ok(Self::Jsonl),
            header => Table::of(header).map(Self::Table),
        }
    }

    fn header_lines(&self) -> usize {
        match self {
            Self::Table(_) => 1,
            Self::Jsonl => 0,
        }
    }

    fn entry<'a>(&self, line: &'a str) -> Result<Entry<'a>, Fault> {
        match self {
            Self::Table(table) => table.entry(line),
            Self::Jsonl => Jsonl::entry(line),
        }
    }

    fn time(&self) -> Field {
        match self {
            Self::Table(table) => table.time(),
            Self::Jsonl => Jsonl::TIME,
        }
    }
}

// === impl Reading ===

impl<'a> Reading<'a> {
    fn new(limits: &'a Limits) -> Self {
        let trace = Trace::default();
        Self { limits, first: Time::ZERO, last: Time::ZERO, known: BTreeMap::new(), trace }
    }

    fn line(&mut self, line: usize, content: &'a str, format: &Format) -> Result<(), Fault> {
        self.limits.check_line(content)?;
        if content.trim().is_empty() {
            return Err(Fault::line("empty, with rows below it: take the line out"));
        }
        if self.trace.rows.len() == self.limits.rows {
            return Err(Fault::line(format!("more than {} rows", self.limits.rows)));
        }
        let entry = format.entry(content)?;
        if self.trace.rows.is_empty() {
            self.first = entry.at;
        } else if entry.at < self.last {
            let (before, time) = (line - 1, format.time());
            let message = format!("arrives before line {before}: sort the file by {}", time.name());
            return Err(Fault { field: Some(time), message });
        }
        self.last = entry.at;
        let client = self.client(entry.client)?;
        let at = Time::ZERO.after(entry.at.since(self.first));
        let Entry { prompt, output, prefix, .. } = entry;
        self.trace.rows.push(TraceRow { at, client, prompt, output, prefix });
        Ok(())
    }

    fn client(&mut self, name: &'a str) -> Result<u32, Fault> {
        if let Some(known) = self.known.get(name) {
            return Ok(*known);
        }
        let index = self.trace.clients.len();
        if index == self.limits.clients {
            let message = format!("more than {index} clients");
            return Err(Fault { field: Some(Field::Column("client")), message });
        }
        self.known.insert(name, index as u32);
        self.trace.clients.push(name.to_owned());
        Ok(index as u32)
    }
}

// === impl Limits ===

impl Limits {
    fn check_line(&self, line: &str) -> Result<(), Fault> {
        if line.len() <= self.line_bytes {
            return Ok(());
        }
        let (bytes, most) = (line.len(), self.line_bytes);
        let quote = number::quote(line);
        Err(Fault::line(format!("{bytes} bytes long, at most {most} are read: {quote}")))
    }
}

// === impl Fault ===

impl Fault {
    /// A fault of the line as a whole.
    fn line(message: impl Into<String>) -> Self {
        Self { field: None, message: message.into() }
    }

    fn at(self, line: usize) -> TraceError {
        TraceError { line, field: self.field, message: self.message }
    }
}

// === impl Field ===

impl Field {
    /// What the trace calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Column(name) | Self::Key(name) => name,
        }
    }

    /// Lays a complaint about this part of the line.
    fn fault(self, message: impl Into<String>) -> Fault {
        Fault { field: Some(self), message: message.into() }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => write!(out, "column {name}"),
            Self::Key(name) => write!(out, "key {name}"),
        }
    }
}

// === impl TraceError ===

impl fmt::Display for TraceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}", self.line)?;
        if let Some(field) = self.field {
            write!(out, ", {field}")?;
        }
        write!(out, ": {}", self.message)
    }
}

impl Error for TraceError {}
