//! The values of a configuration as they were written, with their origins.
//!
//! `tidegate check` shows them, and a reload keeps those that only a restart can change.

use std::fmt;
use std::path::PathBuf;

use super::sections::ROOT;
use super::settings::Profile;
use crate::schema::{
    Key, Node, Origin, Reload, SectionSchema, Table, Value, ValueType, find, joined, spelling,
};

/// All values that were given.
#[derive(Clone, Default)]
pub struct Values {
    table: Table,
    file: Option<PathBuf>,
}

/// One key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The path of the key.
    pub key: String,
    /// The value, as it could be written in a file; or a description, where it has no value.
    pub value: String,
    /// The value as JSON; null where it has none.
    pub json: serde_json::Value,
    /// `file:line`, the name of a variable, a flag, or `default`.
    pub origin: String,
    /// Whether the value is the default.
    pub is_default: bool,
}

const DEFAULT: &str = "default";

// === impl Values ===

impl Values {
    pub(super) fn new(table: Table, file: Option<PathBuf>) -> Self {
        Self { table, file }
    }

    /// Every key with its value and its origin, in the order of the documents.
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        self.list(&ROOT, &self.table, "", &mut settings);
        settings
    }

    /// The profile, and where it comes from; `None` if there is none.
    pub(crate) fn profile(&self) -> Option<String> {
        let node = self.table.get("profile")?;
        let Value::Text(word) = &node.value else { return None };
        let profile = find::<Profile>(word).filter(|profile| *profile != Profile::None)?;
        let setting = self.setting(ROOT.find("profile")?, Some(node), String::new());
        Some(format!("{}, {}", spelling(profile), setting.origin))
    }

    /// The origin of a key's value.
    pub(crate) fn origin(&self, key: &str) -> String {
        let found = self.settings().into_iter().find(|setting| setting.key == key);
        found.map(|setting| setting.origin).unwrap_or_default()
    }

    /// The values with those of `in_force` for all keys that only a restart can change, and the
    /// paths of the keys that would have changed.
    pub(super) fn keeping(&self, in_force: &Self) -> (Table, Vec<String>) {
        let (mut table, mut changed) = (self.table.clone(), Vec::new());
        keep(&ROOT, &mut table, &in_force.table, ("", &mut changed));
        (table, changed)
    }

    fn list(&self, schema: &SectionSchema, table: &Table, at: &str, settings: &mut Vec<Setting>) {
        let variant = crate::schema::chosen(schema, table);
        let own = variant.map_or(&[] as &[Key], |variant| variant.keys);
        for key in schema.keys.iter().chain(own) {
            let path = joined(at, key.name);
            let node = table.get(key.name).filter(|node| node.value != Value::Null);
            match (key.value_type, node.map(|node| &node.value)) {
                (ValueType::Table(inner), value) => {
                    let none = Table::new();
                    let table = match value {
                        Some(Value::Table(table)) => table,
                        _ => &none,
                    };
                    self.list(inner, table, &path, settings);
                }
                (ValueType::WordOrTable { table: inner, .. }, Some(Value::Table(table))) => {
                    self.list(inner, table, &path, settings);
                }
                (
                    ValueType::Tables(inner) | ValueType::TextsOrTables { table: inner, .. },
                    Some(Value::List(items)),
                ) => self.list_entries(inner, items, &path, settings),
                _ => settings.push(self.setting(key, node, path)),
            }
        }
    }

    /// Every key of every table in a list.
    fn list_entries(
        &self,
        schema: &SectionSchema,
        items: &[Node],
        at: &str,
        settings: &mut Vec<Setting>,
    ) {
        for (index, item) in items.iter().enumerate() {
            if let Value::Table(table) = &item.value {
                self.list(schema, table, &format!("{at}[{index}]"), settings);
            }
        }
    }

    fn setting(&self, key: &Key, node: Option<&Node>, path: String) -> Setting {
        let Some(node) = node else {
            let default = key.default.map(|text| key.value_type.parse(text));
            let value = default.as_ref().map(shown).unwrap_or_else(|| match key.unset {
                "" => "not set".to_owned(),
                unset => unset.replace('`', ""),
            });
            let json = default.as_ref().map(to_json).unwrap_or_default();
            return Setting { key: path, value, json, origin: DEFAULT.into(), is_default: true };
        };
        let origin = match (&node.location.origin, &self.file) {
            (Origin::Flag(flag), _) => flag.clone(),
            (Origin::Variable(name), _) => name.clone(),
            (Origin::Implied(cause), _) => cause.clone(),
            (Origin::File, Some(file)) => format!("{}:{}", file.display(), node.location.line),
            (Origin::File, None) => DEFAULT.into(),
        };
        let (value, json) = (shown(&node.value), to_json(&node.value));
        Setting { key: path, value, json, origin, is_default: false }
    }
}

/// The tree of a configuration would hide everything else in a message.
impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Values").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Two configurations differ in what they mean, which the other fields of `Config` say. The same
/// values on other lines make no difference.
impl PartialEq for Values {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

/// Puts the old values of keys that only a restart can change into the new table.
fn keep(
    schema: &SectionSchema,
    new: &mut Table,
    old: &Table,
    (at, changed): (&str, &mut Vec<String>),
) {
    for key in schema.keys {
        let path = joined(at, key.name);
        if let ValueType::Table(inner) = key.value_type {
            let none = Table::new();
            let old = match old.get(key.name).map(|node| &node.value) {
                Some(Value::Table(table)) => table,
                _ => &none,
            };
            let location = crate::schema::Location { path: path.clone(), ..Default::default() };
            let empty = || Node { value: Value::Table(Table::new()), location };
            let node = new.entry(key.name.to_owned()).or_insert_with(empty);
            if let Value::Table(new) = &mut node.value {
                keep(inner, new, old, (&path, changed));
            }
        } else if key.reload == Reload::Restart {
            let effective = |table: &Table| match table.get(key.name) {
                Some(node) => key.value_type.plain(&node.value),
                None => key.default.map_or(String::new(), |text| {
                    key.value_type.plain(&key.value_type.parse(text))
                }),
            };
            if effective(new) != effective(old) {
                changed.push(path);
            }
            match old.get(key.name) {
                Some(node) => _ = new.insert(key.name.to_owned(), node.clone()),
                None => _ = new.remove(key.name),
            }
        }
    }
}

/// A value as a file could write it, without the passwords of addresses.
fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{:?}", without_secrets(text)),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(|item| shown(&item.value)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(table) => {
            let entries: Vec<String> = table.iter().map(shown_entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Float(number) => format!("{number:?}"),
        other => other.to_string(),
    }
}

fn shown_entry((name, node): (&String, &Node)) -> String {
    let bare = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
    let quote = if name.chars().all(bare) { "" } else { "\"" };
    format!("{quote}{name}{quote} = {}", shown(&node.value))
}

/// A value as JSON, without the passwords of addresses.
fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(number) => match i64::try_from(*number) {
            Ok(number) => number.into(),
            Err(_) => (*number as f64).into(),
        },
        Value::Float(number) => (*number).into(),
        Value::Text(text) => without_secrets(text).into(),
        Value::List(items) => items.iter().map(|item| to_json(&item.value)).collect(),
        Value::Table(table) => {
            let entry = |(name, node): (&String, &Node)| (name.clone(), to_json(&node.value));
            serde_json::Value::Object(table.iter().map(entry).collect())
        }
    }
}

/// An address without its user and password.
pub(super) fn without_secrets(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => url.to_owned(),
    }
}
