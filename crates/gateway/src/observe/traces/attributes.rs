//! The attributes of a span or of a resource, written as they are sent.
//!
//! A trace has about thirty of them. As messages they would be sixty small allocations, and each
//! length would be computed once for each message around it. So they are written as bytes at once.
//! Fields of a message may stand in any order, so these bytes can stand before the other fields.

use prost::encoding::{encode_varint, encoded_len_varint};

/// The first bytes of fields: the number of the field, and how its value is encoded.
const SPAN_ATTRIBUTE: u8 = 9 << 3 | LENGTH_DELIMITED;
const RESOURCE_ATTRIBUTE: u8 = 1 << 3 | LENGTH_DELIMITED;
const KEY: u8 = 1 << 3 | LENGTH_DELIMITED;
const VALUE: u8 = 2 << 3 | LENGTH_DELIMITED;
const TEXT: u8 = 1 << 3 | LENGTH_DELIMITED;
const BOOL: u8 = 2 << 3;
const INT: u8 = 3 << 3;
const LENGTH_DELIMITED: u8 = 2;

/// The largest number that is encoded as one byte.
const ONE_BYTE_MAX: usize = 127;
/// Most spans have fewer bytes of attributes.
const USUAL_BYTES: usize = 768;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Attributes {
    bytes: Vec<u8>,
    field: u8,
}

/// The bytes of a text with its first byte and its length.
fn size_of(text: &str) -> usize {
    1 + encoded_len_varint(text.len() as u64) + text.len()
}

// === impl Attributes ===

impl Attributes {
    pub(super) fn of_span() -> Self {
        Self { bytes: Vec::with_capacity(USUAL_BYTES), field: SPAN_ATTRIBUTE }
    }

    pub(super) fn of_resource() -> Self {
        Self { bytes: Vec::new(), field: RESOURCE_ATTRIBUTE }
    }

    /// Adds a text, unless it is empty.
    pub(super) fn text(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.begin(key, size_of(value));
            self.write_text(TEXT, value);
        }
    }

    pub(super) fn int(&mut self, key: &str, value: u64) {
        // The protocol has signed numbers only.
        self.number(key, INT, value.min(i64::MAX as u64));
    }

    pub(super) fn bool(&mut self, key: &str, value: bool) {
        self.number(key, BOOL, value.into());
    }

    /// Adds a number, if there is one.
    pub(super) fn count(&mut self, key: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.int(key, value);
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn number(&mut self, key: &str, form: u8, value: u64) {
        self.begin(key, 1 + encoded_len_varint(value));
        self.bytes.push(form);
        encode_varint(value, &mut self.bytes);
    }

    /// Writes everything before the value, which takes this many bytes.
    fn begin(&mut self, key: &str, value: usize) {
        let whole = size_of(key) + 1 + encoded_len_varint(value as u64) + value;
        if whole <= ONE_BYTE_MAX {
            // Nearly all are this short, and then so is every length within.
            self.bytes.extend_from_slice(&[self.field, whole as u8, KEY, key.len() as u8]);
            self.bytes.extend_from_slice(key.as_bytes());
            self.bytes.extend_from_slice(&[VALUE, value as u8]);
            return;
        }
        self.bytes.push(self.field);
        encode_varint(whole as u64, &mut self.bytes);
        self.write_text(KEY, key);
        self.bytes.push(VALUE);
        encode_varint(value as u64, &mut self.bytes);
    }

    fn write_text(&mut self, form: u8, text: &str) {
        if text.len() <= ONE_BYTE_MAX {
            self.bytes.extend_from_slice(&[form, text.len() as u8]);
        } else {
            self.bytes.push(form);
            encode_varint(text.len() as u64, &mut self.bytes);
        }
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use prost::{Message, Oneof};

    use super::*;

    /// Both a span and a resource, for their attributes.
    #[derive(Clone, PartialEq, Message)]
    struct Owner {
        #[prost(message, repeated, tag = "1")]
        of_resource: Vec<KeyValue>,
        #[prost(message, repeated, tag = "9")]
        of_span: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct KeyValue {
        #[prost(string, tag = "1")]
        key: String,
        #[prost(message, optional, tag = "2")]
        value: Option<AnyValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct AnyValue {
        #[prost(oneof = "AttributeValue", tags = "1, 2, 3")]
        value: Option<AttributeValue>,
    }

    #[derive(Clone, PartialEq, Oneof)]
    enum AttributeValue {
        #[prost(string, tag = "1")]
        Text(String),
        #[prost(bool, tag = "2")]
        Bool(bool),
        #[prost(int64, tag = "3")]
        Int(i64),
    }

    fn pair(key: &str, value: AttributeValue) -> KeyValue {
        KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }) }
    }

    #[test]
    fn m02_attributes_are_the_bytes_of_the_messages() {
        // Lengths of one, two and three bytes.
        let texts = ["t".repeat(7), "é".repeat(100), "l".repeat(20_000)];
        let long_key = "k".repeat(130);
        let mut attributes = Attributes::of_span();
        let mut expected = Vec::new();
        for text in &texts {
            attributes.text(&long_key, text);
            expected.push(pair(&long_key, AttributeValue::Text(text.clone())));
        }
        attributes.text("empty", "");
        for (number, read) in [(0, 0), (127, 127), (128, 128), (u64::MAX, i64::MAX)] {
            attributes.int("int", number);
            expected.push(pair("int", AttributeValue::Int(read)));
        }
        for truth in [false, true] {
            attributes.bool("bool", truth);
            expected.push(pair("bool", AttributeValue::Bool(truth)));
        }
        attributes.count("none", None);
        let expected = Owner { of_span: expected, ..Owner::default() };
        assert_eq!(attributes.into_bytes(), expected.encode_to_vec());

        let mut attributes = Attributes::of_resource();
        attributes.text("service.name", "door");
        let of_resource = vec![pair("service.name", AttributeValue::Text("door".into()))];
        let expected = Owner { of_resource, ..Owner::default() };
        assert_eq!(attributes.into_bytes(), expected.encode_to_vec());
    }
}
