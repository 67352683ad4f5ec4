//! Reading one table of a file: each key is asked for by name, what is left over is unknown.
//!
//! A value that cannot be used is reported and read as if it were absent, so that the reading goes
//! on to the next one. The known keys are those that were asked for; there is no second list.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use flow::OutOfRange;

use super::keywords::{self, Keywords};
use super::quantity;
use super::report::Report;
use super::suggest;
use super::tree::{Node, Place, Table, Value, joined};

/// A table that is being read.
pub(super) struct Section<'r> {
    place: Place,
    table: Table,
    known: Vec<&'static str>,
    /// Where the keys stand that were read.
    places: BTreeMap<&'static str, Place>,
    report: &'r Report,
}

const A_TEXT: &str = "a text that is not empty";

// === impl Section ===

impl<'r> Section<'r> {
    pub(super) fn new(place: Place, table: Table, report: &'r Report) -> Self {
        Self { place, table, known: Vec::new(), places: BTreeMap::new(), report }
    }

    pub(super) fn report(&self) -> &'r Report {
        self.report
    }

    /// The table itself stands here.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Reports a key that must be there and is not.
    pub(super) fn require(&self, key: &'static str) {
        if !self.has(key) {
            self.refuse(key, "is missing".into());
        }
    }

    /// A key's value as it stands.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Node> {
        self.known.push(key);
        let node = self.table.remove(key)?;
        self.places.insert(key, node.place.clone());
        Some(node)
    }

    /// A table inside this one; an empty one if it is not there.
    pub(super) fn section(&mut self, key: &'static str) -> Self {
        let place = self.place_of(key);
        match self.take(key) {
            Some(node) => self.as_section(node),
            None => Self::new(place, Table::new(), self.report),
        }
    }

    /// The tables of a list.
    pub(super) fn sections(&mut self, key: &'static str) -> Vec<Self> {
        let Some(node) = self.take(key) else { return Vec::new() };
        match node.value {
            Value::List(items) => items.into_iter().map(|item| self.as_section(item)).collect(),
            other => {
                self.report.problem(&node.place, wrong(&other, "a list of tables"));
                Vec::new()
            }
        }
    }

    /// What is written here, for tables whose keys are not known beforehand.
    pub(super) fn into_table(self) -> Table {
        self.table
    }

    /// A value as a table, which YAML also writes as nothing at all.
    pub(super) fn as_section(&self, node: Node) -> Self {
        let table = match node.value {
            Value::Table(table) => table,
            Value::Null => Table::new(),
            other => {
                self.report.problem(&node.place, wrong(&other, "a table"));
                Table::new()
            }
        };
        Self::new(node.place, table, self.report)
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.read(key, "true or false", |value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        })
    }

    pub(super) fn whole(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        self.read(key, &allowed, |value| {
            let Value::Integer(number) = value else { return None };
            u64::try_from(*number).ok().filter(|number| range.contains(number))
        })
    }

    /// As [`Section::whole`], for what is kept in 32 bits.
    pub(super) fn count(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let (start, end) = range.into_inner();
        self.whole(key, start.into()..=end.into()).and_then(|number| u32::try_from(number).ok())
    }

    /// Any finite number; its range is checked by whoever uses it.
    pub(super) fn number(&mut self, key: &'static str) -> Option<f64> {
        self.read(key, "a finite number", |value| match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number).filter(|number| number.is_finite()),
            _ => None,
        })
    }

    pub(super) fn duration(
        &mut self,
        key: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let [start, end] = [range.start(), range.end()].map(|end| quantity::show_duration(*end));
        let allowed = format!("{start} to {end}, written as \"30s\", \"500ms\", \"5m\" or seconds");
        self.read(key, &allowed, |value| {
            quantity::duration(value).filter(|duration| range.contains(duration))
        })
    }

    pub(super) fn size(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let [start, end] = [range.start(), range.end()].map(|end| quantity::show_size(*end));
        let allowed = format!("{start} to {end}, written as \"32MiB\", \"1MB\" or bytes");
        self.read(key, &allowed, |value| quantity::size(value).filter(|size| range.contains(size)))
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        let node = self.take(key)?;
        self.as_text(node).map(|(text, _)| text)
    }

    /// A list of texts, or one text alone.
    pub(super) fn texts(&mut self, key: &'static str) -> Option<Vec<(String, Place)>> {
        let node = self.take(key)?;
        let items = match node.value {
            Value::List(items) => items,
            value => vec![Node { value, place: node.place }],
        };
        Some(items.into_iter().filter_map(|item| self.as_text(item)).collect())
    }

    /// A value as a text that says something.
    pub(super) fn as_text(&self, node: Node) -> Option<(String, Place)> {
        match node.value {
            Value::Text(text) if !text.is_empty() => Some((text, node.place)),
            other => {
                self.report.problem(&node.place, wrong(&other, A_TEXT));
                None
            }
        }
    }

    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: Keywords<T>) -> Option<T> {
        let node = self.take(key)?;
        self.as_word(&node, words)
    }

    /// A value as one of some words.
    pub(super) fn as_word<T: Copy>(&self, node: &Node, words: Keywords<T>) -> Option<T> {
        let found = match &node.value {
            Value::Text(text) => keywords::find(words, text),
            _ => None,
        };
        if found.is_none() {
            let meant = match &node.value {
                Value::Text(text) => suggest::nearest(text, words.iter().map(|(word, _)| *word)),
                _ => None,
            };
            let meant = meant.map_or(String::new(), |word| format!("; did you mean {word:?}?"));
            let problem = wrong(&node.value, &keywords::list(words)) + &meant;
            self.report.problem(&node.place, problem);
        }
        found
    }

    /// A value was read that cannot be used.
    pub(super) fn refuse(&self, key: &'static str, problem: String) {
        self.report.problem(&self.place_of(key), problem);
    }

    /// A number was read that the core does not take.
    pub(super) fn refuse_number(&self, key: &'static str, error: OutOfRange) {
        let OutOfRange { value, allowed, .. } = error;
        self.refuse(key, format!("is {value}, allowed is {allowed}"));
    }

    /// A value was read that does not do what one might think.
    pub(super) fn notice(&self, key: &'static str, what: &str) {
        self.report.notice(&self.place_of(key), what);
    }

    /// Reports what nobody asked for.
    pub(super) fn finish(self) {
        for (key, node) in &self.table {
            let meant = suggest::nearest(key, self.known.iter().copied());
            let hint = match meant {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => format!("known are: {}", self.known.join(", ")),
            };
            self.report.problem(&node.place, format!("is not a known key; {hint}"));
        }
    }

    fn read<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        good: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let node = self.take(key)?;
        let value = good(&node.value);
        if value.is_none() {
            self.report.problem(&node.place, wrong(&node.value, allowed));
        }
        value
    }

    fn place_of(&self, key: &'static str) -> Place {
        let here = || Place { path: joined(&self.place.path, key), line: self.place.line };
        self.places.get(key).cloned().unwrap_or_else(here)
    }
}

fn wrong(value: &Value, allowed: &str) -> String {
    format!("is {value}, allowed is {allowed}")
}
