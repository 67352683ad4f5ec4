//! What a file says, before anybody asks what it means: values with the place they stand at.
//!
//! The path of a value is kept as it was written, so that a problem is told in the words of the
//! file even after `aliases` has moved the value to where it belongs.

use std::collections::BTreeMap;
use std::fmt;

/// Keys and their values.
pub(super) type Table = BTreeMap<String, Node>;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) place: Place,
}

/// Where something is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The key's path, such as `flows[0].weight`.
    pub(super) path: String,
    /// The line in the file, from 1; 0 where it is not known.
    pub(super) line: usize,
}

/// Anything that a file can say.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
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
pub(super) fn joined(path: &str, key: &str) -> String {
    let dot = if path.is_empty() { "" } else { "." };
    format!("{path}{dot}{key}")
}

// === impl Node ===

impl Node {
    pub(super) fn new(value: Value, line: usize) -> Self {
        Self { value, place: Place { path: String::new(), line } }
    }

    /// Writes into each place the path that leads there.
    pub(super) fn set_paths(&mut self, path: String) {
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
        self.place.path = path;
    }
}

// === impl Value ===

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
