//! Reading one table: typed values, with the defaults of its schema.
//!
//! A section is read after [`super::validate()`], so that every value in it has its type and lies
//! in its range. A reader names a key and gets a value; it states neither default nor range.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;

use super::key::{Key, SectionSchema, Variant};
use super::keyword::{self, Keyword};
use super::quantity;
use super::report::Report;
use super::tree::{Location, Node, Origin, Table, Value, joined};
use super::validate::chosen;
use super::value_type::address;

/// A table that is being read.
pub(crate) struct Section<'r> {
    schema: &'static SectionSchema,
    variant: Option<&'static Variant>,
    table: Table,
    location: Location,
    report: &'r Report,
}

/// A type that values are read as.
pub(crate) trait FromValue: Sized {
    /// Stands for a value that is missing and has no default, which is a mistake in the schema.
    const ABSENT: Self;

    fn from_value(value: &Value) -> Option<Self>;
}

// === impl Section ===

impl<'r> Section<'r> {
    pub(crate) fn new(
        schema: &'static SectionSchema,
        table: Table,
        location: Location,
        report: &'r Report,
    ) -> Self {
        let variant = chosen(schema, &table);
        Self { schema, variant, table, location, report }
    }

    pub(crate) fn report(&self) -> &'r Report {
        self.report
    }

    /// Where the table stands.
    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// The name of the table's kind.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        self.variant.map(|variant| variant.name)
    }

    /// Whether the key was given, usable or not.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Whether the key was given with a value that can be used.
    pub(crate) fn has_value(&self, key: &str) -> bool {
        self.node(key).is_some()
    }

    /// The value of a key that has a default.
    pub(crate) fn get<T: FromValue>(&self, key: &str) -> T {
        self.given(key).unwrap_or_else(|| {
            self.report.problem(&self.location_of(key), "has no default in its schema");
            T::ABSENT
        })
    }

    /// The value of a key, or its default if it has one.
    pub(crate) fn given<T: FromValue>(&self, key: &str) -> Option<T> {
        let found = self.node(key).and_then(|node| T::from_value(&node.value));
        found.or_else(|| T::from_value(&self.default_of(key)?))
    }

    /// A file or folder. A path in a file is relative to the folder of that file.
    pub(crate) fn path(&self, key: &str) -> Option<PathBuf> {
        let node = self.node(key)?;
        let path = PathBuf::from(String::from_value(&node.value)?);
        let folder = self.report.file().and_then(|file| file.parent());
        match (&node.location.origin, folder) {
            (Origin::File, Some(folder)) => Some(folder.join(path)),
            _ => Some(path),
        }
    }

    /// The texts of a list that was given, each with its place.
    pub(crate) fn texts(&self, key: &str) -> Option<Vec<(String, Location)>> {
        let node = self.node(key)?;
        let Value::List(items) = &node.value else { return None };
        let text = |item: &Node| Some((String::from_value(&item.value)?, item.location.clone()));
        Some(items.iter().filter_map(text).collect())
    }

    /// The entries of a table whose keys are names.
    pub(crate) fn map<T: FromValue>(&self, key: &str) -> Vec<(String, T, Location)> {
        let Some(Value::Table(table)) = self.node(key).map(|node| &node.value) else {
            return Vec::new();
        };
        let entry = |(name, node): (&String, &Node)| {
            Some((name.clone(), T::from_value(&node.value)?, node.location.clone()))
        };
        table.iter().filter_map(entry).collect()
    }

    /// A table inside this one; an empty one if it is not there.
    pub(crate) fn section(&self, key: &str) -> Self {
        let table = match self.node(key).map(|node| &node.value) {
            Some(Value::Table(table)) => table.clone(),
            _ => Table::new(),
        };
        Self::new(self.schema_of(key), table, self.location_of(key), self.report)
    }

    /// The table inside this one, if the key has a table and not a word.
    pub(crate) fn optional_section(&self, key: &str) -> Option<Self> {
        let is_table = matches!(self.node(key)?.value, Value::Table(_));
        is_table.then(|| self.section(key))
    }

    /// The tables of a list.
    pub(crate) fn sections(&self, key: &str) -> Vec<Self> {
        let Some(Value::List(items)) = self.node(key).map(|node| &node.value) else {
            return Vec::new();
        };
        let schema = self.schema_of(key);
        let section = |item: &Node| match &item.value {
            Value::Table(table) => {
                Some(Self::new(schema, table.clone(), item.location.clone(), self.report))
            }
            _ => None,
        };
        items.iter().filter_map(section).collect()
    }

    /// A value was read that cannot be used.
    pub(crate) fn refuse(&self, key: &str, problem: impl std::fmt::Display) {
        self.report.problem(&self.location_of(key), problem);
    }

    /// A value was read that does not do what a reader might expect.
    pub(crate) fn notice(&self, key: &str, what: impl std::fmt::Display) {
        self.report.notice(&self.location_of(key), what);
    }

    /// Where a key stands, or would stand.
    pub(crate) fn location_of(&self, key: &str) -> Location {
        let here = || Location { path: joined(&self.location.path, key), ..self.location.clone() };
        self.table.get(key).map_or_else(here, |node| node.location.clone())
    }

    fn node(&self, key: &str) -> Option<&Node> {
        self.table.get(key).filter(|node| node.value != Value::Null)
    }

    fn key(&self, name: &str) -> Option<&'static Key> {
        let found = self.schema.find_in(self.variant, name);
        if found.is_none() {
            self.report.problem(&self.location_of(name), "is read but stands in no schema");
        }
        found
    }

    fn default_of(&self, name: &str) -> Option<Value> {
        let key = self.key(name)?;
        Some(key.value_type.parse(key.default?))
    }

    fn schema_of(&self, name: &str) -> &'static SectionSchema {
        const NONE: &SectionSchema = &SectionSchema::new("", &[]);
        self.key(name).and_then(|key| key.value_type.section()).unwrap_or(NONE)
    }
}

