//! The reference of all keys, as Markdown: the generated part of `docs/CONFIGURATION.md`.
//!
//! Only the tests use it: they compare the committed document with it, or bring it up to date.

use std::fmt::Write as _;

use super::sections::ROOT;
use crate::schema::{
    Key, Reload, SectionSchema, Value, ValueType, Variant, Word, joined, show_duration, show_size,
};

/// The line after which the generated part begins, and the line before which it ends.
pub(super) const MARKS: [&str; 2] =
    ["<!-- generated from the table of keys: begin -->", "<!-- generated: end -->"];

const HEAD: &str = "| key | meaning | default | allowed |\n|---|---|---|---|\n";

/// All sections with their keys, and the other spellings.
fn reference() -> String {
    let mut text = String::new();
    for key in ROOT.keys {
        section(key, "", &mut text);
    }
    spellings(&mut text);
    text
}

/// A document with its generated part brought up to date; nothing if it has no marks.
pub(super) fn updated(document: &str) -> Option<String> {
    let (before, rest) = document.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some(format!("{before}{}\n\n{}\n{}{after}", MARKS[0], reference().trim_end(), MARKS[1]))
}

/// A section and those inside it.
fn section(key: &Key, at: &str, text: &mut String) {
    let Some(schema) = key.value_type.section() else { return };
    let path = joined(at, key.name);
    let is_list = matches!(key.value_type, ValueType::Tables(_) | ValueType::TextsOrTables { .. });
    let header = if is_list { format!("[[{path}]]") } else { format!("[{path}]") };
    _ = writeln!(text, "## `{header}`\n");
    if !schema.doc.is_empty() {
        _ = writeln!(text, "{}\n", wrapped(schema.doc));
    }
    let all_restart = needs_restart(schema);
    if all_restart {
        text.push_str("A change of these keys needs a restart.\n\n");
    }
    text.push_str(HEAD);
    for key in schema.keys {
        text.push_str(&row(schema, key, !all_restart));
    }
    text.push('\n');
    for variant in schema.variants {
        kind(schema, variant, text);
    }
    for key in schema.keys {
        section(key, &path, text);
    }
}

/// Whether every key of a section needs a restart, apart from the tables inside it.
fn needs_restart(schema: &SectionSchema) -> bool {
    let mut keys = schema.keys.iter().filter(|key| !matches!(key.value_type, ValueType::Table(_)));
    keys.all(|key| key.reload == Reload::Restart)
}

fn kind(schema: &SectionSchema, variant: &Variant, text: &mut String) {
    _ = writeln!(text, "### `kind = \"{}\"`\n\n{}\n\n{HEAD}", variant.name, variant.doc);
    // The header ends its own line.
    text.pop();
    for key in variant.keys {
        text.push_str(&row(schema, key, false));
    }
    text.push('\n');
}

fn row(schema: &SectionSchema, key: &Key, with_restart: bool) -> String {
    let mut doc = key.doc.to_owned();
    if with_restart && key.reload == Reload::Restart {
        doc += " A change needs a restart.";
    }
    let default = match (key.default, key.required) {
        (Some(text), _) => format!("`{}`", literal(&key.value_type.parse(text))),
        (None, true) => "required".into(),
        (None, false) => key.unset.to_owned(),
    };
    let allowed = allowed(schema, &key.value_type);
    format!("| `{}` | {doc} | {default} | {allowed} |\n", key.name)
}

fn literal(value: &Value) -> String {
    match value {
        Value::Float(number) => format!("{number:?}"),
        other => other.plain(),
    }
}

/// The values that a type allows, in the words of the document.
fn allowed(schema: &SectionSchema, value_type: &ValueType) -> String {
    match value_type {
        ValueType::Bool => "`true`, `false`".into(),
        ValueType::Count { min, max } => format!("{min} to {max}"),
        ValueType::Size { min, max } => format!("{} to {}", show_size(*min), show_size(*max)),
        ValueType::Duration { min, max } => {
            format!("{} to {}", show_duration(*min), show_duration(*max))
        }
        ValueType::Number(range) => range.to_string(),
        ValueType::Keyword(words) => keywords(&words()),
        ValueType::Variant => {
            let variants = schema.variants.iter();
            let names = variants.map(|variant| with_aliases(variant.name, variant.aliases));
            names.collect::<Vec<_>>().join(", ")
        }
        ValueType::Text(form) if form.allowed.is_empty() => "a text".into(),
        ValueType::Text(form) => form.allowed.to_owned(),
        ValueType::Address => "address and port, or `localhost:PORT`".into(),
        ValueType::Path => "a path".into(),
        ValueType::Texts(form) if form.allowed.is_empty() => "a list of texts, or one text".into(),
        ValueType::Texts(form) => format!("a list of {}, or one alone", form.allowed),
        ValueType::Map(of) => {
            format!("names, each with {}", allowed(schema, of))
        }
        ValueType::Table(_) => "a table".into(),
        ValueType::WordOrTable { word, .. } => format!("`{word:?}`, or a table"),
        ValueType::Tables(_) => "a list of tables".into(),
        ValueType::TextsOrTables { .. } => "a list of texts or tables".into(),
    }
}

fn keywords(words: &[Word]) -> String {
    let shown = words.iter().filter(|word| word.text == word.shown).map(|word| {
        let is_alias = |other: &&Word| other.shown == word.text && other.text != word.text;
        let aliases: Vec<&str> = words.iter().filter(is_alias).map(|alias| alias.text).collect();
        with_aliases(word.text, &aliases)
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A name with its other spellings.
fn with_aliases(name: &str, aliases: &[&str]) -> String {
    match aliases {
        [] => name.to_owned(),
        aliases => format!("{name} (also {})", aliases.join(", ")),
    }
}

fn spellings(text: &mut String) {
    text.push_str("## Other spellings\n\n");
    text.push_str(
        "The designs that Tidegate follows have names of their own, which are accepted. Both\n\
         spellings of one key at once are a problem.\n\n| written as | means |\n|---|---|\n",
    );
    for section in ROOT.keys {
        for alias in section.aliases {
            _ = writeln!(text, "| section `{alias}` | `{}` |", section.name);
        }
        if let Some(schema) = section.value_type.section() {
            key_spellings(text, section.name, schema);
        }
    }
    ignored(text);
}

fn key_spellings(text: &mut String, section: &str, schema: &SectionSchema) {
    for key in schema.keys {
        for alias in key.aliases {
            let alias = match alias.contains('.') {
                true => (*alias).to_owned(),
                false => joined(section, alias),
            };
            _ = writeln!(text, "| `{alias}` | `{}` |", joined(section, key.name));
        }
    }
}

fn ignored(text: &mut String) {
    let sections = || ROOT.keys.iter().filter_map(|key| key.value_type.section());
    let camel = sections().filter(|schema| schema.camel_case).map(|schema| schema.path);
    let camel: Vec<String> = camel.map(|path| format!("`{path}`")).collect();
    _ = writeln!(
        text,
        "\nThe sections {} also take camel case, such as `totalCapacity` or `queueTTL`.\n",
        camel.join(", ")
    );
    text.push_str(
        "These keys are accepted with a notice, whatever their values, and have no effect:\n\n",
    );
    for schema in sections() {
        for (name, why) in schema.ignored {
            let why = why.trim_start_matches("has no effect: ");
            _ = writeln!(text, "- `{}`: {why}.", joined(schema.path, name));
        }
    }
}

/// A paragraph in lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && line.chars().count() + word.chars().count() >= 100 {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        lines.push(line);
    }
    lines.join("\n")
}
