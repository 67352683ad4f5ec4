//! A JSON object of which this engine knows only some fields: unknown fields keep their place and
//! their bytes.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The fields of an object, in order.
#[derive(Debug, Default)]
pub(super) struct JsonFields(Vec<(String, Box<RawValue>)>);

struct FieldsVisitor;

// === impl JsonFields ===

impl JsonFields {
    /// Parses an object; an absent one is empty.
    pub(super) fn read(text: Option<&RawValue>) -> serde_json::Result<Self> {
        let text = text.map_or("null", RawValue::get);
        Ok(serde_json::from_str::<Option<Self>>(text)?.unwrap_or_default())
    }

    /// The value of a field. The last of several with one name counts, as in Go.
    pub(super) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(field, _)| field == name).map(|(_, value)| &**value)
    }

    /// Sets the value of a field, in its place or as the first field.
    pub(super) fn set(&mut self, name: &str, value: &impl Serialize) -> serde_json::Result<()> {
        let value = serde_json::value::to_raw_value(value)?;
        match self.0.iter_mut().rev().find(|(field, _)| field == name) {
            Some((_, old)) => *old = value,
            None => self.0.insert(0, (name.to_owned(), value)),
        }
        Ok(())
    }

    /// Removes a field.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(field, _)| field != name);
    }
}

impl Serialize for JsonFields {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        let mut map = into.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for JsonFields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(FieldsVisitor)
    }
}

// === impl FieldsVisitor ===

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = JsonFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonFields, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(JsonFields(fields))
    }
}
