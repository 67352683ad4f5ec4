//! Environment variables: `TIDEGATE_QUEUE__TOTAL_CAPACITY` is `queue.total_capacity`.
//!
//! No key has `__` in its name, so that every variable stands for one path. A variable that stands
//! for none is a problem, because it is most likely misspelt.

use super::{Assignment, Given, Step, put};
use crate::config::sections::ROOT;
use crate::schema::{Location, Origin, Report, SectionSchema, Table, ValueType, joined, nearest};

/// What the names of all variables begin with.
pub const PREFIX: &str = "TIDEGATE_";

/// Stands between the parts of a path.
const SEPARATOR: &str = "__";

/// Variables of the program that are no keys: the level of its messages, the API key that commands
/// send, and the seed of its tests.
const OTHERS: [&str; 3] = ["TIDEGATE_LOG", "TIDEGATE_API_KEY", "TIDEGATE_SEED"];

/// Variables in the order of their paths: a whole list before its entries, and these by index.
pub(super) fn ordered(variables: &[(String, String)]) -> Vec<&(String, String)> {
    let mut ordered: Vec<_> = variables.iter().collect();
    ordered.sort_by_key(|(name, _)| name.split(SEPARATOR).map(step).collect::<Vec<_>>());
    ordered
}

/// Puts the value of one variable in its place. A variable without a value counts as not set.
pub(super) fn apply(root: &mut Table, name: &str, text: &str, report: &Report) {
    let Some(written) = name.strip_prefix(PREFIX) else { return };
    if text.is_empty() || OTHERS.contains(&name) || is_service_link(written, text) {
        return;
    }
    let steps = written.split(SEPARATOR).map(step).collect();
    let origin = Origin::Variable(name.to_owned());
    let assignment = Assignment { steps, text: Given::Text(text.into()), origin };
    let Err((path, misfit)) = put(&ROOT, root, &assignment.steps, (String::new(), &assignment))
    else {
        return;
    };
    let all = variables();
    if known_alike(written, &all) {
        let location = Location { path, line: 0, origin: assignment.origin };
        return report.problem(&location, misfit);
    }
    report.elsewhere(format!("{name} is not a variable of Tidegate; {}", hint(written, &all)));
}

/// What may have been meant by an unknown variable.
fn hint(written: &str, all: &[String]) -> String {
    match nearest(written, all.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean {PREFIX}{meant}?"),
        None => "`tidegate check --all` lists the keys".to_owned(),
    }
}

/// The variable of a path such as `backends[0].url`.
#[cfg(test)]
pub(in crate::config) fn variable_of(path: &str) -> String {
    format!("{PREFIX}{}", without_prefix(path))
}

fn without_prefix(path: &str) -> String {
    let plain = path.replace('[', ".").replace(']', "");
    plain.to_uppercase().replace('.', SEPARATOR)
}

/// Names of tables keep their case, because a key below may be any name.
fn step(part: &str) -> Step {
    match part.parse() {
        Ok(index) => Step::Index(index),
        Err(_) if part.chars().any(|letter| letter.is_ascii_lowercase()) => Step::Name(part.into()),
        Err(_) => Step::Name(part.to_ascii_lowercase()),
    }
}

/// Whether Kubernetes or Docker has set the variable for a service whose name begins with
/// `tidegate`: `TIDEGATE_SERVICE_HOST`, `TIDEGATE_PORT`, `TIDEGATE_PORT_8430_TCP_ADDR`.
fn is_service_link(path: &str, text: &str) -> bool {
    let is_part = |word: &str| format!("_{path}_").contains(&format!("_{word}_"));
    !path.contains(SEPARATOR)
        && (is_part("SERVICE_HOST")
            || is_part("SERVICE_PORT")
            || is_part("TCP")
            || is_part("UDP")
            || (is_part("PORT") && text.contains("://")))
}

/// The variables of all keys without their prefix; lists have the index 0.
fn variables() -> Vec<String> {
    let mut paths = Vec::new();
    collect(&ROOT, "", &mut paths);
    paths.iter().map(|path| without_prefix(path)).collect()
}

fn collect(schema: &SectionSchema, at: &str, paths: &mut Vec<String>) {
    for key in schema.keys.iter().chain(schema.variant_keys()) {
        let path = joined(at, key.name);
        if let Some(inner) = key.value_type.section() {
            let list =
                matches!(key.value_type, ValueType::Tables(_) | ValueType::TextsOrTables { .. });
            collect(inner, &if list { format!("{path}[0]") } else { path.clone() }, paths);
        }
        paths.push(path);
    }
}

/// Whether the name is a variable's apart from its indices.
fn known_alike(name: &str, all: &[String]) -> bool {
    let zero = |part: &str| match part.parse::<usize>() {
        Ok(_) => "0".to_owned(),
        Err(_) => part.to_uppercase(),
    };
    let parts: Vec<String> = name.split(SEPARATOR).map(zero).collect();
    all.contains(&parts.join(SEPARATOR))
}
