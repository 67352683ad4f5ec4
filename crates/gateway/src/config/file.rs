//! TOML and YAML: from a text to a tree of values with their lines.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::NonFiniteFloatPolicy;
use toml::de::DeTable;

use crate::schema::{Location, Node, Report, Table, Value, toml_table};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Toml,
    Yaml,
}

/// The largest file that is read, in bytes. It bounds everything that a file can list.
pub(super) const FILE_MAX: u64 = 1 << 20;

/// Where each line of a text begins.
struct Lines(Vec<usize>);

struct AnyValue;

/// The tree of a text. Lines that cannot be parsed are reported and left out.
pub(super) fn parse(text: &str, format: Format, report: &Report) -> Table {
    let mut root = match format {
        Format::Toml => from_toml(text, report),
        Format::Yaml => from_yaml(text, report),
    };
    root.set_paths(String::new());
    match root.value {
        Value::Table(table) => table,
        Value::Null => Table::new(),
        other => {
            report.problem(
                &root.location,
                format!("the file is {other}, allowed is a table of keys"),
            );
            Table::new()
        }
    }
}

fn from_toml(text: &str, report: &Report) -> Node {
    let lines = Lines::of(text);
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let line = error.span().map_or(0, |span| lines.at(span.start));
        report.problem(&Location { line, ..Location::default() }, error.message().to_owned());
    }
    Node::new(toml_table(root.into_inner(), &|offset| lines.at(offset)), 0)
}

fn from_yaml(text: &str, report: &Report) -> Node {
    let options = serde_saphyr::options! {
        with_snippet: false,
        // A number that is not finite is reported with its key, as any other bad number.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
    };
    serde_saphyr::from_str_with_options(text, options).unwrap_or_else(|error| {
        let line = error.location().map_or(0, |location| location.line() as usize);
        report.problem(&Location { line, ..Location::default() }, error.to_string());
        Node::new(Value::Null, 0)
    })
}

// === impl Format ===

impl Format {
    /// The format that a file's ending stands for.
    pub(super) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

// === impl Lines ===

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|&end| end < offset) + 1
    }
}

// === impl Node ===

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(from)?;
        Ok(Self::new(spanned.value, spanned.referenced.line() as usize))
    }
}

// === impl Value ===

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyValue)
    }
}

// === impl AnyValue ===

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(i128::try_from(value).map_or_else(|_| Value::Text(value.to_string()), Value::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.into()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        Value::deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut table = Table::new();
        while let Some(key) = from.next_key::<Spanned<String>>()? {
            let value = from.next_value()?;
            table.insert(key.value, Node::new(value, key.referenced.line() as usize));
        }
        Ok(Value::Table(table))
    }
}
