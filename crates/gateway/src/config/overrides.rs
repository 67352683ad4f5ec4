//! Values from flags and from the environment, put over those of the file.
//!
//! `--set queue.total_capacity=500` and `TIDEGATE_QUEUE__TOTAL_CAPACITY=500` name any key of the
//! table. In a variable `__` stands between the parts of a path, and a number is the index of a
//! list. The other flags that concern configuration are short forms of `--set`. The variables of
//! OpenTelemetry stand for keys that nothing else gives.

mod environment;
mod open_telemetry;
mod path;

use super::key_aliases::canonical;
use super::sections::ROOT;
use super::{Flag, Source};
use crate::schema::{
    Key, Location, Misfit, Node, Origin, Report, SectionSchema, Table, Value, ValueType,
    expand_text, joined, nearest,
};

pub use environment::PREFIX;
#[cfg(test)]
pub(super) use environment::variable_of;
pub(super) use open_telemetry::PREFIX as OPEN_TELEMETRY;
pub(super) use path::Step;

/// A value for one key.
struct Assignment {
    steps: Vec<Step>,
    text: Given,
    origin: Origin,
}

/// A value as it was given.
enum Given {
    /// A text, which is read as the type of its key.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
}

/// Puts the environment and then the flags over a file's values.
pub(super) fn apply(root: &mut Table, source: &Source, report: &Report) {
    for flag in &source.flags {
        if let Flag::Implied { flag, key, value } = flag
            && !is_given(root, key)
        {
            assign(root, &Assignment::flag(flag, key, Given::Text(value.clone())), report);
        }
    }
    for (name, text) in environment::ordered(&source.variables) {
        environment::apply(root, name, text, report);
    }
    for flag in &source.flags {
        apply_flag(root, flag, report);
    }
    open_telemetry::apply(root, source, report);
}

/// Whether there is a value for this key.
fn is_given(root: &Table, key: &str) -> bool {
    let Some((section, name)) = key.split_once('.') else { return root.contains_key(key) };
    let below = root.get(section).map(|node| &node.value);
    matches!(below, Some(Value::Table(table)) if is_given(table, name))
}

fn apply_flag(root: &mut Table, flag: &Flag, report: &Report) {
    match flag {
        Flag::Set(assignment) => match path::split(assignment) {
            Some((written, steps, text)) => {
                let origin = Origin::Flag(format!("--set {written}"));
                assign(root, &Assignment { steps, text: Given::Text(text), origin }, report);
            }
            None => {
                let form = "write it as KEY=VALUE, such as queue.total_capacity=500";
                report.elsewhere(format!("--set {assignment}: {form}"));
            }
        },
        // They are below the environment.
        Flag::Implied { .. } => {}
        Flag::Value { flag, key, value } => {
            let text = Given::Text(value.clone());
            assign(root, &Assignment::flag(flag, key, text), report);
        }
        Flag::List { flag, key, values } => {
            let text = Given::Texts(values.clone());
            assign(root, &Assignment::flag(flag, key, text), report);
        }
        Flag::Backend(text) => {
            let named = text.split_once('=').filter(|(id, _)| !id.contains("://"));
            let (id, url) = named.map_or((None, text.as_str()), |(id, url)| (Some(id), url));
            let entry = [id.map(|id| ("id", id)), Some(("url", url))];
            append(root, &["backends"], &format!("--backend {text}"), &entry);
        }
        Flag::Queue(name) => {
            let entry = [Some(("name", name.as_str()))];
            append(root, &["dispatch", "queues"], &format!("--queue {name}"), &entry);
        }
    }
}

fn assign(root: &mut Table, assignment: &Assignment, report: &Report) {
    let location = |path| Location { path, line: 0, origin: assignment.origin.clone() };
    if let Err((path, misfit)) = put(&ROOT, root, &assignment.steps, (String::new(), assignment)) {
        report.problem(&location(path), misfit);
    }
}

/// A path, and the problem there.
type Wrong = (String, Misfit);

/// Puts a value into a table, at the path that the steps lead to from `at`.
fn put(
    schema: &'static SectionSchema,
    table: &mut Table,
    steps: &[Step],
    (at, given): (String, &Assignment),
) -> Result<(), Wrong> {
    let Some((Step::Name(name), rest)) = steps.split_first() else {
        return Err((at, Misfit("is a table, not a list".into())));
    };
    let path = joined(&at, name);
    let Some(key) = canonical(schema, name) else { return Err((path, unknown(schema, name))) };
    if rest.is_empty() {
        table.insert(key.name.into(), given.node(key.value_type, path));
        return Ok(());
    }
    let empty = Value::Table(Table::new());
    match key.value_type {
        ValueType::Table(inner) | ValueType::WordOrTable { table: inner, .. } => {
            match &mut entry(table, key, &path, given, empty).value {
                Value::Table(table) => put(inner, table, rest, (path, given)),
                // The file has another value here, which is reported as a problem of the file.
                _ => Ok(()),
            }
        }
        ValueType::Tables(inner) | ValueType::TextsOrTables { table: inner, .. } => {
            let list = entry(table, key, &path, given, Value::List(Vec::new()));
            if let (ValueType::TextsOrTables { .. }, Value::List(items)) =
                (key.value_type, &mut list.value)
            {
                items.iter_mut().for_each(|item| expand_text(inner, item));
            }
            put_item(inner, list, rest, (path, given))
        }
        ValueType::Map(of) => match (rest, &mut entry(table, key, &path, given, empty).value) {
            ([Step::Name(name)], Value::Table(map)) => {
                let path = joined(&path, name);
                map.insert(name.clone(), given.node(*of, path));
                Ok(())
            }
            _ => Err((path, Misfit("has one name below it, and no more".into()))),
        },
        _ => Err((path, Misfit("has no keys below it".into()))),
    }
}

