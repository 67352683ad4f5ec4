//! The sources' own spellings: each is moved to the key it stands for before anything is read.
//!
//! Values keep the place they were written at, so problems are told in the file's own words. Both
//! spellings of one thing at once are an error: there is no telling which one is meant.

use flow::CAPACITY_MAX;

use super::report::Report;
use super::tree::{Node, Place, Table, Value};

/// Sections and the names that sources have for them.
const SECTIONS: [(&str, &str); 2] =
    [("queue", "fair_request_queue"), ("controller", "request_queue_controller")];

/// Section, a source's key, ours.
const KEYS: [(&str, &str, &str); 5] = [
    ("queue", "max_size", "total_capacity"),
    ("queue", "max_wait_seconds", "queue_ttl"),
    ("queue", "total_queue_capacity", "total_capacity"),
    ("queue", "model_queue_capacity", "flow_capacity"),
    ("server", "grace_seconds", "grace"),
];

const BY_EVENTS: &str =
    "has no effect: requests leave the queue when there is room, not by polling";
const BY_DEADLINES: &str = "has no effect: each deadline has its own timer, nothing is swept";

/// Keys that event-driven dispatch makes needless.
const NEEDLESS: [(&str, &str, &str); 5] = [
    ("controller", "num_poppers", BY_EVENTS),
    ("controller", "popper_wait_base", BY_EVENTS),
    ("controller", "popper_wait_jitter_max", BY_EVENTS),
    ("controller", "expiry_cleanup_interval", BY_DEADLINES),
    ("workload", "cleanup_interval", BY_DEADLINES),
];

/// Moves every source's spelling to where it belongs.
pub(super) fn translate(root: &mut Table, report: &Report) {
    for (ours, theirs) in SECTIONS {
        let camel = root.keys().find(|key| **key != *theirs && snake_case(key) == theirs).cloned();
        for name in [Some(theirs.to_owned()), camel].into_iter().flatten() {
            if let Some(node) = root.remove(&name) {
                merge(root, ours, node, report);
            }
        }
    }
    move_dbus(root, report);
    for section in ["queue", "controller", "server", "workload"] {
        if let Some(Node { value: Value::Table(table), .. }) = root.get_mut(section) {
            translate_keys(section, table, report);
        }
    }
}

/// `efficiency.dbus_enabled` is the one key of that section that means something here.
fn move_dbus(root: &mut Table, report: &Report) {
    let Some(Node { value: Value::Table(theirs), .. }) = root.get_mut("efficiency") else { return };
    let Some(node) = theirs.remove("dbus_enabled") else { return };
    if theirs.is_empty() {
        root.remove("efficiency");
    }
    let place = Place { path: "dbus".into(), line: node.place.line };
    let empty = Node { value: Value::Table(Table::new()), place };
    if let Value::Table(own) = &mut root.entry("dbus".to_owned()).or_insert(empty).value {
        put(own, "enabled".to_owned(), node, report);
    }
}

/// Adds what a source's section says to ours.
fn merge(root: &mut Table, ours: &str, theirs: Node, report: &Report) {
    if theirs.value == Value::Null {
        return;
    }
    let own = root.get_mut(ours).map(|node| &mut node.value);
    let (Some(Value::Table(own)), Value::Table(table)) = (own, theirs.value.clone()) else {
        if let Some(earlier) = root.insert(ours.to_owned(), theirs)
            && earlier.value != Value::Null
        {
            conflict(&earlier.place, &root[ours].place, report);
        }
        return;
    };
    for (key, node) in table {
        put(own, key, node, report);
    }
}

fn translate_keys(section: &str, table: &mut Table, report: &Report) {
    for (written, node) in std::mem::take(table) {
        // The server's keys have no camel-case twins in the sources.
        let key = if section == "server" { written } else { snake_case(&written) };
        let needless = NEEDLESS.iter().find(|(at, name, _)| *at == section && *name == key);
        if let Some((_, _, why)) = needless {
            report.notice(&node.place, why);
            continue;
        }
        let alias = KEYS.iter().find(|(at, theirs, _)| *at == section && *theirs == key);
        let key = alias.map_or(key, |(_, _, ours)| (*ours).to_owned());
        put(table, key, node, report);
    }
    if section == "queue" {
        fill_flow_capacity(table);
    }
}

/// A queue that only has a size knows no flows: each may fill it. A size that is no good is told
/// once, as the total.
fn fill_flow_capacity(queue: &mut Table) {
    let Some(total) = queue.get("total_capacity") else { return };
    let from_size = snake_case(&total.place.path).ends_with(".max_size");
    let fits =
        matches!(total.value, Value::Integer(size) if (1..=CAPACITY_MAX.into()).contains(&size));
    if from_size && fits {
        let total = total.clone();
        queue.entry("flow_capacity".to_owned()).or_insert(total);
    }
}

fn put(table: &mut Table, key: String, node: Node, report: &Report) {
    match table.get(&key) {
        Some(earlier) => conflict(&earlier.place, &node.place, report),
        None => _ = table.insert(key, node),
    }
}

fn conflict(one: &Place, other: &Place, report: &Report) {
    let what = format!("and {} are the same thing: keep one of the two", other.path);
    report.problem(one, what);
}

/// `queueTTL` as `queue_ttl`.
fn snake_case(name: &str) -> String {
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
