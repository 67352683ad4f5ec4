//! Values as TOML writes them.

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::tree::{Node, Value};

/// The line of an offset in the text.
type LineAt<'a> = &'a dyn Fn(usize) -> usize;

/// A table of TOML as a tree.
pub(crate) fn toml_table(table: DeTable<'_>, line_at: LineAt<'_>) -> Value {
    let entries = table.into_iter().map(|(key, value)| {
        let line = line_at(key.span().start);
        (key.into_inner().into_owned(), Node::new(toml_value(value.into_inner(), line_at), line))
    });
    Value::Table(entries.collect())
}

fn toml_list(items: DeArray<'_>, line_at: LineAt<'_>) -> Value {
    let node = |item: Spanned<DeValue<'_>>| {
        let line = line_at(item.span().start);
        Node::new(toml_value(item.into_inner(), line_at), line)
    };
    Value::List(items.into_iter().map(node).collect())
}

fn toml_value(value: DeValue<'_>, line_at: LineAt<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::Text(number.as_str().into()), Value::Integer),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map_or_else(|_| Value::Text(number.as_str().into()), Value::Float),
        // No key takes a date. As a text it is quoted in problems as the file writes it.
        DeValue::Datetime(moment) => Value::Text(moment.to_string()),
        DeValue::Array(items) => toml_list(items, line_at),
        DeValue::Table(table) => toml_table(table, line_at),
    }
}

// === impl Value ===

impl Value {
    /// One value of TOML, if the text is exactly that.
    pub(crate) fn from_toml(text: &str) -> Option<Self> {
        let document = format!("value = {text}");
        let Self::Table(mut table) =
            toml_table(DeTable::parse(&document).ok()?.into_inner(), &|_| 0)
        else {
            return None;
        };
        // A line break in the text could begin a second key.
        let value = table.remove("value").filter(|_| table.is_empty())?.value;
        Some(value)
    }
}