/// Puts a value into a table of a list. The index after the last adds a table.
fn put_item(
    schema: &'static SectionSchema,
    list: &mut Node,
    steps: &[Step],
    (at, given): (String, &Assignment),
) -> Result<(), Wrong> {
    let Some((Step::Index(index), rest)) = steps.split_first() else {
        return Err((at, Misfit("is a list: name an entry by its index, such as [0]".into())));
    };
    let path = format!("{at}[{index}]");
    let Value::List(items) = &mut list.value else { return Ok(()) };
    if *index > items.len() {
        let what = format!("does not follow the list, which has {} entries", items.len());
        return Err((path, Misfit(what)));
    }
    if *index == items.len() {
        items.push(Node::given(Value::Table(Table::new()), path.clone(), given.origin.clone()));
    }
    let item = &mut items[*index];
    match &mut item.value {
        _ if rest.is_empty() => *item = given.node(ValueType::Table(schema), path),
        Value::Table(table) => return put(schema, table, rest, (path, given)),
        _ => {}
    }
    Ok(())
}

/// The value of a key that has values inside.
fn entry<'t>(
    table: &'t mut Table,
    key: &Key,
    path: &str,
    given: &Assignment,
    empty: Value,
) -> &'t mut Node {
    let new = || Node::given(empty.clone(), path.to_owned(), given.origin.clone());
    let node = table.entry(key.name.to_owned()).or_insert_with(new);
    let is_word =
        matches!((&key.value_type, &node.value), (ValueType::WordOrTable { .. }, Value::Text(_)));
    if node.value == Value::Null || is_word {
        *node = new();
    }
    node
}

fn unknown(schema: &SectionSchema, name: &str) -> Misfit {
    let keys = || schema.keys.iter().chain(schema.variant_keys()).map(|key| key.name);
    let hint = match nearest(name, keys()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => format!("known are: {}", keys().collect::<Vec<_>>().join(", ")),
    };
    Misfit(format!("is not a known key; {hint}"))
}

/// Adds a table to a list, unless the list has one of the same name.
fn append(root: &mut Table, list: &[&str], flag: &str, fields: &[Option<(&str, &str)>]) {
    let origin = Origin::Flag(flag.to_owned());
    let mut table = root;
    let Some((last, sections)) = list.split_last() else { return };
    for section in sections {
        let empty = || Node::given(Value::Table(Table::new()), (*section).into(), origin.clone());
        let node = table.entry((*section).to_owned()).or_insert_with(empty);
        let Value::Table(inner) = &mut node.value else { return };
        table = inner;
    }
    let path = list.join(".");
    let empty = || Node::given(Value::List(Vec::new()), path.clone(), origin.clone());
    let node = table.entry((*last).to_owned()).or_insert_with(empty);
    let Value::List(items) = &mut node.value else { return };
    let text = |(key, text): (&str, &str)| {
        (key.to_owned(), Node::given(Value::Text(text.into()), String::new(), origin.clone()))
    };
    let entry: Table = fields.iter().flatten().copied().map(text).collect();
    let name_of = |table: &Table| table.get("name").map(|node| node.value.clone());
    let is_there = |item: &Node| match &item.value {
        Value::Table(table) => name_of(table).is_some() && name_of(table) == name_of(&entry),
        _ => false,
    };
    if !items.iter().any(is_there) {
        let path = format!("{path}[{}]", items.len());
        items.push(Node::given(Value::Table(entry), path, origin.clone()));
    }
}

// === impl Assignment ===

impl Assignment {
    /// A flag that stands for a key.
    fn flag(flag: &str, key: &str, text: Given) -> Self {
        let steps = key.split('.').map(|name| Step::Name(name.into())).collect();
        Self { steps, text, origin: Origin::Flag(flag.into()) }
    }

    fn node(&self, value_type: ValueType, path: String) -> Node {
        let value = match &self.text {
            Given::Text(text) => value_type.parse(text),
            Given::Texts(texts) => {
                let node = |text: &String| Node::new(Value::Text(text.clone()), 0);
                Value::List(texts.iter().map(node).collect())
            }
        };
        Node::given(value, path, self.origin.clone())
    }
}
