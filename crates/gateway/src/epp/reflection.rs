//! gRPC's reflection: the services and the types of their messages, for generic clients.
//!
//! The older and the newer name of the service have the same messages, so one response serves both.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use envoy::reflection::server_reflection_request::MessageRequest;
use envoy::reflection::server_reflection_response::MessageResponse;
use envoy::reflection::{
    ErrorResponse, FileDescriptorResponse, ListServiceResponse, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse,
};
use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use crate::grpc::{Code, Incoming, Outgoing, Status};

pub(super) const INFO: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
pub(super) const OLDER_INFO: &str =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// The descriptors, decoded at first use.
static LIBRARY: LazyLock<Library> = LazyLock::new(Library::new);

/// The files that describe the services.
#[derive(Debug, Default)]
struct Library {
    files: Vec<File>,
    /// The files by their names, and by the full names of what they define.
    names: BTreeMap<String, usize>,
    symbols: BTreeMap<String, usize>,
    services: Vec<String>,
}

#[derive(Debug)]
struct File {
    encoded: Bytes,
    /// The file and its dependencies, the file first.
    whole: Vec<usize>,
}

/// Responds to queries until the stream ends.
pub(super) async fn inform(mut incoming: Incoming, outgoing: Outgoing) -> Result<(), Status> {
    while let Some(request) = incoming.next().await? {
        // A response is longer than its query: a client that does not read gets no more.
        outgoing.room().await;
        outgoing.send(&answer(request));
    }
    Ok(())
}

fn answer(request: ServerReflectionRequest) -> ServerReflectionResponse {
    let library = &*LIBRARY;
    let found = match &request.message_request {
        Some(MessageRequest::ListServices(_)) => library.services(),
        Some(MessageRequest::FileByFilename(name)) => library.file(library.names.get(name)),
        Some(MessageRequest::FileContainingSymbol(symbol)) => {
            library.file(library.symbols.get(symbol))
        }
        // There are no extensions here.
        _ => error(Code::Unimplemented, "only services, files and symbols are told"),
    };
    ServerReflectionResponse {
        valid_host: request.host.clone(),
        original_request: Some(request),
        message_response: Some(found),
    }
}

fn error(code: Code, text: &str) -> MessageResponse {
    let error_code = code as i32;
    MessageResponse::ErrorResponse(ErrorResponse { error_code, error_message: text.into() })
}

// === impl Library ===

impl Library {
    fn new() -> Self {
        let described = FileDescriptorSet::decode(envoy::DESCRIPTORS).unwrap_or_default();
        let mut library = Self::default();
        for file in &described.file {
            library.add(file);
        }
        library
    }

    /// Adds a file, whose dependencies were added before.
    fn add(&mut self, file: &FileDescriptorProto) {
        let number = self.files.len();
        let mut whole = vec![number];
        for needed in file.dependency.iter().filter_map(|name| self.names.get(name)) {
            let known = |file: &usize| !whole.contains(file);
            let more: Vec<usize> =
                self.files[*needed].whole.iter().copied().filter(known).collect();
            whole.extend(more);
        }
        self.files.push(File { encoded: file.encode_to_vec().into(), whole });
        self.names.insert(file.name().into(), number);
        for service in &file.service {
            let name = format!("{}.{}", file.package(), service.name());
            for method in &service.method {
                self.symbols.insert(format!("{name}.{}", method.name()), number);
            }
            self.symbols.insert(name.clone(), number);
            self.services.push(name);
        }
        self.define(number, file.package(), &file.message_type, &file.enum_type);
    }

    /// Indexes the definitions of a package or a message, and those inside of them.
    fn define(
        &mut self,
        file: usize,
        scope: &str,
        messages: &[DescriptorProto],
        enums: &[EnumDescriptorProto],
    ) {
        for choice in enums {
            self.symbols.insert(format!("{scope}.{}", choice.name()), file);
        }
        for message in messages {
            let name = format!("{scope}.{}", message.name());
            for field in &message.field {
                self.symbols.insert(format!("{name}.{}", field.name()), file);
            }
            self.define(file, &name, &message.nested_type, &message.enum_type);
            self.symbols.insert(name, file);
        }
    }

    fn services(&self) -> MessageResponse {
        let service = |name: &String| ServiceResponse { name: name.clone() };
        let service = self.services.iter().map(service).collect();
        MessageResponse::ListServicesResponse(ListServiceResponse { service })
    }

    /// A file with its dependencies.
    fn file(&self, number: Option<&usize>) -> MessageResponse {
        let Some(file) = number.and_then(|&number| self.files.get(number)) else {
            return error(Code::NotFound, "there is no such file or symbol");
        };
        let encoded = file.whole.iter().map(|&number| self.files[number].encoded.clone());
        let file_descriptor_proto = encoded.collect();
        MessageResponse::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto })
    }
}

#[cfg(test)]
mod tests;
