//! The JSON Schema accepts the examples, and refuses some errors.

use serde_json::{Value as Json, json};

use super::documents::{example_text, uncommented_example};
use crate::config::file::{Format, parse};
use crate::config::json_schema::json_schema;
use crate::schema::{Report, Value};

/// A tree of values as JSON.
fn json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Integer(number) => json!(i64::try_from(*number).unwrap()),
        Value::Float(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::List(items) => items.iter().map(|item| json(&item.value)).collect(),
        Value::Table(table) => {
            Json::Object(table.iter().map(|(key, node)| (key.clone(), json(&node.value))).collect())
        }
    }
}

/// As much of JSON Schema as the generated one uses, without patterns: each mistake by its path.
fn errors(schema: &Json, value: &Json, at: &str) -> Vec<String> {
    if let Some(any) = schema.get("anyOf").and_then(Json::as_array) {
        let least = any.iter().map(|schema| errors(schema, value, at)).min_by_key(Vec::len);
        return least.unwrap_or_default();
    }
    let mut found = Vec::new();
    let is_type = match schema.get("type").and_then(Json::as_str) {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        _ => true,
    };
    let listed = schema.get("enum").and_then(Json::as_array);
    let number = value.as_f64();
    let bound = |name: &str| schema.get(name).and_then(Json::as_f64).zip(number);
    let fits = bound("minimum").is_none_or(|(bound, number)| number >= bound)
        && bound("maximum").is_none_or(|(bound, number)| number <= bound)
        && bound("exclusiveMinimum").is_none_or(|(bound, number)| number > bound)
        && bound("exclusiveMaximum").is_none_or(|(bound, number)| number < bound);
    if !is_type || !fits || listed.is_some_and(|listed| !listed.contains(value)) {
        found.push(format!("{at} is {value}"));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(errors(&schema["items"], item, &format!("{at}[{index}]")));
    }
    if let (Some(object), true) = (value.as_object(), schema.get("type").is_some()) {
        for (key, value) in object {
            let path = format!("{at}.{key}");
            match (&schema["properties"][key], &schema["additionalProperties"]) {
                (Json::Null, Json::Bool(false)) => found.push(format!("{path} is unknown")),
                (Json::Null, schema) | (schema, _) => found.extend(errors(schema, value, &path)),
            }
        }
        for key in schema["required"].as_array().into_iter().flatten() {
            if !object.contains_key(key.as_str().unwrap()) {
                found.push(format!("{at}.{key} is missing"));
            }
        }
    }
    found
}

fn errors_in(text: &str, format: Format) -> Vec<String> {
    let report = Report::new(None);
    let table = parse(text, format, &report);
    report.finish().unwrap();
    let schema: Json = serde_json::from_str(&json_schema()).unwrap();
    errors(&schema, &json(&Value::Table(table)), "")
}

#[test]
fn x06_the_json_schema_accepts_every_example() {
    let none: Vec<String> = Vec::new();
    for name in ["tidegate.toml", "nexus.toml"] {
        assert_eq!(errors_in(&example_text(name), Format::Toml), none, "{name}");
    }
    for name in ["tidegate.yaml", "inference-gateway.yaml", "config.yaml"] {
        assert_eq!(errors_in(&example_text(name), Format::Yaml), none, "{name}");
    }
    assert_eq!(errors_in(&uncommented_example(), Format::Toml), none);
    let camel = "[fairRequestQueue]\nqueueTTL = '4s'\ntotalCapacity = 4\n";
    assert_eq!(errors_in(camel, Format::Toml), none);
}

#[test]
fn x06_the_json_schema_refuses_errors() {
    let cases = [
        ("[queue]\ntotal_capacty = 5", ".queue.total_capacty is unknown"),
        ("[queue]\nflow_capacity = 0", ".queue.flow_capacity is 0"),
        ("[queue]\nenabled = 'yes'", ".queue.enabled is \"yes\""),
        ("[[backends]]\nid = 'a'", ".backends[0].\"url\" is missing"),
        ("[router]\nkv_threshold = 1.0", ".router.kv_threshold is 1"),
        ("[[dispatch.gates]]\nname = 'g'\nkind = 'redis'", ".dispatch.gates[0]"),
    ];
    for (text, expected) in cases {
        let errors = errors_in(text, Format::Toml);
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{text}: {errors:?}");
    }
}
