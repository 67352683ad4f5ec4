//! The JSON Schema of a configuration file, for editors.
//!
//! It allows what the validator allows, as far as JSON Schema can say it: aliases and camel case
//! are included, relations between keys are not.

use serde_json::{Map, Value as Json, json};

use super::sections::ROOT;
use crate::schema::{Key, Range, SectionSchema, Value, ValueType, Variant, texts};

type Object = Map<String, Json>;

/// The schema as formatted JSON with a line break at its end.
pub fn json_schema() -> String {
    let mut schema = Object::new();
    schema.insert("$schema".into(), json!("http://json-schema.org/draft-07/schema#"));
    schema.insert("title".into(), json!("Configuration of Tidegate"));
    schema.extend(object(&ROOT));
    let efficiency = json!({ "type": "object", "description": "Only `dbus_enabled` is known." });
    if let Some(Json::Object(properties)) = schema.get_mut("properties") {
        properties.insert("efficiency".into(), efficiency);
    }
    format!("{:#}\n", Json::Object(schema))
}

/// A table: each key by its name and its other spellings.
fn object(schema: &SectionSchema) -> Object {
    if !schema.variants.is_empty() {
        return tagged(schema);
    }
    table(schema, schema.keys.iter())
}

fn table<'k>(schema: &SectionSchema, keys: impl Iterator<Item = &'k Key> + Clone) -> Object {
    let mut properties = Object::new();
    for key in keys.clone() {
        properties.insert(key.name.into(), property(schema, key));
        for alias in spellings(schema, key) {
            let mut property = property(schema, key);
            property["description"] = json!(format!("Another spelling of `{}`.", key.name));
            properties.insert(alias, property);
        }
    }
    for (name, why) in schema.ignored {
        for name in [(*name).to_owned(), camel_case(name)] {
            properties.insert(name, json!({ "description": why, "deprecated": true }));
        }
    }
    let required: Vec<&str> = keys.filter(|key| key.required).map(|key| key.name).collect();
    let mut object = Object::new();
    object.insert("type".into(), json!("object"));
    object.insert("additionalProperties".into(), json!(false));
    object.insert("properties".into(), Json::Object(properties));
    if !required.is_empty() {
        object.insert("required".into(), json!(required));
    }
    object
}

/// A table whose `kind` determines its other keys.
fn tagged(schema: &SectionSchema) -> Object {
    let of = |variant: &Variant| {
        let mut object = table(schema, schema.keys.iter().chain(variant.keys));
        let names: Vec<&str> = variant.spellings().collect();
        object["properties"]["kind"] = json!({ "enum": names, "description": variant.doc });
        Json::Object(object)
    };
    let mut any = Object::new();
    any.insert("anyOf".into(), schema.variants.iter().map(of).collect());
    any
}

fn spellings(schema: &SectionSchema, key: &Key) -> Vec<String> {
    let mut names: Vec<String> = key.aliases.iter().map(|alias| (*alias).to_owned()).collect();
    names.retain(|alias| !alias.contains('.'));
    if schema.camel_case || !key.aliases.is_empty() && schema.path.is_empty() {
        let camel: Vec<String> = names.iter().map(|name| camel_case(name)).collect();
        names.extend(camel);
        names.push(camel_case(key.name));
        if let Some(stem) = camel_case(key.name).strip_suffix("Ttl") {
            names.push(format!("{stem}TTL"));
        }
    }
    names.retain(|name| name != key.name);
    names
}

fn property(schema: &SectionSchema, key: &Key) -> Json {
    let mut property = values(schema, &key.value_type);
    property["description"] = json!(key.doc);
    if let Some(default) = key.default {
        property["default"] = plain(&key.value_type.parse(default));
    }
    property
}

/// The values of a type.
fn values(schema: &SectionSchema, value_type: &ValueType) -> Json {
    match value_type {
        ValueType::Bool => json!({ "type": "boolean" }),
        ValueType::Count { min, max } => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        ValueType::Size { .. } => with_unit("integer", r"^[0-9.]+ ?([KkMmGgTtPp][Ii]?)?[Bb]$"),
        ValueType::Duration { .. } => with_unit("number", r"^([0-9.]+ ?(d|h|m|s|ms|us) ?)+$"),
        ValueType::Number(range) => numbers(range),
        ValueType::Keyword(words) => one_of(&texts(&words())),
        ValueType::Variant => {
            let names: Vec<&str> = schema.variants.iter().flat_map(Variant::spellings).collect();
            one_of(&names)
        }
        ValueType::Text(form) => json!({ "type": "string", "examples": [form.example] }),
        ValueType::Address | ValueType::Path => json!({ "type": "string" }),
        ValueType::Texts(_) => json!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
        }),
        ValueType::Map(of) => {
            json!({ "type": "object", "additionalProperties": values(schema, of) })
        }
        ValueType::Table(table) => Json::Object(object(table)),
        ValueType::WordOrTable { word, table, .. } => {
            json!({ "anyOf": [{ "enum": [word] }, object(table)] })
        }
        ValueType::Tables(table) => json!({ "type": "array", "items": object(table) }),
        ValueType::TextsOrTables { table, .. } => json!({
            "type": "array", "items": { "anyOf": [{ "type": "string" }, object(table)] }
        }),
    }
}

/// A number, or a text with a unit.
fn with_unit(number: &str, pattern: &str) -> Json {
    json!({ "anyOf": [{ "type": number, "minimum": 0 }, { "type": "string", "pattern": pattern }] })
}

/// One of some words. Case, `-` and `_` make no difference, which a list of words cannot say.
fn one_of(words: &[&str]) -> Json {
    json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": spelled(words) }] })
}

/// A pattern of the words in any case and with either sign.
fn spelled(words: &[&str]) -> String {
    let letter = |letter: char| match letter {
        '-' | '_' => "[-_]?".to_owned(),
        '.' => r"\.".to_owned(),
        letter if letter.is_ascii_alphabetic() => {
            format!("[{}{letter}]", letter.to_ascii_uppercase())
        }
        letter => letter.to_string(),
    };
    let word = |word: &&str| word.chars().map(letter).collect::<String>();
    format!("^({})$", words.iter().map(word).collect::<Vec<_>>().join("|"))
}

fn numbers(range: &Range) -> Json {
    let [min, max] = [
        if range.min_excluded { "exclusiveMinimum" } else { "minimum" },
        if range.max_excluded { "exclusiveMaximum" } else { "maximum" },
    ];
    json!({ "type": "number", min: range.min, max: range.max })
}

fn plain(value: &Value) -> Json {
    match value {
        Value::Bool(value) => json!(value),
        Value::Integer(number) => json!(i64::try_from(*number).unwrap_or(i64::MAX)),
        Value::Float(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::List(items) => items.iter().map(|item| plain(&item.value)).collect(),
        Value::Null | Value::Table(_) => Json::Null,
    }
}

/// `queue_ttl` as `queueTtl`.
fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let (start, rest) = part.split_at(1.min(part.len()));
        name + &start.to_uppercase() + rest
    })
}
