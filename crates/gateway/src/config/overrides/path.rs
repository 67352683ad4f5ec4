//! Paths of keys as flags write them: `backends[0].url`, `flows[0].match."header:x-team"`.

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::config) enum Step {
    /// A key of a table.
    Name(String),
    /// An entry of a list.
    Index(usize),
}

/// Splits `KEY=VALUE` into the key as it was written, its steps, and the value.
pub(super) fn split(assignment: &str) -> Option<(String, Vec<Step>, String)> {
    let mut steps = Vec::new();
    let mut rest = assignment;
    loop {
        let (step, after) = first(rest)?;
        steps.push(step);
        rest = after.strip_prefix('.').unwrap_or(after);
        if let Some(value) = after.strip_prefix('=') {
            let written = &assignment[..assignment.len() - value.len() - 1];
            return Some((written.to_owned(), steps, value.trim().to_owned()));
        }
        // A name is followed by a dot, an index or the value.
        if after.len() == rest.len() && !after.starts_with('[') {
            return None;
        }
    }
}

/// The first step of a text, and the rest.
fn first(text: &str) -> Option<(Step, &str)> {
    if let Some(inside) = text.strip_prefix('[') {
        let (index, rest) = inside.split_once(']')?;
        return Some((Step::Index(index.parse().ok()?), rest));
    }
    if let Some(quote) = text.chars().next().filter(|letter| matches!(letter, '"' | '\'')) {
        let (name, rest) = text[1..].split_once(quote)?;
        return Some((Step::Name(name.into()), rest));
    }
    let end = text.find(['.', '[', '=']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let name = name.trim();
    (!name.is_empty()).then(|| (Step::Name(name.into()), rest))
}
