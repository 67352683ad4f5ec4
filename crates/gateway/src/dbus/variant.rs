//! Conversion of an admin page to D-Bus types, which have no null.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use zbus::Variant;

type Dictionary = BTreeMap<String, Variant<'static>>;

/// The fields of a page.
pub(super) fn dictionary(page: &impl Serialize) -> serde_json::Result<Dictionary> {
    let fields: serde_json::Map<String, Value> =
        serde_json::from_slice(&serde_json::to_vec(page)?)?;
    Ok(fields_of(fields))
}

fn fields_of(fields: serde_json::Map<String, Value>) -> Dictionary {
    let field = |(name, value)| Some((name, variant(value)?));
    fields.into_iter().filter_map(field).collect()
}

fn variant(value: Value) -> Option<Variant<'static>> {
    let variant = match value {
        Value::Null => return None,
        Value::Bool(flag) => flag.into(),
        Value::String(text) => text.into(),
        Value::Number(number) => match number.as_u64() {
            Some(count) => count.into(),
            None => number.as_f64()?.into(),
        },
        Value::Array(items) => list(items),
        Value::Object(fields) => fields_of(fields).into(),
    };
    Some(variant)
}

/// An array of strings if all items are strings, else an array of variants.
fn list(items: Vec<Value>) -> Variant<'static> {
    let texts: Option<Vec<String>> =
        items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
    match texts {
        Some(texts) => texts.into(),
        None => items.into_iter().filter_map(variant).collect::<Vec<_>>().into(),
    }
}
