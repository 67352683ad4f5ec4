//! Questions and answers.

use envoy::reflection::ExtensionRequest;

use super::*;

const PROCESSOR: &str = "envoy/service/ext_proc/v3/external_processor.proto";

fn ask(question: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: "here".into(), message_request: Some(question) };
    let response = answer(request.clone());
    assert_eq!(response.valid_host, "here");
    assert_eq!(response.original_request, Some(request));
    response.message_response.unwrap()
}

fn files(answer: MessageResponse) -> Vec<FileDescriptorProto> {
    let MessageResponse::FileDescriptorResponse(files) = answer else { panic!("{answer:?}") };
    let decode = |file| FileDescriptorProto::decode(file).unwrap();
    files.file_descriptor_proto.into_iter().map(decode).collect()
}

fn refused(answer: MessageResponse) -> i32 {
    let MessageResponse::ErrorResponse(error) = answer else { panic!("{answer:?}") };
    assert!(!error.error_message.is_empty());
    error.error_code
}

fn symbol(name: &str) -> MessageResponse {
    ask(MessageRequest::FileContainingSymbol(name.into()))
}

#[test]
fn x02_every_service_is_listed() {
    let answer = ask(MessageRequest::ListServices("*".into()));
    let MessageResponse::ListServicesResponse(list) = answer else { panic!("{answer:?}") };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    let reflection = ["grpc.reflection.v1", "grpc.reflection.v1alpha"];
    let mut wanted = vec![
        "envoy.service.ext_proc.v3.ExternalProcessor".to_owned(),
        "grpc.health.v1.Health".to_owned(),
    ];
    wanted.extend(reflection.map(|package| format!("{package}.ServerReflection")));
    assert_eq!(names, wanted);
}

/// Many clients send one query alone: a file must come with its dependencies.
#[test]
fn x02_a_file_comes_with_all_that_it_needs_once() {
    let files = files(ask(MessageRequest::FileByFilename(PROCESSOR.into())));
    let names: Vec<&str> = files.iter().map(FileDescriptorProto::name).collect();
    assert_eq!(names[0], PROCESSOR);
    for needed in files.iter().flat_map(|file| &file.dependency) {
        let times = names.iter().filter(|name| *name == needed).count();
        assert_eq!(times, 1, "{needed}");
    }
}

#[test]
fn x02_symbols_are_found_in_the_file_that_defines_them() {
    let package = "envoy.service.ext_proc.v3";
    let inside = [
        "ExternalProcessor",
        "ExternalProcessor.Process",
        "ProcessingRequest",
        "ProcessingRequest.request_body",
        "CommonResponse.ResponseStatus",
    ];
    for name in inside {
        assert_eq!(files(symbol(&format!("{package}.{name}")))[0].name(), PROCESSOR, "{name}");
    }
    let elsewhere = [
        ("google.protobuf.Struct", "google/protobuf/struct.proto"),
        ("envoy.type.v3.StatusCode", "envoy/type/v3/http_status.proto"),
        ("envoy.config.core.v3.Metadata.FilterMetadataEntry", "envoy/config/core/v3/base.proto"),
    ];
    for (name, file) in elsewhere {
        assert_eq!(files(symbol(name))[0].name(), file);
    }
}

#[test]
fn x02_an_unknown_name_is_not_found() {
    for name in ["", "envoy", "envoy.service.ext_proc.v3", "envoy.service.ext_proc.v3.Other"] {
        assert_eq!(refused(symbol(name)), Code::NotFound as i32, "{name}");
        let answer = ask(MessageRequest::FileByFilename(name.into()));
        assert_eq!(refused(answer), Code::NotFound as i32, "{name}");
    }
}

#[test]
fn x02_other_queries_are_unimplemented() {
    let extension = ExtensionRequest { containing_type: "a.B".into(), extension_number: 1 };
    let questions = [
        MessageRequest::FileContainingExtension(extension),
        MessageRequest::AllExtensionNumbersOfType("a.B".into()),
    ];
    for question in questions {
        assert_eq!(refused(ask(question)), Code::Unimplemented as i32);
    }
    let nothing = answer(ServerReflectionRequest::default()).message_response;
    assert_eq!(refused(nothing.unwrap()), Code::Unimplemented as i32);
}
