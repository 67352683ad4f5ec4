//! What a server tells about its services; `v1` and `v1alpha` are the same bytes.
//!
//! Generated from `proto/grpc/reflection/v1/reflection.proto`.

/// One question.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ServerReflectionRequest {
    /// The host that is asked.
    #[prost(string, tag = "1")]
    pub host: String,
    /// The question.
    #[prost(oneof = "server_reflection_request::MessageRequest", tags = "3, 4, 5, 6, 7")]
    pub message_request: Option<server_reflection_request::MessageRequest>,
}
/// Nested message and enum types in `ServerReflectionRequest`.
pub mod server_reflection_request {
    /// The question.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
    pub enum MessageRequest {
        /// The file of that name.
        #[prost(string, tag = "3")]
        FileByFilename(String),
        /// The file that defines that service, method, message or field.
        #[prost(string, tag = "4")]
        FileContainingSymbol(String),
        /// The file that defines that extension.
        #[prost(message, tag = "5")]
        FileContainingExtension(super::ExtensionRequest),
        /// The numbers of the extensions of that message.
        #[prost(string, tag = "6")]
        AllExtensionNumbersOfType(String),
        /// Every service; the text says nothing.
        #[prost(string, tag = "7")]
        ListServices(String),
    }
}
/// An extension of a message.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ExtensionRequest {
    /// The full name of the message.
    #[prost(string, tag = "1")]
    pub containing_type: String,
    /// The number of the extension.
    #[prost(int32, tag = "2")]
    pub extension_number: i32,
}
/// One answer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerReflectionResponse {
    /// The host that was asked.
    #[prost(string, tag = "1")]
    pub valid_host: String,
    /// The question.
    #[prost(message, optional, tag = "2")]
    pub original_request: Option<ServerReflectionRequest>,
    /// The answer.
    #[prost(oneof = "server_reflection_response::MessageResponse", tags = "4, 5, 6, 7")]
    pub message_response: Option<server_reflection_response::MessageResponse>,
}
/// Nested message and enum types in `ServerReflectionResponse`.
pub mod server_reflection_response {
    /// The answer.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum MessageResponse {
        /// Files.
        #[prost(message, tag = "4")]
        FileDescriptorResponse(super::FileDescriptorResponse),
        /// Numbers of extensions.
        #[prost(message, tag = "5")]
        AllExtensionNumbersResponse(super::ExtensionNumberResponse),
        /// Services.
        #[prost(message, tag = "6")]
        ListServicesResponse(super::ListServiceResponse),
        /// Why there is no answer.
        #[prost(message, tag = "7")]
        ErrorResponse(super::ErrorResponse),
    }
}
/// Files, each as the bytes of a `google.protobuf.FileDescriptorProto`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct FileDescriptorResponse {
    /// The file that was asked for, and those that it imports.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub file_descriptor_proto: Vec<prost::bytes::Bytes>,
}
/// Extensions of a message.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ExtensionNumberResponse {
    /// The full name of the message.
    #[prost(string, tag = "1")]
    pub base_type_name: String,
    /// Their numbers.
    #[prost(int32, repeated, tag = "2")]
    pub extension_number: Vec<i32>,
}
/// Every service.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListServiceResponse {
    /// The services.
    #[prost(message, repeated, tag = "1")]
    pub service: Vec<ServiceResponse>,
}
/// A service.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ServiceResponse {
    /// Its full name.
    #[prost(string, tag = "1")]
    pub name: String,
}
/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ErrorResponse {
    /// A status code of gRPC.
    #[prost(int32, tag = "1")]
    pub error_code: i32,
    /// What is wrong.
    #[prost(string, tag = "2")]
    pub error_message: String,
}
