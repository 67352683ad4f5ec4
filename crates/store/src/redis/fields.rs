//! A JSON object of which only some fields are ours: what we do not know stays where it is, byte
//! for byte.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// The fields of an object, in their order.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, Box<RawValue>)>);

struct InOrder;

/// What a field says; `null` is as good as nothing, as it is in Go.
pub(super) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

// === impl Fields ===

impl Fields {
    /// The object in this text; an absent one is empty.
    pub(super) fn read(text: Option<&RawValue>) -> serde_json::Result<Self> {
        let text = text.map_or("null", RawValue::get);
        Ok(serde_json::from_str::<Option<Self>>(text)?.unwrap_or_default())
    }

    /// A field's value. Of several with one name the last counts, as in Go.
    pub(super) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(field, _)| field == name).map(|(_, value)| &**value)
    }

    /// Gives a field this value, in its place or in front.
    pub(super) fn set(&mut self, name: &str, value: &impl Serialize) -> serde_json::Result<()> {
        let value = serde_json::value::to_raw_value(value)?;
        match self.0.iter_mut().rev().find(|(field, _)| field == name) {
            Some((_, old)) => *old = value,
            None => self.0.insert(0, (name.to_owned(), value)),
        }
        Ok(())
    }

    /// Takes a field away.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(field, _)| field != name);
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        let mut map = into.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(InOrder)
    }
}

// === impl InOrder ===

impl<'de> Visitor<'de> for InOrder {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}
