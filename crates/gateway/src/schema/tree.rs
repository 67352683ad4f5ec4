//! Values as they are written, each with its place in the source.
//!
//! The path of a value is kept as it was written, so that a problem names the key of the file even
//! after an alias was replaced by the key that it stands for.

use std::collections::BTreeMap;
use std::fmt;

/// Keys and their values.
pub(crate) type Table = BTreeMap<String, Node>;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) location: Location,
}

/// Where a value is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Location {
    /// The key's path, such as `flows[0].weight`.
    pub(crate) path: String,
    /// The line in the file, from 1; 0 where it is not known.
    pub(crate) line: usize,
    pub(crate) origin: Origin,
}

/// Who gave a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The configuration file.
    #[default]
    File,
    /// The environment variable of this name.
    Variable(String),
    /// A flag, as it was typed.
    Flag(String),
    /// Nobody: another value implies it. The text says which.
    Implied(String),
}

/// Any value that a file can contain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Table(Table),
}

/// How much of a text is quoted in a problem.
const QUOTED_MAX: usize = 60;

/// The path of a key inside the table at `path`.
pub(crate) fn joined(path: &str, key: &str) -> String {
    let dot = if path.is_empty() { "" } else { "." };
    format!("{path}{dot}{key}")
}

// === impl Node ===

impl Node {
    pub(crate) fn new(value: Value, line: usize) -> Self {
        Self { value, location: Location { line, ..Location::default() } }
    }

    /// A value from outside of the file, with its path.
    pub(crate) fn given(value: Value, path: String, origin: Origin) -> Self {
        let mut node = Self { value, location: Location::default() };
        node.set_paths(path);
        node.set_origin(&origin);
        node
    }

    /// Writes into each place the path that leads there.
    pub(crate) fn set_paths(&mut self, path: String) {
        match &mut self.value {
            Value::List(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    item.set_paths(format!("{path}[{at}]"));
                }
            }
            Value::Table(table) => {
                for (key, node) in table {
                    node.set_paths(joined(&path, key));
                }
            }
            _ => {}
        }
        self.location.path = path;
    }

    fn set_origin(&mut self, origin: &Origin) {
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.set_origin(origin)),
            Value::Table(table) => table.values_mut().for_each(|node| node.set_origin(origin)),
            _ => {}
        }
        self.location.origin = origin.clone();
    }
}

// === impl Value ===

impl Value {
    /// A number, whole or not.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }
}

impl Value {
    /// The value with everything inside, without places.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| item.value.plain()).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Table(table) => {
                let entry =
                    |(name, node): (&String, &Node)| format!("{name:?}: {}", node.value.plain());
                format!("{{{}}}", table.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
            Self::Text(text) => format!("{text:?}"),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("empty"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) if text.chars().count() > QUOTED_MAX => {
                let start: String = text.chars().take(QUOTED_MAX).collect();
                write!(f, "{start:?}...")
            }
            Self::Text(text) => write!(f, "{text:?}"),
            Self::List(_) => f.write_str("a list"),
            Self::Table(_) => f.write_str("a table"),
        }
    }
}