// === impl FromValue ===

impl FromValue for bool {
    const ABSENT: Self = false;

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

impl FromValue for u64 {
    const ABSENT: Self = 0;

    fn from_value(value: &Value) -> Option<Self> {
        quantity::size(value)
    }
}

impl FromValue for u32 {
    const ABSENT: Self = 0;

    fn from_value(value: &Value) -> Option<Self> {
        u64::from_value(value).and_then(|number| number.try_into().ok())
    }
}

impl FromValue for usize {
    const ABSENT: Self = 0;

    fn from_value(value: &Value) -> Option<Self> {
        u64::from_value(value).and_then(|number| number.try_into().ok())
    }
}

impl FromValue for f64 {
    const ABSENT: Self = 0.0;

    fn from_value(value: &Value) -> Option<Self> {
        value.number()
    }
}

impl FromValue for f32 {
    const ABSENT: Self = 0.0;

    fn from_value(value: &Value) -> Option<Self> {
        value.number().map(|number| number as Self)
    }
}

impl FromValue for Duration {
    const ABSENT: Self = Self::ZERO;

    fn from_value(value: &Value) -> Option<Self> {
        quantity::duration(value)
    }
}

impl FromValue for String {
    const ABSENT: Self = Self::new();

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromValue for Vec<String> {
    const ABSENT: Self = Self::new();

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::List(items) => {
                Some(items.iter().filter_map(|item| String::from_value(&item.value)).collect())
            }
            _ => None,
        }
    }
}

impl FromValue for SocketAddr {
    const ABSENT: Self = Self::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => address(text),
            _ => None,
        }
    }
}

impl<T: Keyword> FromValue for T {
    const ABSENT: Self = T::SPELLINGS[0].1;

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => keyword::find(text),
            _ => None,
        }
    }
}
