//! The conversation between Envoy and an external processor.
//!
//! Generated from `proto/envoy/service/ext_proc/v3/external_processor.proto`.

/// How Envoy is configured; comes with the first message of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct ProtocolConfiguration {
    /// How bodies of requests are sent.
    #[prost(enumeration = "crate::mode::processing_mode::BodySendMode", tag = "1")]
    pub request_body_mode: i32,
    /// How bodies of responses are sent.
    #[prost(enumeration = "crate::mode::processing_mode::BodySendMode", tag = "2")]
    pub response_body_mode: i32,
    /// Whether a streamed body follows before the headers are answered.
    #[prost(bool, tag = "3")]
    pub send_body_without_waiting_for_header_response: bool,
}
/// What Envoy tells the processor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProcessingRequest {
    /// The metadata of the exchange, of the namespaces that Envoy is configured to forward.
    #[prost(message, optional, tag = "8")]
    pub metadata_context: Option<crate::base::Metadata>,
    /// Envoy only lets the processor watch and waits for no answer.
    #[prost(bool, tag = "10")]
    pub observability_mode: bool,
    /// How Envoy is configured. In the first message of a stream alone.
    #[prost(message, optional, tag = "11")]
    pub protocol_config: Option<ProtocolConfiguration>,
    /// The part of the HTTP exchange that has arrived.
    #[prost(oneof = "processing_request::Request", tags = "2, 3, 4, 5, 6, 7")]
    pub request: Option<processing_request::Request>,
}
/// Nested message and enum types in `ProcessingRequest`.
pub mod processing_request {
    /// The part of the HTTP exchange that has arrived.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Request {
        /// The head of the client's request.
        #[prost(message, tag = "2")]
        RequestHeaders(super::HttpHeaders),
        /// The head of the backend's response.
        #[prost(message, tag = "3")]
        ResponseHeaders(super::HttpHeaders),
        /// A piece of the request's body.
        #[prost(message, tag = "4")]
        RequestBody(super::HttpBody),
        /// A piece of the response's body.
        #[prost(message, tag = "5")]
        ResponseBody(super::HttpBody),
        /// What follows the request's body.
        #[prost(message, tag = "6")]
        RequestTrailers(super::HttpTrailers),
        /// What follows the response's body.
        #[prost(message, tag = "7")]
        ResponseTrailers(super::HttpTrailers),
    }
}
/// What the processor tells Envoy.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProcessingResponse {
    /// Metadata to add to the exchange, by namespace.
    #[prost(message, optional, tag = "8")]
    pub dynamic_metadata: Option<prost_types::Struct>,
    /// What to send from now on. Heeded beside the answer to a head, where Envoy's configuration
    /// allows it.
    #[prost(message, optional, tag = "9")]
    pub mode_override: Option<crate::mode::ProcessingMode>,
    /// More time for the answer that is due.
    #[prost(message, optional, tag = "10")]
    pub override_message_timeout: Option<prost_types::Duration>,
    /// The answer to one part of the exchange.
    #[prost(oneof = "processing_response::Response", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub response: Option<processing_response::Response>,
}
/// Nested message and enum types in `ProcessingResponse`.
pub mod processing_response {
    /// The answer to one part of the exchange.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Response {
        /// Answers the head of the request.
        #[prost(message, tag = "1")]
        RequestHeaders(super::HeadersResponse),
        /// Answers the head of the response.
        #[prost(message, tag = "2")]
        ResponseHeaders(super::HeadersResponse),
        /// Answers a piece of the request's body, or is a piece of the new one.
        #[prost(message, tag = "3")]
        RequestBody(super::BodyResponse),
        /// Answers a piece of the response's body, or is a piece of the new one.
        #[prost(message, tag = "4")]
        ResponseBody(super::BodyResponse),
        /// Answers the request's trailers.
        #[prost(message, tag = "5")]
        RequestTrailers(super::TrailersResponse),
        /// Answers the response's trailers.
        #[prost(message, tag = "6")]
        ResponseTrailers(super::TrailersResponse),
        /// Ends the exchange: the client gets this response.
        #[prost(message, tag = "7")]
        ImmediateResponse(super::ImmediateResponse),
    }
}
/// The head of a request or a response.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpHeaders {
    /// Names in lower case; the values are in `raw_value`.
    #[prost(message, optional, tag = "1")]
    pub headers: Option<crate::base::HeaderMap>,
    /// Whether nothing follows.
    #[prost(bool, tag = "3")]
    pub end_of_stream: bool,
}
/// A piece of a body.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct HttpBody {
    /// The bytes; may be none.
    #[prost(bytes = "bytes", tag = "1")]
    pub body: prost::bytes::Bytes,
    /// Whether nothing follows.
    #[prost(bool, tag = "2")]
    pub end_of_stream: bool,
    /// In the mode for gRPC: the end, and no message with it.
    #[prost(bool, tag = "3")]
    pub end_of_stream_without_message: bool,
    /// In the mode for gRPC: whether the message is compressed.
    #[prost(bool, tag = "4")]
    pub grpc_message_compressed: bool,
}
/// What follows a body.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpTrailers {
    /// Names in lower case; the values are in `raw_value`.
    #[prost(message, optional, tag = "1")]
    pub trailers: Option<crate::base::HeaderMap>,
}
/// Answers a head.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeadersResponse {
    /// What to do with it.
    #[prost(message, optional, tag = "1")]
    pub response: Option<CommonResponse>,
}
/// Answers a piece of a body.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BodyResponse {
    /// What to do with it.
    #[prost(message, optional, tag = "1")]
    pub response: Option<CommonResponse>,
}
/// Answers trailers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrailersResponse {
    /// What to change in them.
    #[prost(message, optional, tag = "1")]
    pub header_mutation: Option<HeaderMutation>,
}
/// What to do with a head or a piece of a body.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CommonResponse {
    /// Whether Envoy goes on asking.
    #[prost(enumeration = "common_response::ResponseStatus", tag = "1")]
    pub status: i32,
    /// What to change in the head.
    #[prost(message, optional, tag = "2")]
    pub header_mutation: Option<HeaderMutation>,
    /// What to change in the body.
    #[prost(message, optional, tag = "3")]
    pub body_mutation: Option<BodyMutation>,
    /// Trailers to add.
    #[prost(message, optional, tag = "4")]
    pub trailers: Option<crate::base::HeaderMap>,
    /// Choose the route again, by the new headers.
    #[prost(bool, tag = "5")]
    pub clear_route_cache: bool,
}
/// Nested message and enum types in `CommonResponse`.
pub mod common_response {
    /// Whether Envoy goes on asking.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum ResponseStatus {
        /// Goes on with the next part.
        Continue = 0,
        /// Takes head and body from this answer and asks no more in this direction.
        ContinueAndReplace = 1,
    }
    impl ResponseStatus {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Continue => "CONTINUE",
                Self::ContinueAndReplace => "CONTINUE_AND_REPLACE",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> Option<Self> {
            match value {
                "CONTINUE" => Some(Self::Continue),
                "CONTINUE_AND_REPLACE" => Some(Self::ContinueAndReplace),
                _ => None,
            }
        }
    }
}
/// A response that the client gets at once.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ImmediateResponse {
    /// Its status.
    #[prost(message, optional, tag = "1")]
    pub status: Option<crate::status::HttpStatus>,
    /// Its headers.
    #[prost(message, optional, tag = "2")]
    pub headers: Option<HeaderMutation>,
    /// Its body.
    #[prost(bytes = "bytes", tag = "3")]
    pub body: prost::bytes::Bytes,
    /// The status for a client that speaks gRPC.
    #[prost(message, optional, tag = "4")]
    pub grpc_status: Option<GrpcStatus>,
    /// The reason, for Envoy's access log.
    #[prost(string, tag = "5")]
    pub details: String,
}
/// A status of gRPC.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct GrpcStatus {
    /// Its code.
    #[prost(uint32, tag = "1")]
    pub status: u32,
}
/// What to change in a head.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderMutation {
    /// Headers to set.
    #[prost(message, repeated, tag = "1")]
    pub set_headers: Vec<crate::base::HeaderValueOption>,
    /// Names of headers to remove.
    #[prost(string, repeated, tag = "2")]
    pub remove_headers: Vec<String>,
}
/// A piece of a new body, where bodies are streamed both ways at once.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct StreamedBodyResponse {
    /// The bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub body: prost::bytes::Bytes,
    /// Whether nothing follows.
    #[prost(bool, tag = "2")]
    pub end_of_stream: bool,
}
/// What to change in a body.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct BodyMutation {
    /// The change.
    #[prost(oneof = "body_mutation::Mutation", tags = "1, 2, 3")]
    pub mutation: Option<body_mutation::Mutation>,
}
/// Nested message and enum types in `BodyMutation`.
pub mod body_mutation {
    /// The change.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
    pub enum Mutation {
        /// The whole new body.
        #[prost(bytes, tag = "1")]
        Body(prost::bytes::Bytes),
        /// No body.
        #[prost(bool, tag = "2")]
        ClearBody(bool),
        /// A piece of the new body: the only change where bodies are streamed both ways at once.
        #[prost(message, tag = "3")]
        StreamedResponse(super::StreamedBodyResponse),
    }
}
