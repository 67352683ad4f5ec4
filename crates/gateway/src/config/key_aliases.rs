//! Other spellings: each is moved to the key that it stands for before anything is validated.
//!
//! The aliases stand in `sections`. Values keep the place they were written at, so that problems
//! name the key as the file does. Both spellings of one key at once are a problem, because either
//! could be meant.

use super::sections::{QUEUE, ROOT};
use super::settings::Profile;
use crate::schema::{Key, Location, Node, Report, SectionSchema, Table, Value};

/// Moves every alias of a file to its key.
pub(super) fn translate(root: &mut Table, report: &Report) {
    for section in ROOT.keys {
        for alias in section.aliases {
            move_section(root, alias, section.name, report);
        }
        let Some(schema) = section.value_type.section() else { continue };
        for key in schema.keys {
            move_from_elsewhere(root, section, key, report);
        }
        if let Some(Node { value: Value::Table(table), .. }) = root.get_mut(section.name) {
            translate_keys(schema, table, report);
        }
    }
}

/// Moves a section from its alias, in snake case or camel case, to its name.
fn move_section(root: &mut Table, alias: &str, name: &'static str, report: &Report) {
    let camel = root.keys().find(|key| *key != alias && snake_case(key) == alias).cloned();
    for written in [Some(alias.to_owned()), camel].into_iter().flatten() {
        if let Some(node) = root.remove(&written) {
            merge(root, name, node, report);
        }
    }
}

/// The key that a name or an alias stands for, in one section.
pub(super) fn canonical(schema: &SectionSchema, written: &str) -> Option<&'static Key> {
    let snake = if schema.camel_case { snake_case(written) } else { written.to_owned() };
    let alias = || schema.keys.iter().find(|key| key.aliases.contains(&snake.as_str()));
    schema.find(&snake).or_else(alias)
}

/// A queue that only has a size (`max_size`, or the profile that knows no other limit) has no limit
/// for each flow: a flow may fill it. A size that cannot be used is reported once, as the total.
pub(super) fn fill_flow_capacity(root: &mut Table, profile: Profile) {
    let Some(Node { value: Value::Table(queue), .. }) = root.get_mut(QUEUE.path) else { return };
    let Some(total) = queue.get("total_capacity") else { return };
    let is_size = snake_case(&total.location.path).ends_with(".max_size");
    let from_size = is_size || profile == Profile::Nexus;
    let fits =
        QUEUE.find("flow_capacity").is_some_and(|key| key.value_type.check(&total.value).is_ok());
    if from_size && fits {
        let total = total.clone();
        queue.entry("flow_capacity".to_owned()).or_insert(total);
    }
}

/// Moves a key that an alias with a dot has in another section.
fn move_from_elsewhere(root: &mut Table, section: &Key, key: &Key, report: &Report) {
    for (other, name) in key.aliases.iter().filter_map(|alias| alias.split_once('.')) {
        let Some(Node { value: Value::Table(theirs), .. }) = root.get_mut(other) else { continue };
        let Some(node) = theirs.remove(name) else { continue };
        if theirs.is_empty() {
            root.remove(other);
        }
        let location = Location { path: section.name.into(), ..node.location.clone() };
        let empty = Node { value: Value::Table(Table::new()), location };
        if let Value::Table(own) = &mut root.entry(section.name.to_owned()).or_insert(empty).value {
            put(own, key.name.to_owned(), node, report);
        }
    }
}

/// Adds the keys of a section's alias to the section.
fn merge(root: &mut Table, ours: &str, theirs: Node, report: &Report) {
    if theirs.value == Value::Null {
        return;
    }
    let own = root.get_mut(ours).map(|node| &mut node.value);
    let (Some(Value::Table(own)), Value::Table(table)) = (own, theirs.value.clone()) else {
        if let Some(earlier) = root.insert(ours.to_owned(), theirs)
            && earlier.value != Value::Null
        {
            conflict(&earlier.location, &root[ours].location, report);
        }
        return;
    };
    for (key, node) in table {
        put(own, key, node, report);
    }
}

fn translate_keys(schema: &SectionSchema, table: &mut Table, report: &Report) {
    for (written, node) in std::mem::take(table) {
        let name = if schema.camel_case { snake_case(&written) } else { written };
        if let Some((_, why)) = schema.ignored.iter().find(|(ignored, _)| *ignored == name) {
            report.notice(&node.location, why);
            continue;
        }
        let known = canonical(schema, &name).map(|key| key.name.to_owned());
        put(table, known.unwrap_or(name), node, report);
    }
}

fn put(table: &mut Table, key: String, node: Node, report: &Report) {
    match table.get(&key) {
        Some(earlier) => conflict(&earlier.location, &node.location, report),
        None => _ = table.insert(key, node),
    }
}

fn conflict(one: &Location, other: &Location, report: &Report) {
    report.problem(one, format!("and {} are the same thing: keep one of the two", other.path));
}

/// `queueTTL` as `queue_ttl`.
pub(super) fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut lower_before = false;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && lower_before {
            snake.push('_');
        }
        lower_before = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
