//! The types of values: their ranges, their spelling, and how a text is read as a value.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::key::SectionSchema;
use super::keyword::{Word, alike, list, texts};
use super::quantity::{self, show_duration, show_size};
use super::suggest;
use super::tree::Value;

/// What a key's value may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueType {
    Bool,
    Count {
        min: u64,
        max: u64,
    },
    Size {
        min: u64,
        max: u64,
    },
    Duration {
        min: Duration,
        max: Duration,
    },
    Number(Range),
    /// One of some words.
    Keyword(fn() -> Vec<Word>),
    /// The name of one of the table's variants.
    Variant,
    Text(&'static Form),
    /// An address to listen on.
    Address,
    /// A file or folder; in a file it is relative to the folder of that file.
    Path,
    /// A list of texts, or one text alone.
    Texts(&'static Form),
    /// A table whose keys are names, all with values of one type.
    Map(&'static Self),
    Table(&'static SectionSchema),
    /// A word that stands for the absence of the table, or the table.
    WordOrTable {
        word: &'static str,
        table: &'static SectionSchema,
        example: &'static str,
    },
    /// A list of tables.
    Tables(&'static SectionSchema),
    /// A list of tables, of which each may also be the text of its first key.
    TextsOrTables {
        table: &'static SectionSchema,
        example: &'static str,
    },
}

/// A range of real numbers. Each end may itself be excluded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) min_excluded: bool,
    pub(crate) max_excluded: bool,
}

/// A text of a particular form.
#[derive(Debug)]
pub(crate) struct Form {
    /// The form, for the documents. May be empty.
    pub(crate) allowed: &'static str,
    pub(crate) check: fn(&str) -> Result<(), Misfit>,
    /// A text of this form.
    pub(crate) example: &'static str,
}

/// Why a value is not of a type: the end of a sentence that begins with the key.
#[derive(Debug)]
pub(crate) struct Misfit(pub(crate) String);

/// Any text, even an empty one.
pub(crate) const ANY_TEXT: Form = Form { allowed: "", check: |_| Ok(()), example: "text" };

/// Any text with at least one character.
pub(crate) const NOT_EMPTY: Form = Form {
    allowed: "",
    check: |text| if text.is_empty() { Err(Misfit::of(&"\"\"", A_TEXT)) } else { Ok(()) },
    example: "text",
};

const A_TEXT: &str = "a text that is not empty";
const ADDRESS: &str = "an address and a port such as 127.0.0.1:8430, 0.0.0.0:8430 or [::]:8430";

/// The address that a text stands for.
pub(crate) fn address(text: &str) -> Option<SocketAddr> {
    // `localhost` is the one name that needs no resolver.
    match text.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(|port| (Ipv4Addr::LOCALHOST, port).into()),
        None => text.parse().ok(),
    }
}

// === impl ValueType ===

impl ValueType {
    /// Checks a scalar value. Tables and lists are checked by [`super::validate()`].
    pub(crate) fn check(&self, value: &Value) -> Result<(), Misfit> {
        match (self, value) {
            (Self::Text(form), Value::Text(text)) => (form.check)(text),
            (Self::Path, Value::Text(text)) => (NOT_EMPTY.check)(text),
            (Self::Keyword(words), _) => check_word(value, &texts(&words())),
            (Self::Number(range), _) => range.check(value),
            _ if self.accepts(value) => Ok(()),
            _ => Err(Misfit::of(value, &self.allowed())),
        }
    }

    fn accepts(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Bool, Value::Bool(_)) => true,
            (Self::Count { min, max }, Value::Integer(number)) => {
                (i128::from(*min)..=i128::from(*max)).contains(number)
            }
            (Self::Size { min, max }, _) => {
                quantity::size(value).is_some_and(|size| (*min..=*max).contains(&size))
            }
            (Self::Duration { min, max }, _) => {
                quantity::duration(value).is_some_and(|span| (*min..=*max).contains(&span))
            }
            (Self::Address, Value::Text(text)) => address(text).is_some(),
            _ => false,
        }
    }

    /// The allowed values, in the words of a problem.
    pub(crate) fn allowed(&self) -> String {
        match self {
            Self::Bool => "true or false".into(),
            Self::Count { min, max } => format!("a whole number from {min} to {max}"),
            Self::Size { min, max } => {
                let [min, max] = [min, max].map(|size| show_size(*size));
                format!("{min} to {max}, written as \"32MiB\", \"1MB\" or bytes")
            }
            Self::Duration { min, max } => {
                let [min, max] = [min, max].map(|duration| show_duration(*duration));
                format!("{min} to {max}, written as \"30s\", \"500ms\", \"5m\" or seconds")
            }
            Self::Number(range) => range.to_string(),
            Self::Keyword(words) => list(&texts(&words())),
            Self::Text(form) | Self::Texts(form) if !form.allowed.is_empty() => form.allowed.into(),
            Self::Text(_) | Self::Texts(_) | Self::Path | Self::Variant => A_TEXT.into(),
            Self::Address => ADDRESS.into(),
            Self::Map(_) | Self::Table(_) => "a table".into(),
            Self::WordOrTable { word, example, .. } => format!("{word:?} or {example}"),
            Self::Tables(_) => "a list of tables".into(),
            Self::TextsOrTables { example, .. } => format!("a list such as [{example}]"),
        }
    }

    /// The schema of the tables that a value has inside.
    pub(crate) fn section(&self) -> Option<&'static SectionSchema> {
        match self {
            Self::Table(table) | Self::WordOrTable { table, .. } => Some(table),
            Self::Tables(table) | Self::TextsOrTables { table, .. } => Some(table),
            _ => None,
        }
    }

    /// A value as a text that is the same for all spellings of the value.
    pub(crate) fn plain(&self, value: &Value) -> String {
        let plain = match (self, value) {
            (Self::Duration { .. }, _) => quantity::duration(value).map(show_duration),
            (Self::Size { .. }, _) => quantity::size(value).map(show_size),
            (Self::Number(_), _) => value.number().map(|number| number.to_string()),
            (Self::Keyword(words), Value::Text(text)) => {
                texts(&words()).into_iter().find(|word| alike(word, text)).map(str::to_owned)
            }
            (Self::Address, Value::Text(text)) => {
                address(text).map(|location| location.to_string())
            }
            _ => None,
        };
        plain.unwrap_or_else(|| value.plain())
    }

    /// Reads a text as a value: a default, a flag or an environment variable. Numbers, tables and
    /// lists are written as in TOML; texts need no quotes.
    pub(crate) fn parse(&self, text: &str) -> Value {
        let quoted = text.starts_with(['"', '\'']);
        let structured = text.starts_with(['[', '{']);
        let literal = match self {
            Self::Bool | Self::Count { .. } | Self::Number(_) => true,
            Self::Size { .. } | Self::Duration { .. } => true,
            Self::Keyword(_) | Self::Variant | Self::Text(_) | Self::Address | Self::Path => quoted,
            Self::Texts(_) | Self::WordOrTable { .. } => quoted || structured,
            Self::Map(_) | Self::Table(_) | Self::Tables(_) | Self::TextsOrTables { .. } => true,
        };
        let value = if literal { Value::from_toml(text) } else { None };
        value.unwrap_or_else(|| Value::Text(text.into()))
    }
}

