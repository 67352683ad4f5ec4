//! Which parts of an exchange Envoy sends to an external processor.
//!
//! Generated from `proto/envoy/extensions/filters/http/ext_proc/v3/processing_mode.proto`.

/// Which parts of an exchange are sent, and how.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct ProcessingMode {
    /// The head of the request.
    #[prost(enumeration = "processing_mode::HeaderSendMode", tag = "1")]
    pub request_header_mode: i32,
    /// The head of the response.
    #[prost(enumeration = "processing_mode::HeaderSendMode", tag = "2")]
    pub response_header_mode: i32,
    /// The body of the request.
    #[prost(enumeration = "processing_mode::BodySendMode", tag = "3")]
    pub request_body_mode: i32,
    /// The body of the response.
    #[prost(enumeration = "processing_mode::BodySendMode", tag = "4")]
    pub response_body_mode: i32,
    /// What follows the request's body.
    #[prost(enumeration = "processing_mode::HeaderSendMode", tag = "5")]
    pub request_trailer_mode: i32,
    /// What follows the response's body.
    #[prost(enumeration = "processing_mode::HeaderSendMode", tag = "6")]
    pub response_trailer_mode: i32,
}
/// Nested message and enum types in `ProcessingMode`.
pub mod processing_mode {
    /// Whether a head or trailers are sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum HeaderSendMode {
        /// Heads are sent, trailers are not.
        Default = 0,
        /// Sent.
        Send = 1,
        /// Not sent.
        Skip = 2,
    }
    impl HeaderSendMode {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Default => "DEFAULT",
                Self::Send => "SEND",
                Self::Skip => "SKIP",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> Option<Self> {
            match value {
                "DEFAULT" => Some(Self::Default),
                "SEND" => Some(Self::Send),
                "SKIP" => Some(Self::Skip),
                _ => None,
            }
        }
    }
    /// How a body is sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum BodySendMode {
        /// Not at all.
        None = 0,
        /// In pieces, each of which waits for its answer.
        Streamed = 1,
        /// Whole, up to the size of Envoy's buffer.
        Buffered = 2,
        /// As much as Envoy's buffer holds.
        BufferedPartial = 3,
        /// In pieces, while the new body comes back at the processor's own pace.
        FullDuplexStreamed = 4,
        /// Message by message of a stream of gRPC.
        Grpc = 5,
    }
    impl BodySendMode {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::None => "NONE",
                Self::Streamed => "STREAMED",
                Self::Buffered => "BUFFERED",
                Self::BufferedPartial => "BUFFERED_PARTIAL",
                Self::FullDuplexStreamed => "FULL_DUPLEX_STREAMED",
                Self::Grpc => "GRPC",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> Option<Self> {
            match value {
                "NONE" => Some(Self::None),
                "STREAMED" => Some(Self::Streamed),
                "BUFFERED" => Some(Self::Buffered),
                "BUFFERED_PARTIAL" => Some(Self::BufferedPartial),
                "FULL_DUPLEX_STREAMED" => Some(Self::FullDuplexStreamed),
                "GRPC" => Some(Self::Grpc),
                _ => None,
            }
        }
    }
}
