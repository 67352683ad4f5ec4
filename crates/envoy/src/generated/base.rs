//! Envoy's headers and metadata.
//!
//! Generated from `proto/envoy/config/core/v3/base.proto`.

/// Metadata of an exchange.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metadata {
    /// By namespace.
    #[prost(btree_map = "string, message", tag = "1")]
    pub filter_metadata: std::collections::BTreeMap<String, prost_types::Struct>,
}
/// A header. Only one of the two values may be set.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct HeaderValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value as text.
    #[prost(string, tag = "2")]
    pub value: String,
    /// Its value as bytes: what Envoy sends.
    #[prost(bytes = "bytes", tag = "3")]
    pub raw_value: prost::bytes::Bytes,
}
/// A header to set.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct HeaderValueOption {
    /// The header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<HeaderValue>,
    /// What happens when there is, or is not, a header of the same name.
    #[prost(enumeration = "header_value_option::HeaderAppendAction", tag = "3")]
    pub append_action: i32,
    /// Whether the header is set although its value is empty.
    #[prost(bool, tag = "4")]
    pub keep_empty_value: bool,
}
/// Nested message and enum types in `HeaderValueOption`.
pub mod header_value_option {
    /// What happens when there is, or is not, a header of the same name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum HeaderAppendAction {
        /// Both stay.
        AppendIfExistsOrAdd = 0,
        /// The older one stays.
        AddIfAbsent = 1,
        /// The new one stays.
        OverwriteIfExistsOrAdd = 2,
        /// The new one stays if there was an older one; else there is none.
        OverwriteIfExists = 3,
    }
    impl HeaderAppendAction {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::AppendIfExistsOrAdd => "APPEND_IF_EXISTS_OR_ADD",
                Self::AddIfAbsent => "ADD_IF_ABSENT",
                Self::OverwriteIfExistsOrAdd => "OVERWRITE_IF_EXISTS_OR_ADD",
                Self::OverwriteIfExists => "OVERWRITE_IF_EXISTS",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> Option<Self> {
            match value {
                "APPEND_IF_EXISTS_OR_ADD" => Some(Self::AppendIfExistsOrAdd),
                "ADD_IF_ABSENT" => Some(Self::AddIfAbsent),
                "OVERWRITE_IF_EXISTS_OR_ADD" => Some(Self::OverwriteIfExistsOrAdd),
                "OVERWRITE_IF_EXISTS" => Some(Self::OverwriteIfExists),
                _ => None,
            }
        }
    }
}
/// Headers in their order.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderMap {
    /// The headers.
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<HeaderValue>,
}