fn check_word(value: &Value, words: &[&'static str]) -> Result<(), Misfit> {
    let Value::Text(text) = value else { return Err(Misfit::of(value, &list(words))) };
    if words.iter().any(|word| alike(word, text)) {
        return Ok(());
    }
    let meant = suggest::nearest(text, words.iter().copied());
    let meant = meant.map_or(String::new(), |word| format!("; did you mean {word:?}?"));
    Err(Misfit(Misfit::of(value, &list(words)).0 + &meant))
}

// === impl Misfit ===

impl Misfit {
    /// The value is not among the allowed ones.
    pub(crate) fn of(value: &dyn fmt::Display, allowed: &str) -> Self {
        Self(format!("is {value}, allowed is {allowed}"))
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misfit {}

// === impl Range ===

impl Range {
    /// Both ends belong to it.
    pub(crate) const fn closed(min: f64, max: f64) -> Self {
        Self { min, max, min_excluded: false, max_excluded: false }
    }

    /// The least number does not belong to it.
    pub(crate) const fn above(min: f64, max: f64) -> Self {
        Self { min, max, min_excluded: true, max_excluded: false }
    }

    /// The largest number does not belong to it.
    pub(crate) const fn below(min: f64, max: f64) -> Self {
        Self { min, max, min_excluded: false, max_excluded: true }
    }

    /// Neither end belongs to it.
    pub(crate) const fn open(min: f64, max: f64) -> Self {
        Self { min, max, min_excluded: true, max_excluded: true }
    }

    pub(crate) fn contains(&self, number: f64) -> bool {
        let above = if self.min_excluded { number > self.min } else { number >= self.min };
        let below = if self.max_excluded { number < self.max } else { number <= self.max };
        above && below
    }

    fn check(&self, value: &Value) -> Result<(), Misfit> {
        match value.number() {
            Some(number) if !number.is_finite() => Err(Misfit::of(value, "a finite number")),
            Some(number) if self.contains(number) => Ok(()),
            _ => Err(Misfit::of(value, &self.to_string())),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, max, .. } = self;
        match (self.min_excluded, self.max_excluded) {
            (false, false) => write!(f, "{min} to {max}"),
            (false, true) => write!(f, "{min} to less than {max}"),
            (true, false) => write!(f, "more than {min} and at most {max}"),
            (true, true) => write!(f, "more than {min} and less than {max}"),
        }
    }
}
